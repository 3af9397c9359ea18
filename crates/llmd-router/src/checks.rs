//! Active checks: asks each endpoint that gets requests whether it is well.
//!
//! Runs on the control thread, on connections of its own thread, so that the answer says what a
//! client's would and no request's load is touched. Endpoints are asked in turn over the
//! interval, not all at once. What an answer means for picks is the scheduler's to decide; what
//! becomes of it is said by `health`.

use crate::config::Checks;
use crate::endpoint::Endpoint;
use crate::error::Kind;
use crate::pool::Pool;
use crate::router::{Router, Table};
use crate::tasks;
use crate::upstream::Upstream;
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use llmd_discovery::State;
use llmd_sched::EndpointIndex;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Looks at what is due, in each interval.
const LOOKS: u32 = 20;
/// No look comes sooner or later than this: the first bounds idle work, the second how long a
/// new configuration is not seen.
const LOOK_MIN: Duration = Duration::from_millis(10);
const LOOK_MAX: Duration = Duration::from_secs(1);
/// An endpoint without such a path is asked again after so many intervals: another engine may
/// have taken its place.
const NONE_FOR: u32 = 30;
/// Longest body of an answer that is read; a longer one costs its connection.
const BODY_MAX: usize = 64 << 10;

/// What an endpoint said when it was last asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Checked {
    /// It is well.
    Good,
    /// It has no such path, or not for us: that says nothing of its health.
    NoCheck(u16),
    /// It is not ready, or worse.
    Status(u16),
    /// Nothing listens.
    Unreachable,
    /// It did not answer in this time.
    Late(Duration),
    /// The connection was lost, or what came was no HTTP.
    Broken,
}

impl Checked {
    fn of(status: u16) -> Self {
        match status {
            200..=299 => Self::Good,
            401 | 403 | 404 | 405 | 501 => Self::NoCheck(status),
            _ => Self::Status(status),
        }
    }

    /// The name in status.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Good => "passed",
            Self::NoCheck(_) => "no check",
            _ => "failed",
        }
    }
}

impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Good => write!(f, "passed"),
            Self::NoCheck(status) => write!(f, "the answer to checks is {status}: not checked"),
            Self::Status(status) => write!(f, "the answer was {status}"),
            Self::Unreachable => write!(f, "no connection came about"),
            Self::Late(limit) => write!(f, "no answer came within {} ms", limit.as_millis()),
            Self::Broken => write!(f, "the answer broke off"),
        }
    }
}

/// When an endpoint is asked.
#[derive(Debug)]
struct Plan {
    /// The last time that it was due.
    last: Instant,
    /// In intervals after that.
    pause: u32,
    busy: bool,
    /// The round in which the endpoint was last there.
    round: u64,
}

type Plans = Rc<RefCell<HashMap<u64, Plan>>>;

/// Asks, until aborted.
pub(crate) async fn run(router: Arc<Router>, upstream: Rc<Upstream>) {
    let plans = Plans::default();
    let (mut round, mut path) = (0, String::new());
    loop {
        let table = router.table();
        let rules = &table.config.resilience.checks;
        if rules.path != path {
            path.clone_from(&rules.path);
            plans.borrow_mut().values_mut().for_each(|plan| plan.pause = 1);
        }
        if rules.failures > 0 {
            round += 1;
            ask(&router, &table, round, (&plans, &upstream));
        }
        let look = Duration::from_millis(rules.interval_ms) / LOOKS;
        // Not held while nothing is done: its models may be gone by then.
        drop(table);
        tokio::time::sleep(look.clamp(LOOK_MIN, LOOK_MAX)).await;
    }
}

/// Asks all that are due.
fn ask(
    router: &Arc<Router>,
    table: &Table,
    round: u64,
    (plans, upstream): (&Plans, &Rc<Upstream>),
) {
    let rules = &table.config.resilience.checks;
    let interval = Duration::from_millis(rules.interval_ms);
    let now = Instant::now();
    let mut known = plans.borrow_mut();
    for pool in &table.pools {
        for (index, endpoint) in pool.joined() {
            // One that is on its way out gets nothing more.
            if endpoint.known.state != State::Ready {
                continue;
            }
            let first =
                || Plan { last: turn(now, interval, endpoint.uid), pause: 1, busy: false, round };
            let plan = known.entry(endpoint.uid).or_insert_with(first);
            plan.round = round;
            let due = plan.last.checked_add(interval.saturating_mul(plan.pause));
            if plan.busy || due.is_none_or(|due| now < due) {
                continue;
            }
            // In step with its turn, unless that was missed.
            plan.last = due.filter(|due| now.duration_since(*due) < interval).unwrap_or(now);
            plan.busy = true;
            let (pool, upstream, plans) = (Arc::clone(pool), Rc::clone(upstream), Rc::clone(plans));
            let (router, rules) = (Arc::clone(router), rules.clone());
            tasks::spawn(async move {
                let _turn = router.files.turns.acquire().await;
                let checked = one(&pool, &upstream, index, &endpoint, &rules).await;
                if let Some(plan) = plans.borrow_mut().get_mut(&endpoint.uid) {
                    plan.busy = false;
                    let none = matches!(checked, Some(Checked::NoCheck(_)));
                    plan.pause = if none { NONE_FOR } else { 1 };
                }
            });
        }
    }
    known.retain(|_, plan| plan.round == round);
}

/// The time of an endpoint's turn before its first: turns are spread evenly over the interval,
/// however many endpoints there are (multiples of the golden section).
fn turn(now: Instant, interval: Duration, number: u64) -> Instant {
    let part = (number as f64 * 0.618_033_988_749_895).fract();
    now.checked_sub(interval.mul_f64(part)).unwrap_or(now)
}

/// `None`: it could not be asked.
async fn one(
    pool: &Pool,
    upstream: &Rc<Upstream>,
    index: EndpointIndex,
    endpoint: &Endpoint,
    rules: &Checks,
) -> Option<Checked> {
    let limit = Duration::from_millis(rules.timeout_ms);
    let asked = tokio::time::timeout(limit, fetch(upstream, endpoint, &rules.path, limit));
    let checked = asked.await.unwrap_or(Some(Checked::Late(limit)))?;
    // The endpoint may have left meanwhile, and its number be another's.
    if pool.endpoint(&endpoint.known.name).is_some_and(|(now, _)| now.uid == endpoint.uid) {
        endpoint.set_checked(Some(checked));
        pool.checked(index, matches!(checked, Checked::Good | Checked::NoCheck(_)));
    }
    Some(checked)
}

async fn fetch(
    upstream: &Rc<Upstream>,
    endpoint: &Endpoint,
    path: &str,
    limit: Duration,
) -> Option<Checked> {
    let mut request = Request::new(Full::<Bytes>::default());
    *request.method_mut() = Method::GET;
    let Ok(uri) = Uri::try_from(path) else { return Some(Checked::Broken) };
    *request.uri_mut() = uri;
    *request.headers_mut() = HeaderMap::from_iter([(header::HOST, endpoint.authority.clone())]);
    let answer = match upstream.send(endpoint, || request.clone(), limit, || {}).await {
        Ok(answer) => answer,
        Err(failure) => {
            return match failure.kind {
                // That says nothing of the endpoint.
                Kind::NoFiles => None,
                Kind::Unreachable => Some(Checked::Unreachable),
                _ => Some(Checked::Broken),
            };
        }
    };
    let checked = Checked::of(answer.response.status().as_u16());
    if Limited::new(answer.response.into_body(), BODY_MAX).collect().await.is_ok() {
        answer.lease.give_back();
    }
    Some(checked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_spread_over_the_interval() {
        let (now, interval) = (Instant::now(), Duration::from_secs(2));
        let mut slots = [0; 10];
        for number in 1000..1100 {
            let before = now.duration_since(turn(now, interval, number));
            slots[(before.as_millis() / 200) as usize] += 1;
        }
        assert!(slots.iter().all(|count| (8..=12).contains(count)), "{slots:?}");
    }

    #[test]
    fn a_path_that_is_not_there_says_nothing() {
        for status in [200, 204, 299] {
            assert_eq!(Checked::of(status), Checked::Good);
        }
        for status in [401, 403, 404, 405, 501] {
            assert_eq!(Checked::of(status).name(), "no check");
        }
        for status in [199, 301, 400, 408, 429, 500, 503] {
            assert_eq!(Checked::of(status).name(), "failed", "{status}");
        }
    }
}
