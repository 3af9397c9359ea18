//! Sockets: one acceptor deals connections to one single-threaded runtime per processor.
//!
//! Dealing in turn costs a wake-up per connection. Listeners of their own (`SO_REUSEPORT`) would
//! save it, but spread a few long-lived connections unevenly (32 on two listeners: 20 to 12 or
//! worse in a fifth of all starts), and lose what is queued on one that closes.

use crate::patience::Patient;
use crate::phases;
use crate::router::Router;
use crate::tasks::{self, Group};
use crate::upstream::Upstream;
use crate::worker::Worker;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::io;
use std::net::TcpStream as StdStream;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::LocalSet;

/// Connections that may wait for one thread.
const DEAL_QUEUE: usize = 1_024;
/// How often old idle connections to endpoints are closed.
const SWEEP: Duration = Duration::from_secs(1);
/// After an accept that failed (no descriptors left): a pause, lest it fails without end.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How far the end has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Not at all.
    Run,
    /// No new requests; what runs is finished.
    Finish,
    /// All is cut.
    Cut,
}

/// The threads that serve.
#[derive(Debug)]
pub(crate) struct Cores {
    senders: Vec<mpsc::Sender<StdStream>>,
    threads: Vec<JoinHandle<()>>,
}

impl Cores {
    /// Starts `count` threads.
    pub(crate) fn start(
        count: usize,
        router: &Arc<Router>,
        stop: &watch::Receiver<Stop>,
    ) -> io::Result<Self> {
        let mut cores = Self { senders: Vec::new(), threads: Vec::new() };
        for number in 0..count {
            let (sender, sockets) = mpsc::channel(DEAL_QUEUE);
            let (router, stop) = (Arc::clone(router), stop.clone());
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let run = move || LocalSet::new().block_on(&runtime, core(router, sockets, stop));
            let thread = std::thread::Builder::new().name(format!("core-{number}"));
            cores.threads.push(thread.spawn(run)?);
            cores.senders.push(sender);
        }
        Ok(cores)
    }

    /// Accepts and deals until dropped.
    pub(crate) async fn deal(&self, listener: &TcpListener) {
        let mut turn = 0;
        loop {
            match listener.accept().await.and_then(|(socket, _)| socket.into_std()) {
                Ok(socket) => {
                    turn = (turn + 1) % self.senders.len();
                    // Fails only when that thread is gone, and then all is.
                    let _ = self.senders[turn].send(socket).await;
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// Whether all threads have ended.
    pub(crate) fn finished(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }
}

async fn core(
    router: Arc<Router>,
    mut sockets: mpsc::Receiver<StdStream>,
    mut stop: watch::Receiver<Stop>,
) {
    let upstream = Rc::new(Upstream::default());
    let _sweeper = tasks::Owned::spawn(sweep(Rc::clone(&upstream)));
    let mut connections = Group::default();
    while *stop.borrow() == Stop::Run || !connections.is_empty() {
        tokio::select! {
            Some(socket) = sockets.recv() => {
                let worker = Worker::new(&router, &upstream);
                connections.spawn(connection(socket, worker, stop.clone()));
            }
            () = connections.reap() => {}
            changed = stop.changed() => {
                if changed.is_err() || *stop.borrow_and_update() == Stop::Cut {
                    return;
                }
            }
        }
    }
}

async fn sweep(upstream: Rc<Upstream>) {
    loop {
        tokio::time::sleep(SWEEP).await;
        upstream.sweep();
    }
}

async fn connection(socket: StdStream, worker: Worker, mut stop: watch::Receiver<Stop>) {
    let socket = TcpStream::from_std(socket).and_then(|socket| {
        socket.set_nodelay(true)?;
        Ok(socket)
    });
    let Ok(socket) = socket else { return };
    let limits = worker.router.table().config.limits.clone();
    let header = Duration::from_millis(limits.header_ms);
    let closer = worker.closer.clone();
    let socket = Patient::new(socket, Duration::from_millis(limits.idle_ms), closer.clone());
    let service = service_fn(move |request| {
        let worker = worker.clone();
        async move { Ok::<_, Infallible>(phases::respond(&worker, request).await) }
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(header)
        .serve_connection(TokioIo::new(socket), service);
    let mut serving = pin!(serving);
    let mut closing = *stop.borrow() != Stop::Run;
    if closing {
        serving.as_mut().graceful_shutdown();
    }
    loop {
        tokio::select! {
            // An error is the client's: it left, took nothing in, or spoke no HTTP.
            _ = serving.as_mut() => return,
            () = closer.closed() => serving.as_mut().graceful_shutdown(),
            _ = stop.changed(), if !closing => {
                closing = true;
                serving.as_mut().graceful_shutdown();
            }
        }
    }
}
