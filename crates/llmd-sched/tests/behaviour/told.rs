//! What status tells of an endpoint's health, and what of its past it keeps or forgets.

use crate::world::{World, ask, round, usage};
use llmd_sched::{
    BreakerState, EndpointIndex, Event, PoolConfig, Resilience, RetryCause, SchedulerKind, Why,
};
use llmd_types::{Micros, Outcome, ReplicaFacts, RequestId, Usage};

const SECOND: u64 = 1_000_000;
const FIRST: EndpointIndex = EndpointIndex(0);

/// What happens to a pool.
type Act = fn(&mut World);

/// No slow start, and no ejection by share.
fn breaker_only() -> Resilience {
    Resilience { slow_start: Micros::ZERO, ejection_failure_percent: 0, ..Resilience::default() }
}

fn config(resilience: Resilience) -> PoolConfig {
    let scheduler = SchedulerKind::LeastRequest;
    PoolConfig { scheduler, resilience, attempts: 1, ..PoolConfig::default() }
}

fn pool_of(endpoints: usize, resilience: Resilience) -> World {
    World::with(config(resilience), &vec![round(); endpoints])
}

impl World {
    /// A request that names the endpoint.
    fn at(&mut self, index: EndpointIndex) -> RequestId {
        self.try_arrive(&ask(100, 10), Some(index)).unwrap().request
    }

    fn done(&mut self, index: EndpointIndex, outcome: Outcome, times: usize) {
        for _ in 0..times {
            let id = self.at(index);
            self.end(id, outcome, Usage::default());
        }
    }

    fn refuses(&mut self, index: EndpointIndex) {
        let id = self.at(index);
        let _ = self.failed(id, RetryCause::Unreachable);
    }

    fn checks(&mut self, index: EndpointIndex, good: bool, times: usize) {
        (0..times).for_each(|_| drop(self.step(Event::Check(index, good))));
    }

    fn out(&self) -> Option<Why> {
        self.endpoint(0).health.out.map(|(why, _)| why)
    }

    fn rules(&mut self, resilience: Resilience) {
        self.step(Event::Config(config(resilience)));
    }
}

#[test]
fn why_since_when_and_how_often_until_it_is_back_whole() {
    let mut world = pool_of(2, breaker_only());
    let told = |world: &World| {
        let health = world.endpoint(0).health;
        (health.last, health.out_for.map(|span| span.0 / SECOND), health.ejections)
    };
    assert_eq!(told(&world), (None, None, [0, 0, 0, 0]));
    world.done(FIRST, Outcome::Failed, 5);
    assert_eq!(told(&world), (Some(Why::FailuresInARow), Some(0), [0, 1, 0, 0]));
    assert_eq!(world.endpoint(0).health.failures_in_a_row, 0, "they were paid for");
    world.wait(SECOND);
    // A trial that fails lengthens it, and is no other time.
    world.done(FIRST, Outcome::Failed, 1);
    assert_eq!(told(&world), (Some(Why::FailuresInARow), Some(1), [0, 1, 0, 0]));
    world.checks(FIRST, false, 3);
    assert_eq!(told(&world), (Some(Why::Checks), Some(1), [0, 1, 0, 1]));
    world.wait(2 * SECOND);
    assert_eq!(world.endpoint(0).health.breaker, BreakerState::HalfOpen);
    assert!((0..6).all(|_| world.place(&ask(100, 10)) == 1), "no trial while checks fail");
    world.done(FIRST, Outcome::Done, 1);
    assert_eq!(world.endpoint(0).health.breaker, BreakerState::Closed);
    assert_eq!(told(&world), (Some(Why::Checks), Some(3), [0, 1, 0, 1]));
    world.checks(FIRST, true, 1);
    assert_eq!(told(&world), (Some(Why::Checks), None, [0, 1, 0, 1]));
    world.refuses(FIRST);
    assert_eq!(told(&world), (Some(Why::Unreachable), Some(0), [1, 1, 0, 1]));
}

#[test]
fn each_reason_and_each_state_has_its_name() {
    let names = ["unreachable", "failures-in-a-row", "failure-share", "checks"];
    assert_eq!(Why::ALL.map(Why::name), names);
    let states = [BreakerState::Closed, BreakerState::Open, BreakerState::HalfOpen];
    assert_eq!(states.map(BreakerState::name), ["closed", "open", "half-open"]);
}

#[test]
fn what_is_wrong_is_told_in_words() {
    let rules = Resilience { breaker_failures: 0, ..Resilience::default() };
    let rows: [(Resilience, Act, &str); 6] = [
        (breaker_only(), |world| world.refuses(FIRST), "no connection: for"),
        (breaker_only(), |world| world.done(FIRST, Outcome::Lost, 5), "failures in a row: for"),
        (rules, |world| world.done(FIRST, Outcome::Lost, 20), "too large a share of failures: for"),
        (rules, |world| world.checks(FIRST, false, 3), "active checks failed: until it answers"),
        (
            rules,
            |world| {
                world.checks(FIRST, false, 3);
                world.checks(FIRST, true, 1);
                world.wait(SECOND);
            },
            "slow start: takes up to 10 % of",
        ),
        (
            rules,
            |world| {
                world.report(0, 1, 1, 0.5);
                world.step(Event::Scrape(FIRST, None));
                world.wait(SECOND);
            },
            "load last reported 1000ms ago: loses weight",
        ),
    ];
    for (rules, act, words) in rows {
        let mut world = pool_of(2, rules);
        act(&mut world);
        let said = world.endpoint(0).degraded.concat();
        assert!(said.contains(words), "{words} in {said}");
    }
}

#[test]
fn what_was_counted_before_it_went_out_is_not_counted_again() {
    let rules = Resilience { ejection_failure_percent: 50, ..breaker_only() };
    let mut world = pool_of(2, rules);
    world.done(FIRST, Outcome::Failed, 5);
    // While it is out no share takes it out once more.
    world.done(FIRST, Outcome::Failed, 25);
    assert_eq!(world.out(), Some(Why::FailuresInARow));

    let mut world = pool_of(2, rules);
    world.done(FIRST, Outcome::Failed, 20);
    world.wait(SECOND);
    let trial = world.at(FIRST);
    world.step(Event::FirstByte(trial));
    assert_eq!(world.endpoint(0).health.failures_in_a_row, 0, "its first byte ends the row");
    world.end(trial, Outcome::Done, Usage::default());
    world.done(FIRST, Outcome::Failed, 1);
    assert_eq!(world.out(), None, "17 since it went out are too few");
}

#[test]
fn a_trial_that_nobody_listens_to_says_so() {
    let mut world = pool_of(2, breaker_only());
    world.done(FIRST, Outcome::Failed, 5);
    world.wait(SECOND);
    world.refuses(FIRST);
    assert_eq!(world.out(), Some(Why::Unreachable));
}

#[test]
fn what_a_life_before_says_changes_nothing() {
    let mut world = pool_of(2, breaker_only());
    let old = world.at(FIRST);
    world.report(0, 7, 7, 0.5);
    world.step(Event::EndpointDown(FIRST));
    world.up("e0", "v0", Some(round()));
    assert_eq!(world.endpoint(0).reported, None);
    world.refuses(FIRST);
    world.step(Event::FirstByte(old));
    assert_eq!(world.out(), Some(Why::Unreachable));
    world.end(old, Outcome::Done, usage(100, 10));
    assert_eq!(world.out(), Some(Why::Unreachable));
    world.assert_at_rest();
}

#[test]
fn new_rules_begin_with_nothing_counted_by_the_old_ones() {
    let share = Resilience { breaker_failures: 0, ejection_failure_percent: 50, ..breaker_only() };
    let mut world = pool_of(2, share);
    world.done(FIRST, Outcome::Failed, 19);
    world.rules(Resilience { check_failures: 7, ..share });
    world.done(FIRST, Outcome::Failed, 1);
    assert_eq!(world.out(), None, "of the last while");

    let off = Resilience { check_failures: 0, ..breaker_only() };
    let mut world = pool_of(2, breaker_only());
    world.checks(FIRST, false, 2);
    world.rules(off);
    world.rules(breaker_only());
    world.checks(FIRST, false, 2);
    assert_eq!(world.out(), None, "checks in a row");
    world.rules(off);
    world.checks(FIRST, false, 9);
    assert_eq!(world.out(), None, "checks are off");

    let off = Resilience { breaker_failures: 0, ..breaker_only() };
    let mut world = pool_of(2, breaker_only());
    world.done(FIRST, Outcome::Failed, 5);
    world.wait(SECOND);
    world.done(FIRST, Outcome::Failed, 1);
    world.rules(off);
    assert_eq!(world.endpoint(0).health.out_for, None);
    world.rules(breaker_only());
    world.done(FIRST, Outcome::Failed, 5);
    let left = Some(Micros(SECOND));
    assert_eq!(world.endpoint(0).health.out, Some((Why::FailuresInARow, left)), "openings");
}

/// The share of one that starts slowly is measured by those that neither are out nor start
/// slowly, whatever takes the others out.
#[test]
fn a_share_is_a_share_of_those_that_serve_fully() {
    let other = EndpointIndex(1);
    let ills: [fn(&mut World, EndpointIndex); 2] =
        [|world, at| world.done(at, Outcome::Failed, 5), |world, at| world.checks(at, false, 3)];
    for ill in ills {
        let mut world = pool_of(2, Resilience::default());
        let _ = world.arrive(&ask(100, 10));
        for _ in 0..8 {
            world.at(FIRST);
        }
        let new = world.up("new", "v0", Some(round()));
        world.wait(5 * SECOND);
        ill(&mut world, other);
        let places: Vec<u16> = (0..5).map(|_| world.place(&ask(100, 10))).collect();
        assert_eq!(places, [new.0; 5]);
    }
    let mut world = pool_of(1, Resilience::default());
    let _ = world.arrive(&ask(100, 10));
    for _ in 0..7 {
        world.at(FIRST);
    }
    world.up("new", "v0", Some(round()));
    world.up("newer", "v0", Some(round()));
    world.wait(5 * SECOND);
    assert!((0..10).all(|_| world.place(&ask(100, 10)) > 0), "half of eight, and one");
}

#[test]
fn what_is_usual_is_told_by_those_that_take_part() {
    let expected = |act: fn(&mut World)| {
        let mut world = World::with(PoolConfig::default(), &[round(), round()]);
        act(&mut world);
        let pick = world.try_arrive(&ask(100, 10), Some(FIRST)).unwrap();
        (pick.reasons.ttft, pick.reasons.itl, pick.reasons.finish)
    };
    let quiet = expected(|_| {});
    assert_ne!(expected(|world| world.report(1, 900, 90_000, 1.0)), quiet);
    let drains = |world: &mut World| {
        world.report(1, 900, 90_000, 1.0);
        world.step(Event::EndpointDrain(EndpointIndex(1)));
    };
    assert_eq!(expected(drains), quiet);
    let ill = |world: &mut World| {
        world.report(1, 900, 90_000, 1.0);
        world.checks(EndpointIndex(1), false, 3);
    };
    assert_eq!(expected(ill), quiet);
}

#[test]
fn facts_that_cannot_be_are_no_facts() {
    let mut world = pool_of(1, breaker_only());
    world.up("odd", "v", Some(ReplicaFacts { speed: 0.0, ..round() }));
    assert_eq!([0, 1].map(|at| world.endpoint(at).profile_known), [true, false]);
    let _ = world.at(EndpointIndex(1));
}

#[test]
fn requests_and_picks_are_counted() {
    let mut world = pool_of(2, breaker_only());
    let ids: Vec<_> = (0..3).map(|_| world.at(FIRST)).collect();
    let told = |world: &World| (world.pool.status(world.now).requests, world.endpoint(0).picks);
    assert_eq!(told(&world), (3, 3));
    for id in ids {
        world.cancel(id);
    }
    assert_eq!(told(&world), (0, 3));
}

#[test]
fn what_ended_before_a_reading_hides_the_load_of_others_in_that_one_only() {
    let mut world = World::with(PoolConfig::default(), &[round()]);
    let finish = |world: &mut World| {
        world.report(0, 900, 90_000, 1.0);
        let pick = world.arrive(&ask(100, 10));
        world.cancel(pick.request);
        pick.reasons.finish
    };
    let picks: Vec<_> = (0..91_000).map(|_| world.arrive(&ask(1, 1)).request).collect();
    for id in picks {
        world.cancel(id);
    }
    let (hidden, seen) = (finish(&mut world), finish(&mut world));
    assert!(hidden < seen, "{hidden:?} {seen:?}");
}
