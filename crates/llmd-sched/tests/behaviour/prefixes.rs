//! Prefix affinity: what an endpoint is believed to hold, and for how long.

use crate::world::{Ask, World, ask, round, slower};
use llmd_sched::{Action, EndpointIndex, Event, PoolConfig, prefix};
use llmd_types::{Outcome, ReplicaFacts, RequestId};

/// A prompt of so many blocks of 16 tokens, of which the first `shared` are common to all.
fn prompt(shared: u64, own: u64, salt: u64) -> Ask {
    let mut keys: Vec<u64> = (1..=shared).map(|at| at * 0x1_0001).collect();
    keys.extend((1..=own).map(|at| (salt << 32) + at));
    Ask { keys, ..ask((shared + own) as u32 * 16, 10) }
}

/// Blocks of 100 keys: 64 KiB.
const LONG: u64 = 1_024;

fn hold(world: &mut World, request: &Ask, endpoint: u16) -> RequestId {
    let pick = world.try_arrive(request, Some(EndpointIndex(endpoint))).unwrap();
    world.send(pick.request);
    pick.request
}

fn cached_at(world: &mut World, request: &Ask, endpoint: u16) -> u32 {
    let pick = world.try_arrive(request, Some(EndpointIndex(endpoint))).unwrap();
    world.cancel(pick.request);
    pick.cached_tokens
}

fn pair(facts: ReplicaFacts) -> World {
    World::with(PoolConfig::default(), &[facts.clone(), facts])
}

#[test]
fn a_prompt_goes_back_to_the_endpoint_that_holds_its_beginning() {
    let mut world = pair(round());
    let first = hold(&mut world, &prompt(100, 20, 1), 1);
    world.cancel(first);
    for salt in 2..8 {
        let pick = world.arrive(&prompt(100, 20, salt));
        assert_eq!((pick.endpoint.0, pick.cached_tokens), (1, 1_600));
        world.cancel(pick.request);
    }
}

#[test]
fn affinity_yields_when_the_wait_costs_more_than_the_prefix_saves() {
    let mut world = pair(round());
    let first = hold(&mut world, &prompt(100, 20, 1), 1);
    world.cancel(first);
    let places: Vec<u16> = (2..12).map(|salt| world.place(&prompt(100, 20, salt))).collect();
    assert_eq!(places[0], 1);
    assert!(places.contains(&0), "{places:?}");
}

#[test]
fn a_prefix_is_believed_only_after_its_request_was_sent() {
    let mut world = pair(round());
    let request = prompt(100, 0, 1);
    let pick = world.try_arrive(&request, Some(EndpointIndex(0))).unwrap();
    assert_eq!(cached_at(&mut world, &request, 0), 0);
    world.send(pick.request);
    assert_eq!(cached_at(&mut world, &request, 0), 1_584, "all but the last block");
}

#[test]
fn a_hit_is_whole_blocks_of_the_endpoint_and_never_the_last_token() {
    let large = ReplicaFacts { block_size: 128, ..round() };
    let mut world = World::with(PoolConfig::default(), &[round(), large]);
    for endpoint in [0, 1] {
        hold(&mut world, &prompt(100, 0, 1), endpoint);
    }
    let longer = prompt(100, 1, 2);
    assert_eq!(cached_at(&mut world, &longer, 0), 1_600);
    assert_eq!(cached_at(&mut world, &longer, 1), 1_536, "twelve blocks of 128");
    let same = prompt(96, 0, 1);
    assert_eq!(cached_at(&mut world, &same, 0), 1_520);
    assert_eq!(cached_at(&mut world, &same, 1), 1_408);
}

#[test]
fn long_prompts_are_told_in_pieces_that_the_caller_asks_for() {
    let mut world = pair(round());
    let request = prompt(LONG, 0, 1);
    let pick = world.try_arrive(&request, Some(EndpointIndex(0))).unwrap();
    let now = world.now;
    assert_eq!(world.step(Event::Sent(pick.request)).as_slice(), [Action::WakeAt(now)]);
    assert!(world.pool.has_index_work());
    assert_eq!(world.pool.status(now).index_entries, 64);
    let first = cached_at(&mut world, &request, 0);
    assert_eq!(first, 448 * 16, "the first piece counts already");
    assert!(world.step(Event::Timer).is_empty());
    assert!(!world.pool.has_index_work());
    assert_eq!(world.pool.status(now).index_entries, 100);
}

#[test]
fn one_step_tells_the_index_little_however_long_prompts_are_and_however_full_it_is() {
    let facts = ReplicaFacts { kv_tokens: 4_000_000, max_model_len: 3_000_000, ..round() };
    let mut world =
        World::with(PoolConfig { index_entries: 2_000, ..PoolConfig::default() }, &[facts]);
    for salt in 1..20 {
        let pick = world.arrive(&prompt(0, 30_000, salt));
        let mut event = Event::Sent(pick.request);
        let mut entries = world.pool.status(world.now).index_entries;
        let mut steps = 0;
        while steps == 0 || world.pool.has_index_work() {
            world.step(event);
            let now = world.pool.status(world.now).index_entries;
            assert!(now.abs_diff(entries) <= 64, "{entries} to {now}");
            (event, entries, steps) = (Event::Timer, now, steps + 1);
        }
        assert_eq!(steps, 8, "512 keys in pieces of 64");
        world.cancel(pick.request);
    }
}

#[test]
fn work_for_a_request_that_ended_is_dropped() {
    let mut world = pair(round());
    let pick = world.arrive(&prompt(LONG, 0, 1));
    world.step(Event::Sent(pick.request));
    world.cancel(pick.request);
    assert!(world.step(Event::Timer).is_empty());
    assert!(!world.pool.has_index_work());
    assert_eq!(world.pool.status(world.now).index_entries, 64);
}

#[test]
fn long_prompts_take_few_entries() {
    let mut world = pair(round());
    hold(&mut world, &prompt(LONG + 640, 0, 1), 0);
    assert_eq!(world.pool.status(world.now).index_entries, 100 + 10);
    assert_eq!(cached_at(&mut world, &prompt(LONG + 640, 5, 2), 0), 1_664 * 16);
    // A prompt that leaves the common way inside a step hits up to its beginning.
    assert_eq!(cached_at(&mut world, &prompt(LONG + 127, 5, 2), 0), 1_088 * 16);
}

#[test]
fn an_endpoint_that_leaves_is_forgotten_also_when_it_comes_back() {
    let mut world = pair(round());
    for count in [1, 60] {
        for salt in 1..=count {
            hold(&mut world, &prompt(0, 100, salt), 0);
        }
        world.step(Event::EndpointDown(EndpointIndex(0)));
        assert!(world.pool.status(world.now).index_entries < 2_000, "most is dropped at once");
        world.up("e0", "v0", Some(round()));
        assert_eq!(world.pool.status(world.now).index_entries, 0);
        let again = Ask { tokens: Some(1_601), ..prompt(0, 100, count) };
        assert_eq!(cached_at(&mut world, &again, 0), 0);
    }
}

#[test]
fn an_endpoint_is_not_believed_to_hold_more_than_its_kv_space() {
    let facts = ReplicaFacts { kv_tokens: 3_200, max_model_len: 3_000, ..round() };
    let mut world = pair(facts);
    for salt in 1..=4 {
        let id = hold(&mut world, &prompt(0, 60, salt), 0);
        world.cancel(id);
    }
    let mut cached =
        |salt| cached_at(&mut world, &Ask { tokens: Some(961), ..prompt(0, 60, salt) }, 0);
    assert_eq!(cached(1), 320, "what is left of 200 blocks after three of 60");
    assert_eq!(cached(4), 960);
}

#[test]
fn an_endpoint_that_keeps_no_prefixes_is_not_believed_to() {
    let without = ReplicaFacts { prefix_caching: false, ..round() };
    let mut world = pair(without);
    hold(&mut world, &prompt(100, 0, 1), 0);
    assert_eq!(cached_at(&mut world, &prompt(100, 1, 2), 0), 0);
}

#[test]
fn a_new_seed_starts_the_index_anew_and_other_settings_do_not() {
    let mut world = pair(round());
    hold(&mut world, &prompt(100, 0, 1), 0);
    world.step(Event::Config(PoolConfig { attempts: 9, ..PoolConfig::default() }));
    assert_eq!(world.pool.status(world.now).index_entries, 37);
    let config = PoolConfig { prefix_seed: prefix::seed("other"), ..PoolConfig::default() };
    world.step(Event::Config(config));
    assert_eq!(world.pool.status(world.now).index_entries, 0);
    hold(&mut world, &prompt(100, 0, 1), 0);
    assert_eq!(cached_at(&mut world, &prompt(100, 1, 2), 0), 1_600, "and it fills again");
}

#[test]
fn a_retry_is_told_of_its_new_endpoint() {
    let mut world = World::with(PoolConfig::default(), &[round(), slower(2.0)]);
    let request = prompt(100, 0, 1);
    let pick = world.arrive(&request);
    world.send(pick.request);
    let second = world.try_retry(pick.request).unwrap();
    world.send(pick.request);
    assert_eq!((pick.endpoint.0, second.endpoint.0), (0, 1));
    world.end(pick.request, Outcome::Lost, llmd_types::Usage::default());
    assert_eq!(cached_at(&mut world, &prompt(100, 1, 2), 1), 1_600);
}

#[test]
fn what_an_endpoint_held_is_nobodys_when_it_returns_or_its_number_is_taken() {
    for name in ["e0", "other"] {
        let mut world = pair(round());
        // More than is forgotten at once.
        let prompts: Vec<Ask> = (1..=60).map(|salt| prompt(0, LONG, salt)).collect();
        for request in &prompts {
            let id = hold(&mut world, request, 0);
            world.cancel(id);
        }
        assert!(cached_at(&mut world, &prompts[59], 0) > 0);
        world.step(Event::EndpointDown(EndpointIndex(0)));
        assert_eq!(world.up(name, "v0", Some(round())).0, 0);
        let cached: Vec<u32> =
            prompts.iter().map(|request| cached_at(&mut world, request, 0)).collect();
        assert!(cached.iter().all(|tokens| *tokens == 0), "{name}: {cached:?}");
    }
}

/// Each request that is sent is told the index of in part: the others' rests pile up.
#[test]
fn what_waits_for_the_index_is_bounded() {
    let mut world = pair(round());
    for salt in 1..=15_000 {
        let pick = world.try_arrive(&prompt(0, LONG, salt), Some(EndpointIndex(0))).unwrap();
        world.step(Event::Sent(pick.request));
    }
    let mut pieces = 0;
    while world.pool.has_index_work() {
        world.step(Event::Timer);
        pieces += 1;
    }
    let most = 4_096 * 100 / 64;
    assert!((most - 64..=most).contains(&pieces), "{pieces}");
}
