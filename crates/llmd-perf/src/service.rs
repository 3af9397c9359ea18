//! What a request costs on a replica that is busy to a stated degree.

use crate::step::{Step, step_us};
use llmd_types::ReplicaFacts;

/// Microseconds between two tokens when `batch` sequences decode with `context_tokens` tokens
/// of context behind them, all together.
pub fn itl_us(facts: &ReplicaFacts, batch: u32, context_tokens: u64) -> f64 {
    step_us(facts, &decode_step(facts, batch, context_tokens))
}

/// Microseconds to compute `tokens` prompt tokens behind `past` cached ones, while `batch`
/// sequences with `context_tokens` of context decode beside them.
///
/// The prompt goes in chunks: all but the last fill the step's token budget.
pub fn prefill_us(
    facts: &ReplicaFacts,
    tokens: u64,
    past: u64,
    batch: u32,
    context_tokens: u64,
) -> f64 {
    if tokens == 0 {
        return 0.0;
    }
    let chunk = chunk_tokens(facts, batch);
    let full_chunks = (tokens - 1) / chunk;
    let last = tokens - full_chunks * chunk;
    let mut step = decode_step(facts, batch, context_tokens);
    step.prefill_sequences = 1;
    step.prefill_tokens = chunk as u32;
    let full_us = if full_chunks == 0 { 0.0 } else { step_us(facts, &step) };
    // Pairs add up over chunks to those of the prompt in one piece, so they are put in once.
    step.prefill_tokens = last as u32;
    let (new, behind) = (tokens as f64, past as f64);
    step.prefill_pairs = new * (behind + new / 2.0);
    step.prefill_window_pairs = step.prefill_pairs.min(new * f64::from(facts.window_tokens));
    full_chunks as f64 * full_us + step_us(facts, &step)
}

/// Prompt tokens a second in full chunks of fresh prompts, beside `batch` decoding sequences.
pub fn prefill_tokens_per_second(facts: &ReplicaFacts, batch: u32, context_tokens: u64) -> f64 {
    let chunk = chunk_tokens(facts, batch);
    chunk as f64 * 1e6 / prefill_us(facts, chunk, 0, batch, context_tokens)
}

/// Microseconds between a request's arrival and the first step that can hold it.
pub fn request_us(facts: &ReplicaFacts) -> f64 {
    facts.request_us / facts.speed
}

/// A step in which `batch` sequences decode and nothing else happens.
pub(crate) fn decode_step(facts: &ReplicaFacts, batch: u32, context_tokens: u64) -> Step {
    Step {
        decode_sequences: batch,
        context_tokens,
        window_tokens: context_tokens.min(u64::from(batch) * u64::from(facts.window_tokens)),
        ..Step::default()
    }
}

/// Prompt tokens that fit in a step beside `batch` decoding sequences.
pub(crate) fn chunk_tokens(facts: &ReplicaFacts, batch: u32) -> u64 {
    u64::from(facts.max_batched_tokens.saturating_sub(batch).max(1))
}
