//! One engine of three stops doing anything while 200 requests are under way.

mod fixtures;

use fixtures::h100;
use llmd_sched::{BreakerState, EndpointIndex, PoolStatus, Resilience, Rng, SchedulerKind};
use llmd_sim::{Arrivals, Job, Member, Report, Scenario, run};
use llmd_types::Micros;

const HANGS_AT: Micros = Micros::from_millis(500);
const PATIENCE: Micros = Micros::from_millis(1_000);
const CONCURRENT: usize = 200;
const JOBS: u64 = 2_000;

fn jobs() -> Vec<Job> {
    let rng = &mut Rng::seeded(7);
    (0..JOBS).map(|_| Job::new(0, 0, 128, 64, rng)).collect()
}

fn scenario(scheduler: SchedulerKind, engines: usize, resilience: Resilience) -> Scenario {
    let members = (0..engines).map(|_| Member::honest("v", h100())).collect();
    let mut scenario = Scenario::new(members, 1);
    (scenario.config.scheduler, scenario.config.resilience) = (scheduler, resilience);
    scenario.patience = Some(PATIENCE);
    scenario
}

fn hung(scheduler: SchedulerKind, resilience: Resilience) -> Report {
    let mut scenario = scenario(scheduler, 3, resilience);
    scenario.hangs = vec![(2, HANGS_AT)];
    run(&scenario, &jobs(), &Arrivals::Closed(CONCURRENT))
}

fn at_rest(status: &PoolStatus) {
    assert_eq!(status.requests, 0);
    for endpoint in &status.endpoints {
        assert_eq!((endpoint.inflight_requests, endpoint.inflight_tokens), (0, 0));
    }
}

const SCHEDULERS: [SchedulerKind; 5] = [
    SchedulerKind::ExpectedFinish,
    SchedulerKind::RoundRobin,
    SchedulerKind::Random,
    SchedulerKind::LeastRequest,
    SchedulerKind::LlmdDefault,
];

#[test]
fn no_request_of_the_other_engines_waits_for_the_hung_one() {
    for scheduler in SCHEDULERS {
        // Two engines alone with all of the load are the worst that the other two may see.
        let two = scenario(scheduler, 2, Resilience::default());
        let alone = run(&two, &jobs(), &Arrivals::Closed(CONCURRENT));
        assert_eq!((alone.status.retries, alone.lost), (0, 0), "{scheduler:?}: none is impatient");
        let slowest = alone.trips.iter().map(llmd_sim::Trip::latency).max().unwrap_or_default();
        let report = hung(scheduler, Resilience::default());
        let first_attempts = report.trips.iter().filter(|trip| trip.pick.reasons.attempt == 1);
        let waited = first_attempts.map(llmd_sim::Trip::latency).max().unwrap_or_default();
        assert!(waited.as_f64() <= slowest.as_f64() * 1.1, "{scheduler:?}: {waited} > {slowest}");
        at_rest(&report.status);
    }
}

#[test]
fn the_hung_engine_is_out_once_requests_have_waited_as_long_as_is_allowed() {
    for scheduler in SCHEDULERS {
        let report = hung(scheduler, Resilience::default());
        let out_at = HANGS_AT + PATIENCE + PATIENCE;
        let last = report.trips.iter().map(|trip| trip.ended_at).max().unwrap_or_default();
        assert!(last > out_at + PATIENCE, "{scheduler:?}: the run is too short to tell: {last}");
        // What came later and met it was on trial, one at a time.
        let met =
            |trip: &&llmd_sim::Trip| trip.pick.reasons.attempt > 1 && trip.arrived_at > out_at;
        let trials = report.trips.iter().filter(met).count() as u64;
        assert!(trials <= 1 + last.since(out_at).0 / PATIENCE.0, "{scheduler:?}: {trials}");
        let status = &report.status.endpoints[2];
        assert_ne!(status.health.breaker, BreakerState::Closed, "{scheduler:?}");
        assert_eq!(status.index, EndpointIndex(2));
    }
}

#[test]
fn what_was_stuck_without_an_answer_is_served_elsewhere_as_far_as_the_budget_goes() {
    for scheduler in SCHEDULERS {
        let report = hung(scheduler, Resilience::default());
        assert_eq!(
            report.refused, 0,
            "{scheduler:?}: all had an engine left, and the budget lasts"
        );
        assert_eq!(report.trips.len() as u64 + report.lost, JOBS, "{scheduler:?}");
        assert!(report.status.retries > 0, "{scheduler:?}: nobody was stuck");
        assert!(report.lost < CONCURRENT as u64, "{scheduler:?}: {} broke off", report.lost);

        let no_budget = Resilience {
            retry_budget_percent: 0,
            retry_budget_min_per_second: 0,
            ..Resilience::default()
        };
        let report = hung(scheduler, no_budget);
        assert_eq!(report.refused, report.status.retries_refused, "{scheduler:?}");
        assert!(report.refused > 0 && report.refused < CONCURRENT as u64, "{scheduler:?}");
        at_rest(&report.status);
    }
}
