//! Wrong and missing profiles: what was learned after some traffic, over the real engine model.

mod fixtures;

use fixtures::h100;
use llmd_sched::{PoolConfig, Rng, SchedulerKind};
use llmd_sim::{Arrivals, Job, Member, Report, Scenario, run};
use llmd_types::{Confidence, Micros, ReplicaFacts};
use std::sync::Arc;

/// Two engines of one kind; the second is `times` slower than the scheduler is told.
fn lying(times: f64, confidence: Confidence) -> Vec<Member> {
    let told = Arc::new(ReplicaFacts { confidence, ..h100() });
    let slow = Arc::new(ReplicaFacts { speed: 1.0 / times, ..h100() });
    vec![
        Member { variant: "true".into(), engine: told.clone(), told: Some(told.clone()) },
        Member { variant: "lying".into(), engine: slow, told: Some(told) },
    ]
}

fn jobs(count: usize, prompt: u32, output: u32, stream: bool) -> Vec<Job> {
    let mut rng = Rng::seeded(4);
    let job = |_| Job { stream, ..Job::new(0, 0, prompt, output, &mut rng) };
    (0..count).map(job).collect()
}

/// The true one's share of the second half of the requests.
fn late_share(report: &Report) -> f64 {
    let mut trips: Vec<_> = report.trips.iter().collect();
    trips.sort_by_key(|trip| trip.job);
    let late = &trips[trips.len() / 2..];
    late.iter().filter(|trip| trip.member == 0).count() as f64 / late.len() as f64
}

#[test]
fn an_engine_slower_than_its_profile_is_found_out() {
    for (prompt, output) in [(2_048, 16), (64, 300)] {
        for stream in [true, false] {
            let scenario = Scenario::new(lying(4.0, Confidence::Medium), 1);
            let report = run(&scenario, &jobs(600, prompt, output, stream), &Arrivals::Closed(20));
            let lying = &report.status.endpoints[1];
            let share = late_share(&report);
            println!(
                "{prompt}/{output} stream {stream}: {share:.2}, prefill x{:.2}, step x{:.2}",
                lying.prefill_correction, lying.step_correction
            );
            // By speed it would be four fifths; believing the profile it would be half.
            assert!(share > 0.68, "{prompt}/{output} stream {stream}: {share}");
        }
    }
}

#[test]
fn engines_without_a_profile_are_learned_and_said_to_be_unknown() {
    let fast = Arc::new(h100());
    let slow = Arc::new(ReplicaFacts { speed: 0.25, ..h100() });
    let member = |variant: &str, engine| Member { variant: variant.into(), engine, told: None };
    let scenario = Scenario::new(vec![member("fast", fast), member("slow", slow)], 1);
    let report = run(&scenario, &jobs(600, 1_024, 100, true), &Arrivals::Closed(20));
    assert!(late_share(&report) > 0.68, "{}", late_share(&report));
    for endpoint in &report.status.endpoints {
        assert!(!endpoint.profile_known);
    }
}

#[test]
fn answers_in_one_piece_are_shared_as_streams_are() {
    let slow = ReplicaFacts { speed: h100().speed / 6.0, ..h100() };
    let members = vec![Member::honest("fast", h100()), Member::honest("slow", slow)];
    let jobs = jobs(60, 2_048, 16, false);
    let report = run(&Scenario::new(members, 1), &jobs, &Arrivals::Closed(60));
    let fast = report.shares(Micros::MAX)[0].requests;
    assert!((45..=57).contains(&fast), "{fast} of 60");
}

#[test]
fn a_run_is_repeated_to_the_bit_by_its_seed() {
    for scheduler in [SchedulerKind::ExpectedFinish, SchedulerKind::Random] {
        let config = PoolConfig { scheduler, ..PoolConfig::default() };
        let repeat = |seed| {
            let members = lying(2.0, Confidence::Medium);
            let scenario = Scenario { config: config.clone(), ..Scenario::new(members, seed) };
            run(&scenario, &jobs(200, 500, 50, true), &Arrivals::Closed(20))
        };
        assert_eq!(repeat(1), repeat(1));
        if scheduler == SchedulerKind::Random {
            assert_ne!(repeat(1), repeat(2));
        }
    }
}
