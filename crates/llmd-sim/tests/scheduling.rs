//! What the default scheduler achieves, over the live `step` and the real engine model.

mod fixtures;

use fixtures::{h100, mixed};
use llmd_perf::{Workload, capacity};
use llmd_sched::{PoolConfig, Rng, SchedulerKind};
use llmd_sim::{Arrivals, Job, Member, Report, Scenario, run};
use llmd_types::{Micros, ReplicaFacts};

/// Two engines, the second six times slower.
fn fast_and_slow(facts: ReplicaFacts) -> Vec<Member> {
    let slow = ReplicaFacts { speed: facts.speed / 6.0, ..facts.clone() };
    vec![Member::honest("fast", facts), Member::honest("slow", slow)]
}

fn distinct(count: usize, prompt: u32, output: u32, rng: &mut Rng) -> Vec<Job> {
    (0..count).map(|_| Job::new(0, 0, prompt, output, rng)).collect()
}

fn requests(report: &Report, member: usize) -> u64 {
    report.shares(Micros::MAX)[member].requests
}

fn at_rest(report: &Report) {
    assert_eq!(report.status.requests, 0, "requests remembered after their end");
    for endpoint in &report.status.endpoints {
        assert_eq!((endpoint.inflight_requests, endpoint.inflight_tokens), (0, 0));
    }
}

#[test]
fn sequential_prompts_go_to_the_faster_of_two_idle_engines() {
    for seed in 0..5 {
        let jobs = distinct(60, 2_048, 16, &mut Rng::seeded(seed));
        let scenario = Scenario::new(fast_and_slow(h100()), seed);
        let report = run(&scenario, &jobs, &Arrivals::Closed(1));
        assert!(requests(&report, 0) >= 58, "{} of 60", requests(&report, 0));
        at_rest(&report);
    }
}

#[test]
fn concurrent_prompts_are_shared_in_the_ratio_of_speeds() {
    for seed in 0..5 {
        let jobs = distinct(60, 2_048, 16, &mut Rng::seeded(seed));
        let scenario = Scenario::new(fast_and_slow(h100()), seed);
        let at_once = Arrivals::Closed(60);
        let spread = Arrivals::At((0..60).map(|at| Micros(at * 1_000)).collect());
        for arrivals in [at_once, spread] {
            let report = run(&scenario, &jobs, &arrivals);
            let fast = requests(&report, 0);
            assert!((45..=57).contains(&fast), "{fast} of 60 to the fast one");
            at_rest(&report);
        }
    }
}

#[test]
fn hot_prefixes_are_found_again_without_overloading_their_holders() {
    let (shared, own, output, count) = (2_048, 256, 64, 400);
    let workload = Workload { prompt_tokens: own, output_tokens: output };
    let rate = 0.7 * 4.0 * capacity(&h100(), workload, None).requests_per_second;
    for seed in 0..20 {
        let mut rng = Rng::seeded(seed);
        let jobs: Vec<Job> = (0..count)
            .map(|_| Job::new(1 + rng.below(8) as u64, shared, own, output, &mut rng))
            .collect();
        let arrivals = Arrivals::poisson(count, rate, &mut rng);
        let members = (0..4).map(|_| Member::honest("h100", h100())).collect();
        let report = run(&Scenario::new(members, seed), &jobs, &arrivals);
        let parts = report.shares(Micros::MAX);
        let most = parts.iter().map(|part| part.requests).max().unwrap_or(0);
        let work = parts.iter().map(|part| part.worked_tokens);
        let worked = work.clone().max().unwrap_or(0) as f64 * 4.0 / work.sum::<u64>() as f64;
        let cached: u64 = parts.iter().map(|part| part.cached_tokens).sum();
        let ideal = (count as u64 - 8) * u64::from(shared);
        assert!(most as f64 <= 1.5 * count as f64 / 4.0, "seed {seed}: {most} of {count}");
        assert!(worked <= 1.5, "seed {seed}: {worked} of the mean work");
        assert!(cached as f64 >= 0.8 * ideal as f64, "seed {seed}: {cached} of {ideal}");
        at_rest(&report);
    }
}

fn mixed_members() -> Vec<Member> {
    mixed().into_iter().map(|(name, facts)| Member::honest(name, facts)).collect()
}

fn capacities(workload: Workload) -> Vec<f64> {
    let each = |facts: &ReplicaFacts| capacity(facts, workload, None).requests_per_second;
    mixed().iter().map(|(_, facts)| each(facts)).collect()
}

#[test]
fn a_saturated_mixed_fleet_shares_tokens_as_its_capacities() {
    for (prompt, output, load) in
        [(1_000, 200, 1.1), (1_000, 200, 1.3), (2_000, 50, 1.15), (300, 400, 1.15)]
    {
        let workload = Workload { prompt_tokens: prompt, output_tokens: output };
        let each = capacities(workload);
        let all: f64 = each.iter().sum();
        let count = (all * 120.0) as usize;
        let mut rng = Rng::seeded(9);
        let jobs = distinct(count, prompt, output, &mut rng);
        let arrivals = Arrivals::poisson(count, all * load, &mut rng);
        let Arrivals::At(times) = &arrivals else { unreachable!() };
        let last = *times.last().unwrap();
        let report = run(&Scenario::new(mixed_members(), 9), &jobs, &arrivals);
        let shares = report.shares(last);
        let tokens: u64 = shares.iter().map(|share| share.tokens).sum();
        for (at, share) in shares.iter().enumerate() {
            let (found, due) = (share.tokens as f64 / tokens as f64, each[at] / all);
            assert!((found / due - 1.0).abs() <= 0.15, "{}: {found} for {due}", mixed()[at].0);
        }
        at_rest(&report);
    }
}

#[test]
fn at_80_percent_it_is_quicker_than_a_random_choice_by_capacity() {
    let workload = Workload { prompt_tokens: 1_000, output_tokens: 200 };
    let each = capacities(workload);
    let all: f64 = each.iter().sum();
    for seed in 0..3 {
        let mut rng = Rng::seeded(seed);
        let count = (all * 30.0) as usize;
        let jobs = distinct(count, 1_000, 200, &mut rng);
        let arrivals = Arrivals::poisson(count, all * 0.8, &mut rng);
        let found = run(&Scenario::new(mixed_members(), seed), &jobs, &arrivals).mean_latency_us();
        let random = weighted_random(&jobs, &arrivals, &each, seed);
        println!(
            "seed {seed}: {:.0} ms, by capacity at random {:.0} ms",
            found / 1e3,
            random / 1e3
        );
        assert!(found < random, "seed {seed}: {found} against {random}");
    }
}

/// Mean latency when each job goes to a member with a chance as its capacity: each member runs
/// alone over the jobs that fell to it, so no scheduler has a part in it.
fn weighted_random(jobs: &[Job], arrivals: &Arrivals, weights: &[f64], seed: u64) -> f64 {
    let Arrivals::At(times) = arrivals else { unreachable!() };
    let mut rng = Rng::seeded(seed ^ 0xabcd);
    let mut parts = vec![(Vec::new(), Vec::new()); weights.len()];
    for (job, at) in jobs.iter().zip(times) {
        let mut left = rng.unit() * weights.iter().sum::<f64>();
        let chosen = weights.iter().position(|weight| {
            left -= weight;
            left < 0.0
        });
        let part = &mut parts[chosen.unwrap_or(0)];
        part.0.push(job.clone());
        part.1.push(*at);
    }
    let mut sum = 0.0;
    for ((jobs, times), member) in parts.into_iter().zip(mixed_members()) {
        let config = PoolConfig { scheduler: SchedulerKind::RoundRobin, ..PoolConfig::default() };
        let scenario = Scenario { config, ..Scenario::new(vec![member], seed) };
        let report = run(&scenario, &jobs, &Arrivals::At(times));
        sum += report.mean_latency_us() * report.trips.len() as f64;
    }
    sum / jobs.len() as f64
}
