//! How many retries a pool may still make: what keeps an outage from being multiplied.
//!
//! Kept in `pool`, filled by the requests that arrive and by time, drawn on by `handlers` for
//! retries of requests that an endpoint turned down or sat on. Retries after a connection that
//! failed or was lost put no work on an engine and never draw on it.

use crate::config::Resilience;
use llmd_types::Micros;

/// One retry, in parts: a request adds whole percents of it, a microsecond whole parts.
const RETRY: u64 = 100_000_000;
/// What may be saved up: so many requests' share, and the minimum of so many seconds.
const MOST_REQUESTS: u64 = 1_000;
const MOST_SECONDS: u64 = 10;

/// A pool's retry budget.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Budget {
    parts: u64,
    /// Up to when time was counted; before the first request, never.
    counted_at: Option<Micros>,
    /// Retries that it paid for, and retries that it could not.
    pub(crate) paid: u64,
    pub(crate) refused: u64,
}

impl Budget {
    /// A request arrived.
    pub(crate) fn earn(&mut self, rules: &Resilience, now: Micros) {
        let share = u64::from(rules.retry_budget_percent).saturating_mul(RETRY / 100);
        self.parts = self.parts.saturating_add(share);
        self.pass(rules, now);
    }

    /// Whether a retry can be paid for.
    pub(crate) fn has_one(&mut self, rules: &Resilience, now: Micros) -> bool {
        self.pass(rules, now);
        self.parts >= RETRY
    }

    /// A retry was made.
    pub(crate) fn pay(&mut self) {
        self.parts = self.parts.saturating_sub(RETRY);
        self.paid += 1;
    }

    /// Whole retries that are left at `now`.
    pub(crate) fn left(mut self, rules: &Resilience, now: Micros) -> u64 {
        self.pass(rules, now);
        self.parts / RETRY
    }

    /// Time passes; the first request finds what the minimum brings in a second.
    pub(crate) fn pass(&mut self, rules: &Resilience, now: Micros) {
        let second = u64::from(rules.retry_budget_min_per_second).saturating_mul(RETRY);
        let passed = self.counted_at.map_or(1_000_000, |at| now.since(at).0);
        self.counted_at = Some(self.counted_at.map_or(now, |at| at.max(now)));
        let most = (u64::from(rules.retry_budget_percent).saturating_mul(RETRY / 100))
            .saturating_mul(MOST_REQUESTS)
            .saturating_add(second.saturating_mul(MOST_SECONDS));
        let earned = (second / 1_000_000).saturating_mul(passed);
        self.parts = self.parts.saturating_add(earned).min(most);
    }
}
