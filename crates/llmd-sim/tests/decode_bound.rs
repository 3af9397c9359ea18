//! Decode-bound bursts: the picks against `T_e` worked out here, and against the best split that
//! the engines themselves can show.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod fixtures;

use fixtures::{h100, mi300x};
use llmd_perf::{itl_us, prefill_tokens_per_second, prefill_us, request_us};
use llmd_sched::{
    Action, Arrival, EndpointFacts, Event, PoolConfig, PoolState, Rng, SchedulerKind, step,
};
use llmd_sim::{Arrivals, Job, Member, Scenario, run};
use llmd_types::{Micros, ReplicaFacts, RequestId};
use std::sync::Arc;

const PROMPT: u32 = 16;
/// Below the guess for answers of which none was seen, so that it is believed as it is.
const OUTPUT: u32 = 200;

/// What runs and waits at an endpoint, all requests being alike.
#[derive(Default)]
struct State {
    waiting: u32,
    running: u32,
    generated: u32,
}

/// `T_e` of one more request, by the definition: TTFT + o x ITL + delay of those that are there.
fn finish_us(facts: &ReplicaFacts, state: &State) -> f64 {
    let (prompt, output) = (u64::from(PROMPT), f64::from(OUTPUT));
    let State { waiting, running, generated } = *state;
    let all = waiting + running;
    let running_context = u64::from(running * (PROMPT + generated));
    let context = running_context + u64::from(waiting) * prompt;
    let running_step = if running == 0 { 0.0 } else { itl_us(facts, running, running_context) };
    let own = prefill_us(facts, prompt, 0, running, running_context);
    let ahead = f64::from(waiting * PROMPT) * 1e6
        / prefill_tokens_per_second(facts, running, running_context);
    let rest_of_step = if waiting > 0 { 0.0 } else { running_step / 2.0 };
    let after = itl_us(facts, all + 1, context + prompt + u64::from(OUTPUT / 2));
    let before = itl_us(facts, all, context);
    let ttft = request_us(facts) + rest_of_step + ahead + own + after;
    let left = f64::from(waiting) * output + f64::from(running) * f64::from(OUTPUT - generated);
    let delay =
        f64::from(running) * (own - running_step).max(0.0) + (after - before).max(0.0) * left;
    ttft + output * after + delay
}

/// Two endpoints; and whether a burst of 50 is better off on both than on the first alone.
fn pairs() -> [([ReplicaFacts; 2], bool); 4] {
    let times_slower = |facts: &ReplicaFacts, times: f64| {
        [facts.clone(), ReplicaFacts { speed: facts.speed / times, ..facts.clone() }]
    };
    // Where multiplication bounds a step, each sequence more costs all of them time.
    let small = ReplicaFacts { gemm_flops: 5e12, gemm_half_tokens: 0.0, ..h100() };
    [
        (times_slower(&h100(), 6.0), false),
        (times_slower(&h100(), 1.1), true),
        ([h100(), mi300x()], true),
        (times_slower(&small, 6.0), true),
    ]
}

#[test]
fn the_picks_of_decode_bound_bursts_equal_the_optimum_by_expected_finish() {
    for (facts, split) in pairs() {
        let (mut pool, mut rng) = (PoolState::new(PoolConfig::default()), Rng::seeded(1));
        let mut now = Micros(0);
        for (name, facts) in ["a", "b"].into_iter().zip(&facts) {
            let (name, facts) = (Arc::from(name), Some(Arc::new(facts.clone())));
            let up = Event::EndpointUp(EndpointFacts {
                variant: Arc::clone(&name),
                name,
                facts,
                offers: u32::MAX,
            });
            step(&mut pool, up, now, &mut rng);
        }
        let mut states = [State::default(), State::default()];
        let mut next = 0;
        for _ in 0..2 {
            for _ in 0..50 {
                let arrival = Arrival {
                    request: RequestId(next),
                    prompt_bytes: PROMPT * 4,
                    prompt_tokens: Some(PROMPT),
                    keys: &[],
                    max_tokens: Some(OUTPUT),
                    stream: true,
                    flow: 0,
                    needs: 0,
                };
                next += 1;
                let times = [0, 1].map(|at| finish_us(&facts[at], &states[at]));
                let best = usize::from(times[1] < times[0]);
                let actions = step(&mut pool, Event::Arrive(arrival), now, &mut rng);
                let [Action::Forward(pick)] = actions.as_slice() else { panic!("{actions:?}") };
                assert_eq!(usize::from(pick.endpoint.0), best, "request {next}: {times:?}");
                let told = pick.reasons.finish.as_f64();
                assert!((told - times[best]).abs() <= 1.0, "{told} for {}", times[best]);
                states[best].waiting += 1;
            }
            // All of them show their first token: the second burst meets what runs.
            now += Micros(1_000);
            for id in 0..next {
                step(&mut pool, Event::FirstByte(RequestId(id)), now, &mut rng);
                step(&mut pool, Event::Progress(RequestId(id), 1), now, &mut rng);
            }
            for state in &mut states {
                state.running += std::mem::take(&mut state.waiting);
                state.generated = 1;
            }
            if next == 50 {
                assert_eq!(states.iter().all(|state| state.running > 0), split);
            }
        }
    }
}

/// Sum of latencies when `count` such requests come at once to one engine, nobody choosing.
fn alone_us(facts: &ReplicaFacts, count: usize) -> f64 {
    let config = PoolConfig { scheduler: SchedulerKind::RoundRobin, ..PoolConfig::default() };
    let member = Member::honest("v", facts.clone());
    let scenario = Scenario { config, ..Scenario::new(vec![member], 1) };
    let report = run(&scenario, &burst(count), &Arrivals::Closed(count));
    report.mean_latency_us() * count as f64
}

fn burst(count: usize) -> Vec<Job> {
    let mut rng = Rng::seeded(7);
    (0..count).map(|_| Job::new(0, 0, PROMPT, OUTPUT, &mut rng)).collect()
}

#[test]
fn a_decode_bound_burst_is_split_about_as_well_as_the_engines_allow() {
    const COUNT: usize = 60;
    for ([first, second], _) in pairs() {
        let best = (0..=COUNT)
            .map(|split| alone_us(&first, split) + alone_us(&second, COUNT - split))
            .fold(f64::INFINITY, f64::min);
        let members = vec![Member::honest("a", first), Member::honest("b", second)];
        let report = run(&Scenario::new(members, 1), &burst(COUNT), &Arrivals::Closed(COUNT));
        let found = report.mean_latency_us() * COUNT as f64;
        println!("{:.4} of the best of all splits", found / best);
        assert!(found <= best * 1.02, "{found} against {best}");
    }
}
