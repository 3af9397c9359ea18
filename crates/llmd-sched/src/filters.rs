//! Which endpoints may serve a request at all. Called by `cycle` before anything is scored.

use crate::config::Resilience;
use crate::endpoint::{Endpoint, EndpointState};
use crate::event::{EndpointIndex, Refusal};
use crate::health::Standing;
use crate::pool::PoolState;
use crate::request::{Length, Request};
use llmd_types::Micros;

/// Fills `pool.candidates` with the endpoints that may serve the request, or says why none may.
///
/// What is only likely (health, an estimated length, slow start) takes no candidate away where
/// it would leave none.
pub(crate) fn filter(pool: &mut PoolState, request: &Request, now: Micros) -> Result<(), Refusal> {
    let PoolState { endpoints, candidates, config, .. } = pool;
    let exact = request.length != Length::Estimated;
    let need = tokens_needed(request);
    // 1. Ready and able to, 2. not tried before, 3. long enough for a length that is certain, and
    // 4. healthy, or the least ill that there are.
    candidates.clear();
    let (mut ready, mut best, mut slow) = (false, Standing::Unreachable, false);
    let (mut shortest, mut longest) = (u64::MAX, 0);
    for (endpoint, index) in endpoints.iter().zip(0..).map(|(e, at)| (e, EndpointIndex(at))) {
        let able = endpoint.offers & request.needs == request.needs;
        if endpoint.state != EndpointState::Ready || !able {
            continue;
        }
        ready = true;
        if request.tried.contains(&index) {
            continue;
        }
        (shortest, longest) = (shortest.min(endpoint.limit), longest.max(endpoint.limit));
        let standing = endpoint.health.standing(now);
        if standing > best || (exact && endpoint.limit < need) {
            continue;
        }
        if standing < best {
            best = standing;
            candidates.clear();
        }
        slow |= endpoint.health.slow_start(&config.resilience, now).is_some();
        candidates.push(index);
    }
    if candidates.is_empty() {
        return Err(match (ready, longest) {
            (false, _) => Refusal::NoEndpoint,
            (true, 0) => Refusal::AttemptsUsed,
            (true, _) => Refusal::TooLong(longest.min(u64::from(u32::MAX)) as u32),
        });
    }
    // 5. A length that was only estimated refuses nobody: the engine with the most room judges.
    if !exact && shortest < need {
        let limit = |at: &EndpointIndex| endpoints[at.at()].limit;
        let room = need.min(candidates.iter().map(limit).max().unwrap_or(0));
        candidates.retain(|at| limit(at) >= room);
    }
    // 6. Within its share, where it starts slowly.
    if slow {
        within_share(endpoints, candidates, &config.resilience, now);
    }
    Ok(())
}

/// An endpoint that starts slowly is a candidate while it has less in flight than its share of
/// the mean of those that do not start slowly, and one: so it is never left without any work.
fn within_share(
    endpoints: &[Endpoint],
    candidates: &mut Vec<EndpointIndex>,
    rules: &Resilience,
    now: Micros,
) {
    let full = |e: &&Endpoint| e.state == EndpointState::Ready && e.health.serves_fully(rules, now);
    let (sum, count) = endpoints
        .iter()
        .filter(full)
        .fold((0u64, 0u64), |(sum, count), e| (sum + u64::from(e.load.requests), count + 1));
    let mean = sum as f64 / count.max(1) as f64;
    let within = |at: &EndpointIndex| {
        let endpoint = &endpoints[at.at()];
        let share = endpoint.health.slow_start(rules, now);
        share.is_none_or(|share| f64::from(endpoint.load.requests) < 1.0 + share * mean)
    };
    if candidates.iter().any(within) {
        candidates.retain(within);
    }
}

/// Tokens that a request must have room for. An engine refuses a prompt whose `max_tokens` do
/// not fit behind it; without `max_tokens` the expected answer should fit.
fn tokens_needed(request: &Request) -> u64 {
    // A prompt whose length is known may only be refused for what is certain: one more token.
    let exact = request.length != Length::Estimated;
    let guess = if exact { 1 } else { request.output };
    u64::from(request.prompt_tokens) + u64::from(request.max_tokens.unwrap_or(guess))
}
