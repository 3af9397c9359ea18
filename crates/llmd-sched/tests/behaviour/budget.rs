//! The retry budget: what keeps an outage from being multiplied.

use crate::world::{World, ask, round};
use llmd_sched::{Event, PoolConfig, Refusal, Resilience, RetryCause};

fn pool_with(percent: u32, minimum: u32) -> World {
    let resilience = Resilience {
        retry_budget_percent: percent,
        retry_budget_min_per_second: minimum,
        ..Resilience::default()
    };
    let config = PoolConfig { resilience, attempts: 4, ..PoolConfig::default() };
    World::with(config, &vec![round(); 6])
}

/// Requests of which every attempt ends so, `apart` microseconds between two; attempts made.
fn storm(world: &mut World, requests: u32, apart: u64, cause: RetryCause) -> u32 {
    let mut attempts = 0;
    for _ in 0..requests {
        world.wait(apart);
        let id = world.arrive(&ask(100, 10)).request;
        attempts += 1;
        while world.failed(id, cause).is_ok() {
            attempts += 1;
        }
    }
    world.assert_at_rest();
    attempts
}

#[test]
fn where_every_endpoint_answers_503_attempts_stay_within_requests_and_budget() {
    for (percent, minimum, requests, apart) in
        [(20, 10, 10_000, 1_000), (20, 10, 1_000, 100_000), (50, 0, 3_000, 10), (0, 7, 400, 50_000)]
    {
        let mut world = pool_with(percent, minimum);
        let attempts = storm(&mut world, requests, apart, RetryCause::Unserved);
        let seconds = (u64::from(requests) * apart / 1_000_000) as u32 + 1;
        let most = requests + requests * percent / 100 + seconds * minimum;
        assert!(attempts <= most, "{percent} {minimum}: {attempts} > {most}");
        assert!(attempts + 2 >= most.min(requests * 4), "all of it: {attempts} of {most}");
        let status = world.pool.status(world.now);
        assert_eq!(status.retries, u64::from(attempts - requests));
        assert!(status.retries_refused > 0);
        assert_eq!(status.retry_budget, 0);
    }
}

#[test]
fn retries_after_a_connection_that_failed_draw_on_no_budget() {
    for cause in [RetryCause::Unreachable, RetryCause::Lost] {
        let mut world = pool_with(0, 0);
        assert_eq!(storm(&mut world, 50, 10, cause), 50 * 6, "{cause:?}: each endpoint once");
        let status = world.pool.status(world.now);
        assert_eq!((status.retries, status.retries_refused), (0, 0));
    }
}

#[test]
fn an_empty_budget_is_a_reason_of_its_own_and_an_unused_attempt_costs_nothing() {
    let mut world = pool_with(100, 0);
    let first = world.arrive(&ask(100, 10)).request;
    assert!(world.try_retry(first).is_ok(), "one request pays for one retry");
    assert_eq!(world.try_retry(first), Err(Refusal::RetryBudgetUsed));
    assert_eq!(world.pool.status(world.now).retries_refused, 1);

    // Where no other endpoint is left nothing is tried, and nothing is paid.
    let resilience = Resilience { retry_budget_percent: 100, ..Resilience::default() };
    let config = PoolConfig { resilience, ..PoolConfig::default() };
    let mut world = World::with(config, &[round()]);
    let only = world.arrive(&ask(100, 10)).request;
    let before = world.pool.status(world.now).retry_budget;
    assert_eq!(world.try_retry(only), Err(Refusal::AttemptsUsed));
    assert_eq!(world.pool.status(world.now).retry_budget, before);
}

#[test]
fn what_is_saved_up_has_a_bound() {
    let mut world = pool_with(10, 3);
    world.arrive(&ask(100, 10));
    world.wait(1_000_000_000_000);
    (0..5_000).for_each(|_| {
        let id = world.arrive(&ask(100, 10)).request;
        world.cancel(id);
    });
    assert_eq!(world.pool.status(world.now).retry_budget, 1_000 / 10 + 10 * 3);
}

#[test]
fn time_fills_it_by_the_rules_of_its_time() {
    let mut world = pool_with(10, 7);
    let budget = |world: &World| world.pool.status(world.now).retry_budget;
    world.arrive(&ask(100, 10));
    assert_eq!(budget(&world), 7);
    world.wait(2_000_000);
    assert_eq!(budget(&world), 21);
    let mut config = world.pool.config().clone();
    config.resilience.retry_budget_min_per_second = 0;
    world.step(Event::Config(config));
    world.wait(9_000_000);
    assert_eq!(budget(&world), 21, "what passed under the old rules stays");
}
