//! What all threads of a router share: the table of models, swapped whole, and the counters of
//! its own life. It does no I/O.

use crate::config::Config;
use crate::error::ConfigError;
use crate::files::Files;
use crate::ids::Ids;
use crate::metrics::{Metrics, ModelMetrics, OTHER};
use crate::pool::{Pool, Shared};
use crate::repeats::Repeats;
use crate::responses::Responses;
use crate::tls::Tls;
use crate::trace::Tracer;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Instant, SystemTime};
use tokio::sync::Notify;

/// One configuration and what was built from it. A request keeps the table it began with.
#[derive(Debug)]
pub(crate) struct Table {
    /// The configuration.
    pub(crate) config: Config,
    /// Pools in the order of the configuration.
    pub(crate) pools: Vec<Arc<Pool>>,
    /// By served name and by alias.
    pub(crate) by_name: HashMap<String, Arc<Pool>>,
    /// What state-changing admin calls must show.
    pub(crate) admin_key: Option<String>,
    /// Makes traces.
    pub(crate) tracer: Arc<Tracer>,
    /// Certificates.
    pub(crate) tls: Arc<Tls>,
    /// When it was taken over.
    pub(crate) loaded_at: SystemTime,
}

impl Table {
    /// The pool that serves this name.
    pub(crate) fn pool(&self, model: &str) -> Option<&Arc<Pool>> {
        self.by_name.get(model)
    }

    /// Endpoints of all models that are read and checked.
    pub(crate) fn endpoints(&self) -> usize {
        self.pools.iter().map(|pool| pool.joined().len()).sum()
    }
}

/// A router's shared state.
#[derive(Debug)]
pub(crate) struct Router {
    /// The zero point of time.
    pub(crate) zero: Instant,
    /// Its metrics.
    pub(crate) metrics: Arc<Metrics>,
    /// Those of requests for no model.
    pub(crate) other: ModelMetrics,
    /// Its numbers.
    pub(crate) ids: Ids,
    /// Clients' connections that are open, also those that wait to be let in.
    pub(crate) connections: AtomicU64,
    /// Those that were let in.
    pub(crate) inside: AtomicU64,
    /// One of these has ended.
    pub(crate) left: Notify,
    /// What the files are for that it may have open.
    pub(crate) files: Files,
    /// Lines of its log that come often.
    pub(crate) repeats: Arc<Repeats>,
    /// Who made which response.
    pub(crate) responses: Mutex<Responses>,
    table: RwLock<Arc<Table>>,
    config_error: Mutex<Option<Arc<ConfigError>>>,
    open: AtomicI64,
    draining: AtomicBool,
}

impl Router {
    /// With its first table.
    pub(crate) fn new(shared: Shared, table: Table) -> Self {
        let Shared { metrics, repeats, zero } = shared;
        Self {
            zero,
            other: metrics.model(OTHER),
            metrics,
            ids: Ids::default(),
            connections: AtomicU64::new(0),
            inside: AtomicU64::new(0),
            left: Notify::new(),
            files: Files::new(),
            repeats,
            responses: Mutex::default(),
            table: RwLock::new(Arc::new(table)),
            config_error: Mutex::default(),
            open: AtomicI64::new(0),
            draining: AtomicBool::new(false),
        }
    }

    /// What pools need of it.
    pub(crate) fn shared(&self) -> Shared {
        let (metrics, repeats) = (Arc::clone(&self.metrics), Arc::clone(&self.repeats));
        Shared { metrics, repeats, zero: self.zero }
    }

    /// The table in force.
    pub(crate) fn table(&self) -> Arc<Table> {
        Arc::clone(&self.table.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts another table in force.
    pub(crate) fn swap(&self, table: Table) {
        *self.table.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(table);
    }

    /// Why the last configuration was refused.
    pub(crate) fn config_error(&self) -> Option<Arc<ConfigError>> {
        self.config_error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Remembers why a configuration was refused, or that the last one was good.
    pub(crate) fn set_config_error(&self, error: Option<ConfigError>) {
        *self.config_error.lock().unwrap_or_else(PoisonError::into_inner) = error.map(Arc::new);
    }

    /// Requests that are being worked on.
    pub(crate) fn open(&self) -> i64 {
        self.open.load(SeqCst)
    }

    /// Whether the router is on its way out.
    pub(crate) fn draining(&self) -> bool {
        self.draining.load(SeqCst)
    }

    /// From now on it is not ready.
    pub(crate) fn drain(&self) {
        self.draining.store(true, SeqCst);
    }

    /// Ready: not on its way out, and some model (if there are any) has an endpoint that gets
    /// requests. One model without endpoints must not take the others off the air.
    pub(crate) fn ready(&self) -> bool {
        let table = self.table();
        let served = |pool: &Arc<Pool>| !pool.joined().is_empty();
        !self.draining() && (table.pools.is_empty() || table.pools.iter().any(served))
    }
}

/// One open request; counted until dropped.
#[derive(Debug)]
pub(crate) struct Open(Arc<Router>);

impl Open {
    /// One more.
    pub(crate) fn count(router: &Arc<Router>) -> Self {
        router.open.fetch_add(1, SeqCst);
        Self(Arc::clone(router))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, SeqCst);
    }
}
