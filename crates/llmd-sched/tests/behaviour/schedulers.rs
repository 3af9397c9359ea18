//! The schedulers to compare with: round robin, random, least request, llm-d's default.

use crate::world::{Ask, World, ask, round};
use llmd_sched::{EndpointIndex, Event, PoolConfig, SchedulerKind, Tier};
use llmd_types::{ReplicaFacts, ReportedLoad};

fn counts(world: &mut World, picks: usize, request: &Ask) -> Vec<usize> {
    let mut counts = vec![0; 4];
    for _ in 0..picks {
        let pick = world.arrive(request);
        counts[usize::from(pick.endpoint.0)] += 1;
        world.cancel(pick.request);
    }
    counts
}

#[test]
fn random_gives_all_the_same_chance() {
    let mut world = World::scheduled(SchedulerKind::Random, 4);
    let counts = counts(&mut world, 4_000, &ask(10, 10));
    assert!(counts.iter().all(|count| (900..1_100).contains(count)), "{counts:?}");
}

#[test]
fn least_request_takes_the_fewest_in_flight_and_any_of_equals() {
    let mut world = World::scheduled(SchedulerKind::LeastRequest, 4);
    let picks: Vec<_> = (0..8).map(|_| world.arrive(&ask(10, 10))).collect();
    assert_eq!(world.inflight(), [2, 2, 2, 2]);
    let first = picks.iter().find(|pick| pick.endpoint.0 == 2).unwrap();
    world.cancel(first.request);
    assert_eq!(world.place(&ask(10, 10)), 2);
    let mut idle = World::scheduled(SchedulerKind::LeastRequest, 4);
    let counts = counts(&mut idle, 4_000, &ask(10, 10));
    assert!(counts.iter().all(|count| (900..1_100).contains(count)), "{counts:?}");
}

fn llmd(reports: [(u32, f64); 3]) -> World {
    let mut world = World::scheduled(SchedulerKind::LlmdDefault, 3);
    for (endpoint, (waiting, kv)) in (0..).zip(reports) {
        world.report(endpoint, 1, waiting, kv);
    }
    world
}

#[test]
fn llm_d_default_weighs_queue_two_kv_two_prefix_three() {
    // Queue alone: the shortest.
    assert_eq!(llmd([(5, 0.1), (3, 0.1), (9, 0.1)]).place(&ask(10, 10)), 1);
    // KV alone, all queues equal.
    assert_eq!(llmd([(2, 0.6), (2, 0.5), (2, 0.4)]).place(&ask(10, 10)), 2);
    // Queue 1 x 2 against KV: 2 + 2 x 0.05 = 2.1 beats 2 x 0.5 + 2 x 0.5 = 2 (waits in the
    // middle), and loses to 2 x 0.5 + 2 x 0.6 = 2.2.
    assert_eq!(llmd([(0, 0.95), (5, 0.5), (10, 0.9)]).place(&ask(10, 10)), 0);
    assert_eq!(llmd([(0, 0.95), (5, 0.4), (10, 0.9)]).place(&ask(10, 10)), 1);
}

#[test]
fn llm_d_default_follows_a_prefix_until_queue_and_kv_outweigh_it() {
    let keys: Vec<u64> = (1..=64).collect();
    let request = Ask { keys: keys.clone(), ..ask(1_024, 10) };
    for (kv, expected) in [(0.40, 0), (0.70, 1)] {
        let mut world = llmd([(0, 0.0), (0, 0.9), (0, 0.9)]);
        let holder = world.arrive(&request);
        assert_eq!(holder.endpoint.0, 0);
        world.send(holder.request);
        world.cancel(holder.request);
        // Prefix: 3 x 1008/1024 (all but the last block). With queue 0 and KV it has
        // 2.95 + 2 x (1 - kv); the others 2 + 2 x (1 - 0).
        for (endpoint, waiting, kv) in [(0, 9, kv), (1, 0, 0.0), (2, 9, 1.0)] {
            world.report(endpoint, 1, waiting, kv);
        }
        assert_eq!(world.place(&request), expected, "at {kv}");
    }
}

#[test]
fn llm_d_default_breaks_ties_at_random() {
    let mut world = llmd([(1, 0.3), (1, 0.3), (1, 0.3)]);
    let counts = counts(&mut world, 3_000, &ask(10, 10));
    assert!(counts[..3].iter().all(|count| (900..1_100).contains(count)), "{counts:?}");
}

#[test]
fn llm_d_default_counts_our_own_waiting_requests_where_none_are_reported() {
    let mut world = World::scheduled(SchedulerKind::LlmdDefault, 2);
    for endpoint in 0..2 {
        let kv_usage = Some(0.5);
        let load = ReportedLoad { at: world.now, kv_usage, ..ReportedLoad::default() };
        world.step(Event::Scrape(EndpointIndex(endpoint), Some(load)));
    }
    let first = world.place(&ask(10_000, 10));
    for _ in 0..20 {
        let pick = world.arrive(&ask(10, 10));
        assert_ne!(pick.endpoint.0, first, "what waits there is ours, and known");
        world.cancel(pick.request);
    }
}

#[test]
fn an_absent_kv_usage_is_not_read_as_empty() {
    let small = ReplicaFacts { kv_tokens: 1_000, ..round() };
    let config = PoolConfig { scheduler: SchedulerKind::LlmdDefault, ..PoolConfig::default() };
    let mut world = World::with(config, &[small, round()]);
    let pick = world.try_arrive(&ask(800, 100), Some(EndpointIndex(0))).unwrap();
    world.step(Event::FirstByte(pick.request));
    world.report(1, 0, 0, 0.5);
    let silent = ReportedLoad { at: world.now, running: Some(1), waiting: Some(0), kv_usage: None };
    world.step(Event::Scrape(EndpointIndex(0), Some(silent)));
    assert_eq!(world.place(&ask(10, 10)), 1, "90 % of the silent one's space is ours");
}

#[test]
fn other_schedulers_do_not_judge_but_tell_what_is_expected() {
    let mut world = World::scheduled(SchedulerKind::RoundRobin, 2);
    let reasons = world.arrive(&ask(1_000, 10)).reasons;
    assert_eq!(reasons.tier, Tier::NotJudged);
    assert_eq!(reasons.scheduler, SchedulerKind::RoundRobin);
    // 1,000 tokens at 1 us in a step of 1 ms, then a step of 1,001 us until they are seen.
    assert_eq!((reasons.ttft.0, reasons.itl.0), (3_001, 1_001));
    assert_eq!(reasons.candidates, 2);
}
