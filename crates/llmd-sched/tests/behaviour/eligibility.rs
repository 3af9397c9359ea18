//! Which endpoints may serve a request: filters, refusals, retries.

use crate::world::{Ask, World, ask, round};
use llmd_sched::{EndpointIndex, Event, PoolConfig, Refusal, RetryCause, SchedulerKind};
use llmd_types::{Outcome, ReplicaFacts, RequestId, Usage};

const ALL: [SchedulerKind; 5] = [
    SchedulerKind::ExpectedFinish,
    SchedulerKind::RoundRobin,
    SchedulerKind::Random,
    SchedulerKind::LeastRequest,
    SchedulerKind::LlmdDefault,
];

#[test]
fn only_ready_endpoints_get_requests_whatever_the_scheduler() {
    for scheduler in ALL {
        let mut world = World::scheduled(scheduler, 4);
        world.step(Event::EndpointDrain(EndpointIndex(0)));
        world.step(Event::EndpointDown(EndpointIndex(2)));
        for _ in 0..40 {
            let place = world.place(&ask(100, 10));
            assert!(place == 1 || place == 3, "{scheduler:?} chose {place}");
        }
    }
}

#[test]
fn only_endpoints_that_offer_what_a_request_needs_get_it_whatever_the_scheduler() {
    for scheduler in ALL {
        let config = PoolConfig { scheduler, attempts: 5, ..PoolConfig::default() };
        let mut world = World::new(config);
        for (name, offers) in [("e0", 0b01), ("e1", 0b10), ("e2", u32::MAX)] {
            world.up_with(name, "v", Some(round()), offers);
        }
        for (needs, allowed) in [(0b01, [0, 2]), (0b10, [1, 2]), (0b11, [2, 2])] {
            for _ in 0..20 {
                let pick = world.arrive(&Ask { needs, ..ask(100, 10) });
                assert!(allowed.contains(&pick.endpoint.0), "{scheduler:?} chose {pick:?}");
                world.step(Event::Done(pick.request, Outcome::Cancelled, Usage::default()));
            }
        }
        world.step(Event::EndpointDown(EndpointIndex(2)));
        let none = world.try_arrive(&Ask { needs: 0b11, ..ask(100, 10) }, None);
        assert_eq!(none, Err(Refusal::NoEndpoint), "{scheduler:?}");
    }
}

#[test]
fn a_pool_without_a_ready_endpoint_refuses() {
    let mut world = World::new(PoolConfig::default());
    assert_eq!(world.try_arrive(&ask(10, 10), None), Err(Refusal::NoEndpoint));
    let index = world.up("e0", "v", Some(round()));
    world.step(Event::EndpointDrain(index));
    assert_eq!(world.try_arrive(&ask(10, 10), None), Err(Refusal::NoEndpoint));
    world.assert_at_rest();
}

#[test]
fn a_retry_goes_to_an_endpoint_not_tried_before_whatever_the_scheduler() {
    for scheduler in ALL {
        for _ in 0..10 {
            let mut world = World::scheduled(scheduler, 3);
            let first = world.arrive(&ask(100, 10));
            let second = world.try_retry(first.request).unwrap();
            let third = world.try_retry(first.request).unwrap();
            let mut tried = [first.endpoint, second.endpoint, third.endpoint];
            tried.sort_unstable();
            assert_eq!(tried, [0, 1, 2].map(EndpointIndex), "{scheduler:?}");
            assert_eq!([first, second, third].map(|pick| pick.reasons.attempt), [1, 2, 3]);
        }
    }
}

#[test]
fn attempts_end_at_the_limit_or_when_no_other_endpoint_is_left() {
    let config = PoolConfig { attempts: 2, ..PoolConfig::default() };
    let mut world = World::with(config, &vec![round(); 4]);
    let pick = world.arrive(&ask(100, 10));
    assert!(world.try_retry(pick.request).is_ok());
    assert_eq!(world.try_retry(pick.request), Err(Refusal::AttemptsUsed));
    world.assert_at_rest();

    let mut world = World::scheduled(SchedulerKind::ExpectedFinish, 2);
    let pick = world.arrive(&ask(100, 10));
    assert!(world.try_retry(pick.request).is_ok());
    assert_eq!(world.try_retry(pick.request), Err(Refusal::AttemptsUsed), "two of three made");
    world.assert_at_rest();
}

#[test]
fn a_retry_in_a_pool_that_emptied_finds_no_endpoint() {
    let mut world = World::scheduled(SchedulerKind::ExpectedFinish, 1);
    let pick = world.arrive(&ask(100, 10));
    world.step(Event::EndpointDown(pick.endpoint));
    assert_eq!(world.try_retry(pick.request), Err(Refusal::NoEndpoint));
    world.assert_at_rest();
}

#[test]
fn attempts_without_a_connection_do_not_count_and_end_with_the_pool() {
    for cause in [RetryCause::Unreachable, RetryCause::Lost] {
        let config = PoolConfig { attempts: 2, ..PoolConfig::default() };
        let mut world = World::with(config, &vec![round(); 7]);
        let id = world.arrive(&ask(100, 10)).request;
        let mut tried = vec![world.failed(id, cause).unwrap().endpoint];
        tried.extend((0..3).map(|_| world.failed(id, cause).unwrap().endpoint));
        // One that counts leaves one more; it does not count what came before.
        tried.push(world.try_retry(id).unwrap().endpoint);
        tried.push(world.failed(id, cause).unwrap().endpoint);
        assert_eq!(world.failed(id, cause), Err(Refusal::AttemptsUsed), "all seven tried");
        tried.sort_unstable();
        tried.dedup();
        assert_eq!(tried.len(), 6, "{cause:?}: each once, behind the first");
        world.assert_at_rest();
    }
}

#[test]
fn an_endpoint_without_a_connection_is_avoided_for_a_second_while_another_is_left() {
    for scheduler in ALL {
        let mut world = World::scheduled(scheduler, 2);
        let pick = world.try_arrive(&ask(100, 10), Some(EndpointIndex(0))).unwrap();
        assert!(world.failed(pick.request, RetryCause::Unreachable).is_err());
        let places = |world: &mut World| {
            let picks: Vec<_> = (0..40).map(|_| world.arrive(&ask(100, 10))).collect();
            for pick in &picks {
                world.cancel(pick.request);
            }
            picks.iter().any(|pick| pick.endpoint.0 == 0)
        };
        world.wait(999_999);
        assert!(!places(&mut world), "{scheduler:?}");
        assert!(world.endpoint(0).degraded.concat().contains("no connection"));
        world.wait(1);
        assert!(places(&mut world), "{scheduler:?}: it may be back");
        assert!(!world.endpoint(0).degraded.concat().contains("no connection"));
    }
}

#[test]
fn an_endpoint_that_is_avoided_is_chosen_where_no_other_is_left() {
    let mut world = World::scheduled(SchedulerKind::ExpectedFinish, 1);
    let pick = world.arrive(&ask(100, 10));
    assert!(world.failed(pick.request, RetryCause::Unreachable).is_err());
    assert_eq!(world.place(&ask(100, 10)), 0);
}

#[test]
fn an_endpoint_is_avoided_until_its_first_success_and_not_for_a_lost_connection() {
    let ends: [fn(&mut World, RequestId); 4] = [
        |world, id| drop(world.step(Event::FirstByte(id))),
        |world, id| world.end(id, Outcome::Done, Usage::default()),
        |world, id| world.end(id, Outcome::Refused, Usage::default()),
        |world, id| drop(world.step(Event::Retry(id, RetryCause::Lost))),
    ];
    for (case, end) in ends.iter().enumerate() {
        let mut world = World::scheduled(SchedulerKind::RoundRobin, 2);
        let at = Some(EndpointIndex(0));
        let running = world.try_arrive(&ask(100, 10), at).unwrap();
        let refused = world.try_arrive(&ask(100, 10), at).unwrap();
        if case < 3 {
            assert!(world.failed(refused.request, RetryCause::Unreachable).is_err());
            assert_eq!(world.place(&ask(100, 10)), 1);
        }
        end(&mut world, running.request);
        let places = [world.place(&ask(100, 10)), world.place(&ask(100, 10))];
        assert!(places.contains(&0), "{case}: {places:?}");
    }
}

#[test]
fn attempts_of_zero_still_means_one() {
    let config = PoolConfig { attempts: 0, ..PoolConfig::default() };
    let mut world = World::with(config, &vec![round(); 2]);
    let pick = world.arrive(&ask(100, 10));
    assert_eq!(world.try_retry(pick.request), Err(Refusal::AttemptsUsed));
}

fn short_and_long() -> World {
    let short = ReplicaFacts { max_model_len: 1_000, ..round() };
    let long = ReplicaFacts { max_model_len: 8_000, speed: 0.1, ..round() };
    World::with(PoolConfig::default(), &[short, long])
}

#[test]
fn a_request_goes_where_its_prompt_and_answer_fit() {
    for (prompt, max_tokens, place) in [(900, 100, 0), (901, 100, 1), (100, 901, 1)] {
        assert_eq!(short_and_long().place(&ask(prompt, max_tokens)), place, "{prompt}");
    }
    // Without `max_tokens` an engine cuts the answer: a prompt that is in fits.
    let open = Ask { max_tokens: None, ..ask(999, 0) };
    assert_eq!(short_and_long().place(&open), 0);
    // Estimated, the usual answer of 256 tokens should fit too.
    let estimated = |bytes| Ask { bytes, ..Ask::default() };
    assert_eq!(short_and_long().place(&estimated(744 * 4)), 0);
    assert_eq!(short_and_long().place(&estimated(745 * 4)), 1);
}

#[test]
fn a_request_goes_where_the_kv_space_can_ever_hold_it() {
    let small = ReplicaFacts { kv_tokens: 500, ..round() };
    let large = ReplicaFacts { kv_tokens: 5_000, speed: 0.1, ..round() };
    let mut world = World::with(PoolConfig::default(), &[small.clone(), large]);
    assert_eq!(world.place(&ask(400, 100)), 0);
    assert_eq!(world.place(&ask(401, 100)), 1);
    let mut world = World::with(PoolConfig::default(), &[small]);
    assert_eq!(world.try_arrive(&ask(401, 100), None), Err(Refusal::TooLong(500)));
}

#[test]
fn a_counted_prompt_that_fits_nowhere_is_refused_with_the_longest_there_is() {
    let mut world = short_and_long();
    assert_eq!(world.try_arrive(&ask(7_999, 2), None), Err(Refusal::TooLong(8_000)));
    assert!(world.try_arrive(&ask(7_999, 1), None).is_ok());
}

#[test]
fn an_estimated_length_refuses_nobody_but_goes_where_there_is_most_room() {
    let mut world = short_and_long();
    let image = Ask { bytes: 4_000_000, ..Ask::default() };
    assert_eq!(world.place(&image), 1);
}

#[test]
fn a_retry_that_only_shorter_endpoints_are_left_for_has_used_its_attempts() {
    let mut world = short_and_long();
    let pick = world.arrive(&ask(5_000, 10));
    assert_eq!(world.try_retry(pick.request), Err(Refusal::AttemptsUsed));
}

#[test]
fn a_request_for_one_endpoint_goes_there_or_nowhere() {
    let mut world = World::scheduled(SchedulerKind::ExpectedFinish, 3);
    for _ in 0..5 {
        let pick = world.try_arrive(&ask(100, 10), Some(EndpointIndex(2))).unwrap();
        assert_eq!(pick.endpoint, EndpointIndex(2));
        assert_eq!(world.try_retry(pick.request), Err(Refusal::AttemptsUsed), "no other will do");
    }
    let unknown = world.try_arrive(&ask(100, 10), Some(EndpointIndex(7)));
    assert_eq!(unknown, Err(Refusal::UnknownEndpoint));
    world.step(Event::EndpointDrain(EndpointIndex(2)));
    assert!(world.try_arrive(&ask(100, 10), Some(EndpointIndex(2))).is_ok(), "probes still go");
    world.step(Event::EndpointDown(EndpointIndex(2)));
    let gone = world.try_arrive(&ask(100, 10), Some(EndpointIndex(2)));
    assert_eq!(gone, Err(Refusal::UnknownEndpoint));
}

#[test]
fn events_about_requests_that_are_not_there_change_nothing() {
    let mut world = World::scheduled(SchedulerKind::ExpectedFinish, 2);
    let before = world.pool.status(world.now);
    let id = RequestId(99);
    for event in [
        Event::Sent(id),
        Event::FirstByte(id),
        Event::Progress(id, 3),
        Event::Retry(id, RetryCause::Unreachable),
        Event::TokensKnown(id, Usage::default()),
        Event::Done(id, Outcome::Lost, Usage::default()),
        Event::Scrape(EndpointIndex(9), None),
        Event::EndpointDrain(EndpointIndex(9)),
        Event::EndpointDown(EndpointIndex(9)),
        Event::Timer,
    ] {
        assert!(world.step(event).is_empty());
    }
    assert_eq!(world.pool.status(world.now), before);
}

#[test]
fn the_order_of_round_robin_goes_on_behind_endpoints_that_were_skipped() {
    let mut world = World::scheduled(SchedulerKind::RoundRobin, 3);
    let first: Vec<u16> = (0..4).map(|_| world.place(&ask(10, 10))).collect();
    assert_eq!(first, [0, 1, 2, 0]);
    world.step(Event::EndpointDrain(EndpointIndex(1)));
    assert_eq!([world.place(&ask(10, 10)), world.place(&ask(10, 10))], [2, 0]);
}
