//! One endpoint as the router has it: where it is, what its variant is, its metric handles.
//!
//! Made when discovery names it, shared by all requests there. What is in flight there is the
//! scheduler's to know (`llmd-sched`), not kept here a second time.

use crate::checks::Checked;
use crate::headers;
use crate::metrics::VariantMetrics;
use crate::repeats::{Kind, Repeats};
use crate::scrape::Trouble;
use crate::tls::Dial;
use http::{HeaderMap, StatusCode};
use llmd_types::ReplicaFacts;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// Lines of the log; those of one that flaps are counted.
const GONE: &str = "endpoint cannot be reached";
const BACK: &str = "endpoint can be reached again";

/// What the configuration says of the variant.
#[derive(Debug)]
pub(crate) struct Variant {
    /// Its name; empty for an endpoint that belongs to none.
    pub(crate) name: Arc<str>,
    /// The accelerator's profile.
    pub(crate) accelerator: String,
    /// Whether its engines are known to be simulated; of others their answers tell.
    pub(crate) simulated: bool,
    /// The name its engines know the model by, where it is another one.
    pub(crate) served_name: Option<String>,
    /// The APIs that its engines speak, a bit each.
    pub(crate) offers: u32,
    /// What a replica of it can do.
    pub(crate) facts: Option<Arc<ReplicaFacts>>,
    /// How its endpoints are spoken to under TLS; `None` for plain HTTP.
    pub(crate) dial: Option<Dial>,
    /// Handles kept, so that no request looks one up.
    pub(crate) metrics: VariantMetrics,
}

/// What an endpoint needs to say something.
#[derive(Clone, Debug)]
pub(crate) struct Voice {
    /// The model's served name.
    pub(crate) model: Arc<str>,
    /// Lines that come often.
    pub(crate) repeats: Arc<Repeats>,
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
    /// How it is spoken to under TLS; `None` for plain HTTP.
    pub(crate) dial: Option<Dial>,
    /// Why the last connection to it did not come about.
    unreachable: Mutex<Option<String>>,
    /// What is wrong with its metrics.
    pub(crate) trouble: Trouble,
    checked: Mutex<Option<Checked>>,
    /// Its answers say that they are simulated.
    says_simulated: AtomicBool,
    voice: Voice,
}

static NEXT_UID: AtomicU64 = AtomicU64::new(0);

impl Endpoint {
    /// A new one, believed to be reachable.
    pub(crate) fn new(
        known: llmd_discovery::Endpoint,
        variant: Arc<Variant>,
        dial: Option<Dial>,
        voice: Voice,
    ) -> Self {
        let authority = authority(&known.address, known.port);
        let authority = http::HeaderValue::try_from(authority)
            .unwrap_or_else(|_| http::HeaderValue::from_static("endpoint"));
        let uid = NEXT_UID.fetch_add(1, Relaxed);
        Self {
            uid,
            known,
            authority,
            variant,
            trouble: Trouble::default(),
            dial,
            unreachable: Mutex::default(),
            checked: Mutex::default(),
            says_simulated: AtomicBool::default(),
            voice,
        }
    }

    /// Why the last connection to it did not come about; `None` when it did. Shown in status;
    /// picks do not look at it.
    pub(crate) fn unreachable(&self) -> Option<String> {
        self.unreachable.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A connection came about, or why it did not. Told in the log when that is news.
    pub(crate) fn set_unreachable(&self, reason: Option<String>) {
        let mut last = self.unreachable.lock().unwrap_or_else(PoisonError::into_inner);
        if *last == reason {
            return;
        }
        let (endpoint, model) = (&self.known.name, &*self.voice.model);
        let line = if reason.is_some() { GONE } else { BACK };
        let kind = Kind { line, error: "", model: model.into(), endpoint: endpoint.clone() };
        if self.voice.repeats.is_first(&kind) {
            if let Some(reason) = &reason {
                tracing::warn!(model, endpoint, reason, "{GONE}");
            } else {
                tracing::info!(model, endpoint, "{BACK}");
            }
        }
        *last = reason;
    }

    /// Whether what it does is simulated: as its variant is configured, or as it says itself.
    pub(crate) fn simulated(&self) -> bool {
        self.variant.simulated || self.says_simulated.load(Relaxed)
    }

    /// It answered: a request, a check or a reading. Of an answer that is no success it may be
    /// somebody else's who stands before it, so such a one cannot say that it is real.
    pub(crate) fn heard(&self, status: StatusCode, answer: &HeaderMap) {
        let says = answer.get(headers::SIMULATED).is_some_and(|value| value == "true");
        if (says || status.is_success()) && says != self.says_simulated.load(Relaxed) {
            self.says_simulated.store(says, Relaxed);
        }
    }

    /// What it said to the last active check; `None` before the first.
    pub(crate) fn checked(&self) -> Option<Checked> {
        *self.checked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_checked(&self, checked: Option<Checked>) {
        *self.checked.lock().unwrap_or_else(PoisonError::into_inner) = checked;
    }
}

/// An address as URLs and the `host` header have it.
pub(crate) fn authority(address: &str, port: u16) -> String {
    if address.contains(':') { format!("[{address}]:{port}") } else { format!("{address}:{port}") }
}

#[cfg(test)]
mod tests {
    use super::authority;

    #[test]
    fn an_address_of_ipv6_stands_in_brackets() {
        for (address, whole) in
            [("10.0.0.1", "10.0.0.1:8000"), ("host", "host:8000"), ("::1", "[::1]:8000")]
        {
            assert_eq!(authority(address, 8000), whole);
        }
    }
}
