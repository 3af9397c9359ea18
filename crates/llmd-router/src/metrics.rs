//! What the router counts, under names that start with `llmd_router_`.
//!
//! Made once, handed down. Labels are bounded: models by their served names (all else is
//! `other`), endpoints and variants as discovery and configuration name them. Handles are kept
//! where requests pass, so that none is looked up on the way. Gauges are set when a page is
//! asked for, from the scheduler's own state: there is no second count that could drift.

mod holders;

pub(crate) use holders::Hold;

use crate::process;
use holders::Holders;
use llmd_sched::Why;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// The model label of requests for names that are not served.
pub(crate) const OTHER: &str = "other";

type FloatGauge = Gauge<f64, AtomicU64>;
type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ModelLabel {
    model: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct CodeLabel {
    model: String,
    code: u16,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct VariantLabel {
    model: String,
    variant: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct TokenLabel {
    model: String,
    variant: String,
    direction: &'static str,
}

/// An endpoint of a model.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct EndpointLabel {
    /// The model's served name.
    pub(crate) model: String,
    /// The endpoint's name.
    pub(crate) endpoint: String,
    /// Its variant; empty where it has none.
    pub(crate) variant: String,
}

/// An endpoint of a model, and why it was out: the scheduler's few words.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct EjectionLabel {
    model: String,
    endpoint: String,
    variant: String,
    reason: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct BuildLabel {
    version: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RetryLabel {
    model: String,
    stream: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ResultLabel {
    result: &'static str,
}

/// Of one model; kept by its pool.
#[derive(Clone, Debug)]
pub(crate) struct ModelMetrics {
    model: String,
    codes: Family<CodeLabel, Counter>,
    ok: Counter,
    duration: Histogram,
    retries: Counter,
    stream_retries: Counter,
    /// Streams that ended with an error event.
    pub(crate) stream_errors: Counter,
    _hold: Arc<Hold>,
}

impl ModelMetrics {
    /// One request ended, with this status (499: the client left), after so many seconds.
    pub(crate) fn ended(&self, code: u16, seconds: f64) {
        if code == 200 {
            self.ok.inc();
        } else {
            self.codes.get_or_create(&CodeLabel { model: self.model.clone(), code }).inc();
        }
        self.duration.observe(seconds);
    }

    /// A request is tried again.
    pub(crate) fn retried(&self, stream: bool) {
        if stream { &self.stream_retries } else { &self.retries }.inc();
    }
}

/// Of one variant of a model; kept by its endpoints.
#[derive(Clone, Debug)]
pub(crate) struct VariantMetrics {
    /// Attempts placed on it.
    pub(crate) picks: Counter,
    /// Seconds from a request's arrival to the first byte of its answer's body.
    pub(crate) ttft: Histogram,
    /// Seconds between two pieces of a streamed answer, for each token.
    pub(crate) itl: Histogram,
    /// Prompt tokens: as the engine told, else as estimated.
    pub(crate) tokens_in: Counter,
    /// Generated tokens: as the engine told, else as counted.
    pub(crate) tokens_out: Counter,
    /// Prompt tokens that the pick believed to be cached there.
    pub(crate) prefix_hit_tokens: Counter,
    _hold: Arc<Hold>,
}

/// What is shown of one endpoint on one page.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EndpointGauges {
    /// Ours, exact.
    pub(crate) inflight_requests: u64,
    /// Ours, exact.
    pub(crate) inflight_tokens: u64,
    /// As scraped; `None` shows nothing.
    pub(crate) running: Option<f64>,
    /// As scraped.
    pub(crate) waiting: Option<f64>,
    /// As scraped.
    pub(crate) kv_usage: Option<f64>,
    /// Seconds since the last reading.
    pub(crate) age: Option<f64>,
    /// 0: closed, 1: half-open, 2: open.
    pub(crate) breaker: i64,
    /// Whether it takes part in picks.
    pub(crate) out: bool,
    /// Something is decided with less than it should be.
    pub(crate) degraded: bool,
    /// Its answers, and so its times, are simulated.
    pub(crate) simulated: bool,
    /// How often it went out, by reason.
    pub(crate) ejections: [u64; Why::ALL.len()],
}

/// What is shown of one model on one page.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PoolGauges {
    /// Retries that the budget holds.
    pub(crate) budget: u64,
    /// Retries that it could not pay for.
    pub(crate) refused: u64,
    /// Troubles that its sources have.
    pub(crate) troubles: usize,
}

/// All metrics of a router.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    codes: Family<CodeLabel, Counter>,
    duration: Histograms<ModelLabel>,
    retries: Family<RetryLabel, Counter>,
    stream_errors: Family<ModelLabel, Counter>,
    picks: Family<VariantLabel, Counter>,
    ttft: Histograms<VariantLabel>,
    itl: Histograms<VariantLabel>,
    tokens: Family<TokenLabel, Counter>,
    prefix_hit_tokens: Family<VariantLabel, Counter>,
    scrape_failures: Family<EndpointLabel, Counter>,
    reloads: Family<ResultLabel, Counter>,
    /// Spans that were made and not delivered.
    pub(crate) dropped_spans: Counter,
    tls_reloads: Family<ResultLabel, Counter>,
    /// Handshakes with clients that failed.
    pub(crate) tls_failures: Counter,
    /// Connections of clients beyond the limit.
    pub(crate) connections_refused: Counter,
    gauges: EndpointFamilies,
    holders: Holders,
    open: Gauge,
    connections: Gauge,
    /// Held while a page is made: gauges are cleared and set.
    page: Mutex<()>,
}

#[derive(Debug, Default)]
struct EndpointFamilies {
    inflight_requests: Family<EndpointLabel, Gauge>,
    inflight_tokens: Family<EndpointLabel, Gauge>,
    running: Family<EndpointLabel, FloatGauge>,
    waiting: Family<EndpointLabel, FloatGauge>,
    kv_usage: Family<EndpointLabel, FloatGauge>,
    age: Family<EndpointLabel, FloatGauge>,
    breaker: Family<EndpointLabel, Gauge>,
    out: Family<EndpointLabel, Gauge>,
    degraded: Family<EndpointLabel, Gauge>,
    simulated: Family<EndpointLabel, Gauge>,
    ejections: Family<EjectionLabel, Counter>,
    budget: Family<ModelLabel, Gauge>,
    troubles: Family<ModelLabel, Gauge>,
    refused: Family<ModelLabel, Counter>,
}

/// From a tenth of a millisecond (a simulated token) to minutes (a long answer).
const SECONDS: [f64; 20] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    5.0, 10.0, 30.0, 60.0, 120.0, 300.0,
];

fn seconds() -> Histogram {
    Histogram::new(SECONDS)
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// All at zero.
    pub(crate) fn new() -> Self {
        let metrics = Self {
            registry: Registry::with_prefix("llmd_router"),
            codes: Family::default(),
            duration: Family::new_with_constructor(seconds),
            retries: Family::default(),
            stream_errors: Family::default(),
            picks: Family::default(),
            ttft: Family::new_with_constructor(seconds),
            itl: Family::new_with_constructor(seconds),
            tokens: Family::default(),
            prefix_hit_tokens: Family::default(),
            scrape_failures: Family::default(),
            reloads: Family::default(),
            dropped_spans: Counter::default(),
            tls_reloads: Family::default(),
            tls_failures: Counter::default(),
            connections_refused: Counter::default(),
            gauges: EndpointFamilies::default(),
            holders: Holders::default(),
            open: Gauge::default(),
            connections: Gauge::default(),
            page: Mutex::default(),
        };
        metrics.registered()
    }

    fn registered(mut self) -> Self {
        self.register_requests();
        self.register_connections();
        self.register_tokens();
        self.register_endpoints();
        self
    }

    fn register_requests(&mut self) {
        let r = &mut self.registry;
        let help = "Requests that ended, by status; 499: the client left";
        r.register("requests", help, self.codes.clone());
        let help = "From arrival to the answer's last byte";
        r.register("request_duration_seconds", help, self.duration.clone());
        r.register("open_requests", "Requests that are being worked on", self.open.clone());
        r.register("retries", "Attempts after a request's first", self.retries.clone());
        let help = "Streams that ended with an error event";
        r.register("stream_errors", help, self.stream_errors.clone());
        r.register("picks", "Attempts placed on a variant", self.picks.clone());
        // Shown at zero from the start: of a counter that is born at 1 no increase is seen.
        for result in ["applied", "refused"] {
            self.reloads.get_or_create(&ResultLabel { result }).inc_by(0);
            self.tls_reloads.get_or_create(&ResultLabel { result }).inc_by(0);
        }
        let help = "Configurations that were taken over or refused";
        r.register("config_reloads", help, self.reloads.clone());
        let help = "Spans that were made and not delivered";
        r.register("dropped_spans", help, self.dropped_spans.clone());
        let build: Family<BuildLabel, Gauge> = Family::default();
        build.get_or_create(&BuildLabel { version: env!("CARGO_PKG_VERSION") }).set(1);
        r.register("build_info", "Version of the router", build);
    }

    fn register_connections(&mut self) {
        let r = &mut self.registry;
        r.register("connections", "Connections of clients", self.connections.clone());
        let help = "Connections of clients beyond the limit";
        r.register("connections_refused", help, self.connections_refused.clone());
        let help = "TLS handshakes with clients that failed";
        r.register("tls_handshake_failures", help, self.tls_failures.clone());
        let help = "Changed certificates that were taken over or refused";
        r.register("certificate_reloads", help, self.tls_reloads.clone());
    }

    fn register_tokens(&mut self) {
        let r = &mut self.registry;
        let help = "From arrival to the first byte of the answer's body";
        r.register("time_to_first_token_seconds", help, self.ttft.clone());
        let help = "Between the tokens of streamed answers";
        r.register("inter_token_latency_seconds", help, self.itl.clone());
        let help = "Prompt (in) and generated (out) tokens; told by the engine, else estimated";
        r.register("tokens", help, self.tokens.clone());
        let help = "Prompt tokens that the pick believed to be cached at the endpoint";
        r.register("prefix_hit_tokens", help, self.prefix_hit_tokens.clone());
    }

    fn register_endpoints(&mut self) {
        let (r, g) = (&mut self.registry, &self.gauges);
        let help = "Our requests at an endpoint, exact";
        r.register("inflight_requests", help, g.inflight_requests.clone());
        let help = "Our tokens at an endpoint: prompts to compute, answers to generate";
        r.register("inflight_tokens", help, g.inflight_tokens.clone());
        let help = "Requests in the endpoint's batch, as it said";
        r.register("reported_running", help, g.running.clone());
        let help = "Requests in the endpoint's queue, as it said";
        r.register("reported_waiting", help, g.waiting.clone());
        let help = "Share of the endpoint's KV space in use, as it said";
        r.register("reported_kv_usage_ratio", help, g.kv_usage.clone());
        r.register("reported_age_seconds", "Age of the endpoint's last reading", g.age.clone());
        let help = "The endpoint's breaker; 0: closed, 1: half-open, 2: open";
        r.register("breaker_state", help, g.breaker.clone());
        let help = "1 while the endpoint is chosen only where no other is left";
        r.register("endpoint_out", help, g.out.clone());
        let help =
            "1 while something is decided of it with less than it should be; status says what";
        r.register("endpoint_degraded", help, g.degraded.clone());
        let help = "1 while the endpoint's answers, and so its times, are simulated";
        r.register("endpoint_simulated", help, g.simulated.clone());
        let help = "Times that the endpoint went out, by reason";
        r.register("ejections", help, g.ejections.clone());
        let help = "Retries that the model's retry budget holds";
        r.register("retry_budget", help, g.budget.clone());
        let help = "Retries that were not made for want of budget";
        r.register("retries_refused", help, g.refused.clone());
        let help = "Readings of an endpoint's metrics that failed";
        r.register("scrape_failures", help, self.scrape_failures.clone());
        let help = "What is wrong with where endpoints are learnt from; status says what";
        r.register("discovery_problems", help, g.troubles.clone());
    }

    /// The handles of one model.
    pub(crate) fn model(&self, model: &str) -> ModelMetrics {
        let hold = self.hold_model(model);
        let label = ModelLabel { model: model.into() };
        let ok = CodeLabel { model: model.into(), code: 200 };
        let retries =
            |stream| self.retries.get_or_create_owned(&RetryLabel { model: model.into(), stream });
        ModelMetrics {
            model: model.into(),
            codes: self.codes.clone(),
            ok: self.codes.get_or_create_owned(&ok),
            duration: self.duration.get_or_create_owned(&label),
            retries: retries("false"),
            stream_retries: retries("true"),
            stream_errors: self.stream_errors.get_or_create_owned(&label),
            _hold: hold,
        }
    }

    /// The handles of one variant.
    pub(crate) fn variant(&self, model: &str, variant: &str) -> VariantMetrics {
        let hold = self.hold_variant(model, variant);
        let label = VariantLabel { model: model.into(), variant: variant.into() };
        let token = |direction| {
            let label = TokenLabel { model: model.into(), variant: variant.into(), direction };
            self.tokens.get_or_create_owned(&label)
        };
        VariantMetrics {
            picks: self.picks.get_or_create_owned(&label),
            ttft: self.ttft.get_or_create_owned(&label),
            itl: self.itl.get_or_create_owned(&label),
            tokens_in: token("in"),
            tokens_out: token("out"),
            prefix_hit_tokens: self.prefix_hit_tokens.get_or_create_owned(&label),
            _hold: hold,
        }
    }

    /// An endpoint is there: what is counted of it begins at zero, and ends with the hold.
    pub(crate) fn expect(&self, endpoint: &EndpointLabel) -> Arc<Hold> {
        let hold = self.hold_endpoint(endpoint);
        self.scrape_failures.get_or_create(endpoint).inc_by(0);
        hold
    }

    /// A reading failed.
    pub(crate) fn scrape_failed(&self, endpoint: &EndpointLabel) {
        self.scrape_failures.get_or_create(endpoint).inc();
    }

    /// A configuration was taken over, or refused.
    pub(crate) fn reloaded(&self, applied: bool) {
        let result = if applied { "applied" } else { "refused" };
        self.reloads.get_or_create(&ResultLabel { result }).inc();
    }

    /// Changed certificates were taken over, or refused.
    pub(crate) fn tls_reloaded(&self, applied: bool) {
        let result = if applied { "applied" } else { "refused" };
        self.tls_reloads.get_or_create(&ResultLabel { result }).inc();
    }

    /// The page, in Prometheus' text format 0.0.4.
    pub(crate) fn page(
        &self,
        open: i64,
        connections: u64,
        pools: &[(&str, PoolGauges)],
        endpoints: &[(EndpointLabel, EndpointGauges)],
    ) -> String {
        let _one_at_a_time = self.page.lock().unwrap_or_else(PoisonError::into_inner);
        self.open.set(open);
        self.connections.set(i64::try_from(connections).unwrap_or(i64::MAX));
        self.gauges.set(endpoints);
        self.gauges.set_pools(pools);
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = prometheus_client::encoding::text::encode(&mut text, &self.registry);
        classic(&text) + &process::page()
    }
}

impl EndpointFamilies {
    fn set(&self, endpoints: &[(EndpointLabel, EndpointGauges)]) {
        self.inflight_requests.clear();
        self.inflight_tokens.clear();
        for family in [&self.running, &self.waiting, &self.kv_usage, &self.age] {
            family.clear();
        }
        for family in [&self.breaker, &self.out, &self.degraded, &self.simulated] {
            family.clear();
        }
        self.ejections.clear();
        for (label, gauges) in endpoints {
            let whole = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
            self.inflight_requests.get_or_create(label).set(whole(gauges.inflight_requests));
            self.inflight_tokens.get_or_create(label).set(whole(gauges.inflight_tokens));
            self.breaker.get_or_create(label).set(gauges.breaker);
            self.out.get_or_create(label).set(i64::from(gauges.out));
            self.degraded.get_or_create(label).set(i64::from(gauges.degraded));
            self.simulated.get_or_create(label).set(i64::from(gauges.simulated));
            self.set_ejections(label, &gauges.ejections);
            let told = [
                (&self.running, gauges.running),
                (&self.waiting, gauges.waiting),
                (&self.kv_usage, gauges.kv_usage),
                (&self.age, gauges.age),
            ];
            for (family, value) in told {
                if let Some(value) = value {
                    family.get_or_create(label).set(value);
                }
            }
        }
    }
}

impl EndpointFamilies {
    /// Counted by the scheduler, from zero: the first of a kind is a change, too.
    fn set_ejections(&self, label: &EndpointLabel, counts: &[u64; Why::ALL.len()]) {
        for (why, count) in Why::ALL.iter().zip(counts) {
            let EndpointLabel { model, endpoint, variant } = label.clone();
            let label = EjectionLabel { model, endpoint, variant, reason: why.name() };
            self.ejections.get_or_create(&label).inner().store(*count, Relaxed);
        }
    }

    fn set_pools(&self, pools: &[(&str, PoolGauges)]) {
        self.budget.clear();
        self.refused.clear();
        self.troubles.clear();
        for (model, gauges) in pools {
            let label = ModelLabel { model: (*model).into() };
            let held = i64::try_from(gauges.budget).unwrap_or(i64::MAX);
            self.budget.get_or_create(&label).set(held);
            self.refused.get_or_create(&label).inner().store(gauges.refused, Relaxed);
            let troubles = i64::try_from(gauges.troubles).unwrap_or(i64::MAX);
            self.troubles.get_or_create(&label).set(troubles);
        }
    }
}

/// The library writes `OpenMetrics`, where a counter's family lacks the `_total` of its samples.
/// Prometheus reads both; its linter and many agents only the older format.
fn classic(open_metrics: &str) -> String {
    let mut text = String::with_capacity(open_metrics.len() + 1024);
    let counters: Vec<&str> = open_metrics
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter"))
        .collect();
    for line in open_metrics.lines() {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next()) {
            (Some("#"), Some("EOF" | "UNIT"), _) => continue,
            (Some("#"), Some(kind), Some(name)) if counters.contains(&name) => {
                let rest = words.next().unwrap_or_default();
                let _ = write!(text, "# {kind} {name}_total {rest}");
            }
            _ => text.push_str(line),
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests;
