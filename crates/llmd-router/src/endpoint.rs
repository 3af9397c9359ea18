//! One endpoint as the router has it: where it is, what its variant is, its metric handles.
//!
//! Made when discovery names it, shared by all requests there. What is in flight there is the
//! scheduler's to know (`llmd-sched`), not kept here a second time.

use crate::metrics::VariantMetrics;
use llmd_types::ReplicaFacts;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// What the configuration says of the variant.
#[derive(Debug)]
pub(crate) struct Variant {
    /// Its name; empty for an endpoint that belongs to none.
    pub(crate) name: Arc<str>,
    /// The accelerator's profile.
    pub(crate) accelerator: String,
    /// Whether its engines are simulated.
    pub(crate) simulated: bool,
    /// The name its engines know the model by, where it is another one.
    pub(crate) served_name: Option<String>,
    /// What a replica of it can do.
    pub(crate) facts: Option<Arc<ReplicaFacts>>,
    /// Handles kept, so that no request looks one up.
    pub(crate) metrics: VariantMetrics,
}

/// One engine's address.
#[derive(Debug)]
pub(crate) struct Endpoint {
    /// Never used for another endpoint while the process runs.
    pub(crate) uid: u64,
    /// What discovery says of it.
    pub(crate) known: llmd_discovery::Endpoint,
    /// `address:port`, as the `host` header has it.
    pub(crate) authority: http::HeaderValue,
    /// Its variant.
    pub(crate) variant: Arc<Variant>,
    reachable: AtomicBool,
}

static NEXT_UID: AtomicU64 = AtomicU64::new(0);

impl Endpoint {
    /// A new one, believed to be reachable.
    pub(crate) fn new(known: llmd_discovery::Endpoint, variant: Arc<Variant>) -> Self {
        let authority = format!("{}:{}", known.address, known.port);
        let authority = http::HeaderValue::try_from(authority)
            .unwrap_or_else(|_| http::HeaderValue::from_static("endpoint"));
        let uid = NEXT_UID.fetch_add(1, Relaxed);
        Self { uid, known, authority, variant, reachable: AtomicBool::new(true) }
    }

    /// Whether the last connection to it came about. Shown in status; picks do not look at it.
    pub(crate) fn reachable(&self) -> bool {
        self.reachable.load(Relaxed)
    }

    pub(crate) fn set_reachable(&self, reachable: bool) {
        self.reachable.store(reachable, Relaxed);
    }
}
