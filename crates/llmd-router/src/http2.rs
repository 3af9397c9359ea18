//! HTTP/2 towards clients: many requests on one connection, each with an end of its own.
//!
//! Called by `server` where a connection opens with the preface of HTTP/2 or agreed on it under
//! TLS. A stream whose client takes nothing in is given up alone: the library asks for the next
//! piece of an answer only when the last one is on its way, so each answer notes since when it
//! was not asked, and the task that sends it is watched.

use crate::stream::Reply;
use crate::tasks;
use crate::wire::Running;
use crate::worker::Closer;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::rt::Executor;
use hyper::server::conn::http2::Builder;
use hyper_util::rt::TokioTimer;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::time::Sleep;

/// Requests of one connection at a time. A client that wants more opens another connection.
const STREAMS: u32 = 256;
/// What a client may send ahead on one stream; a chat with a long prompt in one or two turns.
const STREAM_WINDOW: u32 = 256 << 10;
/// And on all streams of its connection together.
const CONNECTION_WINDOW: u32 = 1 << 20;
/// Held for one stream beyond what its client takes in.
const SEND_BUFFER: usize = 64 << 10;
/// Streams that are reset for a client's mistakes, before its connection is.
const MISTAKES: usize = 64;
/// Between two questions whether a silent client is there, and for its answer.
const PING: Duration = Duration::from_secs(20);
/// An answer goes on in pieces of at most this size, so that what a client does not take in
/// stays where it is watched.
const PIECE: usize = 16 << 10;

/// How connections of HTTP/2 are served.
pub(crate) fn builder(head_bytes: u32, streams: &Streams) -> Builder<Streams> {
    let mut builder = Builder::new(streams.clone());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(head_bytes)
        .max_local_error_reset_streams(MISTAKES)
        .max_send_buf_size(SEND_BUFFER)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .keep_alive_interval(PING)
        .keep_alive_timeout(PING);
    builder
}

/// Runs the streams of one connection, each in a task on the same thread.
#[derive(Clone, Debug)]
pub(crate) struct Streams {
    /// For a client to take in more of an answer.
    limit: Duration,
    /// That of the stream which is being set up: the library makes a request known and hands the
    /// task of its stream over in one go.
    next: Rc<RefCell<Watch>>,
}

impl Streams {
    pub(crate) fn new(limit: Duration) -> Self {
        Self { limit, next: Rc::default() }
    }

    /// For the request that has just come.
    pub(crate) fn watch(&self, closer: Closer) -> Watch {
        let watch = Watch { waits: Rc::default(), closer };
        self.next.replace(watch.clone());
        watch
    }
}

impl<F: Future<Output = ()> + 'static> Executor<F> for Streams {
    fn execute(&self, stream: F) {
        let (watch, limit) = (self.next.take(), self.limit);
        tasks::spawn(Watched { stream: Box::pin(stream), watch, limit, timer: None });
    }
}

/// What an answer and the task that sends it know of each other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watch {
    /// Since when its client has not asked for more.
    waits: Rc<Cell<Option<Instant>>>,
    closer: Closer,
}

/// The task of one stream; it ends, and resets its stream, when the client lets it wait.
struct Watched<F> {
    stream: Pin<Box<F>>,
    watch: Watch,
    limit: Duration,
    timer: Option<Pin<Box<Sleep>>>,
}

impl<F: Future<Output = ()>> Future for Watched<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let me = &mut *self;
        if me.stream.as_mut().poll(context).is_ready() {
            return Poll::Ready(());
        }
        let Some(since) = me.watch.waits.get() else { return Poll::Pending };
        let mut end = since + me.limit;
        if let Some(cut) = me.watch.closer.cut() {
            end = end.min(cut);
        }
        let end = tokio::time::Instant::from_std(end);
        let timer = me.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(end)));
        if timer.deadline() != end {
            timer.as_mut().reset(end);
        }
        timer.as_mut().poll(context)
    }
}

/// An answer on a stream.
#[derive(Debug)]
pub(crate) struct Answer {
    reply: Reply,
    /// Of the last piece of it, what has still to go on.
    left: Bytes,
    watch: Watch,
    _running: Running,
}

impl Answer {
    pub(crate) fn new(reply: Reply, watch: Watch, running: Running) -> Self {
        Self { reply, left: Bytes::new(), watch, _running: running }
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.watch.waits.set(None);
        if self.left.is_empty() {
            match ready!(Pin::new(&mut self.reply).poll_frame(context)) {
                Some(Ok(frame)) => self.left = frame.into_data().unwrap_or_default(),
                end => return Poll::Ready(end),
            }
        }
        self.watch.waits.set(Some(Instant::now()));
        let count = self.left.len().min(PIECE);
        Poll::Ready(Some(Ok(Frame::data(self.left.split_to(count)))))
    }

    fn is_end_stream(&self) -> bool {
        self.left.is_empty() && self.reply.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        // Asked for before the first piece, and only then.
        self.reply.size_hint()
    }
}
