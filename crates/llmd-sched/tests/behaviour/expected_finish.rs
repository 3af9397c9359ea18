//! The default scheduler: what its forecast counts, and how it chooses by objective.

use crate::world::{Ask, World, ask, round, slower};
use llmd_sched::{EndpointIndex, Event, PoolConfig, Tier};
use llmd_types::{Micros, Objective, ReplicaFacts, ReportedLoad, Slo};

fn config(objective: Objective, ttft_us: Option<u64>, itl_us: Option<u64>) -> PoolConfig {
    let slo = Slo { ttft_us: ttft_us.map(Micros), itl_us: itl_us.map(Micros) };
    PoolConfig { objective, slo, ..PoolConfig::default() }
}

fn priced(times: f64, price: Option<f64>) -> ReplicaFacts {
    ReplicaFacts { price_per_hour: price, ..slower(times) }
}

#[test]
fn equal_idle_endpoints_are_taken_in_turn() {
    let mut world = World::with(PoolConfig::default(), &vec![round(); 3]);
    let mut places = Vec::new();
    for _ in 0..9 {
        let pick = world.arrive(&ask(100, 10));
        places.push(pick.endpoint.0);
        world.cancel(pick.request);
    }
    let mut first = places[..3].to_vec();
    first.sort_unstable();
    assert_eq!(first, [0, 1, 2]);
    assert_eq!(places[3..6], places[..3]);
    assert_eq!(places[6..], places[..3]);
}

#[test]
fn a_burst_sees_its_own_load() {
    let mut world = World::with(PoolConfig::default(), &vec![round(); 4]);
    for _ in 0..40 {
        world.arrive(&ask(2_000, 10));
    }
    assert_eq!(world.inflight(), [10, 10, 10, 10]);
}

#[test]
fn the_faster_of_two_gets_the_request_until_its_backlog_outweighs_its_speed() {
    let mut world = World::with(PoolConfig::default(), &[slower(3.0), round()]);
    // 51 ms a prompt there, 153 here: the third there ends at 152, the seventh after the slow
    // one's second.
    let places: Vec<u16> = (0..8).map(|_| world.place(&ask(50_000, 1))).collect();
    assert_eq!(places, [1, 1, 1, 0, 1, 1, 1, 0]);
}

#[test]
fn the_time_to_first_token_counts_entry_step_lag_backlog_and_prompt() {
    let facts = ReplicaFacts { request_us: 700.0, ..round() };
    let mut world = World::with(PoolConfig::default(), &[facts]);
    // Entry 700, a step of 1,000 with 500 tokens, a step of one until it is seen.
    assert_eq!(world.arrive(&ask(500, 10)).reasons.ttft.0, 700 + 1_500 + 1_001);
    // Behind it: its 500 tokens at the rate of full steps (101 ms for 100,000), and a step of
    // two once both decode.
    assert_eq!(world.arrive(&ask(500, 10)).reasons.ttft.0, 700 + 1_500 + 505 + 1_002);
}

#[test]
fn a_running_step_is_half_over_when_a_request_comes() {
    let mut world = World::with(PoolConfig::default(), &[round()]);
    let first = world.arrive(&ask(500, 10));
    world.step(Event::FirstByte(first.request));
    let reasons = world.arrive(&ask(500, 10)).reasons;
    // The prompt shares its step with the one that decodes.
    assert_eq!(reasons.ttft.0, 501 + 1_501 + 1_002);
    // That one waits 500 us longer for one token, and has 1 us more in each of ten steps.
    assert_eq!(reasons.delay.0, 500 + 10);
    assert_eq!(reasons.finish.0, reasons.ttft.0 + 10 * reasons.itl.0 + reasons.delay.0);
}

#[test]
fn a_request_waits_for_a_place_where_all_sequences_are_taken() {
    let facts = ReplicaFacts { max_sequences: 2, ..round() };
    let mut world = World::with(PoolConfig::default(), &[facts, slower(50.0)]);
    let picks: Vec<_> = (0..3).map(|_| world.arrive(&ask(100, 100))).collect();
    assert!(picks[..2].iter().all(|pick| pick.reasons.wait == Micros::ZERO));
    assert!(picks[2].reasons.wait > Micros(40_000), "{:?}", picks[2].reasons);
}

#[test]
fn a_request_waits_for_kv_space_that_others_take() {
    let tight = ReplicaFacts { kv_tokens: 1_000, ..round() };
    let mut world = World::with(PoolConfig::default(), &[tight, slower(1.3)]);
    assert_eq!(world.place(&ask(400, 400)), 0);
    let second = world.arrive(&ask(400, 400));
    assert_eq!(second.endpoint.0, 1, "800 of 1,000 tokens of space are taken at the first");
    let alone = ReplicaFacts { kv_tokens: 1_000, ..round() };
    let mut world = World::with(PoolConfig::default(), &[alone]);
    assert_eq!(world.arrive(&ask(400, 400)).reasons.wait, Micros::ZERO);
    assert!(world.arrive(&ask(400, 400)).reasons.wait > Micros::ZERO);
}

#[test]
fn a_prompt_goes_where_fewer_running_requests_are_held_up() {
    let mut world = World::with(PoolConfig::default(), &vec![round(); 2]);
    for (count, endpoint) in [(6, 0), (3, 1)] {
        for _ in 0..count {
            let at = EndpointIndex(endpoint);
            let pick = world.try_arrive(&ask(10, 1_000), Some(at)).unwrap();
            world.step(Event::FirstByte(pick.request));
        }
    }
    assert_eq!(world.place(&ask(5_000, 1)), 1);
}

#[test]
fn latency_wants_the_earliest_finish_among_those_that_keep_the_promise() {
    // The first finishes long answers earlier but misses the promised ITL with its step time.
    let quick_prefill = ReplicaFacts { step_us: 3_000.0, ..round() };
    let slow_prefill = ReplicaFacts { flops_per_token: 10e6, ..round() };
    let free = config(Objective::Latency, None, None);
    let promised = config(Objective::Latency, None, Some(2_000));
    let facts = [quick_prefill, slow_prefill];
    let found = World::with(free, &facts).arrive(&ask(5_000, 10));
    assert_eq!((found.endpoint.0, found.reasons.tier), (0, Tier::NoSlo));
    let found = World::with(promised, &facts).arrive(&ask(5_000, 10));
    assert_eq!((found.endpoint.0, found.reasons.tier), (1, Tier::KeepsSlo));
}

#[test]
fn cost_takes_the_cheapest_that_keeps_the_promise_and_the_earliest_when_none_does() {
    let facts = [priced(1.0, Some(10.0)), priced(3.0, Some(1.0))];
    for (ttft, place, tier) in
        [(20_000, 1, Tier::KeepsSlo), (5_000, 0, Tier::KeepsSlo), (1_000, 0, Tier::MissesSlo)]
    {
        let mut world = World::with(config(Objective::Cost, Some(ttft), None), &facts);
        let found = world.arrive(&ask(1_000, 10));
        assert_eq!((found.endpoint.0, found.reasons.tier), (place, tier), "{ttft}");
    }
}

#[test]
fn cost_without_a_promise_does_not_drown_the_cheapest() {
    let facts = [priced(1.0, Some(10.0)), priced(1.5, Some(1.0))];
    let mut world = World::with(config(Objective::Cost, None, None), &facts);
    let places: Vec<u16> = (0..40).map(|_| world.place(&ask(20_000, 10))).collect();
    assert_eq!(places[..2], [1, 1]);
    assert!(places.contains(&0), "the dear one helps before all finish four times later");
}

#[test]
fn an_unknown_price_counts_as_the_dearest_and_none_at_all_leaves_time() {
    let slo = config(Objective::Cost, Some(1_000_000), None);
    let facts = [priced(1.0, None), priced(1.2, Some(3.0)), priced(1.4, Some(1.0))];
    assert_eq!(World::with(slo.clone(), &facts).place(&ask(1_000, 10)), 2);
    let facts = [priced(1.2, None), priced(1.0, None)];
    assert_eq!(World::with(slo, &facts).place(&ask(1_000, 10)), 1);
    let mut world = World::with(config(Objective::Cost, None, None), &facts);
    world.arrive(&ask(1, 1));
    let status = world.endpoint(0);
    assert!(status.degraded.iter().any(|text| text.contains("no price")), "{status:?}");
}

#[test]
fn balanced_counts_time_and_money_alike() {
    // Relative time plus relative cost: 1 + 4, 1.5 + 1.5, 4 + 1 (costs are price x time).
    let facts = [priced(1.0, Some(16.0)), priced(1.5, Some(4.0)), priced(4.0, Some(1.0))];
    for (objective, place) in
        [(Objective::Latency, 0), (Objective::Balanced, 1), (Objective::Cost, 2)]
    {
        let mut world = World::with(config(objective, Some(1_000_000), None), &facts);
        assert_eq!(world.place(&ask(1_000, 10)), place, "{objective:?}");
    }
}

#[test]
fn load_of_others_is_what_is_reported_beyond_ours() {
    let mut world = World::with(PoolConfig::default(), &vec![round(); 2]);
    let ours = world.try_arrive(&ask(100, 1_000), Some(EndpointIndex(0))).unwrap();
    world.step(Event::FirstByte(ours.request));
    world.report(0, 1, 0, 0.0);
    world.report(1, 3, 2, 0.0);
    let reasons = world.try_arrive(&ask(100, 1_000), Some(EndpointIndex(0))).unwrap().reasons;
    assert_eq!(reasons.itl.0, 1_002, "ours is not counted twice");
    let reasons = world.try_arrive(&ask(100, 1_000), Some(EndpointIndex(1))).unwrap().reasons;
    assert_eq!(reasons.itl.0, 1_006, "five of others and this one");
}

#[test]
fn prompts_of_others_that_wait_are_ahead_of_ours() {
    let mut world = World::with(PoolConfig::default(), &vec![round(); 2]);
    // The usual prompt, which those of others are taken to be like.
    let usual = world.arrive(&ask(5_000, 10));
    world.cancel(usual.request);
    world.report(0, 0, 4, 0.0);
    world.report(1, 0, 0, 0.0);
    let mut ttft = |place| {
        let pick = world.try_arrive(&ask(100, 10), Some(EndpointIndex(place))).unwrap();
        world.cancel(pick.request);
        pick.reasons.ttft.0
    };
    let (behind, alone) = (ttft(0), ttft(1));
    assert!((15_000..25_000).contains(&(behind - alone)), "four prompts: {behind} {alone}");
}

#[test]
fn status_says_for_how_long_an_endpoint_has_told_nothing() {
    let mut world = World::with(PoolConfig::default(), &vec![round(); 2]);
    world.report(1, 0, 0, 0.0);
    for _ in 0..13 {
        for endpoint in 0..2 {
            world.step(Event::Scrape(EndpointIndex(endpoint), None));
        }
        world.wait(1_000_000);
    }
    let texts = |world: &World| [0, 1].map(|place| world.endpoint(place).degraded.concat());
    let [never, once] = texts(&world);
    assert!(never.starts_with("never reported load in 13.0s:"), "{never}");
    assert!(once.contains("last reported 13.0s ago"), "{once}");
    world.report(0, 0, 0, 0.0);
    assert_eq!(texts(&world)[0], "");
}

#[test]
fn a_request_of_ours_that_just_ended_is_not_taken_for_anothers() {
    let mut world = World::with(PoolConfig::default(), &[round()]);
    let ours = world.arrive(&ask(100, 10));
    world.cancel(ours.request);
    world.report(0, 1, 0, 0.0);
    assert_eq!(world.arrive(&ask(100, 10)).reasons.itl.0, 1_001);
}

#[test]
fn a_report_loses_weight_with_age_and_status_says_so() {
    let mut world = World::with(PoolConfig::default(), &[round()]);
    world.report(0, 100, 0, 0.0);
    let mut itl = |wait: u64| {
        world.wait(wait);
        let pick = world.arrive(&ask(100, 10));
        world.cancel(pick.request);
        (pick.reasons.itl.0, world.endpoint(0).degraded.concat())
    };
    assert_eq!(itl(1_000_000), (1_101, String::new()));
    // Alone in its pool, its own old report is what is usual there.
    let (_, degraded) = itl(4_000_000);
    assert!(degraded.contains("5000ms ago"), "{degraded}");

    let mut world = World::with(PoolConfig::default(), &vec![round(); 2]);
    world.report(0, 100, 0, 0.0);
    let mut itl = |wait: u64| {
        world.wait(wait);
        world.report(1, 0, 0, 0.0);
        let pick = world.try_arrive(&ask(100, 10), Some(EndpointIndex(0))).unwrap();
        world.cancel(pick.request);
        pick.reasons.itl.0
    };
    assert_eq!(itl(1_000_000), 1_101);
    // Half of it: half the told 100, and half of what is usual, (100 x 1/2 + 0) / (1/2 + 1).
    assert_eq!(itl(2_000_000), 1_000 + 50 + 17 + 1);
    assert_eq!(itl(2_000_000), 1_001);
}

#[test]
fn an_endpoint_that_falls_silent_is_taken_to_be_as_loaded_as_the_others() {
    let mut world = World::with(PoolConfig::default(), &vec![round(); 3]);
    for endpoint in 0..3 {
        world.report(endpoint, 100, 0, 0.0);
    }
    world.wait(6_000_000);
    world.step(Event::Scrape(EndpointIndex(0), None));
    for endpoint in 1..3 {
        world.report(endpoint, 100, 0, 0.0);
    }
    let reasons = world.try_arrive(&ask(100, 10), Some(EndpointIndex(0))).unwrap().reasons;
    assert_eq!(reasons.itl.0, 1_101, "silent is not idle");
}

#[test]
fn signals_that_are_not_given_are_named_and_not_read_as_zero() {
    let mut world = World::with(PoolConfig::default(), &vec![round(); 2]);
    let half = ReportedLoad { at: world.now, running: Some(3), ..ReportedLoad::default() };
    world.step(Event::Scrape(EndpointIndex(0), Some(half)));
    world.report(1, 50, 0, 0.0);
    let texts = world.endpoint(0).degraded.concat();
    assert!(texts.contains("running and waiting") && texts.contains("KV usage"), "{texts}");
    let reasons = world.try_arrive(&ask(100, 10), Some(EndpointIndex(0))).unwrap().reasons;
    assert_eq!(reasons.itl.0, 1_051, "as loaded as the one that tells");
    assert!(world.endpoint(1).degraded.is_empty());
    let mut fresh = World::with(PoolConfig::default(), &[]);
    fresh.up("e", "v", None);
    let status = fresh.endpoint(0);
    assert!(!status.profile_known);
    assert!(status.degraded.concat().contains("no profile"), "{status:?}");
    assert!(status.degraded.concat().contains("never reported load: "), "{status:?}");
}

#[test]
fn the_backlog_of_an_answer_in_one_piece_is_worked_off_by_time() {
    let mut world = World::with(PoolConfig::default(), &[round()]);
    let whole = Ask { whole: true, ..ask(50_000, 10) };
    world.arrive(&whole);
    let idle = 1_000 + 10 + 1_002;
    let mut ttft = |wait: u64| {
        world.wait(wait);
        let pick = world.arrive(&ask(10, 10));
        world.cancel(pick.request);
        pick.reasons.ttft.0
    };
    assert_eq!(ttft(0), idle + 50_500);
    let half = ttft(25_000);
    assert!((idle + 25_000..idle + 26_000).contains(&half), "{half}");
    // Computed, as far as time tells: now it decodes.
    assert_eq!(ttft(30_000), 501 + 1_011 + 1_002);
}

#[test]
fn streams_that_show_no_token_stay_a_backlog_beyond_what_one_step_holds() {
    let small_steps = ReplicaFacts { max_batched_tokens: 1_000, ..round() };
    let mut world = World::with(PoolConfig::default(), &[small_steps]);
    for _ in 0..10 {
        world.arrive(&ask(1_000, 10));
    }
    world.wait(60_000_000);
    let pick = world.arrive(&ask(10, 10));
    // Nine of ten prompts, 2 us a token in steps of 1,000.
    assert!(pick.reasons.ttft.0 > 18_000, "slower than believed, not idle: {:?}", pick.reasons);
}

#[test]
fn in_a_pool_of_thousands_the_choice_is_among_holders_idle_and_a_sample() {
    let mut facts = vec![slower(2.0); 1_000];
    facts[700] = round();
    let mut world = World::with(PoolConfig::default(), &facts);
    let mut places: Vec<u16> = (0..400).map(|_| world.place(&ask(1_000, 10))).collect();
    assert!(places.contains(&700));
    places.sort_unstable();
    places.dedup();
    assert!(places.len() > 300, "idle ones first: {} of 1,000", places.len());
    let keys: Vec<u64> = (1..=1_250).collect();
    let request = Ask { keys, ..ask(20_000, 10) };
    let holder = world.try_arrive(&request, Some(EndpointIndex(333))).unwrap();
    world.send(holder.request);
    world.cancel(holder.request);
    assert_eq!(world.place(&request), 333);
}
