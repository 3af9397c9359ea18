//! The `capacity-latency-producer`: what would become of a request at one endpoint.
//!
//! Called by `cycle` for each candidate. All speeds come from `llmd-perf` over the endpoint's
//! facts, times what was learned (`learn`); all load from `load` (ours) and `endpoint`
//! (reported). It predicts and never decides.
//!
//! - TTFT = entry + step lag + (backlog + n - c) / P + wait for a place; the step lag is half
//!   of a running step, and the one step after which an engine shows its tokens
//! - ITL = I(batch, context) once all that is there decodes beside the request
//! - delay = what the request costs those that are there: its prefill steps stop every one
//!   that runs, and each of their later steps carries one sequence more
//! - finish T = TTFT + o x ITL + delay

use crate::endpoint::{Endpoint, Foreign, Variant};
use crate::learn::Correction;
use llmd_perf::{Workload, itl_us, prefill_tokens_per_second, prefill_us, request_us};
use llmd_types::{Micros, ReplicaFacts};

/// What a request asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Ask {
    /// Tokens of its prompt.
    pub(crate) prompt_tokens: u32,
    /// Tokens that its answer is expected to have.
    pub(crate) output: u32,
}

/// The state of the pool that a prediction needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Surroundings {
    /// The pool's usual request: what waits ahead, ours or not, is taken to be like it.
    pub(crate) usual: Workload,
    /// The mean load of others on endpoints that tell.
    pub(crate) foreign: Foreign,
    pub(crate) now: Micros,
}

/// A prediction. Times are microseconds; "bare" ones are without correction, to learn from.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Forecast {
    pub(crate) ttft_us: f64,
    pub(crate) itl_us: f64,
    pub(crate) delay_us: f64,
    pub(crate) finish_us: f64,
    /// The wait for a place in the engine (sequences, KV space), part of the TTFT.
    pub(crate) wait_us: f64,
    /// Of the TTFT, all but prefill.
    pub(crate) fixed_us: f64,
    pub(crate) bare_prefill_us: f64,
    pub(crate) bare_step_us: f64,
    /// Engine time that the request takes for itself, times the price of it; the unit is
    /// price-microseconds an hour. Negative when the price is not known.
    pub(crate) cost: f64,
}

/// Corrections in force at an endpoint: its own, drawn towards its variant's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Corrections {
    pub(crate) prefill: f64,
    pub(crate) step: f64,
}

impl Corrections {
    /// `unasked`: rounds since the endpoint, and since any of its variant, was picked.
    pub(crate) fn of(endpoint: &Endpoint, variant: &Variant, unasked: (u64, u64)) -> Self {
        let bounds = endpoint.bounds();
        let value = |own: &Correction, shared: &Correction| {
            own.value_beside(shared, shared.value(bounds, unasked.1), bounds, unasked.0)
        };
        Self {
            prefill: value(&endpoint.prefill, &variant.prefill),
            step: value(&endpoint.step, &variant.step),
        }
    }
}

/// What runs and waits at an endpoint, ours and others' together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Batch {
    running: u32,
    running_context: u64,
    all: u32,
    all_context: u64,
    backlog: f64,
    space: u64,
}

impl Batch {
    pub(crate) fn at(endpoint: &Endpoint, around: &Surroundings) -> Self {
        let load = &endpoint.load;
        let foreign = endpoint.foreign(around.foreign, around.now);
        let others = (foreign.running + foreign.waiting + 0.5) as u32;
        let others_running = (foreign.running + 0.5) as u32;
        let each = u64::from(around.usual.prompt_tokens) + u64::from(around.usual.output_tokens);
        let waiting_tokens = foreign.waiting * f64::from(around.usual.prompt_tokens);
        // Reports may hold any number, so sums with them stop at the largest.
        let with =
            |ours: u64, others: u32| ours.saturating_add(u64::from(others).saturating_mul(each));
        Self {
            running: load.running.saturating_add(others_running),
            running_context: with(load.running_context, others_running),
            all: load.requests.saturating_add(others),
            all_context: with(load.context, others),
            backlog: load.backlog as f64 + waiting_tokens,
            space: with(load.space, others),
        }
    }
}

/// Times at an endpoint as things are there, the same for whatever request is asked about.
/// Most endpoints of a large pool are as they were at the last pick: these are not worked out
/// again until something changes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    of: Batch,
    /// Microseconds of prefill for one token, beside what runs.
    token_us: f64,
    /// A step of what runs; 0 when nothing does.
    now_us: f64,
    /// A step once all that is there decodes.
    before_us: f64,
}

impl Pace {
    /// Brings the times up to date with `batch`.
    pub(crate) fn follow(&mut self, facts: &ReplicaFacts, batch: Batch) {
        if self.of == batch && self.token_us > 0.0 {
            return;
        }
        let (running, context) = (batch.running, batch.running_context);
        let decoding = batch.all.min(facts.max_sequences.max(1));
        self.of = batch;
        self.token_us = 1e6 / prefill_tokens_per_second(facts, running, context);
        self.now_us = if running == 0 { 0.0 } else { itl_us(facts, running, context) };
        self.before_us = itl_us(facts, decoding, batch.all_context.min(facts.kv_tokens));
    }
}

/// What would become of `ask` at `endpoint`, which holds `cached` tokens of its prompt. The
/// endpoint's pace has followed the pool.
pub(crate) fn forecast(
    endpoint: &Endpoint,
    factor: Corrections,
    around: &Surroundings,
    ask: Ask,
    cached: u32,
) -> Forecast {
    let facts = &*endpoint.facts;
    let Pace { of: batch, token_us, now_us, before_us } = endpoint.pace;
    let own = u64::from(ask.prompt_tokens.saturating_sub(cached).max(1));
    let (running, context) = (batch.running, batch.running_context);

    // 1. A place: requests ahead that must end first, by sequences and by KV space.
    let all_and_own = batch.all.saturating_add(1);
    let over = f64::from(all_and_own.saturating_sub(facts.max_sequences));
    let need = batch.space.saturating_add(own + u64::from(ask.output));
    let each = f64::from(around.usual.prompt_tokens) + f64::from(around.usual.output_tokens);
    let over = over.max(need.saturating_sub(facts.kv_tokens) as f64 / each.max(1.0));
    let full = endpoint.saturated;
    let mixed = full.prefill_share * factor.prefill + (1.0 - full.prefill_share) * factor.step;
    let wait_us = over * full.us_per_request * mixed;

    // 2. Prompts ahead, then our own. Those that wait for a place are in the wait already.
    let waiting = f64::from(batch.all.saturating_sub(batch.running)) + 1.0;
    let backlog = batch.backlog * (1.0 - (over / waiting).min(1.0));
    let own_us = prefill_us(facts, own, u64::from(cached), running, context);
    let bare_prefill_us = own_us + backlog * token_us;

    // 3. Steps, once all that is there decodes beside us.
    let lag_us = if batch.backlog > 0.0 { 0.0 } else { now_us / 2.0 };
    let places = facts.max_sequences.max(1);
    let after = all_and_own.min(places);
    let tokens = u64::from(ask.prompt_tokens) + u64::from(ask.output) / 2;
    let after_context = batch.all_context.saturating_add(tokens).min(facts.kv_tokens);
    let bare_step_us = itl_us(facts, after, after_context);

    // 4. The delay caused.
    let stopped_us = (own_us - now_us).max(0.0) * f64::from(running) * factor.prefill;
    let others = f64::from(batch.all - endpoint.load.requests) * f64::from(ask.output);
    let ours = (endpoint.load.remaining as f64).min(f64::from(ask.output) * f64::from(batch.all));
    let slowed_us = (bare_step_us - before_us).max(0.0) * (ours + others) * factor.step;
    let delay_us = stopped_us + slowed_us;

    // An engine shows a step's tokens when the next step is over.
    let lag_us = (lag_us + bare_step_us) * factor.step;
    let fixed_us = request_us(facts) + lag_us + wait_us;
    let ttft_us = fixed_us + bare_prefill_us * factor.prefill;
    let itl = bare_step_us * factor.step;
    let output = f64::from(ask.output);
    let taken_us = own_us * factor.prefill + output * itl / f64::from(after);
    Forecast {
        ttft_us,
        itl_us: itl,
        delay_us,
        finish_us: ttft_us + output * itl + delay_us,
        wait_us,
        fixed_us,
        bare_prefill_us,
        bare_step_us,
        cost: facts.price_per_hour.map_or(-1.0, |price| price * taken_us),
    }
}
