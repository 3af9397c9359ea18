//! The truth of load: what is counted in flight, and that it is given back on every path.

use crate::world::{Ask, World, ask, round, usage};
use llmd_sched::{EndpointIndex, EndpointState, Event, PoolConfig, Refusal, SchedulerKind};
use llmd_types::{Outcome, RequestId, Usage};

fn two() -> World {
    World::scheduled(SchedulerKind::RoundRobin, 2)
}

#[test]
fn load_is_counted_in_the_step_of_the_pick_and_given_back_at_every_end() {
    for outcome in [Outcome::Done, Outcome::Refused, Outcome::Lost, Outcome::Cancelled] {
        let mut world = two();
        let pick = world.arrive(&ask(100, 30));
        assert_eq!(world.inflight(), [1, 0]);
        assert_eq!(world.endpoint(0).inflight_tokens, 130);
        world.end(pick.request, outcome, Usage::default());
        world.assert_at_rest();
        // A second end, and anything late, is nothing.
        world.end(pick.request, outcome, usage(1, 1));
        world.step(Event::FirstByte(pick.request));
        world.step(Event::Progress(pick.request, 4));
        world.assert_at_rest();
    }
}

#[test]
fn tokens_in_flight_fall_as_the_answer_passes_and_never_below_zero() {
    let mut world = two();
    let pick = world.arrive(&ask(100, 10));
    world.send(pick.request);
    assert_eq!(world.endpoint(0).inflight_tokens, 110);
    world.step(Event::FirstByte(pick.request));
    assert_eq!(world.endpoint(0).inflight_tokens, 10, "the prompt is computed");
    world.step(Event::Progress(pick.request, 4));
    assert_eq!(world.endpoint(0).inflight_tokens, 6);
    world.step(Event::Progress(pick.request, 40));
    assert_eq!(world.endpoint(0).inflight_tokens, 0, "longer than expected");
    assert_eq!(world.inflight(), [1, 0]);
    world.end(pick.request, Outcome::Done, usage(100, 44));
    world.assert_at_rest();
}

#[test]
fn a_retry_moves_the_load_and_a_refused_one_gives_it_back() {
    let mut world = two();
    let pick = world.arrive(&ask(100, 10));
    world.step(Event::FirstByte(pick.request));
    world.try_retry(pick.request).unwrap();
    assert_eq!(world.inflight(), [0, 1]);
    assert_eq!(world.endpoint(1).inflight_tokens, 110);
    assert_eq!(world.try_retry(pick.request), Err(Refusal::AttemptsUsed));
    world.assert_at_rest();
    assert_eq!([world.endpoint(0).failures, world.endpoint(1).failures], [1, 1]);
}

#[test]
fn a_refused_request_leaves_nothing_behind() {
    let mut world = two();
    assert_eq!(world.try_arrive(&ask(200_000, 10), None), Err(Refusal::TooLong(100_000)));
    world.assert_at_rest();
}

#[test]
fn a_number_that_arrives_twice_counts_once() {
    let mut world = two();
    let pick = world.arrive(&ask(100, 10));
    let again = llmd_sched::Arrival {
        request: pick.request,
        prompt_bytes: 4,
        prompt_tokens: Some(1),
        keys: &[],
        max_tokens: Some(1),
        stream: true,
        flow: 0,
        needs: 0,
    };
    world.step(Event::Arrive(again));
    assert_eq!(world.inflight().iter().sum::<u32>(), 1);
    world.cancel(pick.request);
    world.assert_at_rest();
}

#[test]
fn requests_of_an_endpoint_that_left_stay_counted_there_until_they_end() {
    let mut world = two();
    let (stays, retried) = (world.arrive(&ask(100, 10)), world.arrive(&ask(100, 10)));
    assert_eq!((stays.endpoint.0, retried.endpoint.0), (0, 1));
    world.step(Event::EndpointDown(EndpointIndex(0)));
    assert_eq!(world.endpoint(0).state, EndpointState::Down);
    assert_eq!(world.endpoint(0).inflight_requests, 1);
    world.end(stays.request, Outcome::Lost, Usage::default());
    assert_eq!(world.pool.status(world.now).endpoints.len(), 1, "gone for good");
    world.cancel(retried.request);
    world.assert_at_rest();
}

#[test]
fn an_endpoint_is_found_by_its_number_whoever_left() {
    let mut world = World::scheduled(SchedulerKind::RoundRobin, 4);
    world.step(Event::EndpointDown(EndpointIndex(1)));
    let status = world.pool.status(world.now);
    for number in [0, 1, 2, 3, 4].map(EndpointIndex) {
        let found = status.endpoint(number);
        let listed = ![1, 4].contains(&number.0);
        assert_eq!(found.map(|endpoint| endpoint.index), listed.then_some(number));
        if let Some(found) = found {
            assert_eq!(world.pool.health(number, world.now), Some(found.health));
        }
    }
    assert_eq!(world.pool.health(EndpointIndex(4), world.now), None);
}

#[test]
fn an_endpoint_that_flaps_comes_back_with_its_number_and_its_exact_load() {
    let mut world = two();
    let pick = world.arrive(&ask(100, 10));
    world.step(Event::EndpointDown(pick.endpoint));
    assert_eq!(world.up("e0", "v0", Some(round())), pick.endpoint);
    assert_eq!(world.inflight(), [1, 0]);
    world.cancel(pick.request);
    world.assert_at_rest();
}

#[test]
fn a_number_is_given_to_a_new_endpoint_only_after_the_last_request_that_named_it() {
    let mut world = two();
    let pick = world.arrive(&ask(100, 10));
    // Tried there, now elsewhere: were the number given away, a retry would avoid the new one.
    world.try_retry(pick.request).unwrap();
    world.step(Event::EndpointDown(EndpointIndex(0)));
    assert_eq!(world.up("e2", "v0", Some(round())), EndpointIndex(2));
    world.cancel(pick.request);
    assert_eq!(world.up("e3", "v0", Some(round())), EndpointIndex(0));
    assert_eq!(world.endpoint(0).picks, 0, "a new endpoint, with counts of its own");
}

#[test]
fn a_second_arrival_of_facts_keeps_number_and_load() {
    let mut world = two();
    let pick = world.arrive(&ask(100, 10));
    let faster = llmd_types::ReplicaFacts { speed: 2.0, ..round() };
    assert_eq!(world.up("e0", "other", Some(faster)), pick.endpoint);
    assert_eq!(world.inflight(), [1, 0]);
    assert_eq!(&*world.endpoint(0).variant, "other");
}

#[test]
fn the_true_length_of_a_prompt_replaces_the_estimate() {
    let mut world = two();
    let pick = world.arrive(&Ask { bytes: 400, ..ask(0, 10) });
    world.step(Event::TokensKnown(pick.request, usage(250, 0)));
    world.step(Event::TokensKnown(RequestId(77), usage(250, 0)));
    world.cancel(pick.request);
    world.assert_at_rest();
}

#[test]
fn new_settings_keep_what_is_in_flight() {
    let mut world = two();
    let pick = world.arrive(&ask(100, 10));
    let config = PoolConfig {
        scheduler: SchedulerKind::LeastRequest,
        prefix_seed: 9,
        index_entries: 10,
        ..PoolConfig::default()
    };
    world.step(Event::Config(config.clone()));
    assert_eq!(world.pool.config(), &config);
    assert_eq!(world.inflight(), [1, 0]);
    assert_eq!(world.place(&ask(100, 10)), 1, "the new scheduler sees the old load");
    world.cancel(pick.request);
}
