//! A client that keeps its connection: for tests with more requests than a machine has ports.

use crate::client::Reply;
use crate::wire::{dechunk, read_head};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// How long an answer may take before it counts as lost.
const PATIENCE: Duration = Duration::from_secs(30);

/// One connection at a time, made anew where the other side closed it.
#[derive(Debug)]
pub struct Session {
    address: SocketAddr,
    socket: Option<TcpStream>,
}

impl Session {
    /// For this address; nothing is connected yet.
    pub fn new(address: SocketAddr) -> Self {
        Self { address, socket: None }
    }

    /// Sends a POST and reads its answer. An idle connection that turns out to be closed is
    /// replaced once; any other end of a connection is an error.
    pub async fn post(&mut self, path: &str, body: &str) -> io::Result<Reply> {
        tokio::time::timeout(PATIENCE, async {
            let kept = self.socket.is_some();
            match self.exchange(path, body).await {
                Err(_) if kept => self.exchange(path, body).await,
                other => other,
            }
        })
        .await?
    }

    async fn exchange(&mut self, path: &str, body: &str) -> io::Result<Reply> {
        let mut socket = match self.socket.take() {
            Some(socket) => socket,
            None => TcpStream::connect(self.address).await?,
        };
        socket.set_nodelay(true)?;
        socket.write_all(request(path, body).as_bytes()).await?;
        let head = read_head(&mut socket, Vec::new()).await?;
        let mut head = head.ok_or(io::ErrorKind::UnexpectedEof)?;
        let mut raw = std::mem::take(&mut head.rest);
        let chunked = head.header("transfer-encoding").is_some();
        let length = head.header("content-length").and_then(|text| text.parse::<usize>().ok());
        let (body, whole) = loop {
            let (body, whole) = if chunked {
                let (body, whole) = dechunk(&raw);
                (body, whole && raw.ends_with(b"\r\n\r\n"))
            } else {
                let length = length.unwrap_or(0);
                (raw.clone(), raw.len() >= length)
            };
            if whole || socket.read_buf(&mut raw).await? == 0 {
                break (body, whole);
            }
        };
        let status = head.start.split(' ').nth(1).and_then(|text| text.parse().ok());
        let status = status.ok_or(io::ErrorKind::InvalidData)?;
        if whole && head.header("connection") != Some("close") {
            self.socket = Some(socket);
        }
        Ok(Reply { status, headers: head.headers, body, whole })
    }
}

fn request(path: &str, body: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nhost: test\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
}
