//! From a configuration to a table of pools, at the start and at every change.
//!
//! All that can fail is done first: the file, the admin key, every source of endpoints. Only
//! then anything running is touched. A model that stays keeps its pool, and with it the load
//! of its requests, its prefix index and what was learned.

mod reader;

pub(crate) use reader::{Again, Reader, Text, Told};

use crate::config::{self, Config, Listen, Model, Source, StaticEndpoint};
use crate::control::Command;
use crate::error::ConfigError;
use crate::pool::{self, Pool, Shared};
use crate::router::Table;
use crate::tasks::Owned;
use crate::tls::Tls;
use crate::trace::Tracer;
use llmd_discovery::{
    Discovery, DnsName, DnsSource, FileSource, ProcessSource, Snapshot, State, StaticSource,
};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::{mpsc, watch};

/// For new sources to learn something before they are in force, where that is not at once: a first
/// answer of a name server takes less.
const FIRST: Duration = Duration::from_secs(2);
/// How often that is looked at.
const LOOK: Duration = Duration::from_millis(5);
/// How often `router.yaml` is read when no change was seen.
const POLL: Duration = Duration::from_secs(1);

/// What was read and started, and is not yet in force.
#[derive(Debug)]
pub(crate) struct Prepared {
    config: Config,
    admin_key: Option<String>,
    tls: Arc<Tls>,
    /// New receivers, for models that are new or have other sources than before.
    snapshots: HashMap<String, watch::Receiver<Snapshot>>,
}

impl Prepared {
    /// Waits until the sources have answered, so that no pool is without endpoints meanwhile, but
    /// not for ever.
    pub(crate) fn settle(&self) {
        let end = Instant::now() + FIRST;
        while self.snapshots.values().any(|one| one.borrow().pending) && Instant::now() < end {
            std::thread::sleep(LOOK);
        }
    }
}

/// Discovery of the models in force: what it was started from, and the task that follows it.
#[derive(Debug, Default)]
pub(crate) struct Followed {
    models: HashMap<String, (Vec<Source>, Owned)>,
}

impl Followed {
    /// What the sources in force were started from.
    pub(crate) fn kept(&self) -> Kept {
        let models = self.models.iter();
        models.map(|(name, (sources, _))| (name.clone(), sources.clone())).collect()
    }
}

/// Sources in force, by model.
pub(crate) type Kept = HashMap<String, Vec<Source>>;

/// Whether a router could start from this configuration, as far as files tell: it binds no port,
/// and what it starts to read them ends with it.
pub(crate) fn check(path: &Path) -> Result<Config, ConfigError> {
    let text = config::first_text(path);
    prepare(path, &text, None, &Kept::default()).map(|prepared| prepared.config)
}

/// Takes a configuration apart, whose text was read from this file, and starts its sources. `old`
/// and `kept` are what is in force.
pub(crate) fn prepare(
    path: &Path,
    text: &Text,
    old: Option<&Table>,
    kept: &Kept,
) -> Result<Prepared, ConfigError> {
    let text = text.as_deref();
    let text = text.map_err(|why| ConfigError::new(path, std::slice::from_ref(why)))?;
    let config = Config::at(path, text)?;
    let mut problems = old.map_or(Vec::new(), |old| moved(&old.config.listen, &config.listen));
    let moved = problems.len();
    let admin_key = config.admin_key_file.as_deref().and_then(|file| {
        read_key(file).map_err(|problem| problems.push(format!("adminKeyFile: {problem}"))).ok()
    });
    // What needs a restart is read as that start will read it, so that none is made for nothing.
    let same = old.filter(|_| moved == 0);
    let tls = Tls::prepare(&config, same.map(|old| &*old.tls)).unwrap_or_else(|found| {
        problems.extend(found);
        Tls::default()
    });
    let mut snapshots = HashMap::new();
    for (index, model) in config.models.iter().enumerate() {
        if kept.get(&model.name).is_some_and(|sources| *sources == model.sources) {
            continue;
        }
        match Discovery::start(sources(model)) {
            Ok(receiver) => {
                snapshots.insert(model.name.clone(), receiver);
            }
            Err(error) => problems.push(format!("models[{index}].sources: {error}")),
        }
    }
    if problems.is_empty() {
        return Ok(Prepared { config, admin_key, tls: Arc::new(tls), snapshots });
    }
    let needs_restart = moved > 0 && problems.len() == moved;
    Err(ConfigError { needs_restart, ..ConfigError::new(path, &problems) })
}

/// What of the ports is not taken over as the router runs.
fn moved(now: &Listen, new: &Listen) -> Vec<String> {
    let ports = [("data", now.data, new.data), ("admin", now.admin, new.admin)];
    let ports = ports.into_iter().filter(|(_, now, new)| now != new).map(|(name, now, new)| {
        format!("listen.{name}: {new} needs a restart, until then it is {now}")
    });
    let tls = [("tls", &now.tls, &new.tls), ("adminTls", &now.admin_tls, &new.admin_tls)];
    let tls = tls.into_iter().filter(|(_, now, new)| now != new).map(|(name, now, new)| {
        let change = match (now, new) {
            (None, _) => "TLS where there was none",
            (_, None) => "no TLS where there was some",
            _ => "other files",
        };
        format!("listen.{name}: {change} needs a restart, until then it stays as it was")
    });
    ports.chain(tls).collect()
}

/// Puts a configuration in force: the new table. Cannot fail.
pub(crate) fn build(
    prepared: Prepared,
    old: Option<&Table>,
    followed: &mut Followed,
    shared: &Shared,
) -> Table {
    let Prepared { config, admin_key, tls, mut snapshots } = prepared;
    let mut pools = Vec::new();
    for model in &config.models {
        let before = old.and_then(|old| old.pools.iter().find(|pool| *pool.name == *model.name));
        let settings = Arc::new(model.clone());
        let pool = if let Some(pool) = before {
            pool.configure(settings, &config, &tls);
            Arc::clone(pool)
        } else {
            Arc::new(Pool::new(&settings, &config, &tls, shared))
        };
        if let Some(receiver) = snapshots.remove(&model.name) {
            pool.discovered(receiver.borrow().clone());
            let task = Owned::spawn(pool::follow(Arc::clone(&pool), receiver));
            followed.models.insert(model.name.clone(), (model.sources.clone(), task));
        }
        pools.push(pool);
    }
    followed.models.retain(|name, _| config.models.iter().any(|model| model.name == *name));
    let same_traces =
        |old: &&Table| old.config.traces == config.traces && old.config.fleet == config.fleet;
    let kept = old.filter(same_traces).map(|old| Arc::clone(&old.tracer));
    let tracer = kept.unwrap_or_else(|| {
        let (sink, dropped) = (config.traces.as_ref(), &shared.metrics.dropped_spans);
        Arc::new(Tracer::new(sink, &config.fleet, dropped, crate::ids::entropy()))
    });
    let by_name = names(&config, &pools);
    Table { config, pools, by_name, admin_key, tracer, tls, loaded_at: SystemTime::now() }
}

fn names(config: &Config, pools: &[Arc<Pool>]) -> HashMap<String, Arc<Pool>> {
    let mut by_name = HashMap::new();
    for (model, pool) in config.models.iter().zip(pools) {
        for name in std::iter::once(&model.name).chain(&model.aliases) {
            by_name.insert(name.clone(), Arc::clone(pool));
        }
    }
    by_name
}

fn sources(model: &Model) -> Vec<Box<dyn llmd_discovery::Source>> {
    let made = model.sources.iter().map(|source| -> Box<dyn llmd_discovery::Source> {
        match source {
            Source::Static { endpoints } => {
                Box::new(StaticSource::new(endpoints.iter().map(endpoint).collect()))
            }
            Source::File { path } => Box::new(FileSource::new(path)),
            Source::Process { path } => Box::new(ProcessSource::new(path, &model.name)),
            Source::Dns(name) => Box::new(DnsSource::new(asked(name))),
        }
    });
    made.collect()
}

fn asked(name: &config::DnsName) -> DnsName {
    DnsName {
        name: name.name.clone(),
        port: name.port,
        variant: name.variant.clone(),
        interval: Duration::from_millis(name.interval_ms),
        resolver: name.resolver,
    }
}

fn endpoint(written: &StaticEndpoint) -> llmd_discovery::Endpoint {
    llmd_discovery::Endpoint {
        name: written.name.clone(),
        address: written.address.clone(),
        port: written.port,
        variant: written.variant.clone(),
        accelerator: None,
        profile: None,
        role: None,
        state: State::Ready,
        revision: None,
    }
}

fn read_key(file: &Path) -> Result<String, String> {
    let read = llmd_discovery::read_file(file).and_then(|read| {
        String::from_utf8(read).map_err(|error| format!("cannot be read as text: {error}"))
    });
    let text = read.map_err(|why| format!("{} {why}", file.display()))?;
    let key = text.trim();
    if key.is_empty() {
        return Err(format!("{} is empty", file.display()));
    }
    Ok(key.to_owned())
}

/// Tells when the file has another text than this one, which was read at the start, and again for
/// each change, until the router has ended.
pub(crate) fn watch_file(
    path: PathBuf,
    mut last: Result<String, String>,
    commands: mpsc::Sender<Command>,
) {
    if !path.is_file() {
        tracing::info!("router.yaml is no regular file: it was read once, and is not watched");
        return;
    }
    let file = path.clone();
    let read = move || {
        let text = config::next_text(&file);
        // A file that is gone for a moment (a rename, an editor) is waited for.
        if text != last && file.exists() {
            last = text;
            let _ = commands.blocking_send(Command::Changed);
        }
        !commands.is_closed()
    };
    if let Err(error) = llmd_discovery::follow(path, POLL, read) {
        tracing::error!(%error, "router.yaml is read again on SIGHUP only");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tracer_is_kept_until_its_settings_change() {
        let shared =
            Shared { metrics: Arc::default(), repeats: Arc::default(), zero: Instant::now() };
        let mut followed = Followed::default();
        let mut table = |text: &str, old: Option<&Table>| {
            let text = Ok(format!("version: 1\n{text}\n"));
            let prepared = prepare(Path::new("router.yaml"), &text, old, &followed.kept()).unwrap();
            build(prepared, old, &mut followed, &shared)
        };
        let traces = "traces: {otlp: \"http://127.0.0.1:9\"}";
        let first = table(traces, None);
        for (text, kept) in [
            (format!("{traces}\nretry: {{attempts: 1}}"), true),
            (format!("{traces}\nfleet: other"), false),
            ("traces: {otlp: \"http://127.0.0.1:9\", sampleRatio: 0.5}".into(), false),
            ("traces: {otlp: \"http://127.0.0.1:10\"}".into(), false),
            (String::new(), false),
        ] {
            let next = table(&text, Some(&first));
            assert_eq!(Arc::ptr_eq(&next.tracer, &first.tracer), kept, "{text}");
        }
    }
}
