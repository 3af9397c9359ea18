//! A pool's settings. Written by the router's configuration and by simulations, read by the
//! scheduler; replaced whole by [`crate::Event::Config`].

use llmd_types::{Objective, Slo};

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
            prefix_seed: 0,
            index_entries: 1 << 18,
        }
    }
}
