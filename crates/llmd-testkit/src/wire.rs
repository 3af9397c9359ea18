//! HTTP/1.1 as far as tests need it: a head, and a body by length or chunks.

use std::io;
use tokio::io::{AsyncRead, AsyncReadExt};

/// The start line, the headers (names in lower case) and what was read behind them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Head {
    pub(crate) start: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) rest: Vec<u8>,
}

impl Head {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

fn closed() -> io::Error {
    io::ErrorKind::UnexpectedEof.into()
}

/// Reads up to the blank line. `None` when the connection ends before a byte came.
pub(crate) async fn read_head(
    socket: &mut (impl AsyncRead + Unpin),
    mut buffer: Vec<u8>,
) -> io::Result<Option<Head>> {
    loop {
        if let Some(end) = find(&buffer, b"\r\n\r\n") {
            let text = String::from_utf8_lossy(&buffer[..end]).into_owned();
            let mut lines = text.split("\r\n");
            let start = lines.next().unwrap_or_default().to_owned();
            let headers = lines.filter_map(|line| line.split_once(':'));
            let headers = headers.map(|(k, v)| (k.to_ascii_lowercase(), v.trim().to_owned()));
            let headers = headers.collect();
            return Ok(Some(Head { start, headers, rest: buffer.split_off(end + 4) }));
        }
        if socket.read_buf(&mut buffer).await? == 0 {
            return if buffer.is_empty() { Ok(None) } else { Err(closed()) };
        }
    }
}

/// Reads `length` bytes of body; returns it and what was read behind it.
pub(crate) async fn read_body(
    socket: &mut (impl AsyncRead + Unpin),
    mut buffer: Vec<u8>,
    length: usize,
) -> io::Result<(Vec<u8>, Vec<u8>)> {
    while buffer.len() < length {
        if socket.read_buf(&mut buffer).await? == 0 {
            return Err(closed());
        }
    }
    let rest = buffer.split_off(length);
    Ok((buffer, rest))
}

/// Undoes chunked framing. The flag says whether the last chunk (of length 0) was there.
pub(crate) fn dechunk(mut raw: &[u8]) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    while let Some(line) = find(raw, b"\r\n") {
        let text = String::from_utf8_lossy(&raw[..line]).into_owned();
        let Ok(length) = usize::from_str_radix(text.trim(), 16) else { break };
        raw = &raw[line + 2..];
        if length == 0 {
            return (body, true);
        }
        let take = length.min(raw.len());
        body.extend_from_slice(&raw[..take]);
        raw = raw.get(length + 2..).unwrap_or_default();
    }
    (body, false)
}

pub(crate) fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}
