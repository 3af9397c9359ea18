//! The trait of all sources, and how several of them feed one pool.
//!
//! The router starts a [`Discovery`] and watches its receiver. Dropping all receivers stops the
//! sources: they look at [`Sink::closed`] and end.

use crate::echo::{echo, first_few};
use crate::{DiscoveryError, Endpoint, Snapshot};
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::watch;

/// All that one source knows at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Its endpoints.
    pub endpoints: Vec<Endpoint>,
    /// What is wrong, one sentence each.
    pub problems: Vec<String>,
    /// It has not learnt anything yet, not even that there is none.
    pub pending: bool,
}

/// A place to learn endpoints from.
pub trait Source: Send {
    /// Reads once, puts the reading into the sink, and goes on publishing until the sink is
    /// closed. One that may have to wait for its reading puts a pending one there. An error means
    /// that it never started.
    fn start(self: Box<Self>, sink: Sink) -> Result<(), DiscoveryError>;
}

/// Where a source publishes its readings.
#[derive(Clone, Debug)]
pub struct Sink {
    slot: usize,
    merged: Arc<Mutex<Vec<Reading>>>,
    out: watch::Sender<Snapshot>,
}

impl Sink {
    /// Replaces what this source said before.
    pub fn publish(&self, reading: Reading) {
        let mut all = self.merged.lock().unwrap_or_else(PoisonError::into_inner);
        all[self.slot] = reading;
        let snapshot = merge(&all);
        self.out.send_if_modified(|old| {
            let changed = *old != snapshot;
            *old = snapshot;
            changed
        });
    }

    /// Whether nobody listens any more.
    pub fn closed(&self) -> bool {
        self.out.is_closed()
    }

    /// Waits for that.
    pub async fn closing(&self) {
        self.out.closed().await;
    }
}

/// The sources of one pool.
#[derive(Debug)]
pub struct Discovery;

impl Discovery {
    /// Starts all sources; the receiver holds their first readings when this returns.
    pub fn start(
        sources: Vec<Box<dyn Source>>,
    ) -> Result<watch::Receiver<Snapshot>, DiscoveryError> {
        let (out, receiver) = watch::channel(Snapshot::default());
        let merged = Arc::new(Mutex::new(vec![Reading::default(); sources.len()]));
        for (slot, source) in sources.into_iter().enumerate() {
            source.start(Sink { slot, merged: Arc::clone(&merged), out: out.clone() })?;
        }
        Ok(receiver)
    }
}

/// One snapshot of all readings. Of two sources that use one name the first has it; the other
/// is named as a problem, since a pick could not tell the two apart.
fn merge(readings: &[Reading]) -> Snapshot {
    let mut snapshot = Snapshot::default();
    let (mut taken, mut twice) = (HashSet::new(), Vec::new());
    for reading in readings {
        snapshot.pending |= reading.pending;
        snapshot.problems.extend(reading.problems.iter().cloned());
        for endpoint in &reading.endpoints {
            if taken.insert(endpoint.name.clone()) {
                snapshot.endpoints.push(endpoint.clone());
            } else {
                twice.push(format!(
                    "endpoint {:?} is named by two sources; the first one counts",
                    echo(&endpoint.name)
                ));
            }
        }
    }
    snapshot.problems.extend(first_few(twice));
    snapshot
}

#[cfg(test)]
mod tests;
