//! Under which names the engines tell their load, version by version.
//!
//! Read by `page`. A new engine or a renamed metric is one line here. Where an engine's page has
//! an old name and its successor, the one that stands first counts.

/// What a metric tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    /// Requests in the batch.
    Running,
    /// Requests before it.
    Waiting,
    /// Share of the KV space in use.
    KvUsage,
}

/// One engine's metrics.
#[derive(Debug)]
pub(super) struct Engine {
    /// What it tells, and under which names.
    pub(super) metrics: &'static [Metric],
    /// The label that tells its ranks apart; samples that do not differ in it are copies of one
    /// number (tensor and pipeline parallel ranks of `SGLang`), not parts of a sum.
    pub(super) rank: Option<&'static [u8]>,
}

/// One metric.
#[derive(Debug)]
pub(super) struct Metric {
    pub(super) signal: Signal,
    pub(super) name: &'static [u8],
    /// Of a metric whose label says what it tells: that label with its value.
    pub(super) only: Option<&'static [u8]>,
}

const fn metric(signal: Signal, name: &'static str) -> Metric {
    Metric { signal, name: name.as_bytes(), only: None }
}

const fn labelled(signal: Signal, name: &'static str, only: &'static str) -> Metric {
    Metric { signal, name: name.as_bytes(), only: Some(only.as_bytes()) }
}

use Signal::{KvUsage, Running, Waiting};

/// The engines. Where a page has the names of two (Triton's own and those of its backend), the
/// one that stands earlier here counts.
pub(super) const ENGINES: [Engine; 6] = [
    // vLLM. `gpu_cache_usage_perc` until 0.10.
    Engine {
        metrics: &[
            metric(Running, "vllm:num_requests_running"),
            metric(Waiting, "vllm:num_requests_waiting"),
            metric(KvUsage, "vllm:kv_cache_usage_perc"),
            metric(KvUsage, "vllm:gpu_cache_usage_perc"),
        ],
        rank: None,
    },
    // SGLang. The prefix was `sglang:` until the end of 2025 (its pull request 15758).
    Engine {
        metrics: &[
            metric(Running, "sglang_num_running_reqs"),
            metric(Waiting, "sglang_num_queue_reqs"),
            metric(KvUsage, "sglang_token_usage"),
            metric(Running, "sglang:num_running_reqs"),
            metric(Waiting, "sglang:num_queue_reqs"),
            metric(KvUsage, "sglang:token_usage"),
        ],
        rank: Some(b"dp_rank=\""),
    },
    // TensorRT-LLM's own server. Versions before 1.2 tell none of these.
    Engine {
        metrics: &[
            metric(Running, "trtllm_num_requests_running"),
            metric(Waiting, "trtllm_num_requests_waiting"),
            metric(KvUsage, "trtllm_kv_cache_utilization"),
        ],
        rank: None,
    },
    // Triton with its TensorRT-LLM backend.
    Engine {
        metrics: &[
            labelled(Running, "nv_trt_llm_request_metrics", "request_type=\"scheduled\""),
            labelled(Waiting, "nv_trt_llm_request_metrics", "request_type=\"waiting\""),
            labelled(
                KvUsage,
                "nv_trt_llm_kv_cache_block_metrics",
                "kv_cache_block_type=\"fraction\"",
            ),
        ],
        rank: None,
    },
    // llama.cpp. The gauge of its KV space is gone since the middle of 2025.
    Engine {
        metrics: &[
            metric(Running, "llamacpp:requests_processing"),
            metric(Waiting, "llamacpp:requests_deferred"),
            metric(KvUsage, "llamacpp:kv_cache_usage_ratio"),
        ],
        rank: None,
    },
    // Triton with any other backend: it counts what waits, and not what runs.
    Engine { metrics: &[metric(Waiting, "nv_inference_pending_request_count")], rank: None },
];
