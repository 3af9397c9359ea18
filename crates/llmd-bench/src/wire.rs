//! HTTP/1.1 as far as a bench needs it: heads, bodies with a length, chunked bodies.
//!
//! Used by the load for answers and by the engines for requests. It trusts its peer: what is no
//! HTTP is an error, and no limit is kept.

use memchr::memmem::find;
use std::io;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

const ROOM: usize = 64 << 10;

/// The reading side of one connection.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    buffer: Vec<u8>,
    /// Bytes before this place were taken.
    from: usize,
}

/// What a head says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Head {
    /// "POST /v1/completions HTTP/1.1" or "HTTP/1.1 200 OK".
    pub(crate) start: String,
    /// Length of the body.
    pub(crate) length: usize,
    /// The body comes in chunks instead.
    pub(crate) chunked: bool,
    /// The peer closes behind this.
    pub(crate) close: bool,
}

impl Head {
    /// The status of an answer.
    pub(crate) fn status(&self) -> u16 {
        self.start.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
    }
}

impl Reader {
    /// The next head; `None` when the peer closed before it.
    pub(crate) async fn head(&mut self, socket: &mut TcpStream) -> io::Result<Option<Head>> {
        let mut searched = 0;
        loop {
            let new = &self.buffer[self.from..];
            if let Some(end) = find(&new[searched..], b"\r\n\r\n").map(|at| at + searched) {
                let head = parse(&new[..end]);
                self.from += end + 4;
                return Ok(Some(head));
            }
            searched = new.len().saturating_sub(3);
            let nothing = new.is_empty();
            if self.more(socket).await? == 0 {
                let broken = io::Error::from(io::ErrorKind::UnexpectedEof);
                return if nothing { Ok(None) } else { Err(broken) };
            }
        }
    }

    /// The body behind `head`, given piece by piece without its framing.
    pub(crate) async fn body(
        &mut self,
        socket: &mut TcpStream,
        head: &Head,
        mut take: impl FnMut(&[u8]),
    ) -> io::Result<()> {
        let mut chunks = Chunks::default();
        let mut left = head.length;
        loop {
            let new = &self.buffer[self.from..];
            if head.chunked {
                self.from += chunks.feed(new, &mut take);
                if chunks.ended {
                    return Ok(());
                }
            } else {
                let part = left.min(new.len());
                take(&new[..part]);
                self.from += part;
                left -= part;
                if left == 0 {
                    return Ok(());
                }
            }
            if self.more(socket).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    async fn more(&mut self, socket: &mut TcpStream) -> io::Result<usize> {
        if self.from == self.buffer.len() {
            self.buffer.clear();
            self.from = 0;
        }
        self.buffer.reserve(ROOM);
        socket.read_buf(&mut self.buffer).await
    }

    /// Gives back the memory of a connection that will read little more.
    pub(crate) fn shrink(&mut self) {
        if self.from == self.buffer.len() {
            *self = Self::default();
        }
    }
}

fn parse(head: &[u8]) -> Head {
    let text = String::from_utf8_lossy(head);
    let mut lines = text.split("\r\n");
    let mut parsed = Head { start: lines.next().unwrap_or("").to_owned(), ..Head::default() };
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        let value = value.trim();
        if name.eq_ignore_ascii_case("content-length") {
            parsed.length = value.parse().unwrap_or(0);
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            parsed.chunked = value.eq_ignore_ascii_case("chunked");
        } else if name.eq_ignore_ascii_case("connection") {
            parsed.close = value.eq_ignore_ascii_case("close");
        }
    }
    parsed
}

/// A chunked body on its way.
#[derive(Debug, Default)]
struct Chunks {
    /// Bytes that the present chunk still has.
    left: usize,
    /// The line break behind a chunk has still to come.
    behind: bool,
    ended: bool,
}

impl Chunks {
    /// Takes what it can of `bytes`; returns how much that was.
    fn feed(&mut self, bytes: &[u8], take: &mut impl FnMut(&[u8])) -> usize {
        let mut at = 0;
        while !self.ended && at < bytes.len() {
            let rest = &bytes[at..];
            if self.left > 0 {
                let part = self.left.min(rest.len());
                take(&rest[..part]);
                (self.left, at) = (self.left - part, at + part);
                self.behind = self.left == 0;
            } else {
                let Some(end) = find(rest, b"\r\n") else { break };
                let line = &rest[..end];
                if self.behind {
                    self.behind = false;
                } else if line == b"0" {
                    // The empty line behind the last chunk; nobody here sends trailers.
                    let Some(after) = rest.get(end + 2..end + 4) else { break };
                    self.ended = after == b"\r\n";
                    at += 2;
                } else {
                    let digits = String::from_utf8_lossy(line);
                    let digits = digits.split(';').next().unwrap_or("").trim();
                    self.left = usize::from_str_radix(digits, 16).unwrap_or(0);
                }
                at += end + 2;
            }
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_joined_wherever_they_are_split() {
        let wire = b"5\r\nhello\r\n1;x=y\r\n!\r\n0\r\n\r\nHTTP";
        for piece in 1..wire.len() {
            let (mut chunks, mut body, mut held) = (Chunks::default(), Vec::new(), Vec::new());
            for part in wire.chunks(piece) {
                held.extend_from_slice(part);
                let taken = chunks.feed(&held, &mut |bytes: &[u8]| body.extend_from_slice(bytes));
                held.drain(..taken);
            }
            assert_eq!((body.as_slice(), chunks.ended), (&b"hello!"[..], true), "{piece}");
            assert!(b"HTTP".ends_with(held.as_slice()) || held == b"HTTP", "{piece}");
        }
    }

    #[test]
    fn a_head_says_how_its_body_comes() {
        let head = parse(b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\nConnection: close");
        assert_eq!((head.status(), head.length, head.chunked, head.close), (200, 12, false, true));
        assert!(parse(b"POST / HTTP/1.1\r\ntransfer-encoding: chunked").chunked);
    }
}
