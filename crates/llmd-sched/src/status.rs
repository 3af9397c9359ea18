//! The state of a pool as people and metrics see it. A copy; nothing here is decided on.

use crate::config::SchedulerKind;
use crate::endpoint::{Endpoint, EndpointState, STALE};
use crate::event::EndpointIndex;
use crate::health::{HealthStatus, Why};
use crate::pool::PoolState;
use llmd_types::{Micros, Objective, ReportedLoad};
use std::sync::Arc;

/// A pool.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolStatus {
    /// How endpoints are chosen.
    pub scheduler: SchedulerKind,
    /// Bytes in a token of a prompt, as learned.
    pub bytes_per_token: f64,
    /// Requests that the scheduler remembers: in flight, or between two attempts.
    pub requests: usize,
    /// Retries that the retry budget paid for, and refused for want of it.
    pub retries: u64,
    /// See `retries`.
    pub retries_refused: u64,
    /// Whole retries that it holds.
    pub retry_budget: u64,
    /// Entries of the prefix index.
    pub index_entries: usize,
    /// The endpoints that are there, and those that left with requests still running.
    pub endpoints: Vec<EndpointStatus>,
}

/// An endpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct EndpointStatus {
    /// Its number.
    pub index: EndpointIndex,
    /// Its name.
    pub name: Arc<str>,
    /// Its variant's name.
    pub variant: Arc<str>,
    /// Whether it gets requests.
    pub state: EndpointState,
    /// Whether it takes part in picks, by what was seen of it.
    pub health: HealthStatus,
    /// Whether its speeds come from a profile; else they are the neutral prior.
    pub profile_known: bool,
    /// Our requests there now.
    pub inflight_requests: u32,
    /// Our prompt tokens to compute and answer tokens to generate there.
    pub inflight_tokens: u64,
    /// Its last report.
    pub reported: Option<ReportedLoad>,
    /// The age of that.
    pub reported_age: Option<Micros>,
    /// Learned factor on prefill times.
    pub prefill_correction: f64,
    /// Learned factor on step times.
    pub step_correction: f64,
    /// Requests placed there since it joined.
    pub picks: u64,
    /// Attempts that failed there since it joined.
    pub failures: u64,
    /// What is decided with less than it should be, and by which rule.
    pub degraded: Vec<String>,
}

impl PoolStatus {
    /// One endpoint by its number.
    pub fn endpoint(&self, index: EndpointIndex) -> Option<&EndpointStatus> {
        // They are listed in the order of their numbers.
        let place = self.endpoints.binary_search_by_key(&index, |endpoint| endpoint.index);
        self.endpoints.get(place.ok()?)
    }
}

impl PoolState {
    /// One endpoint's health at `now`: of all its state what is looked at often.
    pub fn health(&self, index: EndpointIndex, now: Micros) -> Option<HealthStatus> {
        let endpoint = self.endpoints.get(index.at())?;
        Some(endpoint.health.status(&self.config.resilience, now))
    }

    /// The state at `now`.
    pub fn status(&self, now: Micros) -> PoolStatus {
        let listed = |endpoint: &Endpoint| {
            endpoint.state != EndpointState::Down || endpoint.load.requests > 0
        };
        let endpoints = self.endpoints.iter().zip(0..).filter(|(endpoint, _)| listed(endpoint));
        PoolStatus {
            scheduler: self.config.scheduler,
            bytes_per_token: self.habits.bytes_per_token(),
            requests: self.requests.len(),
            retries: self.budget.paid,
            retries_refused: self.budget.refused,
            retry_budget: self.budget.left(&self.config.resilience, now),
            index_entries: self.index.len(),
            endpoints: endpoints
                .map(|(endpoint, at)| self.endpoint_status(endpoint, at, now))
                .collect(),
        }
    }

    fn endpoint_status(&self, endpoint: &Endpoint, at: u16, now: Micros) -> EndpointStatus {
        let factor = self.corrections(endpoint);
        EndpointStatus {
            index: EndpointIndex(at),
            name: endpoint.name.clone(),
            variant: self.variants[endpoint.variant].name.clone(),
            state: endpoint.state,
            health: endpoint.health.status(&self.config.resilience, now),
            profile_known: endpoint.known,
            inflight_requests: endpoint.load.requests,
            inflight_tokens: endpoint.load.tokens(),
            reported: endpoint.reported.map(|reported| reported.load),
            reported_age: endpoint.reported.map(|reported| now.since(reported.load.at)),
            prefill_correction: factor.prefill,
            step_correction: factor.step,
            picks: endpoint.picks,
            failures: endpoint.failures,
            degraded: self.degraded(endpoint, now),
        }
    }

    fn degraded(&self, endpoint: &Endpoint, now: Micros) -> Vec<String> {
        let mut found = Vec::new();
        found.extend(ill(endpoint.health.status(&self.config.resilience, now)));
        if !endpoint.known {
            found.push("no profile: starts from a neutral one and learns".to_owned());
        }
        match endpoint.reported {
            None => {
                let silent = endpoint.silent_since.map(|since| now.since(since));
                let span = silent.map_or(String::new(), |span| format!(" in {span}"));
                found.push(format!(
                    "never reported load{span}: own requests, and of others what is usual in the \
                     pool"
                ));
            }
            Some(reported) => {
                let age = now.since(reported.load.at);
                if age >= STALE {
                    found.push(format!(
                        "load last reported {age} ago: of others' requests what is usual in the \
                         pool"
                    ));
                } else if endpoint.silent_since.is_some() {
                    found.push(format!("load last reported {age} ago: loses weight as it ages"));
                }
                if reported.foreign.is_none() {
                    found.push(
                        "running and waiting not both reported: of others' requests what is usual \
                         in the pool"
                            .to_owned(),
                    );
                }
                if reported.load.kv_usage.is_none() {
                    found.push("KV usage not reported: own requests' share of it".to_owned());
                }
            }
        }
        let bounds = endpoint.bounds();
        let factor = self.corrections(endpoint);
        for (what, value) in [("prefill", factor.prefill), ("step", factor.step)] {
            if value >= bounds.high * 0.9 || value <= bounds.low * 1.1 {
                found.push(format!(
                    "{what} times are off by {value:.2}, about the most that the profile's \
                     confidence allows to learn"
                ));
            }
        }
        if self.config.objective != Objective::Latency && endpoint.facts.price_per_hour.is_none() {
            found.push("no price: counts as the dearest of the pool".to_owned());
        }
        found
    }
}

/// What health means for picks.
fn ill(health: HealthStatus) -> Option<String> {
    if let Some((why, left)) = health.out {
        let what = match why {
            Why::Unreachable => "no connection",
            Why::FailuresInARow => "failures in a row",
            Why::FailureShare => "too large a share of failures",
            Why::Checks => "active checks failed",
        };
        let span = left.map_or("until it answers again".to_owned(), |left| format!("for {left}"));
        return Some(format!("{what}: {span} chosen only where no other is left"));
    }
    let share = health.slow_start?;
    Some(format!("slow start: takes up to {:.0} % of what the others do", share * 100.0))
}
