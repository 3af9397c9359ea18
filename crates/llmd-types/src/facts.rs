//! What one replica can do, as the planner knows it from profiles.
//!
//! Written by the planner (Python `llmd_ctl/plan`), read by `llmd-perf`, and through it by the
//! scheduler, the simulated engine and the simulator. It holds numbers and no formula: bytes
//! and FLOPs come from the model's shape, rates are peak times an efficiency from a profile.
//! "Device" is one GPU, chip or card; a replica of tensor parallelism N has N of them.

use serde::{Deserialize, Serialize};
use std::fmt;

/// How far a profile's speed numbers can be trusted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// Measured on this engine and accelerator.
    High,
    /// Measured on a near relative, or reported by its vendor for this case.
    Medium,
    /// Derived from a data sheet.
    #[default]
    Low,
}

/// Everything `llmd-perf` needs to know of one replica.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReplicaFacts {
    /// Simulation only: engine time over wall time. 1 is real speed, 0.1 ten times slower.
    pub speed: f64,

    /// Bytes of weights that one device reads in every step (experts apart).
    pub weight_bytes: f64,
    /// Bytes of all experts' weights on one device; 0 for a dense model.
    pub expert_bytes: f64,
    /// Experts in a layer; 0 for a dense model.
    pub experts: u32,
    /// Experts that one token visits in a layer.
    pub experts_per_token: u32,
    /// FLOPs of matrix multiplication for one token on one device.
    pub flops_per_token: f64,
    /// FLOPs for one query-key pair on one device, over the layers of full attention.
    pub attention_flops_per_pair: f64,
    /// The same over the layers of sliding-window attention.
    pub window_attention_flops_per_pair: f64,
    /// The sliding window in tokens; 0 where the model has none.
    pub window_tokens: u32,
    /// KV bytes that one device reads in a step for each token of context (full attention).
    pub kv_bytes_per_token: f64,
    /// The same for each token inside the sliding window.
    pub window_kv_bytes_per_token: f64,

    /// Achieved bytes/s when a device reads weights.
    pub weight_bandwidth: f64,
    /// Achieved bytes/s when a device reads KV.
    pub kv_bandwidth: f64,
    /// Achieved FLOP/s of large matrix multiplications on a device.
    pub gemm_flops: f64,
    /// Tokens in a step at which half of `gemm_flops` is reached.
    pub gemm_half_tokens: f64,
    /// Achieved FLOP/s of prefill attention on a device.
    pub attention_flops: f64,

    /// Fixed microseconds a step costs (engine CPU, launches, floors of collectives).
    pub step_us: f64,
    /// Microseconds a step costs more for each sequence in it.
    pub sequence_us: f64,
    /// Microseconds a step costs more for each token in it (bytes of collectives).
    pub token_us: f64,
    /// Microseconds between a request's arrival and its first step (HTTP, tokenizer).
    pub request_us: f64,

    /// Most tokens that one step takes in.
    pub max_batched_tokens: u32,
    /// Most sequences in one step.
    pub max_sequences: u32,
    /// Tokens of KV space in the whole replica.
    pub kv_tokens: u64,
    /// Tokens in a block of KV.
    pub block_size: u32,
    /// Longest prompt plus answer.
    pub max_model_len: u32,
    /// Whether finished prefixes stay in the KV space to be found again.
    pub prefix_caching: bool,

    /// How far to trust the speeds; it bounds what the scheduler may learn against them.
    pub confidence: Confidence,
    /// Price of the whole replica for an hour, where one is known.
    #[serde(default)]
    pub price_per_hour: Option<f64>,
}

/// A fact that no replica can have.
#[derive(Clone, Debug, PartialEq)]
pub struct FactsError {
    /// The fact's name, as it is written in files.
    pub name: &'static str,
    /// What was given.
    pub found: f64,
    /// What it must be.
    pub allowed: &'static str,
}

impl fmt::Display for FactsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {}, but must be {}", self.name, self.found, self.allowed)
    }
}

impl std::error::Error for FactsError {}

impl ReplicaFacts {
    /// The prior for an endpoint of which nothing is known: a middling accelerator that serves
    /// an 8B model. Only its ratios matter; the scheduler learns the rest and says so in status.
    pub fn neutral() -> Self {
        Self {
            speed: 1.0,
            weight_bytes: 16e9,
            expert_bytes: 0.0,
            experts: 0,
            experts_per_token: 0,
            flops_per_token: 16e9,
            attention_flops_per_pair: 524_288.0,
            window_attention_flops_per_pair: 0.0,
            window_tokens: 0,
            kv_bytes_per_token: 131_072.0,
            window_kv_bytes_per_token: 0.0,
            weight_bandwidth: 1.5e12,
            kv_bandwidth: 1.5e12,
            gemm_flops: 3e14,
            gemm_half_tokens: 130.0,
            attention_flops: 2e14,
            step_us: 2_000.0,
            sequence_us: 10.0,
            token_us: 0.0,
            request_us: 5_000.0,
            max_batched_tokens: 8_192,
            max_sequences: 256,
            kv_tokens: 200_000,
            block_size: 16,
            max_model_len: u32::MAX,
            prefix_caching: true,
            confidence: Confidence::Low,
            price_per_hour: None,
        }
    }

    /// Refuses what would make a formula divide by zero or give a negative time.
    pub fn check(&self) -> Result<(), FactsError> {
        let positive = [
            ("speed", self.speed),
            ("weightBandwidth", self.weight_bandwidth),
            ("kvBandwidth", self.kv_bandwidth),
            ("gemmFlops", self.gemm_flops),
            ("attentionFlops", self.attention_flops),
            ("maxBatchedTokens", f64::from(self.max_batched_tokens)),
            ("maxSequences", f64::from(self.max_sequences)),
            ("kvTokens", self.kv_tokens as f64),
            ("blockSize", f64::from(self.block_size)),
            ("maxModelLen", f64::from(self.max_model_len)),
        ];
        let not_negative = [
            ("weightBytes", self.weight_bytes),
            ("expertBytes", self.expert_bytes),
            ("flopsPerToken", self.flops_per_token),
            ("attentionFlopsPerPair", self.attention_flops_per_pair),
            ("windowAttentionFlopsPerPair", self.window_attention_flops_per_pair),
            ("kvBytesPerToken", self.kv_bytes_per_token),
            ("windowKvBytesPerToken", self.window_kv_bytes_per_token),
            ("gemmHalfTokens", self.gemm_half_tokens),
            ("stepUs", self.step_us),
            ("sequenceUs", self.sequence_us),
            ("tokenUs", self.token_us),
            ("requestUs", self.request_us),
            ("pricePerHour", self.price_per_hour.unwrap_or(0.0)),
        ];
        for (name, found) in positive {
            if !(found.is_finite() && found > 0.0) {
                return Err(FactsError { name, found, allowed: "a finite number above 0" });
            }
        }
        for (name, found) in not_negative {
            if !(found.is_finite() && found >= 0.0) {
                return Err(FactsError { name, found, allowed: "a finite number, 0 or more" });
            }
        }
        if self.experts_per_token > self.experts {
            return Err(FactsError {
                name: "expertsPerToken",
                found: f64::from(self.experts_per_token),
                allowed: "at most the number of experts",
            });
        }
        Ok(())
    }
}
