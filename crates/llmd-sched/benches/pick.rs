//! What a pick costs: `cargo bench -p llmd-sched --bench pick [-- ENDPOINTS PICKS]`.
//!
//! Started by hand and by the programs in `benchmarks/`; asserts nothing. Each pick looks up a
//! prompt of 100 blocks in a full pool with traffic; only the step of the arrival is timed, and
//! then the request is sent and one from before it ends. Prints nanoseconds, one line for each
//! number of endpoints, over the picks during which the kernel did not give the core to another
//! process, and how many it did. With both numbers given it does exactly so many picks and
//! nothing else, so that runs under an instruction counter can be subtracted from each other.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::print_stdout,
    reason = "a measuring program has a clock, arguments and an output"
)]

use llmd_sched::{Arrival, EndpointFacts, Event, PoolConfig, PoolState, Rng, step};
use llmd_types::{Micros, Outcome, ReplicaFacts, ReportedLoad, RequestId, Usage};
use std::sync::Arc;
use std::time::Instant;

/// 100 blocks of 64 bytes.
const BLOCKS: usize = 100;
/// Requests in flight for each endpoint.
const EACH: u64 = 4;

struct Traffic {
    pool: PoolState,
    rng: Rng,
    now: Micros,
    next: u64,
    endpoints: u64,
    prompts: Vec<Vec<u64>>,
}

impl Traffic {
    fn new(endpoints: u64) -> Self {
        let prompt = |family: u64| (1..=BLOCKS as u64).map(|at| (family + 1) << 32 | at).collect();
        let mut traffic = Self {
            pool: PoolState::new(PoolConfig::default()),
            rng: Rng::seeded(1),
            now: Micros(1_000_000),
            next: 0,
            endpoints,
            prompts: (0..64).map(prompt).collect(),
        };
        for at in 0..endpoints {
            let speed = 1.0 + (at % 4) as f64;
            let facts = ReplicaFacts { speed, ..ReplicaFacts::neutral() };
            traffic.happen(Event::EndpointUp(EndpointFacts {
                name: format!("e{at}").into(),
                variant: format!("v{}", at % 4).into(),
                facts: Some(Arc::new(facts)),
                offers: u32::MAX,
            }));
        }
        traffic
    }

    fn happen(&mut self, event: Event<'_>) {
        drop(step(&mut self.pool, event, self.now, &mut self.rng));
    }

    /// One request; returns the nanoseconds of its pick, unless the core was lost meanwhile.
    fn serve(&mut self, watched: bool) -> Option<u64> {
        self.next += 1;
        self.now += Micros((2_000_000 / self.endpoints).max(1));
        let request = RequestId(self.next);
        let family = self.rng.below(self.prompts.len());
        let prompts = std::mem::take(&mut self.prompts);
        let arrival = Event::Arrive(Arrival {
            request,
            prompt_bytes: BLOCKS as u32 * 64,
            prompt_tokens: None,
            keys: &prompts[family],
            max_tokens: Some(200),
            stream: true,
            flow: 0,
            needs: 0,
        });
        let turns_before = watched.then(turns).flatten();
        let began = Instant::now();
        self.happen(arrival);
        let took = began.elapsed().as_nanos() as u64;
        let undisturbed = turns_before == watched.then(turns).flatten();
        self.prompts = prompts;
        self.happen(Event::Sent(request));
        while self.pool.has_index_work() {
            self.happen(Event::Timer);
        }
        self.happen(Event::Progress(request, 20));
        let in_flight = self.endpoints * EACH;
        let usage =
            Usage { prompt_tokens: Some(1_600), cached_tokens: None, completion_tokens: Some(100) };
        if let Some(ended) = self.next.checked_sub(in_flight) {
            self.happen(Event::Done(RequestId(ended), Outcome::Done, usage));
        }
        // Each endpoint reports every 200 ms; here, one for each pick.
        let at = llmd_sched::EndpointIndex((self.next % self.endpoints) as u16);
        let load = ReportedLoad {
            at: self.now,
            running: Some(EACH as u32),
            waiting: Some(0),
            kv_usage: Some(0.3),
        };
        self.happen(Event::Scrape(at, Some(load)));
        undisturbed.then_some(took)
    }
}

/// How often the kernel gave this process a core; `None` where it does not tell.
fn turns() -> Option<u64> {
    let counts = std::fs::read_to_string("/proc/self/schedstat").ok()?;
    counts.split_whitespace().nth(2)?.parse().ok()
}

fn main() {
    let numbers = std::env::args().filter_map(|argument| argument.parse().ok());
    let numbers: Vec<u64> = numbers.collect();
    let (sizes, picks) = match numbers[..] {
        [endpoints, picks] => (vec![endpoints.clamp(1, 60_000)], Some(picks)),
        _ => (vec![10, 100, 1_000, 10_000], None),
    };
    for endpoints in sizes {
        let mut traffic = Traffic::new(endpoints);
        if picks.is_none() {
            for _ in 0..(endpoints * EACH * 2).clamp(2_000, 50_000) {
                traffic.serve(false);
            }
        }
        let count = picks.unwrap_or(if endpoints > 1_000 { 5_000 } else { 20_000 });
        let watched = picks.is_none();
        let mut took: Vec<u64> = (0..count).filter_map(|_| traffic.serve(watched)).collect();
        took.sort_unstable();
        let (left, lost) = (took.len() as u64, count - took.len() as u64);
        let at = |share: u64| took.get((left * share / 100) as usize).copied().unwrap_or(0);
        let (p50, p99) = (at(50), at(99));
        println!("endpoints {endpoints} picks {count} p50_ns {p50} p99_ns {p99} lost {lost}");
    }
}
