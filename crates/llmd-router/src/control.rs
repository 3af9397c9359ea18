//! The router as a whole: start, reload, drain, end.
//!
//! One thread of its own runs all that is not a client's request: accepting, the admin port,
//! discovery, scraping, checks, reloads. [`crate::router_main`] turns signals into its commands;
//! tests use it in process.

use crate::admin;
use crate::checks;
use crate::config;
use crate::error::{ConfigError, StartError};
use crate::files;
use crate::health;
use crate::metrics::Metrics;
use crate::pool::Shared;
use crate::reload::{self, Again, Followed, Kept, Prepared, Reader, Text, Told};
use crate::repeats;
use crate::router::Router;
use crate::scrape;
use crate::server::{Cores, Stop};
use crate::tasks;
use crate::tls;
use crate::upstream::Upstream;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::{mpsc, watch};
use tokio::task::LocalSet;

/// How often the way out is looked at.
const LOOK: Duration = Duration::from_millis(10);
/// Connections that wait to be accepted: a burst of clients comes before a busy thread looks.
const BACKLOG: u32 = 1024;
/// For the last connections to end after everything was cut.
const CUT_GRACE: Duration = Duration::from_secs(1);

/// What a running router can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Read the configuration again.
    Reload,
    /// The same, unless it has the text that was read last.
    Changed,
    /// Finish what runs and end.
    Drain,
    /// End now.
    Cut,
}

/// A running router.
#[derive(Debug)]
pub struct Running {
    /// Where the API is.
    pub data: SocketAddr,
    /// Where the admin port is.
    pub admin: SocketAddr,
    router: Arc<Router>,
    commands: mpsc::Sender<Command>,
    thread: JoinHandle<u64>,
}

impl Running {
    /// Sends commands from elsewhere, a signal handler say.
    pub fn commands(&self) -> mpsc::Sender<Command> {
        self.commands.clone()
    }

    /// Tells it something; without effect once it has ended.
    pub fn tell(&self, command: Command) {
        let _ = self.commands.try_send(command);
    }

    /// Requests that it is working on.
    pub fn open(&self) -> i64 {
        self.router.open()
    }

    /// Waits for its end: the number of requests that were cut.
    pub fn wait(self) -> u64 {
        self.thread.join().unwrap_or(0)
    }
}

struct Sockets {
    data: std::net::TcpListener,
    admin: std::net::TcpListener,
}

/// Starts a router; it serves when this returns.
pub fn start(path: &Path) -> Result<Running, StartError> {
    let (ready, started) = std::sync::mpsc::channel();
    let (commands, received) = mpsc::channel(8);
    let (file, sender) = (path.to_owned(), commands.clone());
    let run = move || {
        let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(cause) => {
                let _ = ready.send(Err(system("runtime", cause)));
                return 0;
            }
        };
        let local = LocalSet::new();
        local.block_on(&runtime, async move {
            match assemble(&file) {
                Ok((control, sockets)) => {
                    let shared = Arc::clone(&control.router);
                    let addresses = (sockets.data.local_addr(), sockets.admin.local_addr());
                    control
                        .run(sockets, received, sender, || {
                            let _ = ready.send(Ok((shared, addresses)));
                        })
                        .await
                }
                Err(error) => {
                    let _ = ready.send(Err(error));
                    0
                }
            }
        })
    };
    let thread = std::thread::Builder::new().name("control".into()).spawn(run);
    let thread = thread.map_err(|cause| system("thread", cause))?;
    let gone = || system("control thread", io::Error::other("it ended at its start"));
    let (router, (data, admin)) = started.recv().map_err(|_| gone())??;
    let (data, admin) = (
        data.map_err(|cause| system("listen.data", cause))?,
        admin.map_err(|cause| system("listen.admin", cause))?,
    );
    Ok(Running { data, admin, router, commands, thread })
}

fn system(what: &str, cause: io::Error) -> StartError {
    StartError::System { what: what.to_owned(), cause }
}

/// What the control thread owns.
struct Control {
    file: PathBuf,
    /// What was read of it last, or why that could not be.
    text: Text,
    router: Arc<Router>,
    followed: Followed,
    reader: Reader,
    stop: watch::Sender<Stop>,
    cores: Cores,
}

fn assemble(file: &Path) -> Result<(Control, Sockets), StartError> {
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    files::check(count).map_err(|cause| system("open files", cause))?;
    let (metrics, repeats) = (Arc::new(Metrics::new()), Arc::default());
    let shared = Shared { metrics, repeats, zero: Instant::now() };
    let mut followed = Followed::default();
    let text = config::first_text(file);
    let prepared = reload::prepare(file, &text, None, &Kept::default())?;
    prepared.settle();
    let table = reload::build(prepared, None, &mut followed, &shared);
    let sockets = Sockets {
        data: listen("listen.data", table.config.listen.data)?,
        admin: listen("listen.admin", table.config.listen.admin)?,
    };
    files::say_if_few(&table.config.limits, table.endpoints());
    let router = Arc::new(Router::new(shared, table));
    let (stop, stopped) = watch::channel(Stop::Run);
    let cores = Cores::start(count, &router, &stopped).map_err(|cause| system("thread", cause))?;
    tls::follow(&router).map_err(|cause| system("thread", cause))?;
    let (file, reader) = (file.to_owned(), Reader::default());
    Ok((Control { file, text, router, followed, reader, stop, cores }, sockets))
}

fn listen(what: &str, address: SocketAddr) -> Result<std::net::TcpListener, StartError> {
    let bind = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)?.into_std()
    };
    bind().map_err(|cause| system(&format!("{what} {address}"), cause))
}

impl Control {
    /// Serves until told to end; returns the number of requests that were cut.
    async fn run(
        mut self,
        sockets: Sockets,
        mut commands: mpsc::Receiver<Command>,
        sender: mpsc::Sender<Command>,
        ready: impl FnOnce(),
    ) -> u64 {
        let (Ok(data), Ok(admin)) =
            (TcpListener::from_std(sockets.data), TcpListener::from_std(sockets.admin))
        else {
            return 0;
        };
        let files = &self.router.files;
        let (probing, upstream) = (Upstream::new(&files.probes), Upstream::new(&files.background));
        for upstream in [&probing, &upstream] {
            tasks::spawn(Rc::clone(upstream).sweep());
        }
        tasks::spawn(admin::serve(admin, Arc::clone(&self.router), probing));
        tasks::spawn(scrape::run(Arc::clone(&self.router), Rc::clone(&upstream)));
        tasks::spawn(checks::run(Arc::clone(&self.router), upstream));
        tasks::spawn(health::watch(Arc::clone(&self.router)));
        tasks::spawn(repeats::follow(Arc::clone(&self.router)));
        reload::watch_file(self.file.clone(), self.text.clone(), sender);
        ready();
        loop {
            let command = tokio::select! {
                () = self.cores.deal(&data) => continue,
                told = self.reader.next(&self.file) => {
                    self.hear(told);
                    continue;
                }
                command = commands.recv() => command,
            };
            let router = Arc::clone(&self.router);
            let cut = match command {
                Some(Command::Reload) => {
                    self.read(None);
                    continue;
                }
                Some(Command::Changed) => {
                    self.read(Some(self.text.clone()));
                    continue;
                }
                Some(Command::Drain) => self.drain(data, &mut commands).await,
                Some(Command::Cut) | None => self.cut().await,
            };
            router.table().tracer.flush();
            router.repeats.tell_all();
            return cut;
        }
    }

    /// Reads the file anew, unless it has this text still.
    fn read(&mut self, unless: Option<Text>) {
        self.reader.start(&self.file, self.router.table(), self.followed.kept(), unless);
    }

    fn hear(&mut self, told: Told) {
        match told {
            Told::Same => {}
            Told::Read { text, prepared } => {
                self.text = text;
                self.take_over(*prepared);
            }
            Told::Trouble(error) => self.take_over(Err(error)),
        }
        match self.reader.behind() {
            Some(Again::Always) => self.read(None),
            Some(Again::IfChanged) => self.read(Some(self.text.clone())),
            None => {}
        }
    }

    fn take_over(&mut self, read: Result<Prepared, ConfigError>) {
        let old = self.router.table();
        // Pools that stay are the same in the new table.
        let before = (old.config.limits.connections, old.endpoints());
        match read {
            Ok(prepared) => {
                let shared = self.router.shared();
                let table = reload::build(prepared, Some(&old), &mut self.followed, &shared);
                let (limits, endpoints) = (&table.config.limits, table.endpoints());
                if (limits.connections, endpoints) != before {
                    files::say_if_few(limits, endpoints);
                }
                self.router.swap(table);
                self.router.set_config_error(None);
                self.router.metrics.reloaded(true);
                tracing::info!("configuration taken over");
            }
            Err(error) => {
                tracing::error!(%error, "configuration refused, the old one stays");
                self.router.metrics.reloaded(false);
                self.router.set_config_error(Some(error));
            }
        }
    }

    /// Not ready any more, but answering, until nothing runs; then the listener closes. A second
    /// command or the time limit cuts what is left.
    async fn drain(mut self, data: TcpListener, commands: &mut mpsc::Receiver<Command>) -> u64 {
        self.router.drain();
        let _ = self.stop.send(Stop::Drain);
        let limit = Duration::from_millis(self.router.table().config.limits.drain_ms);
        tracing::info!(open = self.router.open(), "draining");
        let end = tokio::time::Instant::now() + limit;
        let finished = tokio::select! {
            () = self.cores.deal(&data) => false,
            () = self.quiet() => true,
            () = asked_again(commands) => false,
            () = tokio::time::sleep_until(end) => false,
        };
        if !finished {
            drop(data);
            return self.cut().await;
        }
        let finished = async {
            self.cores.close(data).await;
            // Connections that are open but idle are closed; a request that slipped in is served.
            let _ = self.stop.send(Stop::Finish);
            self.ended().await;
        };
        tokio::select! {
            () = finished => {
                tracing::info!("drained");
                0
            }
            () = asked_again(commands) => self.cut().await,
            () = tokio::time::sleep_until(end) => self.cut().await,
        }
    }

    /// Until no request was open for a while.
    async fn quiet(&self) {
        let limit = self.router.table().config.limits.quiet();
        let mut since = Instant::now();
        loop {
            if self.router.open() > 0 {
                since = Instant::now();
            } else if since.elapsed() >= limit {
                return;
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn ended(&self) {
        while !self.cores.finished() {
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn cut(&self) -> u64 {
        let open = u64::try_from(self.router.open()).unwrap_or(0);
        if open > 0 {
            tracing::warn!(requests = open, "requests were cut");
        }
        let _ = self.stop.send(Stop::Cut);
        let _ = tokio::time::timeout(CUT_GRACE, self.ended()).await;
        open
    }
}

/// A second wish to end; reloads are of no use any more.
async fn asked_again(commands: &mut mpsc::Receiver<Command>) {
    while matches!(commands.recv().await, Some(Command::Reload | Command::Changed)) {}
}
