//! Sockets: one acceptor deals connections to one single-threaded runtime per processor.
//!
//! Dealing in turn costs a wake-up per connection. Listeners of their own (`SO_REUSEPORT`) would
//! save it, but spread a few long-lived connections unevenly (32 on two listeners: 20 to 12 or
//! worse in a fifth of all starts), and lose what is queued on one that closes.

mod connection;
mod slot;

use crate::files::TOLD;
use crate::repeats::Kind;
use crate::router::Router;
use crate::tasks::{self, Group};
use crate::upstream::Upstream;
use crate::worker::Worker;
use connection::connection;
use slot::Slot;
use std::io;
use std::net::{TcpListener as StdListener, TcpStream as StdStream};
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::LocalSet;

/// Connections that may wait for one thread.
const DEAL_QUEUE: usize = 1_024;
/// After an accept that failed (no descriptors left): a pause, lest it fails without end.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// For a client that was let in to begin its first request, on the way out: one that has just
/// connected has it on its way, and would be reset.
const WELCOME: Duration = Duration::from_secs(1);

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
    slot: Slot,
    arrived: Instant,
}

/// Lets a client in, while there is room; a few more may wait for some, and are told in vain.
fn admit(router: &Arc<Router>, socket: StdStream) -> Option<Caller> {
    let slot = Slot::new(router);
    let inside = slot.enter();
    let arrived = Instant::now();
    (inside || slot.number <= slot.most() + TOLD).then_some(Caller { socket, slot, arrived })
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
        for sender in self.senders.iter().cycle() {
            // Room first, then a client: who drops this in a wait drops no client with it. There is
            // none only when that thread is gone, and then all is.
            let room = sender.reserve().await.ok();
            match listener.accept().await.and_then(|(socket, _)| socket.into_std()) {
                Ok(socket) => hand(room, admit(&self.router, socket)),
                Err(error) => {
                    let line = "cannot accept a connection";
                    if self.router.repeats.is_first(&Kind { line, ..Kind::default() }) {
                        tracing::warn!(%error, "{line}");
                    }
                    self.router.files.claim();
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// Deals what waits to be accepted and then, without a pause, no longer listens: what waits
    /// at a listener that closes is reset.
    pub(crate) async fn close(&mut self, listener: TcpListener) {
        let listener = listener.into_std();
        for sender in self.senders.iter().cycle() {
            let room = sender.reserve().await.ok();
            let Some(socket) = listener.as_ref().ok().and_then(waiting) else { break };
            hand(room, admit(&self.router, socket));
        }
        self.senders.clear();
    }

    /// Whether all threads have ended.
    pub(crate) fn finished(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }
}

/// Gives a client, if it was let in, to a thread, if that is there.
fn hand(room: Option<mpsc::Permit<'_, Caller>>, caller: Option<Caller>) {
    if let (Some(room), Some(caller)) = (room, caller) {
        room.send(caller);
    }
}

/// The next client that is in the listener's queue.
fn waiting(listener: &StdListener) -> Option<StdStream> {
    loop {
        match listener.accept() {
            Ok((socket, _)) if socket.set_nonblocking(true).is_ok() => return Some(socket),
            // It left while it waited.
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(_) => return None,
        }
    }
}

async fn core(
    router: Arc<Router>,
    mut callers: mpsc::Receiver<Caller>,
    mut stop: watch::Receiver<Stop>,
) {
    let upstream = Upstream::new(&router.files.requests);
    let _sweeper = tasks::Owned::spawn(Rc::clone(&upstream).sweep());
    let mut connections = Group::default();
    let mut more = true;
    while more || !connections.is_empty() {
        tokio::select! {
            caller = callers.recv(), if more => match caller {
                Some(caller) => {
                    let worker = Worker::new(&router, &upstream);
                    connections.spawn(connection(caller, worker, stop.clone()));
                }
                None => more = false,
            },
            () = connections.reap() => {}
            changed = stop.changed() => {
                if changed.is_err() || *stop.borrow_and_update() == Stop::Cut {
                    return;
                }
            }
        }
    }
}
