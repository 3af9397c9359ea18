//! The time of one engine step: a batch that decodes, plus a chunk of prompts.

use llmd_types::ReplicaFacts;

/// What one step works on, summed over its sequences.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Step {
    /// Sequences that decode one token each.
    pub decode_sequences: u32,
    /// Tokens of context that those sequences read, all together.
    pub context_tokens: u64,
    /// Of these, tokens inside each sequence's sliding window.
    pub window_tokens: u64,
    /// Prompt tokens computed in this step.
    pub prefill_tokens: u32,
    /// Sequences that those prompt tokens belong to.
    pub prefill_sequences: u32,
    /// Query-key pairs of the prompt tokens: the sum of chunk x (past + chunk / 2).
    pub prefill_pairs: f64,
    /// The same where keys further back than the sliding window are not seen.
    pub prefill_window_pairs: f64,
}

impl Step {
    /// Adds one prompt's chunk: `tokens` new ones behind `past` known ones.
    pub fn add_chunk(&mut self, tokens: u32, past: u64, window: u32) {
        let (new, past) = (f64::from(tokens), past as f64);
        let pairs = new * (past + new / 2.0);
        self.prefill_tokens = self.prefill_tokens.saturating_add(tokens);
        self.prefill_sequences = self.prefill_sequences.saturating_add(1);
        self.prefill_pairs += pairs;
        self.prefill_window_pairs += pairs.min(new * f64::from(window));
    }

    /// Adds one sequence that decodes with `context` tokens behind it.
    pub fn add_decode(&mut self, context: u64, window: u32) {
        self.decode_sequences = self.decode_sequences.saturating_add(1);
        self.context_tokens = self.context_tokens.saturating_add(context);
        self.window_tokens = self.window_tokens.saturating_add(context.min(u64::from(window)));
    }
}

/// Microseconds that `step` takes on one replica.
///
/// t = fixed + sequences + tokens + max(weights read, matrix multiplication)
///   + KV read by decode + attention of prefill, all over `speed`.
pub fn step_us(facts: &ReplicaFacts, step: &Step) -> f64 {
    let sequences = f64::from(step.decode_sequences) + f64::from(step.prefill_sequences);
    let tokens = f64::from(step.decode_sequences) + f64::from(step.prefill_tokens);
    let overhead = facts.step_us + sequences * facts.sequence_us + tokens * facts.token_us;
    let read = (facts.weight_bytes + touched_expert_bytes(facts, tokens)) / facts.weight_bandwidth;
    // Efficiency grows with the tokens M of a step as M / (M + half), so M x flops / efficiency
    // is flops x (M + half): short steps pay for `half` tokens that they do not have.
    let multiply = facts.flops_per_token * (tokens + facts.gemm_half_tokens) / facts.gemm_flops;
    let kv_bytes = step.context_tokens as f64 * facts.kv_bytes_per_token
        + step.window_tokens as f64 * facts.window_kv_bytes_per_token;
    let attention_flops = step.prefill_pairs * facts.attention_flops_per_pair
        + step.prefill_window_pairs * facts.window_attention_flops_per_pair;
    let device = read.max(multiply)
        + kv_bytes / facts.kv_bandwidth
        + attention_flops / facts.attention_flops;
    (overhead + device * 1e6) / facts.speed
}

/// Bytes of the experts that `tokens` tokens visit, if visits are spread evenly:
/// 1 - (1 - k/N)^tokens of them.
fn touched_expert_bytes(facts: &ReplicaFacts, tokens: f64) -> f64 {
    if facts.experts == 0 {
        return 0.0;
    }
    let missed = 1.0 - f64::from(facts.experts_per_token) / f64::from(facts.experts);
    facts.expert_bytes * (1.0 - power(missed, tokens as u64))
}

/// `base` to a whole power. Not `powi`: its result may differ between builds.
fn power(mut base: f64, mut exponent: u64) -> f64 {
    let mut result = 1.0;
    while exponent > 0 {
        if exponent & 1 == 1 {
            result *= base;
        }
        base *= base;
        exponent >>= 1;
    }
    result
}
