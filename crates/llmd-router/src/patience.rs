//! A client's socket that gives up on a client which takes nothing in.
//!
//! Called by `server` for each connection. While a client's buffers are full, hyper asks for no
//! more of an answer, so limits that are looked at with its pieces would never pass: here they
//! are looked at with the writes. The error ends the connection, and with it goes the answer on
//! it, its connection to the engine, and its load.

use crate::tls::Raw;
use crate::worker::Closer;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};

/// A socket with a limit on writes that go no further.
#[derive(Debug)]
pub(crate) struct Patient {
    socket: TcpStream,
    /// For one write to get on. The system takes more only once a third of its own buffer is
    /// free: a client that takes in less than that in this time counts as one that stands still.
    limit: Duration,
    closer: Closer,
    /// Since when a write waits, and what wakes us at its end.
    waiting: Option<(Instant, Pin<Box<Sleep>>)>,
}

impl Patient {
    pub(crate) fn new(socket: TcpStream, limit: Duration, closer: Closer) -> Self {
        Self { socket, limit, closer, waiting: None }
    }

    /// What a write says, unless it has said nothing for too long.
    fn judge(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.waiting = None;
            return written;
        }
        let since = self.waiting.as_ref().map_or_else(Instant::now, |(since, _)| *since);
        let mut end = since + self.limit;
        if let Some(cut) = self.closer.cut() {
            end = end.min(Instant::from_std(cut));
        }
        let (_, timer) =
            self.waiting.get_or_insert_with(|| (since, Box::pin(tokio::time::sleep_until(end))));
        if timer.deadline() != end {
            timer.as_mut().reset(end);
        }
        timer.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl Raw for Patient {
    fn tcp(&self) -> &TcpStream {
        &self.socket
    }
}

impl AsyncRead for Patient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(context, buffer)
    }
}

impl AsyncWrite for Patient {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write(context, bytes);
        self.judge(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write_vectored(context, pieces);
        self.judge(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}
