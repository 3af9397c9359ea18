//! Connections to endpoints: one stack of idle ones per endpoint and thread, newest first.
//!
//! Called in phase `forward`, by probes and by the scraper, through one function: [`Upstream::
//! send`]. A connection belongs to one exchange at a time ([`Lease`]). Dropping a lease before
//! its answer was read to the end closes the connection at once: that is how a cancel reaches
//! the engine. It never decides whether another endpoint is tried.

use crate::endpoint::Endpoint;
use crate::error::{Failure, Kind};
use crate::files;
use crate::places::{Place, Places};
use crate::tasks::{self, Owned};
use crate::tls;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use std::cell::RefCell;
use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;

/// An idle connection older than this is not used again: the engines' HTTP servers (uvicorn,
/// cpp-httplib) close theirs after 5 s, and one that is closed while we write costs a retry.
const IDLE_MAX: Duration = Duration::from_secs(3);
/// How often those that are too old are closed.
const SWEEP: Duration = Duration::from_secs(1);
/// Most idle connections to one endpoint on one thread.
const IDLE_COUNT: usize = 256;

type Sender = SendRequest<Full<Bytes>>;

#[derive(Debug)]
struct Connection {
    sender: Sender,
    /// Drives the socket; ends with the connection.
    _task: Owned,
}

#[derive(Debug)]
struct Idle {
    connection: Connection,
    since: Instant,
}

/// The connections of one thread, and those of them that are idle.
#[derive(Debug)]
pub(crate) struct Upstream {
    idle: RefCell<HashMap<u64, Vec<Idle>>>,
    places: Arc<Places>,
}

/// The right to one connection until its answer was read to the end.
#[derive(Debug)]
pub(crate) struct Lease {
    connection: Connection,
    endpoint: u64,
    home: Rc<Upstream>,
}

impl Lease {
    /// The answer was read to its end: the connection may serve again.
    pub(crate) fn give_back(self) {
        let Self { connection, endpoint, home } = self;
        if connection.sender.is_closed() || !home.places.may_rest() {
            return;
        }
        let mut idle = home.idle.borrow_mut();
        let stack = idle.entry(endpoint).or_default();
        if stack.len() < IDLE_COUNT {
            stack.push(Idle { connection, since: Instant::now() });
        }
    }
}

/// The head of an answer, and the connection that its body comes from.
#[derive(Debug)]
pub(crate) struct Answer {
    /// Head and body.
    pub(crate) response: Response<Incoming>,
    /// The connection.
    pub(crate) lease: Lease,
}

impl Upstream {
    /// Without connections; those that it opens take these places.
    pub(crate) fn new(places: &Arc<Places>) -> Rc<Self> {
        Rc::new(Self { idle: RefCell::default(), places: Arc::clone(places) })
    }

    /// Closes idle connections that are too old to be used, for endpoints that are gone too, and
    /// all of them when their places are claimed; until aborted.
    pub(crate) async fn sweep(self: Rc<Self>) {
        loop {
            let claimed = tokio::time::timeout(SWEEP, self.places.claimed()).await.is_ok();
            let keep = !claimed && self.places.may_rest();
            self.idle.borrow_mut().retain(|_, stack| {
                stack.retain(|idle| keep && idle.since.elapsed() < IDLE_MAX);
                !stack.is_empty()
            });
        }
    }

    /// Sends a request, which `make` makes, and waits for the answer's head. `sent` is called
    /// when it is on its way. A connection that was idle may have been closed by the endpoint
    /// meanwhile: then, and only then, the request is made and sent once more, on a new one.
    pub(crate) async fn send(
        self: &Rc<Self>,
        endpoint: &Endpoint,
        make: impl Fn() -> Request<Full<Bytes>>,
        connect: Duration,
        sent: impl Fn(),
    ) -> Result<Answer, Failure> {
        if let Some(connection) = self.take_idle(endpoint.uid).await
            && let Ok(answer) = self.exchange(endpoint, connection, make(), &sent).await
        {
            return Ok(answer);
        }
        let connection = self.open(endpoint, connect).await?;
        self.exchange(endpoint, connection, make(), &sent).await
    }

    async fn take_idle(&self, endpoint: u64) -> Option<Connection> {
        loop {
            let idle = self.idle.borrow_mut().get_mut(&endpoint)?.pop()?;
            let mut connection = idle.connection;
            if idle.since.elapsed() < IDLE_MAX && connection.sender.ready().await.is_ok() {
                return Some(connection);
            }
        }
    }

    async fn open(&self, endpoint: &Endpoint, limit: Duration) -> Result<Connection, Failure> {
        let known = &endpoint.known;
        let Ok(place) = tokio::time::timeout(limit, self.places.take()).await else {
            return Err(no_files());
        };
        let opened = tokio::time::timeout(limit, connect(endpoint, place)).await;
        let late = || Err(Why::Theirs(format!("no connection within {} ms", limit.as_millis())));
        match opened.unwrap_or_else(|_| late()) {
            Ok(connection) => {
                endpoint.set_unreachable(None);
                Ok(connection)
            }
            Err(Why::Theirs(reason)) => {
                let text = format!("endpoint {} cannot be reached: {reason}", known.name);
                endpoint.set_unreachable(Some(reason));
                Err(Failure::new(Kind::Unreachable, text))
            }
            Err(Why::Ours) => {
                self.places.claim();
                Err(no_files())
            }
        }
    }

    async fn exchange(
        self: &Rc<Self>,
        endpoint: &Endpoint,
        mut connection: Connection,
        request: Request<Full<Bytes>>,
        sent: &impl Fn(),
    ) -> Result<Answer, Failure> {
        let mut answer = pin!(connection.sender.send_request(request));
        // The first poll hands the request to the connection's task, which has its turn before
        // ours when we yield; only then is the rest of the bookkeeping done.
        let early = poll_fn(|context| Poll::Ready(answer.as_mut().poll(context))).await;
        let outcome = match early {
            Poll::Ready(outcome) => outcome,
            Poll::Pending => {
                tokio::task::yield_now().await;
                sent();
                answer.await
            }
        };
        let response = outcome.map_err(|error| {
            let name = &endpoint.known.name;
            // Under TLS 1.3 an endpoint refuses our certificate behind the handshake.
            let told = tls::told(&error).map(|told| format!("TLS: {told}"));
            let why = told.unwrap_or_else(|| error.to_string());
            Failure::new(Kind::Lost, format!("endpoint {name} gave no answer: {why}"))
        })?;
        endpoint.heard(response.status(), response.headers());
        let lease = Lease { connection, endpoint: endpoint.uid, home: Rc::clone(self) };
        Ok(Answer { response, lease })
    }
}

fn no_files() -> Failure {
    let text = "the router may open no more files to connect with: raise its limit";
    Failure::new(Kind::NoFiles, text)
}

/// Why no connection came about.
enum Why {
    /// In words, what is the matter with the endpoint or the way to it.
    Theirs(String),
    /// This process, or this machine, has no file left.
    Ours,
}

/// A new connection, after a handshake where the endpoint has TLS.
async fn connect(endpoint: &Endpoint, place: Place) -> Result<Connection, Why> {
    let known = &endpoint.known;
    let socket = TcpStream::connect((known.address.as_str(), known.port)).await;
    let socket = socket.and_then(|socket| socket.set_nodelay(true).map(|()| socket));
    let socket = socket.map_err(|error| {
        if files::are_out(&error) { Why::Ours } else { Why::Theirs(error.to_string()) }
    })?;
    let socket = tls::dial(endpoint.dial.as_ref(), &known.address, socket).await;
    let socket = socket.map_err(|error| {
        let told = tls::told(&error);
        Why::Theirs(format!("TLS: {}", told.unwrap_or_else(|| error.to_string())))
    })?;
    let handshake = http1::handshake(TokioIo::new(socket)).await;
    let (sender, driver) = handshake.map_err(|error| Why::Theirs(error.to_string()))?;
    // Its error reaches whoever waits for the answer; there is nobody else to tell.
    let task = async move {
        let _until_closed = place;
        drop(driver.await);
    };
    Ok(Connection { sender, _task: tasks::Owned::spawn(task) })
}
