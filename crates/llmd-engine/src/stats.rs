//! What the engine has done so far, as `/metrics` tells it under vLLM's names.

use llmd_sim::engine::Engine;
use llmd_types::{Micros, ReplicaFacts};
use std::fmt::Write;

/// Bounds in seconds, those of vLLM.
const TTFT_BOUNDS: [f64; 22] = [
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
    20.0, 40.0, 80.0, 160.0, 640.0, 2560.0,
];
const ITL_BOUNDS: [f64; 19] = [
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0,
    40.0, 80.0,
];
const E2E_BOUNDS: [f64; 20] = [
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0,
    480.0, 960.0, 1920.0,
];

/// A histogram of spans.
#[derive(Debug)]
pub(crate) struct Histogram {
    bounds: &'static [f64],
    counts: Vec<u64>,
    sum: f64,
    total: u64,
}

impl Histogram {
    fn new(bounds: &'static [f64]) -> Self {
        Self { bounds, counts: vec![0; bounds.len()], sum: 0.0, total: 0 }
    }

    /// Counts one span.
    pub(crate) fn observe(&mut self, span: Micros) {
        let seconds = span.as_seconds();
        let bucket = self.bounds.partition_point(|bound| *bound < seconds);
        if let Some(count) = self.counts.get_mut(bucket) {
            *count += 1;
        }
        self.sum += seconds;
        self.total += 1;
    }
}

/// Counts that the engine model does not keep itself.
#[derive(Debug)]
pub(crate) struct Stats {
    pub(crate) ttft: Histogram,
    pub(crate) itl: Histogram,
    pub(crate) e2e: Histogram,
    pub(crate) stopped: u64,
    pub(crate) length: u64,
    pub(crate) aborted: u64,
    pub(crate) refused: u64,
}

impl Stats {
    pub(crate) fn new() -> Self {
        Self {
            ttft: Histogram::new(&TTFT_BOUNDS),
            itl: Histogram::new(&ITL_BOUNDS),
            e2e: Histogram::new(&E2E_BOUNDS),
            stopped: 0,
            length: 0,
            aborted: 0,
            refused: 0,
        }
    }

    /// The whole page.
    pub(crate) fn render(&self, engine: &Engine, now: Micros, model: &str) -> String {
        let load = engine.reported(now);
        let counters = engine.counters();
        let mut page = Page { labels: labels(model), text: String::with_capacity(8_192) };
        page.gauge("num_requests_running", "Requests in the running batch.", load.running);
        page.gauge("num_requests_waiting", "Requests waiting to enter it.", load.waiting);
        page.gauge("kv_cache_usage_perc", "Share of KV blocks in use, 0 to 1.", load.kv_usage);
        for (name, help, value) in [
            ("prefix_cache_queries", "Tokens looked up.", counters.prefix_query_tokens),
            ("prefix_cache_hits", "Tokens found.", counters.prefix_hit_tokens),
            ("prompt_tokens", "Prompt tokens.", counters.prompt_tokens),
            ("prompt_tokens_cached", "Of these, cached.", counters.prefix_hit_tokens),
            ("generation_tokens", "Generated tokens.", counters.generation_tokens),
            ("num_preemptions", "Sequences computed again.", counters.preemptions),
            ("admission_rejections", "Requests refused.", self.refused),
        ] {
            page.counter(name, help, value);
        }
        page.head("request_success_total", "Requests that ended.", "counter");
        for (reason, value) in
            [("stop", self.stopped), ("length", self.length), ("abort", self.aborted)]
        {
            page.sample("request_success_total", &format!("finished_reason=\"{reason}\""), value);
        }
        page.histogram("time_to_first_token_seconds", "Time to first token.", &self.ttft);
        page.histogram("inter_token_latency_seconds", "Time between tokens.", &self.itl);
        page.histogram("e2e_request_latency_seconds", "Whole requests.", &self.e2e);
        page.head("cache_config_info", "The KV space.", "gauge");
        page.sample("cache_config_info", &cache_config(engine.facts()), 1);
        page.text
    }
}

fn cache_config(facts: &ReplicaFacts) -> String {
    let blocks = facts.kv_tokens / u64::from(facts.block_size);
    let caching = if facts.prefix_caching { "True" } else { "False" };
    format!(
        "block_size=\"{}\",num_gpu_blocks=\"{blocks}\",kv_cache_size_tokens=\"{}\",\
         enable_prefix_caching=\"{caching}\"",
        facts.block_size, facts.kv_tokens
    )
}

fn labels(model: &str) -> String {
    let escaped = model.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("engine=\"0\",model_name=\"{escaped}\"")
}

/// The page in the making. A write to a `String` cannot fail.
struct Page {
    labels: String,
    text: String,
}

impl Page {
    fn head(&mut self, name: &str, help: &str, kind: &str) {
        let _ = writeln!(self.text, "# HELP vllm:{name} {help}\n# TYPE vllm:{name} {kind}");
    }

    fn sample(&mut self, name: &str, more: &str, value: impl std::fmt::Display) {
        let comma = if more.is_empty() { "" } else { "," };
        let _ = writeln!(self.text, "vllm:{name}{{{}{comma}{more}}} {value}", self.labels);
    }

    /// A signal that the engine does not give is left out, not told as 0.
    fn gauge(&mut self, name: &str, help: &str, value: Option<impl std::fmt::Display>) {
        let Some(value) = value else { return };
        self.head(name, help, "gauge");
        self.sample(name, "", value);
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) {
        let name = format!("{name}_total");
        self.head(&name, help, "counter");
        self.sample(&name, "", value);
    }

    fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram) {
        self.head(name, help, "histogram");
        let bucket = format!("{name}_bucket");
        let mut below = 0;
        for (bound, count) in histogram.bounds.iter().zip(&histogram.counts) {
            below += count;
            self.sample(&bucket, &format!("le=\"{bound:?}\""), below);
        }
        self.sample(&bucket, "le=\"+Inf\"", histogram.total);
        self.sample(&format!("{name}_sum"), "", histogram.sum);
        self.sample(&format!("{name}_count"), "", histogram.total);
    }
}
