//! A receiver of OTLP over HTTP that keeps the bodies; the test decodes them.

use crate::wire::{read_body, read_head};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

/// Answers each POST with 200 and an empty message.
#[derive(Clone, Debug)]
pub struct Collector {
    /// Where it listens.
    pub address: SocketAddr,
    bodies: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Collector {
    /// Starts on a free port, on the runtime of the caller.
    pub async fn start() -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let collector = Self { address: listener.local_addr()?, bodies: Arc::default() };
        let bodies = Arc::clone(&collector.bodies);
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(serve(socket, Arc::clone(&bodies)));
            }
        });
        Ok(collector)
    }

    /// The bodies so far.
    pub fn bodies(&self) -> Vec<Vec<u8>> {
        self.bodies.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn serve(mut socket: TcpStream, bodies: Arc<Mutex<Vec<Vec<u8>>>>) -> io::Result<()> {
    let mut rest = Vec::new();
    while let Some(mut head) = read_head(&mut socket, rest).await? {
        let length = head.header("content-length").and_then(|text| text.parse().ok());
        let body = std::mem::take(&mut head.rest);
        let (body, behind) = read_body(&mut socket, body, length.unwrap_or(0)).await?;
        bodies.lock().unwrap_or_else(PoisonError::into_inner).push(body);
        rest = behind;
        let answer = b"HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\n\
                       content-length: 0\r\n\r\n";
        socket.write_all(answer).await?;
    }
    Ok(())
}
