//! One endpoint's health: whether it takes part in picks, by what was seen of it.
//!
//! Kept in `endpoint`, told by `handlers`, asked by `filters` and `status`. It counts and times,
//! and never chooses: an endpoint that is out is still chosen where no other is left.
//!
//! The breaker. "Failure" is a connection that failed or was lost, no first byte in time, a
//! stream that the engine broke, an answer of 5xx. "Success" is a whole answer, or one of 4xx (a
//! proof of life); a stream's first byte is one only for a trial, and for a connection that was
//! refused. A client that leaves is neither.
//!
//! | breaker   | takes part  | failure                         | success               | time    |
//! |-----------|-------------|---------------------------------|-----------------------|---------|
//! | closed    | yes         | one more in a row; at the limit | none in a row         |         |
//! |           |             | open. Refused connection: open  |                       |         |
//! | open      | no          | –                               | why = unreachable:    | half-   |
//! |           |             |                                 | closed (a good check: | open    |
//! |           |             |                                 | half-open)            |         |
//! | half-open | one request | of the trial: open, for twice   | of the trial: closed, | –       |
//! |           | at a time   | as long                         | slow start            |         |
//!
//! Beside it: the share of failures in a sliding window opens the breaker too, and active checks
//! take an endpoint out until they succeed again.

use crate::config::Resilience;
use llmd_types::{Micros, RequestId};

/// Why an endpoint is out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// No connection came about.
    Unreachable,
    /// It failed several times in a row.
    FailuresInARow,
    /// Too large a share of its requests failed.
    FailureShare,
    /// Active checks failed.
    Checks,
}

impl Why {
    /// All of them.
    pub const ALL: [Self; 4] =
        [Self::Unreachable, Self::FailuresInARow, Self::FailureShare, Self::Checks];

    /// The name in status, metrics and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::FailuresInARow => "failures-in-a-row",
            Self::FailureShare => "failure-share",
            Self::Checks => "checks",
        }
    }
}

/// A breaker as status shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BreakerState {
    /// Requests pass.
    #[default]
    Closed,
    /// None pass as long as another endpoint is left.
    Open,
    /// One at a time passes, until one succeeds.
    HalfOpen,
}

impl BreakerState {
    /// The name in status and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half-open",
        }
    }
}

/// An endpoint's health as people and metrics see it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HealthStatus {
    /// Why it is out, and for how long at least: without a time, until a check or the request
    /// that is on trial succeeds. `None`: it takes part.
    pub out: Option<(Why, Option<Micros>)>,
    /// Its breaker.
    pub breaker: BreakerState,
    /// Its last failures without a success between.
    pub failures_in_a_row: u32,
    /// The share of the others' load that slow start lets it take; `None` when it is over.
    pub slow_start: Option<f64>,
    /// How long ago it went out, until it is back whole: a trial may be under way.
    pub out_for: Option<Micros>,
    /// Why it went out the last time.
    pub last: Option<Why>,
    /// How often it went out, in the order of [`Why::ALL`].
    pub ejections: [u64; Why::ALL.len()],
}

/// How well an endpoint stands in a pick, best first. Only the best that there are are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Standing {
    /// It takes part.
    In,
    /// A request is on trial there.
    OnTrial,
    /// It failed lately.
    Failing,
    /// Nothing listens there, as far as is known.
    Unreachable,
}

/// How a request failed at an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// No connection came about.
    Unreachable,
    /// Anything else.
    Other,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Breaker {
    #[default]
    Closed,
    /// Half-open from `until` on, which is not an event: nothing has to happen at that time.
    Open { until: Micros, why: Why, trial: Option<RequestId> },
}

/// What is known of one endpoint's health. The default is that of one that just came.
#[derive(Clone, Debug, Default)]
pub(crate) struct Health {
    breaker: Breaker,
    /// Active checks say that it is out.
    checked_out: bool,
    /// When slow start began.
    slow_since: Option<Micros>,
    /// Failures without a success between, and times opened without a whole answer between.
    failures_in_a_row: u32,
    openings: u32,
    /// Checks without a different one between: of the kind that would change `checked_out`.
    checks_in_a_row: u32,
    window: Window,
    /// For people: since when it is not back whole, why it went out, and how often.
    out_since: Option<Micros>,
    last: Option<Why>,
    ejections: [u64; Why::ALL.len()],
}

impl Health {
    /// An endpoint that joins others that serve already.
    pub(crate) fn starting_slowly(now: Micros) -> Self {
        Self { slow_since: Some(now), ..Self::default() }
    }

    pub(crate) fn standing(&self, now: Micros) -> Standing {
        match self.breaker {
            Breaker::Closed if !self.checked_out => Standing::In,
            Breaker::Closed => Standing::Failing,
            Breaker::Open { until, why: Why::Unreachable, .. } if now < until => {
                Standing::Unreachable
            }
            Breaker::Open { until, .. } if now < until || self.checked_out => Standing::Failing,
            Breaker::Open { trial: Some(_), .. } => Standing::OnTrial,
            Breaker::Open { trial: None, .. } => Standing::In,
        }
    }

    /// The share of the others' load that it may take; `None`: all.
    pub(crate) fn slow_start(&self, rules: &Resilience, now: Micros) -> Option<f64> {
        let passed = now.since(self.slow_since?);
        (passed < rules.slow_start).then(|| passed.as_f64() / rules.slow_start.as_f64())
    }

    /// Takes its whole share: what the share of the others is measured by.
    pub(crate) fn serves_fully(&self, rules: &Resilience, now: Micros) -> bool {
        self.breaker == Breaker::Closed
            && !self.checked_out
            && self.slow_start(rules, now).is_none()
    }

    /// A request was placed there: when the breaker is half-open, on trial.
    pub(crate) fn placed(&mut self, id: RequestId, now: Micros) {
        if let Breaker::Open { until, trial: trial @ None, .. } = &mut self.breaker
            && now >= *until
        {
            *trial = Some(id);
        }
    }

    /// A request left, however it ended.
    pub(crate) fn left(&mut self, id: RequestId) {
        if let Breaker::Open { trial, .. } = &mut self.breaker
            && *trial == Some(id)
        {
            *trial = None;
        }
    }

    /// The first byte of an answer came: the rest may still fail, so that what was counted stays.
    pub(crate) fn first_byte(&mut self, id: RequestId, now: Micros) {
        let Breaker::Open { why, trial, .. } = self.breaker else { return };
        if trial == Some(id) {
            self.slow_since = Some(now);
        }
        if trial == Some(id) || why == Why::Unreachable {
            (self.breaker, self.failures_in_a_row) = (Breaker::Closed, 0);
            self.is_back();
        }
    }

    /// It gave an answer that is whole, or that is not its own failure.
    pub(crate) fn answered(&mut self, id: RequestId, rules: &Resilience, now: Micros) {
        self.window.count(false, rules, now);
        self.failures_in_a_row = 0;
        self.first_byte(id, now);
        if self.breaker == Breaker::Closed {
            self.openings = 0;
        }
    }

    /// It failed a request. True when the share of failures is reached: then the pool decides
    /// whether another may be out, and calls [`Self::eject`].
    pub(crate) fn failed(
        &mut self,
        id: RequestId,
        failure: Failure,
        rules: &Resilience,
        now: Micros,
    ) -> bool {
        self.window.count(true, rules, now);
        self.failures_in_a_row = self.failures_in_a_row.saturating_add(1);
        let refused = failure == Failure::Unreachable;
        let on = rules.breaker_failures > 0;
        match self.breaker {
            Breaker::Open { why, trial, .. } if trial == Some(id) => {
                self.open(if refused { Why::Unreachable } else { why }, rules, now);
            }
            Breaker::Closed if on && refused => self.open(Why::Unreachable, rules, now),
            Breaker::Closed if on && self.failures_in_a_row >= rules.breaker_failures => {
                self.open(Why::FailuresInARow, rules, now);
            }
            Breaker::Open { .. } | Breaker::Closed => {}
        }
        self.breaker == Breaker::Closed && self.window.reached(rules)
    }

    /// Out by its share of failures.
    pub(crate) fn eject(&mut self, rules: &Resilience, now: Micros) {
        self.open(Why::FailureShare, rules, now);
    }

    pub(crate) fn ejected(&self) -> bool {
        matches!(self.breaker, Breaker::Open { why: Why::FailureShare, .. })
    }

    /// An active check succeeded, or did not.
    pub(crate) fn checked(&mut self, good: bool, rules: &Resilience, now: Micros) {
        if good && let Breaker::Open { until, why: Why::Unreachable, .. } = &mut self.breaker {
            // Something listens again. Whether it serves is for a request to find out.
            *until = now.min(*until);
        }
        if good != self.checked_out {
            self.checks_in_a_row = 0;
            return;
        }
        self.checks_in_a_row = self.checks_in_a_row.saturating_add(1);
        let needed = if good { rules.check_successes.max(1) } else { rules.check_failures };
        if needed > 0 && self.checks_in_a_row >= needed {
            self.checks_in_a_row = 0;
            self.checked_out = !good;
            self.slow_since = good.then_some(now).or(self.slow_since);
            if good {
                self.is_back();
            } else {
                self.is_out(Why::Checks, now);
            }
        }
    }

    /// New rules: what they no longer speak of is forgotten.
    pub(crate) fn follow(&mut self, rules: &Resilience) {
        self.window = Window::default();
        if rules.check_failures == 0 {
            (self.checked_out, self.checks_in_a_row) = (false, 0);
        }
        if let Breaker::Open { why, .. } = self.breaker {
            let on = match why {
                Why::FailureShare => rules.ejection_failure_percent,
                Why::Unreachable | Why::FailuresInARow | Why::Checks => rules.breaker_failures,
            };
            if on == 0 {
                (self.breaker, self.openings) = (Breaker::Closed, 0);
            }
        }
        self.is_back();
    }

    pub(crate) fn status(&self, rules: &Resilience, now: Micros) -> HealthStatus {
        let (breaker, out) = match self.breaker {
            Breaker::Closed => (BreakerState::Closed, None),
            Breaker::Open { until, why, .. } if now < until => {
                (BreakerState::Open, Some((why, Some(until.since(now)))))
            }
            Breaker::Open { why, trial, .. } => {
                (BreakerState::HalfOpen, trial.map(|_| (why, None)))
            }
        };
        HealthStatus {
            out: if self.checked_out { Some((Why::Checks, None)) } else { out },
            breaker,
            failures_in_a_row: self.failures_in_a_row,
            slow_start: self.slow_start(rules, now),
            out_for: self.out_since.map(|since| now.since(since)),
            last: self.last,
            ejections: self.ejections,
        }
    }

    fn open(&mut self, why: Why, rules: &Resilience, now: Micros) {
        if self.breaker == Breaker::Closed {
            self.is_out(why, now);
        }
        let factor = 1u64 << self.openings.min(32);
        let span = Micros(rules.breaker_open.0.saturating_mul(factor)).min(rules.breaker_open_max);
        self.breaker = Breaker::Open { until: now + span, why, trial: None };
        self.openings = self.openings.saturating_add(1);
        self.failures_in_a_row = 0;
        self.window = Window::default();
    }

    fn is_out(&mut self, why: Why, now: Micros) {
        self.out_since = self.out_since.or(Some(now));
        self.last = Some(why);
        self.ejections[why as usize] += 1;
    }

    fn is_back(&mut self) {
        if self.breaker == Breaker::Closed && !self.checked_out {
            self.out_since = None;
        }
    }
}

/// Answers and failures of the last while, in a few buckets of time.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    buckets: [Bucket; Self::BUCKETS],
    /// The number of the newest, counted from time zero.
    newest: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    requests: u32,
    failures: u32,
}

impl Window {
    /// The window is this coarse: so much of it ends at once.
    const BUCKETS: usize = 5;

    fn count(&mut self, failure: bool, rules: &Resilience, now: Micros) {
        let number = now.0 / (rules.ejection_window.0 / Self::BUCKETS as u64).max(1);
        let passed = number.saturating_sub(self.newest).min(Self::BUCKETS as u64);
        for over in 0..passed {
            self.buckets[((number - over) % Self::BUCKETS as u64) as usize] = Bucket::default();
        }
        self.newest = self.newest.max(number);
        let bucket = &mut self.buckets[(self.newest % Self::BUCKETS as u64) as usize];
        bucket.requests = bucket.requests.saturating_add(1);
        bucket.failures = bucket.failures.saturating_add(u32::from(failure));
    }

    /// Whether as large a share failed as the rules allow at most, of enough requests to tell.
    fn reached(&self, rules: &Resilience) -> bool {
        let sum = |of: fn(&Bucket) -> u32| self.buckets.iter().map(|b| u64::from(of(b))).sum();
        let (requests, failures): (u64, u64) = (sum(|b| b.requests), sum(|b| b.failures));
        rules.ejection_failure_percent > 0
            && requests >= u64::from(rules.ejection_min_requests)
            && failures * 100 >= requests * u64::from(rules.ejection_failure_percent)
    }
}
