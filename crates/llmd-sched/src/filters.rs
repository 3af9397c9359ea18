//! Which endpoints may serve a request at all. Called by `cycle` before anything is scored.

use crate::endpoint::{Endpoint, EndpointState};
use crate::event::{EndpointIndex, Refusal};
use crate::pool::PoolState;
use crate::request::{Length, Request};
use llmd_types::Micros;

/// Fills `pool.candidates` with the endpoints that may serve the request, or says why none may.
pub(crate) fn filter(pool: &mut PoolState, request: &Request, now: Micros) -> Result<(), Refusal> {
    let PoolState { endpoints, candidates, .. } = pool;
    // 1. Ready, and 2. not tried before.
    candidates.clear();
    let mut ready = false;
    for (endpoint, index) in endpoints.iter().zip(0..).map(|(e, at)| (e, EndpointIndex(at))) {
        if endpoint.state == EndpointState::Ready {
            ready = true;
            if !request.tried.contains(&index) {
                candidates.push(index);
            }
        }
    }
    if candidates.is_empty() {
        return Err(if ready { Refusal::AttemptsUsed } else { Refusal::NoEndpoint });
    }
    // 3. Long enough.
    let exact = request.length != Length::Estimated;
    let need = tokens_needed(request);
    let longest = candidates.iter().map(|at| limit(&endpoints[at.at()])).max().unwrap_or(0);
    if longest >= need {
        candidates.retain(|at| limit(&endpoints[at.at()]) >= need);
    } else if exact {
        return Err(Refusal::TooLong(longest.min(u64::from(u32::MAX)) as u32));
    } else {
        // A length that was only estimated refuses nobody: the engine with the most room judges.
        candidates.retain(|at| limit(&endpoints[at.at()]) == longest);
    }
    // 4. One that can be reached, as far as is known, if there is any.
    let reachable = |at: &EndpointIndex| !endpoints[at.at()].avoided(now);
    if candidates.iter().any(reachable) {
        candidates.retain(reachable);
    }
    Ok(())
}

/// Tokens that a request must have room for. An engine refuses a prompt whose `max_tokens` do
/// not fit behind it; without `max_tokens` the expected answer should fit.
fn tokens_needed(request: &Request) -> u64 {
    // A prompt whose length is known may only be refused for what is certain: one more token.
    let exact = request.length != Length::Estimated;
    let guess = if exact { 1 } else { request.output };
    u64::from(request.prompt_tokens) + u64::from(request.max_tokens.unwrap_or(guess))
}

/// Longest prompt plus answer that an endpoint can hold: by its settings, and by its KV space.
fn limit(endpoint: &Endpoint) -> u64 {
    u64::from(endpoint.facts.max_model_len).min(endpoint.facts.kv_tokens)
}
