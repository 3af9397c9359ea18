//! The fake engine: a script of behaviours, and a record of all that it received.
//!
//! It runs on a thread of its own, so that a test's runtime may stand still or be single-
//! threaded. Killing it breaks every connection at once, as SIGKILL does.

use crate::behaviour::{Behaviour, Then};
use crate::wire::{Head, read_body, read_head};
use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// For an answer to arrive before a reset does.
const UNREAD: Duration = Duration::from_millis(50);
/// Longer than any test.
const FOREVER: Duration = Duration::from_hours(1);

/// One request as it arrived.
#[derive(Clone, Debug)]
pub struct Received {
    /// "POST /v1/completions".
    pub target: String,
    /// Headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body, byte for byte.
    pub body: Vec<u8>,
    /// When it was read.
    pub at: Instant,
    /// When the router closed the connection before the answer's end.
    pub cancelled: Option<Instant>,
}

impl Received {
    /// The first header of that name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

#[derive(Debug)]
struct Shared {
    /// The behaviour of each coming request; the last one stays.
    script: Vec<Behaviour>,
    /// The script is begun anew behind its end.
    round: bool,
    /// Requests are kept.
    remembers: bool,
    metrics: Vec<u8>,
    health: u16,
    simulated: bool,
    checks: usize,
    received: Vec<Received>,
    connections: usize,
    accepted: usize,
}

/// A running fake engine; dropped, it dies.
#[derive(Debug)]
pub struct FakeEngine {
    /// Where it listens.
    pub address: SocketAddr,
    shared: Arc<Mutex<Shared>>,
    alive: watch::Sender<bool>,
    frozen: watch::Sender<bool>,
}

impl FakeEngine {
    /// Starts on a free port with a script whose last entry is repeated.
    pub fn start(script: Vec<Behaviour>) -> io::Result<Self> {
        Self::start_at("127.0.0.1:0".parse().map_err(io::Error::other)?, script)
    }

    /// Starts at a given address: an engine that comes back.
    pub fn start_at(address: SocketAddr, script: Vec<Behaviour>) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Mutex::new(Shared {
            script,
            round: false,
            remembers: true,
            metrics: Vec::new(),
            health: 200,
            simulated: false,
            checks: 0,
            received: Vec::new(),
            connections: 0,
            accepted: 0,
        }));
        let (alive, dead) = watch::channel(true);
        let (frozen, melt) = watch::channel(false);
        let state = Arc::clone(&shared);
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(run(listener, state, dead, melt))
            // Dropping the runtime drops every connection.
        });
        Ok(Self { address, shared, alive, frozen })
    }

    /// Breaks all connections and stops listening.
    pub fn kill(&self) {
        let _ = self.alive.send(false);
    }

    /// Replaces the script.
    pub fn script(&self, script: Vec<Behaviour>) {
        self.lock().script = script;
    }

    /// From now on the script is begun anew behind its end, and no request is kept: for more of
    /// them than a test has memory for.
    pub fn go_round(&self) {
        let mut shared = self.lock();
        (shared.round, shared.remembers) = (true, false);
    }

    /// What `GET /metrics` answers; empty means 404.
    pub fn metrics(&self, page: impl AsRef<[u8]>) {
        page.as_ref().clone_into(&mut self.lock().metrics);
    }

    /// The status of `GET /health`; 200 at first.
    pub fn health(&self, status: u16) {
        self.lock().health = status;
    }

    /// From now on its answers about itself, not those to requests, say that it is simulated.
    pub fn says_simulated(&self) {
        self.lock().simulated = true;
    }

    /// How often `GET /health` was asked.
    pub fn checks(&self) -> usize {
        self.lock().checks
    }

    /// Says nothing more to anyone, as a process that SIGSTOP stopped: connections still come
    /// about. `false` lets it go on.
    pub fn freeze(&self, frozen: bool) {
        let _ = self.frozen.send(frozen);
    }

    /// All requests so far but those for metrics and health.
    pub fn received(&self) -> Vec<Received> {
        self.lock().received.clone()
    }

    /// Connections open now.
    pub fn connections(&self) -> usize {
        self.lock().connections
    }

    /// Connections that ever came about.
    pub fn accepted(&self) -> usize {
        self.lock().accepted
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for FakeEngine {
    fn drop(&mut self) {
        self.kill();
    }
}

async fn run(
    listener: std::net::TcpListener,
    shared: Arc<Mutex<Shared>>,
    mut dead: watch::Receiver<bool>,
    frozen: watch::Receiver<bool>,
) -> io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    loop {
        tokio::select! {
            _ = dead.changed() => return Ok(()),
            accepted = listener.accept() => {
                let (socket, _) = accepted?;
                socket.set_nodelay(true)?;
                lock(&shared).accepted += 1;
                let (shared, frozen) = (Arc::clone(&shared), frozen.clone());
                tokio::spawn(async move {
                    lock(&shared).connections += 1;
                    let _ = connection(socket, &shared, frozen).await;
                    lock(&shared).connections -= 1;
                });
            }
        }
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn connection(
    mut socket: TcpStream,
    shared: &Mutex<Shared>,
    mut frozen: watch::Receiver<bool>,
) -> io::Result<()> {
    let mut rest = Vec::new();
    let mut served = 0;
    while let Some(mut head) = read_head(&mut socket, rest).await? {
        let begun = std::mem::take(&mut head.rest);
        let _ = frozen.wait_for(|frozen| !frozen).await;
        if let Some(answer) = about_itself(shared, &head.start) {
            rest = begun;
            socket.write_all(&answer).await?;
            continue;
        }
        let next = lock(shared).script.first().cloned();
        if let Some(Behaviour::Early(bytes)) = next {
            record(shared, &head, begun);
            socket.write_all(&bytes).await?;
            // What was not read makes a reset of the close, which may overtake the answer.
            return pause(UNREAD).await.map(drop);
        }
        let length = head.header("content-length").and_then(|text| text.parse().ok());
        let (body, behind) = read_body(&mut socket, begun, length.unwrap_or(0)).await?;
        rest = behind;
        let streamed = crate::wire::find(&body, b"\"stream\":true").is_some()
            || crate::wire::find(&body, b"\"stream\": true").is_some();
        let (behaviour, index) = record(shared, &head, body);
        let behaviour = match behaviour {
            Behaviour::CloseOnReuse if served > 0 => return Ok(()),
            Behaviour::CloseOnReuse => Behaviour::ok(),
            other => other,
        };
        served += 1;
        let (mut reader, mut writer) = socket.split();
        let mut byte = [0_u8; 1];
        let then = tokio::select! {
            // A router that leaves closes the connection; it sends nothing in mid-answer.
            answered = answer(&mut writer, behaviour, streamed) => answered.ok(),
            _ = reader.read(&mut byte) => None,
        };
        match then {
            Some(Then::Keep) => {}
            Some(Then::Close) => return Ok(()),
            Some(Then::Reset) => {
                pause(UNREAD).await?;
                return socket.set_zero_linger();
            }
            Some(Then::Hang) | None => {
                if let Some(received) = lock(shared).received.get_mut(index) {
                    received.cancelled = Some(Instant::now());
                }
                return Ok(());
            }
        }
    }
    Ok(())
}

/// The answer to questions that are no requests.
fn about_itself(shared: &Mutex<Shared>, start: &str) -> Option<Vec<u8>> {
    let mut shared = lock(shared);
    let (status, page): (u16, &[u8]) = match start.split(' ').nth(1)? {
        "/metrics" if !shared.metrics.is_empty() => (200, &shared.metrics),
        "/metrics" | "/prometheus/metrics" => (404, b""),
        "/health" => {
            shared.checks += 1;
            (shared.health, b"")
        }
        _ => return None,
    };
    let says = if shared.simulated { "x-llmd-ctl-simulated: true\r\n" } else { "" };
    let length = page.len();
    let head = format!(
        "HTTP/1.1 {status} Scripted\r\ncontent-type: text/plain\r\n{says}\
         content-length: {length}\r\n\r\n"
    );
    Some([head.as_bytes(), page].concat())
}

fn record(shared: &Mutex<Shared>, head: &Head, body: Vec<u8>) -> (Behaviour, usize) {
    let mut shared = lock(shared);
    let behaviour = if shared.round {
        shared.script.rotate_left(1);
        shared.script.last().cloned().unwrap_or_else(Behaviour::ok)
    } else if shared.script.len() > 1 {
        shared.script.remove(0)
    } else {
        shared.script.first().cloned().unwrap_or_else(Behaviour::ok)
    };
    if !shared.remembers {
        return (behaviour, usize::MAX);
    }
    shared.received.push(Received {
        target: head.start.trim_end_matches(" HTTP/1.1").to_owned(),
        headers: head.headers.clone(),
        body,
        at: Instant::now(),
        cancelled: None,
    });
    (behaviour, shared.received.len() - 1)
}

/// Sends the answer; what becomes of the connection then.
async fn answer(
    writer: &mut (impl AsyncWriteExt + Unpin),
    behaviour: Behaviour,
    streamed: bool,
) -> io::Result<Then> {
    match behaviour {
        Behaviour::Ok(count, gap) if streamed => {
            chunks(writer, count, gap).await?;
            finish(writer, "").await
        }
        Behaviour::Ok(count, gap) => {
            tokio::time::sleep(gap * u32::try_from(count).unwrap_or(1)).await;
            object(writer, [10, 0, u32::try_from(count).unwrap_or(0)]).await
        }
        Behaviour::Usage(count, usage) if streamed => {
            chunks(writer, count, Duration::ZERO).await?;
            finish(writer, &format!("data: {{\"choices\":[],{}}}\n\n", usage_json(usage))).await
        }
        Behaviour::Usage(_, usage) => object(writer, usage).await,
        Behaviour::Status(status) => {
            let body = "{\"error\":{\"message\":\"scripted\",\"type\":\"engine\"}}";
            writer.write_all(plain(status, "application/json", body).as_bytes()).await?;
            Ok(Then::Keep)
        }
        Behaviour::Hang => pause(FOREVER).await,
        Behaviour::HangAfterHead => {
            chunks(writer, 0, Duration::ZERO).await?;
            pause(FOREVER).await
        }
        Behaviour::StallAfter(count) => {
            chunks(writer, count, Duration::ZERO).await?;
            pause(FOREVER).await
        }
        Behaviour::SlowFirstByte(wait) => {
            tokio::time::sleep(wait).await;
            let ok = Box::pin(answer(writer, Behaviour::ok(), streamed));
            ok.await
        }
        Behaviour::DieAfter(count) if streamed => {
            chunks(writer, count, Duration::ZERO).await?;
            Ok(Then::Close)
        }
        Behaviour::DieAfter(_) => {
            let whole = plain(200, "application/json", "{\"choices\":[{\"text\":\"cut\"}]}");
            writer.write_all(&whole.as_bytes()[..whole.len() - 6]).await?;
            Ok(Then::Close)
        }
        Behaviour::HalfClose(count) => {
            chunks(writer, count, Duration::ZERO).await?;
            writer.shutdown().await?;
            pause(FOREVER).await
        }
        Behaviour::WrongContentType => {
            writer.write_all(plain(200, "text/html", "<html></html>").as_bytes()).await?;
            Ok(Then::Keep)
        }
        Behaviour::Drip(count, gap) => drip(writer, count, gap).await,
        Behaviour::Raw(bytes) => writer.write_all(&bytes).await.map(|()| Then::Close),
        Behaviour::RawThen(bytes, then) => {
            writer.write_all(&bytes).await?;
            if matches!(then, Then::Hang) { pause(FOREVER).await } else { Ok(then) }
        }
        // The last two are dealt with where the request is read.
        Behaviour::CloseBeforeHead | Behaviour::Early(_) | Behaviour::CloseOnReuse => {
            Ok(Then::Close)
        }
    }
}

/// A JSON object of `count` bytes, one by one.
async fn drip(
    writer: &mut (impl AsyncWriteExt + Unpin),
    count: usize,
    gap: Duration,
) -> io::Result<Then> {
    let body = format!("{{{}}}", " ".repeat(count.saturating_sub(2)));
    let whole = plain(200, "application/json", &body);
    let (head, body) = whole.split_at(whole.len() - body.len());
    writer.write_all(head.as_bytes()).await?;
    for byte in body.as_bytes() {
        tokio::time::sleep(gap).await;
        writer.write_all(std::slice::from_ref(byte)).await?;
    }
    Ok(Then::Keep)
}

async fn pause(time: Duration) -> io::Result<Then> {
    tokio::time::sleep(time).await;
    Ok(Then::Close)
}

fn plain(status: u16, content_type: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status} Scripted\r\ncontent-type: {content_type}\r\nx-engine: fake\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn usage_json([prompt, cached, completion]: [u32; 3]) -> String {
    format!(
        "\"usage\":{{\"prompt_tokens\":{prompt},\"completion_tokens\":{completion},\
         \"prompt_tokens_details\":{{\"cached_tokens\":{cached}}}}}"
    )
}

async fn object(writer: &mut (impl AsyncWriteExt + Unpin), usage: [u32; 3]) -> io::Result<Then> {
    let body = format!("{{\"choices\":[{{\"text\":\"hello\"}}],{}}}", usage_json(usage));
    writer.write_all(plain(200, "application/json", &body).as_bytes()).await?;
    Ok(Then::Keep)
}

/// The head of a stream and `count` events, each in a chunk of its own.
async fn chunks(
    writer: &mut (impl AsyncWriteExt + Unpin),
    count: usize,
    gap: Duration,
) -> io::Result<()> {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nx-engine: fake\r\n\
                transfer-encoding: chunked\r\n\r\n";
    writer.write_all(head.as_bytes()).await?;
    for number in 0..count {
        if !gap.is_zero() {
            tokio::time::sleep(gap).await;
        }
        let event = format!("data: {{\"choices\":[{{\"text\":\"t{number}\"}}]}}\n\n");
        writer.write_all(chunk(&event).as_bytes()).await?;
        writer.flush().await?;
    }
    Ok(())
}

async fn finish(writer: &mut (impl AsyncWriteExt + Unpin), last: &str) -> io::Result<Then> {
    let mut bytes = if last.is_empty() { String::new() } else { chunk(last) };
    bytes.push_str(&chunk("data: [DONE]\n\n"));
    bytes.push_str("0\r\n\r\n");
    writer.write_all(bytes.as_bytes()).await?;
    Ok(Then::Keep)
}

fn chunk(text: &str) -> String {
    let mut framed = String::new();
    let _ = write!(framed, "{:x}\r\n{text}\r\n", text.len());
    framed
}
