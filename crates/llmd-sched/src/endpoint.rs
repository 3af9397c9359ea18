//! One endpoint of a pool: what it can do, what it has to do, what it says of itself.
//!
//! Kept in `pool`. What an endpoint reports (`Reported`) stays apart from our own counts
//! (`Load`) and loses weight as it ages.

use crate::event::EndpointIndex;
use crate::forecast::Pace;
use crate::health::{Health, Standing};
use crate::learn::{Bounds, Correction, StepWindow};
use crate::load::Load;
use llmd_perf::{Workload, capacity, itl_us, prefill_tokens_per_second};
use llmd_types::{Micros, ReplicaFacts, ReportedLoad, RequestId};
use std::sync::Arc;

/// Whether an endpoint gets requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EndpointState {
    /// It does.
    Ready,
    /// It does not; what runs there ends by itself.
    Draining,
    /// It left; its number waits for the last of its requests.
    #[default]
    Down,
}

/// A report is worth all until this age, and nothing from [`STALE`] on.
const FRESH: Micros = Micros::from_millis(1_000);
/// See [`FRESH`].
pub(crate) const STALE: Micros = Micros::from_millis(5_000);

/// The last reading of an endpoint's own metrics.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reported {
    pub(crate) load: ReportedLoad,
    /// Requests there that are not ours; `None` when it does not tell what runs and waits.
    pub(crate) foreign: Option<Foreign>,
}

/// Load that others put on an endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Foreign {
    pub(crate) running: f64,
    pub(crate) waiting: f64,
}

/// What an endpoint does when all its places are taken; see [`llmd_perf::capacity`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Saturated {
    of: Option<Workload>,
    /// Microseconds of the whole engine that one usual request costs.
    pub(crate) us_per_request: f64,
    /// The share of that which is prefill.
    pub(crate) prefill_share: f64,
}

/// An endpoint.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) name: Arc<str>,
    pub(crate) variant: usize,
    pub(crate) facts: Arc<ReplicaFacts>,
    /// Longest prompt plus answer that it can hold: by its settings, and by its KV space.
    pub(crate) limit: u64,
    /// The facts came from a profile; else they are the neutral prior.
    pub(crate) known: bool,
    pub(crate) state: EndpointState,
    /// Kinds of requests that it can serve, a bit each.
    pub(crate) offers: u32,
    /// Requests that name this number: it is not given to another endpoint before they end.
    pub(crate) held: u32,
    pub(crate) load: Load,
    pub(crate) reported: Option<Reported>,
    /// Since when readings fail; `None` when the last one did not.
    pub(crate) silent_since: Option<Micros>,
    pub(crate) health: Health,
    /// Counts how often it left: what was sent to it before says nothing of what it is now.
    pub(crate) life: u32,
    /// It was chosen for a request since it joined (not named by it, as probes do).
    pub(crate) serves: bool,
    pub(crate) prefill: Correction,
    pub(crate) step: Correction,
    pub(crate) window: StepWindow,
    pub(crate) window_until: Micros,
    pub(crate) saturated: Saturated,
    pub(crate) pace: Pace,
    /// The pick's number when it was last picked: equals are picked in turn.
    pub(crate) picked_at: u64,
    pub(crate) picks: u64,
    pub(crate) failures: u64,
}

impl Endpoint {
    pub(crate) fn new(name: Arc<str>, variant: usize) -> Self {
        Self {
            name,
            variant,
            facts: Arc::new(ReplicaFacts::neutral()),
            limit: 0,
            known: false,
            state: EndpointState::Down,
            offers: u32::MAX,
            held: 0,
            load: Load::default(),
            reported: None,
            silent_since: None,
            health: Health::default(),
            life: 0,
            serves: false,
            prefill: Correction::default(),
            step: Correction::default(),
            window: StepWindow::default(),
            window_until: Micros::ZERO,
            saturated: Saturated::default(),
            pace: Pace::default(),
            picked_at: 0,
            picks: 0,
            failures: 0,
        }
    }

    /// Whether it gets requests, by its state and its health.
    pub(crate) fn takes_part(&self, now: Micros) -> bool {
        self.state == EndpointState::Ready && self.health.standing(now) == Standing::In
    }

    pub(crate) fn bounds(&self) -> Bounds {
        Bounds::from(self.facts.confidence)
    }

    /// New facts: what was learned against the old ones says nothing of them.
    pub(crate) fn set_facts(&mut self, facts: Option<Arc<ReplicaFacts>>) {
        // Facts that would divide by zero are no facts.
        let facts = facts.filter(|facts| facts.check().is_ok());
        let known = facts.is_some();
        let facts = facts.unwrap_or_else(|| Arc::new(ReplicaFacts::neutral()));
        if *facts != *self.facts || known != self.known {
            self.prefill = Correction::default();
            self.step = Correction::default();
            self.window = StepWindow::default();
            self.saturated = Saturated::default();
            self.pace = Pace::default();
        }
        self.limit = u64::from(facts.max_model_len).min(facts.kv_tokens);
        (self.facts, self.known) = (facts, known);
    }

    /// A reading arrived: what it shows beyond ours belongs to others. A request of ours that
    /// ended since the last reading may still be in this one, so our peak is compared.
    pub(crate) fn read(&mut self, load: ReportedLoad) {
        let ours = f64::from(self.load.peak);
        let ours_waiting = f64::from(self.load.waiting());
        let foreign = load.running.zip(load.waiting).map(|(running, waiting)| {
            let all = (f64::from(running) + f64::from(waiting) - ours).max(0.0);
            let waiting = (f64::from(waiting) - ours_waiting).clamp(0.0, all);
            Foreign { waiting, running: all - waiting }
        });
        self.reported = Some(Reported { load, foreign });
        self.silent_since = None;
        self.load.peak = self.load.requests;
    }

    /// How much the last reading is worth, 1 to 0.
    pub(crate) fn report_weight(&self, now: Micros) -> f64 {
        let Some(reported) = self.reported else { return 0.0 };
        let age = now.since(reported.load.at);
        let left = STALE.since(age).as_f64() / STALE.since(FRESH).as_f64();
        left.min(1.0)
    }

    /// Load of others, as reported; an old report is drawn towards what is `usual` in the pool,
    /// so that an endpoint that falls silent looks neither idle nor full.
    pub(crate) fn foreign(&self, usual: Foreign, now: Micros) -> Foreign {
        let Some(told) = self.reported.and_then(|reported| reported.foreign) else { return usual };
        let weight = self.report_weight(now);
        Foreign {
            running: told.running * weight + usual.running * (1.0 - weight),
            waiting: told.waiting * weight + usual.waiting * (1.0 - weight),
        }
    }

    /// Brings [`Self::saturated`] up to date with the pool's usual request; a change of less
    /// than an eighth is not worth the sums.
    pub(crate) fn saturate(&mut self, usual: Workload) {
        let near = |old: u32, new: u32| old.abs_diff(new) <= old / 8;
        let same = self.saturated.of.is_some_and(|of| {
            near(of.prompt_tokens, usual.prompt_tokens)
                && near(of.output_tokens, usual.output_tokens)
        });
        if same {
            return;
        }
        let found = capacity(&self.facts, usual, None);
        let us_per_request = 1e6 / found.requests_per_second;
        // Not one usual request fits: whoever waits there waits for the largest span there is.
        let us_per_request = if us_per_request.is_finite() { us_per_request } else { 1e12 };
        let prefill_us = f64::from(usual.prompt_tokens) * 1e6 / found.prefill_tokens_per_second;
        let prefill_share = (prefill_us / us_per_request).clamp(0.0, 1.0);
        let prefill_share = if prefill_share.is_nan() { 1.0 } else { prefill_share };
        self.saturated = Saturated { of: Some(usual), us_per_request, prefill_share };
    }

    /// Time passes for prompts that wait here; see [`Load::advance`]. Returns a request whose
    /// prompt counts as computed now; to be called again until there is none.
    pub(crate) fn advance(&mut self, now: Micros, prefill_correction: f64) -> Option<RequestId> {
        let (running, context) = (self.load.running, self.load.running_context);
        let rate = prefill_tokens_per_second(&self.facts, running, context);
        let starts = self.facts.max_sequences.saturating_sub(running);
        let step_tokens = self.facts.max_batched_tokens;
        self.load.advance(now, rate / 1e6 / prefill_correction, starts, step_tokens)
    }

    /// Microseconds between tokens as things are, without correction.
    pub(crate) fn step_us(&self) -> f64 {
        itl_us(&self.facts, self.load.running.max(1), self.load.running_context)
    }

    /// Base blocks of prompt that its KV space holds, at so many bytes a token.
    pub(crate) fn prefix_blocks(&self, bytes_per_token: f64) -> u64 {
        if !self.facts.prefix_caching {
            return 0;
        }
        let bytes = self.facts.kv_tokens as f64 * bytes_per_token;
        (bytes / crate::prefix::BLOCK_BYTES as f64) as u64
    }
}

/// Endpoints of one kind, which learn from each other.
#[derive(Debug)]
pub(crate) struct Variant {
    pub(crate) name: Arc<str>,
    pub(crate) prefill: Correction,
    pub(crate) step: Correction,
    /// The pick's number when an endpoint of it was last picked.
    pub(crate) picked_at: u64,
}

impl EndpointIndex {
    pub(crate) const fn at(self) -> usize {
        self.0 as usize
    }
}
