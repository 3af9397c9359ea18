//! Health: what takes an endpoint out of picks, what brings it back, and how it starts.

use crate::world::{World, ask, round, usage};
use llmd_sched::{
    BreakerState, EndpointIndex, Event, HealthStatus, PoolConfig, Resilience, RetryCause,
    SchedulerKind, Why,
};
use llmd_types::{Micros, Outcome, RequestId, Usage};

const SECOND: u64 = 1_000_000;

/// How a request ends at an endpoint.
#[derive(Clone, Copy, Debug)]
enum End {
    Retried(RetryCause),
    Done(Outcome),
    /// A stream that began, and then ends so.
    Begun(Outcome),
}

/// No slow start, and no ejection by share: what is not under test.
fn breaker_only() -> Resilience {
    Resilience { slow_start: Micros::ZERO, ejection_failure_percent: 0, ..Resilience::default() }
}

fn pool_of(endpoints: usize, resilience: Resilience) -> World {
    let scheduler = SchedulerKind::LeastRequest;
    let config = PoolConfig { scheduler, resilience, attempts: 1, ..PoolConfig::default() };
    World::with(config, &vec![round(); endpoints])
}

impl World {
    /// A request of its own to endpoint `at` ends so.
    fn ends(&mut self, at: u16, end: End) {
        let pick = self.try_arrive(&ask(100, 10), Some(EndpointIndex(at))).unwrap();
        self.ends_request(pick.request, end);
    }

    fn ends_request(&mut self, id: RequestId, end: End) {
        match end {
            End::Retried(cause) => {
                let _ = self.failed(id, cause);
                self.cancel(id);
            }
            End::Done(outcome) => self.end(id, outcome, Usage::default()),
            End::Begun(outcome) => {
                self.step(Event::FirstByte(id));
                self.end(id, outcome, Usage::default());
            }
        }
    }

    fn breaker(&self, at: u16) -> BreakerState {
        self.endpoint(at).health.breaker
    }

    fn why(&self, at: u16) -> Option<Why> {
        self.endpoint(at).health.out.map(|(why, _)| why)
    }

    /// Where so many requests at once go, which are cancelled then.
    fn places(&mut self, count: usize) -> Vec<u16> {
        let picks: Vec<_> = (0..count).map(|_| self.arrive(&ask(100, 10))).collect();
        for pick in &picks {
            self.cancel(pick.request);
        }
        picks.iter().map(|pick| pick.endpoint.0).collect()
    }
}

#[test]
fn what_counts_as_a_failure_in_a_row() {
    use RetryCause::{Lost, Unreachable, Unserved};
    let rows = [
        (End::Retried(Unserved), Some(Why::FailuresInARow)),
        (End::Retried(Lost), Some(Why::FailuresInARow)),
        (End::Retried(Unreachable), Some(Why::Unreachable)),
        (End::Done(Outcome::Failed), Some(Why::FailuresInARow)),
        (End::Done(Outcome::Lost), Some(Why::FailuresInARow)),
        (End::Begun(Outcome::Lost), Some(Why::FailuresInARow)),
        (End::Begun(Outcome::Failed), Some(Why::FailuresInARow)),
        (End::Done(Outcome::Refused), None),
        (End::Done(Outcome::Done), None),
        (End::Done(Outcome::Cancelled), None),
        (End::Begun(Outcome::Cancelled), None),
    ];
    for (end, out) in rows {
        let mut world = pool_of(2, breaker_only());
        (0..5).for_each(|_| world.ends(0, end));
        assert_eq!(world.why(0), out, "{end:?}");
        let met = world.places(6).contains(&0);
        assert_eq!(met, out.is_none(), "{end:?}");
        world.assert_at_rest();
    }
}

#[test]
fn a_success_or_a_4xx_ends_a_row_of_failures_and_a_client_that_leaves_does_not() {
    let rows = [
        (End::Done(Outcome::Done), BreakerState::Closed),
        (End::Done(Outcome::Refused), BreakerState::Closed),
        (End::Done(Outcome::Cancelled), BreakerState::Open),
        (End::Begun(Outcome::Cancelled), BreakerState::Open),
    ];
    for (between, breaker) in rows {
        let mut world = pool_of(2, breaker_only());
        (0..4).for_each(|_| world.ends(0, End::Done(Outcome::Failed)));
        assert_eq!(world.endpoint(0).health.failures_in_a_row, 4);
        world.ends(0, between);
        world.ends(0, End::Done(Outcome::Failed));
        assert_eq!(world.breaker(0), breaker, "{between:?}");
    }
}

#[test]
fn each_opening_without_a_whole_answer_between_lasts_twice_as_long_up_to_the_most() {
    let mut world = pool_of(2, breaker_only());
    (0..5).for_each(|_| world.ends(0, End::Done(Outcome::Failed)));
    for seconds in [1, 2, 4, 8, 16, 30, 30] {
        let left = Some(Micros(seconds * SECOND));
        assert_eq!(world.endpoint(0).health.out, Some((Why::FailuresInARow, left)));
        world.wait(seconds * SECOND - 1);
        assert_eq!(world.breaker(0), BreakerState::Open);
        world.wait(1);
        assert_eq!(world.breaker(0), BreakerState::HalfOpen);
        world.ends(0, End::Done(Outcome::Failed));
    }
    world.wait(30 * SECOND);
    // A trial that begins and breaks closes it, but the next opening is long again.
    world.ends(0, End::Begun(Outcome::Lost));
    assert_eq!(world.breaker(0), BreakerState::Closed);
    (0..4).for_each(|_| world.ends(0, End::Begun(Outcome::Lost)));
    assert_eq!(world.endpoint(0).health.out.unwrap().1, Some(Micros(30 * SECOND)));
    world.wait(30 * SECOND);
    world.ends(0, End::Done(Outcome::Done));
    (0..5).for_each(|_| world.ends(0, End::Done(Outcome::Failed)));
    assert_eq!(world.endpoint(0).health.out.unwrap().1, Some(Micros(SECOND)));
}

#[test]
fn half_open_one_request_at_a_time_is_on_trial() {
    let trials = [
        (End::Done(Outcome::Done), BreakerState::Closed),
        (End::Done(Outcome::Refused), BreakerState::Closed),
        (End::Done(Outcome::Failed), BreakerState::Open),
        (End::Retried(RetryCause::Unserved), BreakerState::Open),
        (End::Retried(RetryCause::Unreachable), BreakerState::Open),
        (End::Done(Outcome::Cancelled), BreakerState::HalfOpen),
    ];
    for (end, after) in trials {
        let mut world = pool_of(2, breaker_only());
        let stuck = world.try_arrive(&ask(100, 10), Some(EndpointIndex(0))).unwrap().request;
        (0..5).for_each(|_| world.ends(0, End::Done(Outcome::Failed)));
        world.wait(SECOND);
        // What is stuck there from before says nothing now, and blocks nobody.
        let picks: Vec<_> = (0..6).map(|_| world.arrive(&ask(100, 10))).collect();
        let on_trial: Vec<_> = picks.iter().filter(|pick| pick.endpoint.0 == 0).collect();
        assert_eq!(on_trial.len(), 1, "{end:?}");
        assert_eq!(world.why(0), Some(Why::FailuresInARow));
        world.ends_request(stuck, End::Done(Outcome::Lost));
        assert_eq!(world.breaker(0), BreakerState::HalfOpen);
        world.ends_request(on_trial[0].request, end);
        assert_eq!(world.breaker(0), after, "{end:?}");
        for pick in &picks {
            world.cancel(pick.request);
        }
        world.assert_at_rest();
    }
}

#[test]
fn too_large_a_share_of_failures_takes_out_at_most_the_allowed_share_of_the_pool() {
    let rules =
        Resilience { breaker_failures: 0, slow_start: Micros::ZERO, ..Resilience::default() };
    // Every other request fails at all of them: of 5, two may be out.
    let mut world = pool_of(5, rules);
    for _ in 0..30 {
        for at in 0..5 {
            world.ends(at, End::Done(Outcome::Done));
            world.ends(at, End::Done(Outcome::Failed));
        }
    }
    let out = |world: &World| (0..5).filter(|at| world.why(*at).is_some()).count();
    assert_eq!(out(&world), 2);
    assert!((0..5).all(|at| world.why(at).is_none_or(|why| why == Why::FailureShare)));
    // A success of another request does not bring it back: half of them succeed.
    world.ends(0, End::Done(Outcome::Done));
    assert_eq!(out(&world), 2);

    let alone = |world: &mut World| {
        (0..60).for_each(|_| world.ends(0, End::Done(Outcome::Failed)));
        world.why(0)
    };
    assert_eq!(alone(&mut pool_of(1, rules)), None, "half of one is none");
    assert_eq!(alone(&mut pool_of(2, rules)), Some(Why::FailureShare));
    let off = Resilience { ejection_failure_percent: 0, ..rules };
    assert_eq!(alone(&mut pool_of(2, off)), None);
}

#[test]
fn a_share_is_taken_of_enough_requests_of_the_last_while() {
    let rules = Resilience { breaker_failures: 0, ..breaker_only() };
    let rules = Resilience { ejection_failure_percent: 50, ..rules };
    for (good, bad, apart, out) in [
        (10, 10, 0, true),
        (9, 10, 0, false),
        (11, 10, 0, false),
        (0, 20, 0, true),
        (0, 20, 600_000, false),
        (0, 20, 400_000, true),
    ] {
        let mut world = pool_of(2, rules);
        (0..good).for_each(|_| world.ends(0, End::Done(Outcome::Refused)));
        for _ in 0..bad {
            world.wait(apart);
            world.ends(0, End::Done(Outcome::Failed));
        }
        assert_eq!(world.why(0).is_some(), out, "{good} {bad} {apart}");
    }
}

#[test]
fn checks_take_an_endpoint_out_and_bring_it_back_and_count_no_load() {
    let rules = Resilience { check_successes: 2, ..breaker_only() };
    let mut world = pool_of(2, rules);
    let check = |world: &mut World, results: &[bool]| {
        for good in results {
            assert!(world.step(Event::Check(EndpointIndex(0), *good)).is_empty());
        }
        world.why(0)
    };
    let before = world.endpoint(0);
    assert_eq!(check(&mut world, &[false, false, true, false, false]), None);
    assert_eq!(world.endpoint(0), before);
    assert_eq!(check(&mut world, &[false]), Some(Why::Checks));
    assert!(world.places(8).iter().all(|at| *at == 1));
    assert_eq!(check(&mut world, &[true, false, true]), Some(Why::Checks));
    // An answer is no check.
    world.ends(0, End::Done(Outcome::Done));
    assert_eq!(check(&mut world, &[]), Some(Why::Checks));
    assert_eq!(check(&mut world, &[true, true]), None, "one good one was before");
    assert!(world.places(8).contains(&0));
    world.assert_at_rest();
}

#[test]
fn a_good_check_shortens_only_the_wait_for_a_connection() {
    for (cause, after) in [
        (RetryCause::Unreachable, BreakerState::HalfOpen),
        (RetryCause::Unserved, BreakerState::Open),
    ] {
        let mut world = pool_of(2, breaker_only());
        (0..5).for_each(|_| world.ends(0, End::Retried(cause)));
        assert_eq!(world.breaker(0), BreakerState::Open);
        world.step(Event::Check(EndpointIndex(0), true));
        assert_eq!(world.breaker(0), after, "{cause:?}");
    }
}

#[test]
fn where_all_are_out_the_least_ill_is_chosen_and_nobody_is_refused() {
    let mut world = pool_of(3, breaker_only());
    world.ends(0, End::Retried(RetryCause::Unreachable));
    (0..5).for_each(|_| world.ends(1, End::Done(Outcome::Failed)));
    (0..3).for_each(|_| drop(world.step(Event::Check(EndpointIndex(2), false))));
    let places = world.places(10);
    assert!(!places.contains(&0) && places.contains(&1) && places.contains(&2), "{places:?}");
    for at in 1..3 {
        world.step(Event::EndpointDrain(EndpointIndex(at)));
    }
    assert_eq!(world.places(3), [0, 0, 0]);
}

#[test]
fn a_retry_goes_to_one_that_is_out_before_it_is_given_up() {
    let mut world = World::with(PoolConfig::default(), &[round(), round()]);
    (0..3).for_each(|_| drop(world.step(Event::Check(EndpointIndex(1), false))));
    let pick = world.arrive(&ask(100, 10));
    assert_eq!(pick.endpoint.0, 0);
    assert_eq!(world.failed(pick.request, RetryCause::Lost).unwrap().endpoint.0, 1);
}

#[test]
fn an_estimated_length_takes_nobody_to_an_ill_endpoint_and_a_counted_one_does() {
    let short = llmd_types::ReplicaFacts { max_model_len: 1_000, ..round() };
    let mut world = World::with(PoolConfig::default(), &[short, round()]);
    (0..3).for_each(|_| drop(world.step(Event::Check(EndpointIndex(1), false))));
    let estimated = crate::world::Ask { bytes: 40_000, ..crate::world::Ask::default() };
    assert_eq!(world.place(&estimated), 0);
    assert_eq!(world.place(&ask(10_000, 10)), 1);
}

#[test]
fn one_that_joins_others_takes_its_growing_share() {
    let all = [
        SchedulerKind::ExpectedFinish,
        SchedulerKind::RoundRobin,
        SchedulerKind::Random,
        SchedulerKind::LeastRequest,
        SchedulerKind::LlmdDefault,
    ];
    for scheduler in all {
        let mut world = World::scheduled(scheduler, 2);
        assert!((0..2).all(|at| world.endpoint(at).health.slow_start.is_none()), "the first");
        (0..40).for_each(|_| _ = world.arrive(&ask(100, 10)));
        let index = world.up("new", "v0", Some(round()));
        for (wait, most) in [(0, 1), (2 * SECOND, 6), (3 * SECOND, 13)] {
            world.wait(wait);
            (0..20).for_each(|_| _ = world.arrive(&ask(100, 10)));
            let inflight = world.inflight();
            let (new, mean) = (inflight[usize::from(index.0)], inflight[0].midpoint(inflight[1]));
            assert!(new >= 1, "{scheduler:?}: never without work");
            assert!(new <= 2 + mean * (most - 1) / 20, "{scheduler:?}: {new} beside {mean}");
        }
        world.wait(5 * SECOND);
        assert_eq!(world.endpoint(index.0).health.slow_start, None, "{scheduler:?}");
    }
}

#[test]
fn who_starts_slowly() {
    // After a trial, and after checks.
    let mut world = pool_of(2, Resilience::default());
    (0..5).for_each(|_| world.ends(0, End::Done(Outcome::Failed)));
    world.wait(SECOND);
    world.ends(0, End::Done(Outcome::Done));
    assert_eq!(world.endpoint(0).health.slow_start, Some(0.0));
    world.wait(SECOND);
    assert_eq!(world.endpoint(0).health.slow_start, Some(0.1));
    for good in [false, false, false, true] {
        world.step(Event::Check(EndpointIndex(1), good));
    }
    assert_eq!(world.endpoint(1).health.slow_start, Some(0.0));
    // Both do: nobody is there to leave the rest to.
    assert_eq!(world.places(8).iter().filter(|at| **at == 0).count(), 4);

    // A connection that was refused while others are served was no absence.
    let mut world = pool_of(2, Resilience::default());
    let running = world.try_arrive(&ask(100, 10), Some(EndpointIndex(0))).unwrap().request;
    world.ends(0, End::Retried(RetryCause::Unreachable));
    world.step(Event::FirstByte(running));
    let health = world.endpoint(0).health;
    assert_eq!((health.out, health.slow_start, health.out_for), (None, None, None));

    // One that joins endpoints that were only probed, or that nobody asked, is among the first.
    let mut world = pool_of(1, Resilience::default());
    world.ends(0, End::Done(Outcome::Done));
    let second = world.up("new", "v", Some(round()));
    assert_eq!(world.endpoint(second.0).health.slow_start, None);
    let off = Resilience { slow_start: Micros::ZERO, ..Resilience::default() };
    world.step(Event::Config(PoolConfig { resilience: off, ..PoolConfig::default() }));
    _ = world.arrive(&ask(100, 10));
    let third = world.up("newer", "v", Some(round()));
    assert_eq!(world.endpoint(third.0).health.slow_start, None);
}

#[test]
fn one_that_left_and_returned_is_as_new_whatever_was_known_of_it() {
    let mut world = pool_of(2, Resilience::default());
    let flying = world.try_arrive(&ask(100, 10), Some(EndpointIndex(0))).unwrap().request;
    for _ in 0..3 {
        (0..5).for_each(|_| world.ends(0, End::Done(Outcome::Failed)));
        (0..3).for_each(|_| drop(world.step(Event::Check(EndpointIndex(0), false))));
        world.step(Event::EndpointDown(EndpointIndex(0)));
        assert_eq!(world.up("e0", "v0", Some(round())).0, 0);
        assert_eq!(world.endpoint(0).health, HealthStatus::default());
        assert_eq!(world.inflight(), [1, 0]);
    }
    // What was sent to it before it left says nothing of it now.
    let old: Vec<_> =
        (0..9).map(|_| world.try_arrive(&ask(9, 9), Some(EndpointIndex(0))).unwrap()).collect();
    world.step(Event::EndpointDown(EndpointIndex(0)));
    world.up("e0", "v0", Some(round()));
    for pick in old {
        world.ends_request(pick.request, End::Retried(RetryCause::Lost));
    }
    assert_eq!(world.endpoint(0).health, HealthStatus::default());
    // One that drains and becomes ready again was there all the time.
    (0..5).for_each(|_| world.ends(0, End::Done(Outcome::Failed)));
    world.step(Event::EndpointDrain(EndpointIndex(0)));
    world.up("e0", "v0", Some(round()));
    assert_eq!(world.why(0), Some(Why::FailuresInARow));
    world.end(flying, Outcome::Done, usage(100, 10));
    world.assert_at_rest();
}

#[test]
fn a_request_that_was_given_up_holds_no_number() {
    for named in [None, Some(EndpointIndex(0))] {
        let mut world = pool_of(1, Resilience::default());
        let id = world.try_arrive(&ask(100, 10), named).unwrap().request;
        assert!(world.failed(id, RetryCause::Lost).is_err());
        world.step(Event::EndpointDown(EndpointIndex(0)));
        assert_eq!(world.up("other", "v0", Some(round())).0, 0, "{named:?}");
    }
}

#[test]
fn rules_that_are_turned_off_let_go_of_whom_they_held() {
    let off = |rules: Resilience| move || rules;
    let rows: [(Why, &dyn Fn() -> Resilience); 4] = [
        (Why::Unreachable, &off(Resilience { breaker_failures: 0, ..Resilience::default() })),
        (Why::FailuresInARow, &off(Resilience { breaker_failures: 0, ..Resilience::default() })),
        (
            Why::FailureShare,
            &off(Resilience { ejection_failure_percent: 0, ..Resilience::default() }),
        ),
        (Why::Checks, &off(Resilience { check_failures: 0, ..Resilience::default() })),
    ];
    for (why, rules) in rows {
        let mut world = pool_of(3, Resilience::default());
        match why {
            Why::Unreachable => world.ends(0, End::Retried(RetryCause::Unreachable)),
            Why::FailuresInARow => {
                (0..5).for_each(|_| world.ends(0, End::Done(Outcome::Failed)));
            }
            Why::FailureShare => {
                for _ in 0..12 {
                    world.ends(0, End::Done(Outcome::Done));
                    world.ends(0, End::Done(Outcome::Failed));
                }
            }
            Why::Checks => {
                (0..3).for_each(|_| drop(world.step(Event::Check(EndpointIndex(0), false))));
            }
        }
        assert_eq!(world.why(0), Some(why));
        let same = world.pool.config().clone();
        world.step(Event::Config(same));
        assert_eq!(world.why(0), Some(why), "the same settings again");
        world.step(Event::Config(PoolConfig { resilience: rules(), ..PoolConfig::default() }));
        assert_eq!(world.why(0), None);
        assert_eq!(world.breaker(0), BreakerState::Closed);
        if why == Why::Unreachable {
            world.ends(0, End::Done(Outcome::Failed));
            assert_eq!(world.why(0), None, "it is off");
        }
    }
}
