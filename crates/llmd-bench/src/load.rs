//! The load: requests over connections that stay open, in a closed loop or at a fixed rate.
//!
//! The watched process' use of the processor is taken at both edges of the measured time, so the
//! warm-up (connections, caches, allocators) takes no part in it.

use crate::body::{Bodies, Kind};
use crate::process::{Use, rss};
use crate::tally::Answers;
use crate::wire::Reader;
use serde_json::{Value, json};
use std::cell::{Cell, RefCell};
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, sleep_until};

/// What `load` takes.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// Where requests go
    #[arg(long)]
    to: SocketAddr,
    /// What is sent
    #[arg(long, value_enum)]
    kind: Kind,
    /// The model that is asked for
    #[arg(long, default_value = "bench")]
    model: String,
    /// Tokens that are asked for
    #[arg(long, default_value_t = 16)]
    tokens: u32,
    /// Connections, each with one request at a time
    #[arg(long, default_value_t = 32)]
    connections: usize,
    /// Measured seconds
    #[arg(long, default_value_t = 4.0)]
    seconds: f64,
    /// Seconds before them
    #[arg(long, default_value_t = 1.0)]
    warm: f64,
    /// Ends after so many requests instead
    #[arg(long)]
    requests: Option<u64>,
    /// Requests a second; without it each connection sends as soon as it was answered
    #[arg(long)]
    rate: Option<f64>,
    /// The process whose use of the processor is told
    #[arg(long)]
    watch: Option<u32>,
}

/// What the connections share.
#[derive(Debug)]
struct Shared {
    options: Options,
    bodies: RefCell<Bodies>,
    answers: RefCell<Answers>,
    begun: Cell<u64>,
    over: Cell<bool>,
    /// At a fixed rate: the times at which requests were due and not begun.
    due: RefCell<std::collections::VecDeque<Instant>>,
    permits: Semaphore,
}

/// Runs one load.
pub(crate) async fn run(options: Options) -> io::Result<Value> {
    let shared = Rc::new(Shared {
        bodies: RefCell::new(Bodies::new(options.kind, &options.model, options.tokens)),
        answers: RefCell::default(),
        begun: Cell::new(0),
        over: Cell::new(false),
        due: RefCell::default(),
        permits: Semaphore::new(0),
        options,
    });
    let tasks = tokio::task::LocalSet::new();
    tasks.run_until(measure(&shared)).await
}

async fn measure(shared: &Rc<Shared>) -> io::Result<Value> {
    let options = &shared.options;
    let connections: Vec<_> = (0..options.connections)
        .map(|_| tokio::task::spawn_local(connection(Rc::clone(shared))))
        .collect();
    if let Some(rate) = options.rate {
        tokio::task::spawn_local(tick(Rc::clone(shared), rate));
    }
    let streams = options.kind == Kind::Stream;
    if !streams {
        sleep(Duration::from_secs_f64(options.warm)).await;
    }
    let (warm, before, begun) =
        (shared.answers.borrow().count(), Use::of(options.watch), Instant::now());
    if options.requests.is_none() && !streams {
        sleep(Duration::from_secs_f64(options.seconds)).await;
    } else {
        for connection in connections {
            connection.await.map_err(io::Error::other)?;
        }
    }
    let (after, took) = (Use::of(options.watch), begun.elapsed());
    shared.over.set(true);
    let answers = shared.answers.borrow();
    let count = if streams { answers.tokens } else { answers.count() - warm };
    let mut report = answers.report(warm);
    report["use"] = after.since(before, count);
    report["seconds"] = json!(took.as_secs_f64());
    report["per_second"] = json!(count as f64 / took.as_secs_f64());
    report["rss_bytes"] = json!(rss(options.watch));
    Ok(report)
}

/// Makes one request due at each tick. One that is late does not shift those behind it.
async fn tick(shared: Rc<Shared>, rate: f64) {
    let begun = Instant::now();
    for number in 0_u32.. {
        let at = begun + Duration::from_secs_f64(f64::from(number) / rate);
        sleep_until(at).await;
        shared.due.borrow_mut().push_back(Instant::now());
        shared.permits.add_permits(1);
    }
}

/// Sends requests until the end, on a new connection after each failure.
async fn connection(shared: Rc<Shared>) {
    while !shared.over.get() {
        if let Err(error) = requests(&shared).await {
            // One that could not even be sent is counted too, or a load would never end.
            shared.begun.set(shared.begun.get() + 1);
            shared.answers.borrow_mut().bad(&error);
            sleep(Duration::from_millis(10)).await;
        }
        if shared.is_enough() {
            return;
        }
    }
}

impl Shared {
    fn is_enough(&self) -> bool {
        let most = match self.options.kind {
            Kind::Stream => Some(self.options.connections as u64),
            _ => self.options.requests,
        };
        self.over.get() || most.is_some_and(|most| self.begun.get() >= most)
    }

    /// When the next request is due.
    async fn turn(&self) -> Instant {
        if self.options.rate.is_some()
            && let Ok(permit) = self.permits.acquire().await
        {
            permit.forget();
        }
        self.due.borrow_mut().pop_front().unwrap_or_else(Instant::now)
    }
}

async fn requests(shared: &Shared) -> io::Result<()> {
    let mut socket = TcpStream::connect(shared.options.to).await?;
    socket.set_nodelay(true)?;
    let mut reader = Reader::default();
    while !shared.is_enough() {
        let due = shared.turn().await;
        shared.begun.set(shared.begun.get() + 1);
        send(&mut socket, shared).await?;
        let Some(head) = reader.head(&mut socket).await? else {
            return Err(io::Error::other("closed without an answer"));
        };
        let mut events = Events::default();
        reader.body(&mut socket, &head, |piece| events.take(piece)).await?;
        if head.status() != 200 {
            return Err(io::Error::other(head.start));
        }
        let mut answers = shared.answers.borrow_mut();
        if shared.options.kind == Kind::Stream {
            // Behind the tokens comes `[DONE]`, and usage where a router asked for it.
            let tokens = events.count.saturating_sub(1);
            answers.tokens += u64::from(tokens);
            answers.short += u64::from(tokens < shared.options.tokens);
        } else if events.bytes < 100 {
            return Err(io::Error::other("an answer without a text"));
        }
        answers.good(due.elapsed());
        if head.close {
            return Ok(());
        }
    }
    Ok(())
}

async fn send(socket: &mut TcpStream, shared: &Shared) -> io::Result<()> {
    // A body borrows what it is made of, and is not kept across an await.
    let (head, body) = {
        let mut bodies = shared.bodies.borrow_mut();
        let body = bodies.next();
        let head = head(&shared.options.to, body.len());
        let written = socket.try_write_vectored(&[
            IoSlice::new(head.as_bytes()),
            IoSlice::new(body.begin),
            IoSlice::new(body.own.as_bytes()),
            IoSlice::new(body.end),
        ]);
        let written = match written {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            other => other?,
        };
        if written == head.len() + body.len() {
            return Ok(());
        }
        let rest = [head.as_bytes(), body.begin, body.own.as_bytes(), body.end].concat();
        (written, rest)
    };
    socket.write_all(&body[head..]).await
}

/// The head of a request.
pub(crate) fn head(to: &SocketAddr, length: usize) -> String {
    format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: {to}\r\nuser-agent: OpenAI/Python 2.1.0\r\n\
         accept: application/json\r\ncontent-type: application/json\r\n\
         authorization: Bearer none\r\ncontent-length: {length}\r\n\r\n"
    )
}

/// Server-sent events in a body, counted by the blank lines behind them.
#[derive(Debug, Default)]
struct Events {
    count: u32,
    bytes: usize,
    last: u8,
}

impl Events {
    fn take(&mut self, piece: &[u8]) {
        self.bytes += piece.len();
        for byte in piece {
            let blank = *byte == b'\n' && self.last == b'\n';
            self.count += u32::from(blank);
            self.last = if blank { 0 } else { *byte };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Events;

    #[test]
    fn events_are_counted_wherever_they_are_split() {
        let stream = b"data: {}\n\ndata: x\ndata: y\n\n\n\n";
        for piece in 1..=stream.len() {
            let mut events = Events::default();
            stream.chunks(piece).for_each(|part| events.take(part));
            assert_eq!((events.count, events.bytes), (3, stream.len()));
        }
    }
}
