//! Who belongs to a pool: what discovery and configuration say, told to the scheduler.
//!
//! A whole snapshot comes each time; the difference to the last one becomes events. An endpoint
//! that moved to another address, or whose variant changed, keeps its place in the scheduler
//! (and with it the load of requests that still run) and is a new connection target.

use super::{Member, Pool, State, dials, pool_config, variants};
use crate::config::{Config, Model};
use crate::endpoint::{Endpoint, Variant, Voice};
use crate::metrics::EndpointLabel;
use crate::tls::Tls;
use llmd_discovery::{Snapshot, State as Lifecycle};
use llmd_sched::{Action, EndpointFacts, EndpointIndex, Event};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// Follows discovery and the scheduler's timers until the pool's owner drops the sender's other
/// half or aborts this.
pub(crate) async fn follow(pool: Arc<Pool>, mut snapshots: watch::Receiver<Snapshot>) {
    let mut open = true;
    loop {
        let wake_at = pool.lock().wake_at;
        let timer = async {
            match wake_at {
                Some(at) => tokio::time::sleep(Duration::from_micros(at.since(pool.now()).0)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            changed = snapshots.changed(), if open => match changed {
                Ok(()) => {
                    let snapshot = snapshots.borrow_and_update().clone();
                    pool.discovered(snapshot);
                }
                // Only static sources: nothing will ever change.
                Err(_) => open = false,
            },
            () = pool.wake.notified() => {}
            () = timer => {
                let mut state = pool.lock();
                state.wake_at = None;
                pool.step(&mut state, Event::Timer);
            }
        }
    }
}

impl Pool {
    /// Takes over a new configuration of the same model; the scheduler keeps what it knows.
    pub(crate) fn configure(&self, model: Arc<Model>, config: &Config, tls: &Tls) {
        let mut state = self.lock();
        state.variants = variants(&model, tls, &self.shared.metrics);
        state.dials = dials(&model, tls);
        self.step(&mut state, Event::Config(pool_config(&model, config)));
        state.model = model;
        let last = std::mem::take(&mut state.last);
        self.apply(&mut state, last);
    }

    /// Takes over what discovery says.
    pub(crate) fn discovered(&self, snapshot: Snapshot) {
        let mut state = self.lock();
        self.apply(&mut state, snapshot);
    }

    fn apply(&self, state: &mut State, snapshot: Snapshot) {
        let named: HashSet<&str> = snapshot.endpoints.iter().map(|e| e.name.as_str()).collect();
        let gone = |name: &&String| !snapshot.pending && !named.contains(name.as_str());
        let gone: Vec<String> = state.members.keys().filter(gone).cloned().collect();
        for name in gone {
            if let Some(member) = state.members.remove(&name) {
                tracing::info!(model = %self.name, endpoint = name, "endpoint left");
                self.leave(state, &member);
            }
        }
        for known in &snapshot.endpoints {
            self.apply_one(state, known);
        }
        state.last = snapshot;
    }

    fn apply_one(&self, state: &mut State, known: &llmd_discovery::Endpoint) {
        let variant = variant_of(state, known);
        let dial = state.dials.get(&known.name).or(variant.dial.as_ref()).cloned();
        let old = state.members.get(&known.name).cloned();
        let same = |member: &Member| {
            member.endpoint.known == *known
                && member.endpoint.dial == dial
                && same_variant(&member.endpoint.variant, &variant)
        };
        if old.as_ref().is_some_and(same) {
            return;
        }
        let moved = |member: &Member| {
            let before = &member.endpoint.known;
            before.address != known.address || before.port != known.port
        };
        let voice =
            Voice { model: Arc::clone(&self.name), repeats: Arc::clone(&self.shared.repeats) };
        let endpoint = Arc::new(Endpoint::new(known.clone(), variant, dial, voice));
        let mut index = old.as_ref().and_then(|member| member.index);
        match (known.state, index) {
            (Lifecycle::Ready, _) => {
                if let Some(old) = old.as_ref().filter(|member| moved(member)) {
                    self.leave(state, old);
                }
                index = self.join(state, &endpoint);
            }
            (Lifecycle::Draining, Some(index)) => {
                state.slots[usize::from(index.0)] = Some(Arc::clone(&endpoint));
                self.step(state, Event::EndpointDrain(index));
            }
            (Lifecycle::Starting, Some(_)) => {
                if let Some(old) = &old {
                    self.leave(state, old);
                }
                index = None;
            }
            (Lifecycle::Draining | Lifecycle::Starting, None) => {}
        }
        let counted = index.map(|_| self.shared.metrics.expect(&label(&self.name, &endpoint)));
        let lifecycle = known.state;
        tracing::info!(model = %self.name, endpoint = known.name, ?lifecycle, "endpoint");
        state.members.insert(known.name.clone(), Member { endpoint, index, _counted: counted });
    }

    fn join(&self, state: &mut State, endpoint: &Arc<Endpoint>) -> Option<EndpointIndex> {
        let facts = EndpointFacts {
            name: Arc::from(endpoint.known.name.as_str()),
            variant: Arc::clone(&endpoint.variant.name),
            facts: endpoint.variant.facts.clone(),
            offers: endpoint.variant.offers,
        };
        let actions = self.step(state, Event::EndpointUp(facts));
        let joined = actions.iter().find_map(|action| match action {
            Action::Joined(index, _) => Some(*index),
            _ => None,
        });
        let Some(index) = joined else {
            let name = &endpoint.known.name;
            tracing::error!(endpoint = name, "the scheduler has no number left for an endpoint");
            return None;
        };
        let place = usize::from(index.0);
        if state.slots.len() <= place {
            state.slots.resize(place + 1, None);
        }
        state.slots[place] = Some(Arc::clone(endpoint));
        Some(index)
    }

    fn leave(&self, state: &mut State, member: &Member) {
        if let Some(index) = member.index {
            self.step(state, Event::EndpointDown(index));
            state.slots[usize::from(index.0)] = None;
        }
    }
}

/// The metric label of an endpoint of this model.
pub(crate) fn label(model: &str, endpoint: &Endpoint) -> EndpointLabel {
    EndpointLabel {
        model: model.into(),
        endpoint: endpoint.known.name.clone(),
        variant: endpoint.variant.name.to_string(),
    }
}

/// The variant an endpoint belongs to: the one its source names, else one whose name or
/// accelerator is the profile that its labels name, else none (a neutral prior).
fn variant_of(state: &State, known: &llmd_discovery::Endpoint) -> Arc<Variant> {
    let hints = [&known.variant, &known.profile, &known.accelerator];
    let mut found = hints.into_iter().flatten().filter_map(|hint| {
        let by_accelerator = || state.variants.values().find(|v| v.accelerator == *hint);
        state.variants.get(hint).or_else(by_accelerator)
    });
    Arc::clone(found.next().unwrap_or(&state.no_variant))
}

fn same_variant(one: &Variant, other: &Variant) -> bool {
    one.name == other.name
        && one.accelerator == other.accelerator
        && one.simulated == other.simulated
        && one.served_name == other.served_name
        && one.offers == other.offers
        && one.facts == other.facts
}
