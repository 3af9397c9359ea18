//! What each event changes. [`step`] is the only way into a pool's state.
//!
//! Called by the router under the pool's lock, and by the simulator. Events that do not fit
//! (unknown numbers, a second end of one request) change nothing: in a router that reads
//! several connections they are ordinary.

use crate::config::PoolConfig;
use crate::cycle;
use crate::endpoint::{Endpoint, EndpointState};
use crate::event::{
    Action, Actions, Arrival, EndpointFacts, EndpointIndex, Event, Refusal, RetryCause,
};
use crate::health::{Failure, Health};
use crate::index::Index;
use crate::learn::{Bounds, Sample};
use crate::load::Charge;
use crate::pool::PoolState;
use crate::request::{Length, Request};
use crate::rng::Rng;
use llmd_perf::{itl_us, prefill_us};
use llmd_types::{Micros, Outcome, ReportedLoad, RequestId, Usage};
use smallvec::smallvec;

/// Keys that the index is told of in one step: some microseconds under the pool's lock.
const INDEX_PIECE: usize = 64;
/// Requests that wait for that at most; older ones are dropped, which costs affinity only.
const INDEX_WORK: usize = 4_096;
/// Prefixes of an endpoint that left, forgotten at once. The rest goes when its number is used
/// again; it is never looked at before.
const FORGET_PIECE: usize = 4_096;
/// Steps of a stream that make a sample of step time.
const SAMPLE_STEPS: u32 = 16;
/// How long a window of step samples stays open.
const WINDOW: Micros = Micros::from_millis(1_000);
/// Where one part of a time is so many times the other, the whole is its sample.
const DOMINATES: f64 = 3.0;

/// Takes in one event and says what to do about it.
pub fn step(pool: &mut PoolState, event: Event<'_>, now: Micros, rng: &mut Rng) -> Actions {
    match event {
        Event::Arrive(arrival) => return arrive(pool, &arrival, None, now, rng),
        Event::ArriveAt(arrival, index) => return arrive(pool, &arrival, Some(index), now, rng),
        Event::Retry(id, cause) => return retry(pool, id, cause, now, rng),
        Event::Sent(id) => return sent(pool, id, now),
        Event::Timer => return index_piece(pool, now),
        Event::EndpointUp(facts) => return endpoint_up(pool, facts, now),
        Event::TokensKnown(id, usage) => tokens_known(pool, id, usage),
        Event::FirstByte(id) => first_byte(pool, id, now),
        Event::Progress(id, tokens) => progress(pool, id, tokens, now),
        Event::Done(id, outcome, usage) => done(pool, id, outcome, usage, now),
        Event::Scrape(index, load) => scrape(pool, index, load, now),
        Event::Check(index, good) => {
            let rules = pool.config.resilience;
            if let Some(endpoint) = pool.present(index) {
                endpoint.health.checked(good, &rules, now);
            }
        }
        Event::EndpointDrain(index) => {
            if let Some(endpoint) = pool.present(index) {
                endpoint.state = EndpointState::Draining;
            }
        }
        Event::EndpointDown(index) => endpoint_down(pool, index),
        Event::Config(config) => configure(pool, config, now),
    }
    Actions::new()
}

fn arrive(
    pool: &mut PoolState,
    arrival: &Arrival<'_>,
    only: Option<EndpointIndex>,
    now: Micros,
    rng: &mut Rng,
) -> Actions {
    // A number that is still in flight: its first owner can never end it now.
    finish(pool, arrival.request, now);
    pool.budget.earn(&pool.config.resilience, now);
    let mut request = remember(pool, arrival, only.is_some());
    settle(
        cycle::pick(pool, arrival.request, &mut request, only, now, rng),
        pool,
        request,
        arrival.request,
    )
}

fn remember(pool: &mut PoolState, arrival: &Arrival<'_>, pinned: bool) -> Request {
    let estimate = f64::from(arrival.prompt_bytes) / pool.habits.bytes_per_token() + 0.5;
    let expected = pool.habits.expected_output(arrival.flow);
    let mut keys = pool.requests.buffer();
    keys.clear();
    keys.extend_from_slice(arrival.keys);
    Request {
        prompt_bytes: arrival.prompt_bytes,
        prompt_tokens: arrival.prompt_tokens.unwrap_or(estimate as u32).max(1),
        length: arrival.prompt_tokens.map_or(Length::Estimated, |_| Length::Counted),
        max_tokens: arrival.max_tokens,
        output: expected.min(arrival.max_tokens.unwrap_or(u32::MAX)).max(1),
        stream: arrival.stream,
        flow: arrival.flow,
        needs: arrival.needs,
        pinned,
        keys,
        ..Request::default()
    }
}

/// Keeps a request that was placed; lets go of one that was refused.
fn settle(
    result: Result<cycle::Pick, Refusal>,
    pool: &mut PoolState,
    request: Request,
    id: RequestId,
) -> Actions {
    match result {
        Ok(pick) => {
            pool.requests.insert(id, request);
            smallvec![Action::Forward(pick)]
        }
        Err(refusal) => {
            let_go(pool, request);
            smallvec![Action::Refuse(id, refusal)]
        }
    }
}

fn retry(
    pool: &mut PoolState,
    id: RequestId,
    cause: RetryCause,
    now: Micros,
    rng: &mut Rng,
) -> Actions {
    let Some(mut request) = pool.requests.remove(id) else { return Actions::new() };
    if let Some(index) = request.endpoint {
        let unreachable = cause == RetryCause::Unreachable;
        let failure = if unreachable { Failure::Unreachable } else { Failure::Other };
        failed(pool, id, index, request.attempt.life, failure, now);
    }
    pool.release(id, &mut request, now);
    request.counted += u32::from(cause.counts());
    let used_up = request.counted >= pool.config.attempts.max(1);
    let result = if used_up || request.pinned {
        Err(Refusal::AttemptsUsed)
    } else if cause.counts() && !pool.budget.has_one(&pool.config.resilience, now) {
        pool.budget.refused += 1;
        Err(Refusal::RetryBudgetUsed)
    } else {
        cycle::pick(pool, id, &mut request, None, now, rng)
    };
    if result.is_ok() && cause.counts() {
        pool.budget.pay();
    }
    // What is too long for the endpoints that are left was not too long for the first.
    let result = result.map_err(|refusal| match refusal {
        Refusal::TooLong(_) => Refusal::AttemptsUsed,
        other => other,
    });
    settle(result, pool, request, id)
}

/// A request failed at an endpoint by the endpoint's fault.
fn failed(
    pool: &mut PoolState,
    id: RequestId,
    index: EndpointIndex,
    life: u32,
    failure: Failure,
    now: Micros,
) {
    let rules = pool.config.resilience;
    let endpoint = &mut pool.endpoints[index.at()];
    endpoint.failures += 1;
    if endpoint.life != life {
        return;
    }
    if endpoint.health.failed(id, failure, &rules, now) && pool.may_eject() {
        pool.endpoints[index.at()].health.eject(&rules, now);
    }
}

/// Ends a request in whatever state it is.
fn finish(pool: &mut PoolState, id: RequestId, now: Micros) {
    if let Some(mut request) = pool.requests.remove(id) {
        pool.release(id, &mut request, now);
        let_go(pool, request);
    }
}

fn let_go(pool: &mut PoolState, request: Request) {
    for index in &request.tried {
        pool.endpoints[index.at()].held -= 1;
    }
    pool.requests.give_back(request.keys);
}

fn sent(pool: &mut PoolState, id: RequestId, now: Micros) -> Actions {
    let Some(request) = pool.requests.get_mut(id) else { return Actions::new() };
    if request.endpoint.is_none() {
        return Actions::new();
    }
    (request.attempt.sent_at, request.attempt.progress_at) = (now, now);
    if pool.index_work.len() >= INDEX_WORK {
        pool.index_work.pop_front();
    }
    pool.index_work.push_back(id);
    index_piece(pool, now)
}

/// Tells the index of a piece of what was sent; asks to be woken at once for the rest.
fn index_piece(pool: &mut PoolState, now: Micros) -> Actions {
    let mut left = INDEX_PIECE;
    while left > 0 {
        let Some(id) = pool.index_work.front() else { return Actions::new() };
        let done = match pool.requests.get_mut(*id) {
            Some(Request { endpoint: Some(index), keys, indexed, .. }) => {
                let from = *indexed;
                *indexed = pool.index.insert(index.at(), keys, from, left);
                left -= left.min(*indexed - from).max(1);
                *indexed >= keys.len()
            }
            _ => true,
        };
        if done {
            pool.index_work.pop_front();
        }
    }
    if pool.has_index_work() { smallvec![Action::WakeAt(now)] } else { Actions::new() }
}

fn first_byte(pool: &mut PoolState, id: RequestId, now: Micros) {
    let Some(request) = pool.requests.get_mut(id) else { return };
    let Some(index) = request.endpoint else { return };
    if request.attempt.first_byte_at.is_some() {
        return;
    }
    (request.attempt.first_byte_at, request.attempt.progress_at) = (Some(now), now);
    let endpoint = &mut pool.endpoints[index.at()];
    if endpoint.life == request.attempt.life {
        endpoint.health.first_byte(id, now);
    }
    endpoint.load.start_running(id, &mut request.charge, now);
}

fn progress(pool: &mut PoolState, id: RequestId, tokens: u32, now: Micros) {
    first_byte(pool, id, now);
    let Some(request) = pool.requests.get_mut(id) else { return };
    let Some(index) = request.endpoint else { return };
    let endpoint = &mut pool.endpoints[index.at()];
    let attempt = &mut request.attempt;
    // The first token came out of prefill, not out of a step of its own.
    let steps = if attempt.tokens == 0 { tokens.saturating_sub(1) } else { tokens };
    // Steps that also carried a prompt take longer: such spans say nothing of step time.
    if endpoint.load.waiting() == 0 && endpoint.load.prefill_at <= attempt.progress_at {
        attempt.observed_us += now.since(attempt.progress_at).as_f64();
        attempt.predicted_us += f64::from(steps) * endpoint.step_us();
        attempt.sampled = attempt.sampled.saturating_add(steps);
    }
    attempt.progress_at = now;
    attempt.tokens = attempt.tokens.saturating_add(tokens);
    let charge = Charge {
        context: request.charge.context.saturating_add(tokens),
        remaining: request.charge.remaining.saturating_sub(tokens),
        ..request.charge
    };
    endpoint.load.replace(&mut request.charge, charge);
    if attempt.sampled >= SAMPLE_STEPS {
        let sample = (attempt.observed_us, attempt.predicted_us);
        (attempt.observed_us, attempt.predicted_us, attempt.sampled) = (0.0, 0.0, 0);
        learn_step(pool, index, sample, now);
    }
}

/// A stream's sample goes into its endpoint's window; a full window teaches.
fn learn_step(pool: &mut PoolState, index: EndpointIndex, sample: (f64, f64), now: Micros) {
    let endpoint = &mut pool.endpoints[index.at()];
    let over = now >= endpoint.window_until;
    if let Some(full) = endpoint.window.add(sample.0, sample.1, over) {
        endpoint.window_until = now + WINDOW;
        take_step_sample(pool, index, full);
    }
}

fn take_step_sample(pool: &mut PoolState, index: EndpointIndex, full: Sample) {
    let endpoint = &mut pool.endpoints[index.at()];
    let (bounds, variant) = (endpoint.bounds(), endpoint.variant);
    endpoint.step.add(full.observed, full.predicted, bounds, full.weight);
    pool.variants[variant].step.add(full.observed, full.predicted, bounds, full.weight);
}

fn take_prefill_sample(pool: &mut PoolState, index: EndpointIndex, observed: f64, bare: f64) {
    let endpoint = &mut pool.endpoints[index.at()];
    let (bounds, variant): (Bounds, usize) = (endpoint.bounds(), endpoint.variant);
    endpoint.prefill.add(observed, bare, bounds, 1.0);
    pool.variants[variant].prefill.add(observed, bare, bounds, 1.0);
}

fn tokens_known(pool: &mut PoolState, id: RequestId, usage: Usage) {
    let Some(request) = pool.requests.get_mut(id) else { return };
    let Some(tokens) = usage.prompt_tokens else { return };
    if request.length == Length::Estimated {
        pool.habits.prompt_counted(request.prompt_bytes, tokens);
    }
    let before = request.prompt_tokens;
    (request.prompt_tokens, request.length) = (tokens, Length::Told);
    let Some(index) = request.endpoint else { return };
    let context = request.charge.context.saturating_sub(before).saturating_add(tokens);
    let charge = Charge { context, ..request.charge };
    pool.endpoints[index.at()].load.replace(&mut request.charge, charge);
}

fn done(pool: &mut PoolState, id: RequestId, outcome: Outcome, usage: Usage, now: Micros) {
    tokens_known(pool, id, usage);
    let known = pool.requests.get(id).and_then(|r| Some((r.endpoint?, r.flow, r.attempt.life)));
    if let Some((index, flow, life)) = known {
        match outcome {
            Outcome::Done | Outcome::Refused => {
                let endpoint = &mut pool.endpoints[index.at()];
                if endpoint.life == life {
                    endpoint.health.answered(id, &pool.config.resilience, now);
                }
            }
            Outcome::Failed | Outcome::Lost => failed(pool, id, index, life, Failure::Other, now),
            Outcome::Cancelled => {}
        }
        match outcome {
            // Only a whole, good answer teaches: an error comes quicker than any token, and a
            // lost or left one later.
            Outcome::Done => {
                learn(pool, id, index, usage, now);
                if let Some(tokens) = usage.completion_tokens {
                    pool.habits.answered(flow, tokens);
                }
                resize_prefixes(pool);
            }
            Outcome::Refused | Outcome::Failed | Outcome::Lost | Outcome::Cancelled => {}
        }
    }
    finish(pool, id, now);
}

/// Learns speeds from a whole answer: prefill from the time to the first token of a stream, and
/// from an answer in one piece whatever most of its time was.
fn learn(pool: &mut PoolState, id: RequestId, index: EndpointIndex, usage: Usage, now: Micros) {
    let Some(request) = pool.requests.get(id) else { return };
    let attempt = request.attempt;
    let forecast = attempt.forecast;
    let endpoint = &pool.endpoints[index.at()];
    // Time spent waiting for a place says more about others than about this engine's speed.
    if forecast.wait_us > 0.0 {
        return;
    }
    // The engine may tell how much it really had to compute.
    let facts = &endpoint.facts;
    let bare = |uncached: u32, cached: u32| {
        prefill_us(facts, u64::from(uncached), u64::from(cached), 0, 0)
    };
    let believed = bare(request.charge.uncached, 0);
    let truly = usage.cached_tokens.map_or(believed, |cached| {
        bare(request.prompt_tokens.saturating_sub(cached).max(1), cached)
    });
    let prefill = (forecast.bare_prefill_us - believed).max(0.0) + truly;
    let factor = pool.corrections(endpoint);
    if request.stream {
        let Some(first) = attempt.first_byte_at else { return };
        let observed = first.since(attempt.sent_at).as_f64() - forecast.fixed_us;
        if prefill * factor.prefill >= forecast.fixed_us {
            take_prefill_sample(pool, index, observed, prefill);
        }
        return;
    }
    let Some(tokens) = usage.completion_tokens else { return };
    let load = &endpoint.load;
    let step_now = itl_us(facts, load.running.max(1), load.running_context);
    let steps = f64::from(tokens) * (forecast.bare_step_us + step_now) / 2.0;
    let whole = now.since(attempt.sent_at).as_f64() - forecast.fixed_us;
    let (prefill_part, step_part) = (prefill * factor.prefill, steps * factor.step);
    if prefill_part >= step_part * DOMINATES {
        take_prefill_sample(pool, index, whole - step_part, prefill);
    } else if step_part >= prefill_part * DOMINATES {
        let observed = whole - prefill_part;
        take_step_sample(pool, index, Sample { observed, predicted: steps, weight: 1.0 });
    }
}

fn scrape(pool: &mut PoolState, index: EndpointIndex, load: Option<ReportedLoad>, now: Micros) {
    let Some(endpoint) = pool.present(index) else { return };
    match load {
        Some(load) => endpoint.read(load),
        None => drop(endpoint.silent_since.get_or_insert(now)),
    }
}

fn endpoint_up(pool: &mut PoolState, facts: EndpointFacts, now: Micros) -> Actions {
    let Some(place) = pool.find(&facts.name).or_else(|| pool.vacant(&facts)) else {
        return Actions::new();
    };
    let variant = pool.variant(&facts);
    let name = facts.name.clone();
    let others_serve = pool.endpoints.iter().any(|e| e.state == EndpointState::Ready && e.serves);
    let endpoint = &mut pool.endpoints[place];
    if endpoint.state == EndpointState::Down {
        // It was away: whether its cache lived on is not known. Its running requests did.
        while !pool.index.forget(place, usize::MAX) {}
        if others_serve {
            endpoint.health = Health::starting_slowly(now);
        }
    }
    endpoint.state = EndpointState::Ready;
    endpoint.variant = variant;
    endpoint.offers = facts.offers;
    endpoint.set_facts(facts.facts);
    let bytes_per_token = pool.habits.bytes_per_token();
    pool.index.join(place, pool.endpoints[place].prefix_blocks(bytes_per_token));
    smallvec![Action::Joined(EndpointIndex(place as u16), name)]
}

fn endpoint_down(pool: &mut PoolState, index: EndpointIndex) {
    let Some(endpoint) = pool.present(index) else { return };
    // Its requests stay counted there until each is reported to have ended.
    endpoint.state = EndpointState::Down;
    (endpoint.reported, endpoint.silent_since) = (None, None);
    (endpoint.health, endpoint.serves) = (Health::default(), false);
    endpoint.life = endpoint.life.wrapping_add(1);
    pool.index.forget(index.at(), FORGET_PIECE);
}

/// The prefix space of endpoints is known in tokens, the index counts bytes.
fn resize_prefixes(pool: &mut PoolState) {
    let bytes_per_token = pool.habits.bytes_per_token();
    let change = (bytes_per_token - pool.prefix_bytes_per_token).abs();
    if change * 8.0 < bytes_per_token {
        return;
    }
    pool.prefix_bytes_per_token = bytes_per_token;
    let there = |(_, endpoint): &(usize, &Endpoint)| endpoint.state != EndpointState::Down;
    for (place, endpoint) in pool.endpoints.iter().enumerate().filter(there) {
        pool.index.join(place, endpoint.prefix_blocks(bytes_per_token));
    }
}

fn configure(pool: &mut PoolState, config: PoolConfig, now: Micros) {
    let old = std::mem::replace(&mut pool.config, config);
    let new = &pool.config;
    if old.resilience != new.resilience {
        // The time up to now passed under the old rules.
        pool.budget.pass(&old.resilience, now);
        let there = pool.endpoints.iter_mut();
        there.for_each(|endpoint| endpoint.health.follow(&new.resilience));
    }
    if old.prefix_seed != new.prefix_seed || old.index_entries != new.index_entries {
        pool.index = Index::new(new.index_entries);
        pool.index_work.clear();
        pool.prefix_bytes_per_token = 0.0;
        resize_prefixes(pool);
    }
}
