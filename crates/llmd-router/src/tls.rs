//! TLS on both sides: what ports show to clients, and how endpoints are believed.
//!
//! Made by `reload` from the configuration, used by `server`, `admin` and `upstream`. Files are
//! looked at each second, on a thread of its own; what changed is checked as a whole (a key that
//! fits its certificate, authorities that are some, a time at which they hold) and then used for
//! new connections. What cannot be used leaves the last good state in force and is told in the log,
//! in a metric and in status. Nothing is ever believed without a check.

mod files;
mod socket;
mod words;

pub(crate) use socket::{Raw, Socket, accept, dial};
pub(crate) use words::told;

use crate::config::{Config, EndpointTls, ServerTls, Source};
use crate::metrics::Metrics;
use crate::router::Router;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ServerConfig};
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime};

/// How often the files are looked at.
const LOOK: Duration = Duration::from_secs(1);
/// A look that takes longer is told of: a file system hangs.
const HANGS: Duration = Duration::from_secs(5);

/// What a file looked like: another look when it changes. `None`: it cannot be seen.
type Stamp = Option<(SystemTime, u64)>;

type Made<T> = Result<T, String>;

/// Something that is made of files, and made anew when they change.
struct Followed<T> {
    files: Vec<PathBuf>,
    make: Box<dyn Fn() -> Made<T> + Send + Sync>,
    current: RwLock<Arc<T>>,
    seen: Mutex<Seen>,
}

impl<T> std::fmt::Debug for Followed<T> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Followed").field("files", &self.files).finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Seen {
    stamps: Vec<Stamp>,
    problem: Option<String>,
    /// Since when the files are being looked at.
    looking: Option<Instant>,
}

impl<T> Followed<T> {
    fn start(
        files: Vec<PathBuf>,
        make: impl Fn() -> Made<T> + Send + Sync + 'static,
    ) -> Made<Arc<Self>> {
        // Stamped before they are read: what changes in between is read again.
        let seen = Seen { stamps: stamps(&files), problem: None, looking: None };
        let current = RwLock::new(Arc::new(make()?));
        Ok(Arc::new(Self { files, make: Box::new(make), current, seen: Mutex::new(seen) }))
    }

    /// What is in force.
    fn current(&self) -> Arc<T> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why the last change was not taken over.
    fn problem(&self) -> Option<String> {
        let seen = self.seen();
        if seen.looking.is_some_and(|since| since.elapsed() > HANGS) {
            let seconds = HANGS.as_secs();
            let files: Vec<_> = self.files.iter().map(|file| file.display().to_string()).collect();
            let files = files.join(", ");
            return Some(format!(
                "{files}: reading takes more than {seconds} s; the old ones stay"
            ));
        }
        seen.problem.clone()
    }

    fn look(&self, metrics: &Metrics) {
        self.seen().looking = Some(Instant::now());
        self.look_now(metrics);
        self.seen().looking = None;
    }

    /// May take as long as a file system likes: nothing is held while files are read.
    fn look_now(&self, metrics: &Metrics) {
        let stamps = stamps(&self.files);
        let changed = self.seen().stamps != stamps;
        // What could not be used may be usable now, though no file changed: its time has come.
        if !changed && self.seen().problem.is_none() {
            return;
        }
        let made = (self.make)();
        let mut seen = self.seen();
        seen.stamps = stamps;
        match made {
            Ok(made) => {
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(made);
                seen.problem = None;
                metrics.tls_reloaded(true);
                tracing::info!(files = ?self.files, "certificates taken over");
            }
            Err(problem) => {
                let problem = Some(format!("{problem}; the old certificates stay"));
                if changed || seen.problem != problem {
                    tracing::error!("{}", problem.as_deref().unwrap_or_default());
                    metrics.tls_reloaded(false);
                }
                seen.problem = problem;
            }
        }
    }
}

fn stamps(files: &[PathBuf]) -> Vec<Stamp> {
    let stamp = |file: &PathBuf| {
        let seen = std::fs::metadata(file).ok()?;
        Some((seen.modified().ok()?, seen.len()))
    };
    files.iter().map(stamp).collect()
}

/// What a port shows to its clients.
#[derive(Clone, Debug)]
pub(crate) struct Port(Arc<Followed<ServerConfig>>);

/// How some endpoints are spoken to.
#[derive(Clone, Debug)]
pub(crate) struct Dial {
    /// As it is configured.
    tls: EndpointTls,
    followed: Arc<Followed<ClientConfig>>,
}

impl PartialEq for Dial {
    fn eq(&self, other: &Self) -> bool {
        self.tls == other.tls
    }
}

impl Dial {
    /// The name that the certificate of an endpoint at this address must have.
    fn name(&self, address: &str) -> Result<ServerName<'static>, String> {
        let name = self.tls.server_name.as_deref().unwrap_or(address).to_owned();
        ServerName::try_from(name).map_err(|error| format!("serverName: {error}"))
    }
}

/// All of a configuration.
#[derive(Debug, Default)]
pub(crate) struct Tls {
    /// Of the data port.
    pub(crate) data: Option<Port>,
    /// Of the admin port.
    pub(crate) admin: Option<Port>,
    dials: BTreeMap<EndpointTls, Dial>,
}

impl Tls {
    /// Reads what a configuration names, and keeps what `old` has of it; all problems are told.
    pub(crate) fn prepare(config: &Config, old: Option<&Self>) -> Result<Self, Vec<String>> {
        let mut problems = Vec::new();
        let listen = &config.listen;
        let mut port = |place, tls: Option<&ServerTls>, kept: Option<&Port>| {
            let tls = tls?;
            if let Some(kept) = kept {
                // Another one needs a restart, as an address does.
                return Some(kept.clone());
            }
            let (read, wanted) = (files::of_server(tls), tls.clone());
            let made = Followed::start(read, move || files::server(&wanted));
            made.map_err(|problem| problems.push(format!("{place}: {problem}"))).ok().map(Port)
        };
        let data = port("listen.tls", listen.tls.as_ref(), old.and_then(|old| old.data.as_ref()));
        let kept = old.and_then(|old| old.admin.as_ref());
        let admin = port("listen.adminTls", listen.admin_tls.as_ref(), kept);
        let mut dials = BTreeMap::new();
        for (place, tls) in wanted(config) {
            if dials.contains_key(tls) {
                continue;
            }
            let kept = old.and_then(|old| old.dials.get(tls)).cloned();
            let started = || {
                let (read, wanted) = (files::of_client(tls), tls.clone());
                let followed = Followed::start(read, move || files::client(&wanted))?;
                Ok(Dial { tls: tls.clone(), followed })
            };
            match kept.map_or_else(started, Ok::<_, String>) {
                Ok(dial) => drop(dials.insert(tls.clone(), dial)),
                Err(problem) => problems.push(format!("{place}.tls: {problem}")),
            }
        }
        if problems.is_empty() { Ok(Self { data, admin, dials }) } else { Err(problems) }
    }

    /// How endpoints with these settings are spoken to.
    pub(crate) fn dial(&self, tls: Option<&EndpointTls>) -> Option<Dial> {
        self.dials.get(tls?).cloned()
    }

    /// What could not be taken over, one sentence each.
    pub(crate) fn problems(&self) -> Vec<String> {
        let ports = [&self.data, &self.admin].into_iter().flatten();
        let ports = ports.filter_map(|port| port.0.problem());
        ports.chain(self.dials.values().filter_map(|dial| dial.followed.problem())).collect()
    }

    fn look(&self, metrics: &Metrics) {
        for port in [&self.data, &self.admin].into_iter().flatten() {
            port.0.look(metrics);
        }
        for dial in self.dials.values() {
            dial.followed.look(metrics);
        }
    }
}

/// The settings for endpoints, each with its place.
fn wanted(config: &Config) -> Vec<(String, &EndpointTls)> {
    let mut wanted = Vec::new();
    for (number, model) in config.models.iter().enumerate() {
        for (at, variant) in model.variants.iter().enumerate() {
            let tls = variant.tls.iter();
            wanted.extend(tls.map(|tls| (format!("models[{number}].variants[{at}]"), tls)));
        }
        for (source, written) in model.sources.iter().enumerate() {
            let Source::Static { endpoints } = written else { continue };
            for (at, endpoint) in endpoints.iter().enumerate() {
                let place = format!("models[{number}].sources[{source}].endpoints[{at}]");
                wanted.extend(endpoint.tls.iter().map(|tls| (place.clone(), tls)));
            }
        }
    }
    wanted
}

/// Looks at the files of the table in force, as long as there is the router.
pub(crate) fn follow(router: &Arc<Router>) -> io::Result<()> {
    let router = Arc::downgrade(router);
    let run = move || {
        loop {
            std::thread::sleep(LOOK);
            let Some(router) = router.upgrade() else { return };
            let (tls, metrics) = (Arc::clone(&router.table().tls), Arc::clone(&router.metrics));
            // Nothing else is held while nothing, or nothing more, can be read.
            drop(router);
            tls.look(&metrics);
        }
    };
    std::thread::Builder::new().name("certificates".into()).spawn(run).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
    use std::sync::mpsc::channel;

    #[test]
    fn files_that_cannot_be_read_to_their_end_hold_up_nobody() {
        let (reading, read) = channel::<()>();
        let (read, version) = (Mutex::new(read), AtomicU64::new(0));
        let followed = Followed::start(vec![PathBuf::from("a.crt")], move || {
            let before = version.fetch_add(1, SeqCst);
            // The first reading is that of the start.
            if before > 0 && read.lock().unwrap().recv().is_err() {
                return Err("gone".into());
            }
            Ok(before)
        });
        let followed = followed.unwrap();
        followed.seen().problem = Some("there is one".into());
        let (other, metrics) = (Arc::clone(&followed), Metrics::new());
        let looking = std::thread::spawn(move || other.look(&metrics));
        while followed.seen().looking.is_none() {
            std::thread::yield_now();
        }
        assert_eq!((*followed.current(), followed.problem()), (0, Some("there is one".into())));
        followed.seen().looking = Instant::now().checked_sub(HANGS);
        let told = followed.problem().unwrap();
        assert!(told.starts_with("a.crt: reading takes more than 5 s"), "{told}");
        reading.send(()).unwrap();
        looking.join().unwrap();
        assert_eq!((*followed.current(), followed.problem()), (1, None));
    }
}
