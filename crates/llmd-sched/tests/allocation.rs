//! A pick allocates nothing once the pool has seen its traffic: buffers are used again.

use llmd_sched::{
    Arrival, EndpointFacts, EndpointIndex, Event, PoolConfig, PoolState, Resilience, RetryCause,
    Rng, SchedulerKind, step,
};
use llmd_types::{Micros, Outcome, ReplicaFacts, RequestId, Usage};
use std::sync::Arc;

struct Traffic {
    pool: PoolState,
    rng: Rng,
    now: Micros,
    next: u64,
}

impl Traffic {
    fn new(scheduler: SchedulerKind) -> Self {
        // Short and long enough for all to happen while it is counted.
        let (slow_start, breaker_open) = (Micros(50_000), Micros(5_000));
        let resilience = Resilience { slow_start, breaker_open, ..Resilience::default() };
        let config = PoolConfig { scheduler, resilience, ..PoolConfig::default() };
        let (pool, rng) = (PoolState::new(config), Rng::seeded(1));
        let mut traffic = Self { pool, rng, now: Micros(1_000_000), next: 0 };
        for at in 0..20 {
            let facts = EndpointFacts {
                name: format!("e{at}").into(),
                variant: "v".into(),
                facts: Some(Arc::new(ReplicaFacts::neutral())),
                offers: u32::MAX,
            };
            traffic.happen(Event::EndpointUp(facts));
        }
        traffic
    }

    fn happen(&mut self, event: Event<'_>) {
        drop(step(&mut self.pool, event, self.now, &mut self.rng));
    }

    /// Some endpoints fail, others are out by checks, and return.
    fn ail(&mut self) {
        let at = EndpointIndex((self.next / 40 % 20) as u16);
        self.happen(Event::Check(at, self.next % 40 > 5));
        if self.next.is_multiple_of(5) {
            self.happen(Event::Retry(RequestId(self.next - 20), RetryCause::Unserved));
        }
        if self.next.is_multiple_of(11) {
            self.happen(Event::Retry(RequestId(self.next - 10), RetryCause::Unreachable));
        }
    }

    /// One request arrives, is tried twice and passes tokens; the one from 50 before ends.
    fn serve(&mut self, keys: &[u64]) {
        self.next += 1;
        self.now += Micros(700);
        let request = RequestId(self.next);
        self.happen(Event::Arrive(Arrival {
            request,
            prompt_bytes: keys.len() as u32 * 64,
            prompt_tokens: None,
            keys,
            max_tokens: Some(100),
            stream: self.next.is_multiple_of(3),
            flow: self.next % 40,
            needs: 0,
        }));
        self.happen(Event::Retry(request, RetryCause::Lost));
        self.happen(Event::Sent(request));
        while self.pool.has_index_work() {
            self.happen(Event::Timer);
        }
        self.happen(Event::FirstByte(request));
        self.happen(Event::Progress(request, 20));
        if self.next > 50 {
            self.ail();
        }
        let usage =
            Usage { prompt_tokens: Some(900), cached_tokens: Some(0), completion_tokens: Some(50) };
        let ended = RequestId(self.next.saturating_sub(50));
        self.happen(Event::Done(ended, Outcome::Done, usage));
    }
}

#[test]
fn a_pick_allocates_nothing() {
    for scheduler in [
        SchedulerKind::ExpectedFinish,
        SchedulerKind::RoundRobin,
        SchedulerKind::Random,
        SchedulerKind::LeastRequest,
        SchedulerKind::LlmdDefault,
    ] {
        let mut traffic = Traffic::new(scheduler);
        let prompts: Vec<Vec<u64>> =
            (0..30u64).map(|family| (1..400).map(|at| (family << 32) | at).collect()).collect();
        for round in 0..4_000 {
            traffic.serve(&prompts[round % 30]);
        }
        let counted = allocation_counter::measure(|| {
            for round in 0..300 {
                traffic.serve(&prompts[round % 30]);
            }
        });
        let status = traffic.pool.status(traffic.now);
        let ill = status.endpoints.iter().filter(|endpoint| endpoint.health.out.is_some());
        assert!(ill.count() > 0 && status.retries > 100, "the paths under test were taken");
        let slow = status.endpoints.iter().filter(|endpoint| endpoint.health.slow_start.is_some());
        assert!(slow.count() > 0);
        assert_eq!(counted.count_total, 0, "{scheduler:?}: {counted:?}");
    }
}
