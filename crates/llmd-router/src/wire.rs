//! A client's socket as the HTTP library sees it: limits on what is read, and a look at it.
//!
//! Made by `server` for each connection. Whatever a connection needs is done once for it: the
//! bytes by which its protocol was told are given back, one timer serves all its requests. Of
//! an HTTP/1 connection the heads are followed ([`Heads`]), for their framing and for their
//! time; limits on bodies and answers are of others (`receive`, `stream`, `patience`).

use crate::heads::{Fault, Heads};
use std::cell::Cell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// How long a client may go on sending what nobody reads behind its last answer. Closed at once,
/// the answer would be lost to it: the system resets a connection with bytes unread.
const LINGER: Duration = Duration::from_secs(2);

/// What the requests of a connection and its socket know of each other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Line(Rc<Shared>);

#[derive(Debug)]
struct Shared {
    served: Cell<u32>,
    running: Cell<u32>,
    /// Since when none runs.
    rest: Cell<Instant>,
    fault: Cell<Option<Fault>>,
    /// The head of the next request has begun and is not whole.
    half: Cell<bool>,
    /// The client has not taken in all of an answer.
    stuck: Cell<bool>,
}

impl Default for Shared {
    fn default() -> Self {
        Self {
            served: Cell::new(0),
            running: Cell::new(0),
            rest: Cell::new(Instant::now()),
            fault: Cell::new(None),
            half: Cell::new(false),
            stuck: Cell::new(false),
        }
    }
}

/// One request, until its answer is sent or given up.
#[derive(Debug)]
pub(crate) struct Running(Line);

impl Line {
    /// The next request runs; also why it must be refused, if it must.
    pub(crate) fn begin(&self) -> (Running, Option<&'static str>) {
        let number = self.0.served.get().saturating_add(1);
        self.0.served.set(number);
        self.0.running.set(self.0.running.get() + 1);
        let fault = self.0.fault.get().filter(|fault| fault.request <= number);
        (Running(self.clone()), fault.map(|fault| fault.why))
    }

    /// When a client that asks for nothing has rested too long; `None` while a request runs.
    pub(crate) fn rest_ends(&self, limits: Limits) -> Option<Instant> {
        let first = self.0.served.get() == 0;
        let limit = if first { limits.header } else { limits.keep_alive };
        self.rests_since().map(|since| since + limit)
    }

    /// Since when the client has no request in hand; `None` while it has one.
    pub(crate) fn rests_since(&self) -> Option<Instant> {
        (self.0.running.get() == 0).then(|| self.0.rest.get())
    }

    /// Whether all there is of the client is a part of a head.
    pub(crate) fn is_half(&self) -> bool {
        self.0.running.get() == 0 && self.0.half.get() && !self.0.stuck.get()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let shared = &self.0.0;
        shared.running.set(shared.running.get() - 1);
        if shared.running.get() == 0 {
            shared.rest.set(Instant::now());
        }
    }
}

/// For a client to send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// A head, from its first byte; the first one from the connection's begin.
    pub(crate) header: Duration,
    /// Anything, after an answer.
    pub(crate) keep_alive: Duration,
}

impl Limits {
    /// The same for both.
    pub(crate) fn both(limit: Duration) -> Self {
        Self { header: limit, keep_alive: limit }
    }
}

/// A socket under HTTP.
#[derive(Debug)]
pub(crate) struct Wire<S> {
    socket: S,
    /// Read before, and still to be given on.
    ahead: Vec<u8>,
    /// `None` under HTTP/2, which has limits of its own.
    reading: Option<Reading>,
    /// The end of reading on behind the last answer.
    linger: Option<Pin<Box<Sleep>>>,
}

/// What is known of what a client of HTTP/1 sends.
#[derive(Debug)]
struct Reading {
    heads: Heads,
    line: Line,
    limits: Limits,
    /// Since when the head that is being read is; `None` counts from the last answer.
    since: Option<Instant>,
    /// Goes off too early at times: it is set anew when it does, not with every request.
    timer: Pin<Box<Sleep>>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    /// Under HTTP/1.
    pub(crate) fn http1(socket: S, ahead: Vec<u8>, line: Line, limits: Limits) -> Self {
        let now = Instant::now();
        let timer = Box::pin(tokio::time::sleep_until(now + limits.header));
        let reading = Reading { heads: Heads::default(), line, limits, since: Some(now), timer };
        Self { socket, ahead, reading: Some(reading), linger: None }
    }

    /// Under HTTP/2.
    pub(crate) fn http2(socket: S, ahead: Vec<u8>) -> Self {
        Self { socket, ahead, reading: None, linger: None }
    }

    /// What became of something that was to go to the client.
    fn sent<T>(&self, outcome: Poll<T>) -> Poll<T> {
        if let Some(reading) = &self.reading {
            reading.line.0.stuck.set(outcome.is_pending());
        }
        outcome
    }

    fn poll_linger(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let timer = self.linger.get_or_insert_with(|| Box::pin(tokio::time::sleep(LINGER)));
        let mut waste = [0; 4_096];
        loop {
            if timer.as_mut().poll(context).is_ready() {
                return Poll::Ready(Ok(()));
            }
            let mut buffer = ReadBuf::new(&mut waste);
            let read = Pin::new(&mut self.socket).poll_read(context, &mut buffer);
            if ready!(read).is_err() || buffer.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl Reading {
    /// What was read is looked at.
    fn look(&mut self, bytes: &[u8]) {
        let (between, whole) = (self.heads.between(), self.heads.whole());
        self.heads.push(bytes);
        if self.heads.fault().is_some() {
            self.line.0.fault.set(self.heads.fault());
        }
        if whole != self.heads.whole() {
            self.since = None;
        } else if between && self.heads.within_head() {
            // Not for more of a head, and not for empty lines: else a drip would never end.
            self.since = Some(Instant::now());
        }
        self.line.0.half.set(self.heads.within_head());
    }

    /// When it has lasted too long that nothing comes; `None` while that is another's to judge.
    fn end(&self) -> Option<Instant> {
        let within = self.heads.within_head();
        if self.line.0.running.get() > 0 || !(within || self.heads.between()) {
            return None;
        }
        let first = self.heads.whole() == 0;
        let limit = if first || within { self.limits.header } else { self.limits.keep_alive };
        Some(self.since.unwrap_or_else(|| self.line.0.rest.get()) + limit)
    }

    /// Nothing is there to be read: whether that is so for too long. The timer goes on while a
    /// request runs, since nobody asks again when its answer is sent.
    fn judge(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let end = self.end();
            if let Some(end) = end.filter(|end| self.timer.deadline() > *end) {
                self.timer.as_mut().reset(end);
            }
            ready!(self.timer.as_mut().poll(context));
            let now = Instant::now();
            if end.is_some_and(|end| now >= end) {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            self.timer.as_mut().reset(end.unwrap_or(now + self.limits.keep_alive));
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Wire<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        if self.ahead.is_empty() {
            match Pin::new(&mut self.socket).poll_read(context, buffer) {
                Poll::Ready(outcome) => outcome?,
                Poll::Pending => {
                    let Some(reading) = &mut self.reading else { return Poll::Pending };
                    return reading.judge(context);
                }
            }
        } else {
            let count = self.ahead.len().min(buffer.remaining());
            buffer.put_slice(&self.ahead[..count]);
            self.ahead.drain(..count);
        }
        if let Some(reading) = &mut self.reading {
            reading.look(&buffer.filled()[before..]);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Wire<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write(context, bytes);
        self.sent(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write_vectored(context, pieces);
        self.sent(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.socket).poll_flush(context);
        self.sent(flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.linger.is_none() {
            ready!(Pin::new(&mut self.socket).poll_shutdown(context))?;
            if self.reading.as_ref().is_none_or(|reading| reading.heads.between()) {
                return Poll::Ready(Ok(()));
            }
        }
        self.poll_linger(context)
    }
}
