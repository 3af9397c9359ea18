//! A client whose every byte is the test's own.

use crate::wire::{dechunk, read_head};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// How long a test waits for anything before it fails.
const PATIENCE: Duration = Duration::from_secs(20);

/// A whole answer.
#[derive(Clone, Debug)]
pub struct Reply {
    /// HTTP status.
    pub status: u16,
    /// Headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body without its framing.
    pub body: Vec<u8>,
    /// Whether the framing said that the body was whole.
    pub whole: bool,
}

impl Reply {
    /// The first header of that name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// One connection with a request on it.
#[derive(Debug)]
pub struct Client {
    socket: TcpStream,
    seen: Vec<u8>,
}

impl Client {
    /// Sends raw bytes on a new connection.
    pub async fn send(address: SocketAddr, bytes: &[u8]) -> io::Result<Self> {
        let mut socket = TcpStream::connect(address).await?;
        socket.write_all(bytes).await?;
        Ok(Self { socket, seen: Vec::new() })
    }

    /// Sends a POST of `body`, with more header lines ("name: value").
    pub async fn post(
        address: SocketAddr,
        path: &str,
        headers: &[&str],
        body: &[u8],
    ) -> io::Result<Self> {
        let mut bytes = format!(
            "POST {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n",
            body.len()
        );
        for header in headers {
            bytes.push_str(header);
            bytes.push_str("\r\n");
        }
        bytes.push_str("\r\n");
        let mut bytes = bytes.into_bytes();
        bytes.extend_from_slice(body);
        Self::send(address, &bytes).await
    }

    /// Sends a request without a body and reads the whole answer.
    pub async fn ask(address: SocketAddr, method: &str, path: &str) -> io::Result<Reply> {
        let head = format!("{method} {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n");
        Self::send(address, head.as_bytes()).await?.reply().await
    }

    /// Reads until the bytes hold `text`; an end before is an error.
    pub async fn wait_for(&mut self, text: &str) -> io::Result<()> {
        let reading = async {
            while crate::wire::find(&self.seen, text.as_bytes()).is_none() {
                if self.socket.read_buf(&mut self.seen).await? == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            Ok(())
        };
        tokio::time::timeout(PATIENCE, reading).await?
    }

    /// Reads the whole answer; the request must have asked for `connection: close`.
    pub async fn reply(mut self) -> io::Result<Reply> {
        let reading = async {
            let head = read_head(&mut self.socket, std::mem::take(&mut self.seen)).await?;
            let mut head = head.ok_or(io::ErrorKind::UnexpectedEof)?;
            let mut raw = std::mem::take(&mut head.rest);
            // A broken connection is an answer too: what came before it is returned.
            while matches!(self.socket.read_buf(&mut raw).await, Ok(count) if count > 0) {}
            let chunked = head.header("transfer-encoding").is_some();
            let length = head.header("content-length").and_then(|text| text.parse::<usize>().ok());
            let (body, whole) = match (chunked, length) {
                (true, _) => dechunk(&raw),
                (false, Some(length)) => {
                    let whole = raw.len() >= length;
                    (raw, whole)
                }
                (false, None) => (raw, true),
            };
            let status = head.start.split(' ').nth(1).and_then(|text| text.parse().ok());
            let status = status.ok_or(io::ErrorKind::InvalidData)?;
            Ok(Reply { status, headers: head.headers, body, whole })
        };
        tokio::time::timeout(PATIENCE, reading).await?
    }
}
