//! When an endpoint is out, when it returns, and how much is tried again.
//!
//! A number of failures that is 0 turns its rule off; so does a slow start of 0. The rules
//! themselves are the scheduler's ([`llmd_sched::Resilience`]); checks are sent by
//! [`crate::checks`].

use super::check::above_zero;
use crate::error::echo;
use llmd_types::Micros;
use serde::Deserialize;

/// When an endpoint is out.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Resilience {
    /// Out for failures in a row, or because nothing listens.
    pub breaker: Breaker,
    /// Out for the share of its requests that fail.
    pub ejection: Ejection,
    /// How long an endpoint that joins others, or was out, takes less than its share.
    pub slow_start_ms: u64,
    /// Out because it does not say that it is well.
    pub checks: Checks,
}

impl Default for Resilience {
    fn default() -> Self {
        Self {
            breaker: Breaker::default(),
            ejection: Ejection::default(),
            slow_start_ms: 10_000,
            checks: Checks::default(),
        }
    }
}

/// A breaker opens at failures in a row; then one request at a time finds out whether it closes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Breaker {
    /// Failures in a row that open it; a refused connection does at once. 0: neither does.
    pub failures: u32,
    /// How long it stays open at first, and twice as long each further time.
    pub open_ms: u64,
    /// The longest that it stays open.
    pub open_max_ms: u64,
}

impl Default for Breaker {
    fn default() -> Self {
        Self { failures: 5, open_ms: 1_000, open_max_ms: 30_000 }
    }
}

/// An endpoint is out, as by its breaker, when too large a share of its requests failed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Ejection {
    /// The span that is looked at.
    pub window_ms: u64,
    /// Fewer requests in it say nothing.
    pub min_requests: u32,
    /// Failures of a hundred requests. 0: none are too many.
    pub failure_percent: u32,
    /// The most of a pool's endpoints that are out for this.
    pub max_percent: u32,
}

impl Default for Ejection {
    fn default() -> Self {
        Self { window_ms: 10_000, min_requests: 20, failure_percent: 50, max_percent: 50 }
    }
}

/// Each endpoint is asked whether it is well, whatever the traffic.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Checks {
    /// Between two checks of one endpoint.
    pub interval_ms: u64,
    /// For one check.
    pub timeout_ms: u64,
    /// Failed checks in a row that take it out. 0: nothing is asked.
    pub failures: u32,
    /// Good ones in a row that let it return.
    pub successes: u32,
    /// Asked with GET; an endpoint that has no such path is not checked.
    pub path: String,
}

impl Default for Checks {
    fn default() -> Self {
        let path = "/health".to_owned();
        Self { interval_ms: 2_000, timeout_ms: 1_000, failures: 3, successes: 1, path }
    }
}

/// What happens after a failed attempt.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Retry {
    /// Attempts that may end without an answer in time, or with one of 502, 503 or 504; each is
    /// at another endpoint. Those whose connection failed or was lost do not count.
    pub attempts: u32,
    /// Further attempts that a hundred requests pay for, of those that count.
    pub budget_percent: u32,
    /// Such attempts that are made in any second all the same.
    pub budget_min_per_second: u32,
}

impl Default for Retry {
    fn default() -> Self {
        Self { attempts: 3, budget_percent: 20, budget_min_per_second: 10 }
    }
}

impl Resilience {
    /// As the scheduler takes it.
    pub(crate) fn rules(&self, retry: &Retry) -> llmd_sched::Resilience {
        let Self { breaker, ejection, checks, .. } = self;
        llmd_sched::Resilience {
            breaker_failures: breaker.failures,
            breaker_open: Micros::from_millis(breaker.open_ms),
            breaker_open_max: Micros::from_millis(breaker.open_max_ms),
            ejection_window: Micros::from_millis(ejection.window_ms),
            ejection_min_requests: ejection.min_requests,
            ejection_failure_percent: ejection.failure_percent,
            ejection_max_percent: ejection.max_percent,
            slow_start: Micros::from_millis(self.slow_start_ms),
            check_failures: checks.failures,
            check_successes: checks.successes,
            retry_budget_percent: retry.budget_percent,
            retry_budget_min_per_second: retry.budget_min_per_second,
        }
    }

    /// What is wrong with it, each with its path.
    pub(super) fn problems(&self, retry: &Retry, out: &mut Vec<String>) {
        let Self { breaker, ejection, checks, .. } = self;
        let (breaker_off, ejection_off, checks_off) = (
            "`breaker.failures: 0` turns the breaker off",
            "`ejection.failurePercent: 0` turns ejection off",
            "`checks.failures: 0` turns checks off",
        );
        for (name, value, hint) in [
            ("breaker.openMs", breaker.open_ms, breaker_off),
            ("breaker.openMaxMs", breaker.open_max_ms, breaker_off),
            ("ejection.windowMs", ejection.window_ms, ejection_off),
            ("ejection.minRequests", u64::from(ejection.min_requests), ejection_off),
            ("checks.intervalMs", checks.interval_ms, checks_off),
            ("checks.timeoutMs", checks.timeout_ms, checks_off),
            ("checks.successes", u64::from(checks.successes), checks_off),
        ] {
            above_zero(&format!("resilience.{name}"), value, hint, out);
        }
        let percent = [
            ("resilience.ejection.failurePercent", ejection.failure_percent),
            ("resilience.ejection.maxPercent", ejection.max_percent),
            ("retry.budgetPercent", retry.budget_percent),
        ];
        let over = percent.into_iter().filter(|(_, value)| *value > 100);
        out.extend(over.map(|(name, value)| format!("{name}: is {value}, but must be 0 to 100")));
        if breaker.open_max_ms < breaker.open_ms {
            let (most, first) = (breaker.open_max_ms, breaker.open_ms);
            out.push(format!(
                "resilience.breaker.openMaxMs: is {most}, but must be at least openMs, {first}"
            ));
        }
        let path = &checks.path;
        let is_path = path.parse::<http::uri::PathAndQuery>().is_ok_and(|parsed| {
            // The parser also takes what HTTP writes for other methods, and lets fragments go.
            path.starts_with('/') && parsed.as_str() == path
        });
        if !is_path {
            let path = echo(path);
            out.push(format!(
                "resilience.checks.path: {path:?} is no path; begin it with /, such as /health"
            ));
        }
    }
}
