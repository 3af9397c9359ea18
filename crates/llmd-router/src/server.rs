//! Sockets: one acceptor deals connections to one single-threaded runtime per processor.
//!
//! Dealing in turn costs a wake-up per connection. Listeners of their own (`SO_REUSEPORT`) would
//! save it, but spread a few long-lived connections unevenly (32 on two listeners: 20 to 12 or
//! worse in a fifth of all starts), and lose what is queued on one that closes.

mod connection;

use crate::files::TOLD;
use crate::repeats::Kind;
use crate::router::Router;
use crate::tasks::{self, Group};
use crate::upstream::Upstream;
use crate::worker::Worker;
use connection::connection;
use std::io;
use std::net::TcpStream as StdStream;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::TcpListener;
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
    /// New requests are served, on connections that are asked to go elsewhere.
    Drain,
    /// No new requests; what runs is finished.
    Finish,
    /// All is cut.
    Cut,
}

/// A client that was let in.
#[derive(Debug)]
struct Caller {
    socket: StdStream,
    /// Beyond the limit on connections: it is told so, and that is all.
    over: bool,
    _slot: Slot,
}

/// One open connection; counted until dropped.
#[derive(Debug)]
struct Slot(Arc<Router>);

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Relaxed);
    }
}

/// Lets a client in, while there is room.
fn admit(router: &Arc<Router>, socket: StdStream) -> Option<Caller> {
    let before = router.connections.fetch_add(1, Relaxed);
    let slot = Slot(Arc::clone(router));
    let most = router.table().config.limits.connections().min(router.room);
    let over = before >= most;
    if over {
        router.metrics.connections_refused.inc();
    }
    (before < most + TOLD).then_some(Caller { socket, over, _slot: slot })
}

/// The threads that serve.
#[derive(Debug)]
pub(crate) struct Cores {
    router: Arc<Router>,
    senders: Vec<mpsc::Sender<Caller>>,
    threads: Vec<JoinHandle<()>>,
}

impl Cores {
    /// Starts `count` threads.
    pub(crate) fn start(
        count: usize,
        router: &Arc<Router>,
        stop: &watch::Receiver<Stop>,
    ) -> io::Result<Self> {
        let router = Arc::clone(router);
        let mut cores = Self { router, senders: Vec::new(), threads: Vec::new() };
        for number in 0..count {
            let (sender, callers) = mpsc::channel(DEAL_QUEUE);
            let (router, stop) = (Arc::clone(&cores.router), stop.clone());
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let run = move || LocalSet::new().block_on(&runtime, core(router, callers, stop));
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
                    let Some(caller) = admit(&self.router, socket) else { continue };
                    turn = (turn + 1) % self.senders.len();
                    // Fails only when that thread is gone, and then all is.
                    let _ = self.senders[turn].send(caller).await;
                }
                Err(error) => {
                    let line = "cannot accept a connection";
                    if self.router.repeats.is_first(&Kind { line, ..Kind::default() }) {
                        tracing::warn!(%error, "{line}");
                    }
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
    mut callers: mpsc::Receiver<Caller>,
    mut stop: watch::Receiver<Stop>,
) {
    let upstream = Rc::new(Upstream::default());
    let _sweeper = tasks::Owned::spawn(sweep(Rc::clone(&upstream)));
    let mut connections = Group::default();
    while matches!(*stop.borrow(), Stop::Run | Stop::Drain) || !connections.is_empty() {
        tokio::select! {
            Some(caller) = callers.recv() => {
                let worker = Worker::new(&router, &upstream);
                connections.spawn(connection(caller, worker, stop.clone()));
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
