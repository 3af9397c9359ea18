//! What came of a run: one record a request, and sums over them.

use llmd_sched::{Pick, PoolStatus};
use llmd_types::Micros;

/// One request's way.
#[derive(Clone, Debug, PartialEq)]
pub struct Trip {
    /// Its place in the workload.
    pub job: usize,
    /// The member that served it, by its place in the scenario.
    pub member: usize,
    /// The choice.
    pub pick: Pick,
    /// When it came.
    pub arrived_at: Micros,
    /// When its first token was seen.
    pub first_token_at: Micros,
    /// When it ended.
    pub ended_at: Micros,
    /// Prompt tokens, as the engine counted them.
    pub prompt_tokens: u32,
    /// Of these, tokens that the engine found in its cache.
    pub cached_tokens: u32,
    /// Tokens of the answer.
    pub completion_tokens: u32,
}

impl Trip {
    /// From arrival to end.
    pub fn latency(&self) -> Micros {
        self.ended_at.since(self.arrived_at)
    }

    /// From arrival to first token.
    pub fn ttft(&self) -> Micros {
        self.first_token_at.since(self.arrived_at)
    }
}

/// A member's part of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Requests that it served.
    pub requests: u64,
    /// Their prompt tokens and answer tokens.
    pub tokens: u64,
    /// Prompt tokens found in its cache.
    pub cached_tokens: u64,
    /// Prompt tokens that it computed, and tokens that it generated.
    pub worked_tokens: u64,
}

/// What came of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Requests in the order of their ends.
    pub trips: Vec<Trip>,
    /// Jobs that got no endpoint, or that the engine found too long.
    pub refused: u64,
    /// Requests whose answer broke off.
    pub lost: u64,
    /// The pool when all was over.
    pub status: PoolStatus,
    /// How many members there were.
    pub members: usize,
}

impl Report {
    /// Each member's part of the requests that end up to `until`.
    pub fn shares(&self, until: Micros) -> Vec<Share> {
        let mut shares = vec![Share::default(); self.members];
        for trip in self.trips.iter().filter(|trip| trip.ended_at <= until) {
            let share = &mut shares[trip.member];
            let tokens = u64::from(trip.prompt_tokens) + u64::from(trip.completion_tokens);
            share.requests += 1;
            share.tokens += tokens;
            share.cached_tokens += u64::from(trip.cached_tokens);
            share.worked_tokens += tokens - u64::from(trip.cached_tokens);
        }
        shares
    }

    /// Mean time from arrival to end, in microseconds.
    pub fn mean_latency_us(&self) -> f64 {
        mean(self.trips.iter().map(|trip| trip.latency().as_f64()))
    }

    /// Mean time from arrival to first token, in microseconds.
    pub fn mean_ttft_us(&self) -> f64 {
        mean(self.trips.iter().map(|trip| trip.ttft().as_f64()))
    }
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len().max(1) as f64;
    values.sum::<f64>() / count
}
