//! What a replica can carry without end, under one kind of request.

use crate::service::{chunk_tokens, decode_step, itl_us, prefill_tokens_per_second};
use crate::step::step_us;
use llmd_types::ReplicaFacts;

/// One kind of request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Workload {
    /// Prompt tokens that are computed (not found in a cache).
    pub prompt_tokens: u32,
    /// Tokens generated.
    pub output_tokens: u32,
}

/// The steady state of a replica whose slots are always taken.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Capacity {
    /// Sequences that decode at once: what KV space, the engine's limit and the promised time
    /// between tokens allow.
    pub batch: u32,
    /// Microseconds between two tokens at that batch.
    pub itl_us: f64,
    /// Prompt tokens a second on an otherwise idle replica.
    pub prefill_tokens_per_second: f64,
    /// Generated tokens a second at that batch, when nothing but decode runs.
    pub decode_tokens_per_second: f64,
    /// Requests a second of the workload, prefill and decode together.
    pub requests_per_second: f64,
    /// Prompt and generated tokens a second of the workload.
    pub tokens_per_second: f64,
}

/// The steady state under `workload`; `itl_us_max` is the promised time between tokens.
/// All zero when not one such request fits into the KV space.
pub fn capacity(facts: &ReplicaFacts, workload: Workload, itl_us_max: Option<f64>) -> Capacity {
    let context = u64::from(workload.prompt_tokens) + u64::from(workload.output_tokens) / 2;
    let whole = u64::from(workload.prompt_tokens) + u64::from(workload.output_tokens);
    let fits = (facts.kv_tokens / whole.max(1)).min(u64::from(facts.max_sequences)) as u32;
    let batch = largest_batch(facts, fits, context, itl_us_max);
    if batch == 0 {
        return Capacity::default();
    }
    let itl = itl_us(facts, batch, u64::from(batch) * context);
    let requests_per_second = 1e6 / us_per_request(facts, workload, batch, context);
    Capacity {
        batch,
        itl_us: itl,
        prefill_tokens_per_second: prefill_tokens_per_second(facts, 0, 0),
        decode_tokens_per_second: f64::from(batch) * 1e6 / itl,
        requests_per_second,
        tokens_per_second: requests_per_second * whole as f64,
    }
}

/// The largest batch up to `fits` whose time between tokens keeps the promise. At least one
/// request is carried even where the promise cannot be kept: a plan says so, it does not stop.
fn largest_batch(facts: &ReplicaFacts, fits: u32, context: u64, itl_us_max: Option<f64>) -> u32 {
    let Some(limit) = itl_us_max else { return fits };
    let (mut good, mut bad) = (fits.min(1), fits.saturating_add(1));
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        if itl_us(facts, middle, u64::from(middle) * context) <= limit {
            good = middle;
        } else {
            bad = middle;
        }
    }
    good
}

/// Microseconds of engine time that one request uses up in the steady state.
///
/// Prompts ride in steps that also decode. A request needs `output / batch` steps of decode;
/// `prompt / chunk` of its steps carry prompt tokens. Where prompts need more steps than
/// decode does, the replica is prefill-bound and its batch is never full: each step's budget of
/// tokens is shared by prompts and decode as `prompt : output`, which is the work that comes in.
fn us_per_request(facts: &ReplicaFacts, workload: Workload, batch: u32, context: u64) -> f64 {
    let (prompt, output) = (f64::from(workload.prompt_tokens), f64::from(workload.output_tokens));
    let shared = f64::from(facts.max_batched_tokens) * output / (prompt + output).max(1.0);
    let decode_steps = output / f64::from(batch);
    let arriving = prompt * (1.0 / decode_steps.max(1e-9)).max(1.0);
    let room = chunk_tokens(facts, f64::from(batch).min(shared) as u32);
    let chunk = arriving.min(room as f64).max(1.0);
    let prompt_steps = prompt / chunk;
    let running = f64::from(batch).min(output / prompt_steps.max(1e-9)).max(0.0) as u32;
    let mut mixed = decode_step(facts, running, u64::from(running) * context);
    mixed.prefill_tokens = chunk as u32;
    mixed.prefill_sequences = (chunk / prompt.max(1.0)).max(1.0) as u32;
    // The pairs of one whole prompt, spread over the steps that carry it.
    mixed.prefill_pairs = prompt * prompt / 2.0 / prompt_steps.max(1e-9);
    mixed.prefill_window_pairs = mixed.prefill_pairs.min(chunk * f64::from(facts.window_tokens));
    let decode_only = (decode_steps - prompt_steps).max(0.0);
    let decode = itl_us(facts, batch, u64::from(batch) * context);
    prompt_steps * step_us(facts, &mixed) + decode_only * decode
}
