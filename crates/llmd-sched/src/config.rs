//! A pool's settings. Written by the router's configuration and by simulations, read by the
//! scheduler; replaced whole by [`crate::Event::Config`].

use llmd_types::{Micros, Objective, Slo};

/// How an endpoint is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SchedulerKind {
    /// The earliest expected finish, by what each endpoint can do and has to do.
    #[default]
    ExpectedFinish,
    /// One after the other.
    RoundRobin,
    /// Any, with equal chances.
    Random,
    /// The one with the fewest of our requests in flight.
    LeastRequest,
    /// llm-d's default: queue (weight 2), KV usage (2), prefix (3), highest sum, random ties.
    LlmdDefault,
}

impl SchedulerKind {
    /// The name in configuration, metrics and traces.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ExpectedFinish => "expected-finish",
            Self::RoundRobin => "round-robin",
            Self::Random => "random",
            Self::LeastRequest => "least-request",
            Self::LlmdDefault => "llm-d-default",
        }
    }
}

/// When an endpoint is out, and how much is tried again. `health` tells what counts as a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resilience {
    /// Failures in a row that open an endpoint's breaker; a refused connection opens it at once.
    /// 0: neither does.
    pub breaker_failures: u32,
    /// How long it stays open the first time. Twice as long each further time, until a whole
    /// answer comes.
    pub breaker_open: Micros,
    /// The longest that it stays open.
    pub breaker_open_max: Micros,
    /// The span over which an endpoint's share of failures is looked at, in fifths.
    pub ejection_window: Micros,
    /// Fewer requests in that span say nothing.
    pub ejection_min_requests: u32,
    /// Failures of a hundred requests that open the breaker too. 0: they do not.
    pub ejection_failure_percent: u32,
    /// The most of a pool's endpoints, in percent, that are out for their share of failures.
    pub ejection_max_percent: u32,
    /// How long an endpoint that joins others or was out takes less than its share. 0: it does
    /// not.
    pub slow_start: Micros,
    /// Failed active checks in a row that take an endpoint out. 0: they do not, and those that
    /// are out return; right where no checks are made.
    pub check_failures: u32,
    /// Good ones in a row that let it return; 0 counts as 1.
    pub check_successes: u32,
    /// Retries that a hundred requests pay for, where an endpoint turned a request down or sat
    /// on it.
    pub retry_budget_percent: u32,
    /// Such retries that are allowed in any second all the same.
    pub retry_budget_min_per_second: u32,
}

impl Default for Resilience {
    fn default() -> Self {
        Self {
            breaker_failures: 5,
            breaker_open: Micros::from_millis(1_000),
            breaker_open_max: Micros::from_millis(30_000),
            ejection_window: Micros::from_millis(10_000),
            ejection_min_requests: 20,
            ejection_failure_percent: 50,
            ejection_max_percent: 50,
            slow_start: Micros::from_millis(10_000),
            check_failures: 3,
            check_successes: 1,
            retry_budget_percent: 20,
            retry_budget_min_per_second: 10,
        }
    }
}

/// A pool's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolConfig {
    /// What requests are placed for, among endpoints that keep the service level.
    pub objective: Objective,
    /// How an endpoint is chosen.
    pub scheduler: SchedulerKind,
    /// The promised service level.
    pub slo: Slo,
    /// Attempts of a request that may end with an endpoint that does not serve it, or not in
    /// time; 0 counts as 1. Those that end with a connection that failed or was lost do not
    /// count: only the number of endpoints, each tried once, bounds them.
    pub attempts: u32,
    /// When an endpoint is out, and how much is tried again.
    pub resilience: Resilience,
    /// Where prefix chains start: [`crate::prefix::seed`] of the model's name.
    pub prefix_seed: u64,
    /// Most entries of the prefix index, shared evenly by the endpoints. About 120 bytes each.
    pub index_entries: u32,
}

impl Default for PoolConfig {
    fn default() -> Self {
        Self {
            objective: Objective::Latency,
            scheduler: SchedulerKind::ExpectedFinish,
            slo: Slo::default(),
            attempts: 3,
            resilience: Resilience::default(),
            prefix_seed: 0,
            index_entries: 1 << 18,
        }
    }
}
