//! Laws that hold under any traffic, and throughput against the planner's formula.

use super::tests::{engine, facts, run};
use super::{Engine, EngineEvent, Prompt};
use llmd_perf::{Workload, capacity};
use llmd_types::{Micros, ReplicaFacts, RequestId};
use proptest::prelude::*;
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
enum Op {
    Submit { tokens: u32, shared_blocks: u32, max_tokens: u32 },
    Cancel(usize),
    Wait(u64),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let submit = (1u32..150, 0u32..6, 1u32..40).prop_map(|(tokens, shared_blocks, max_tokens)| {
        Op::Submit { tokens, shared_blocks, max_tokens }
    });
    let op = prop_oneof![
        5 => submit,
        1 => any::<usize>().prop_map(Op::Cancel),
        5 => (0u64..9_000).prop_map(Op::Wait),
    ];
    prop::collection::vec(op, 1..60)
}

/// Drives an engine through `ops`, checking the laws after each; then lets it finish.
struct Driver {
    engine: Engine,
    now: Micros,
    wanted: BTreeMap<u64, (u32, u32)>, // prompt tokens, answer tokens
    got: BTreeMap<u64, u32>,
    finished: BTreeMap<u64, u32>,
    cancelled: Vec<u64>,
}

impl Driver {
    fn new(facts: ReplicaFacts) -> Self {
        let (wanted, got, finished) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let cancelled = Vec::new();
        Self { engine: engine(facts), now: Micros(0), wanted, got, finished, cancelled }
    }

    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Submit { tokens, shared_blocks, max_tokens } => {
                let id = self.wanted.len() as u64;
                let keys = u64::from(shared_blocks.min(tokens / 16));
                let prompt = Prompt { tokens, keys: (1..=keys).collect() };
                if self.engine.submit(self.now, RequestId(id), prompt, max_tokens).is_ok() {
                    let room = self.engine.context_limit() - tokens;
                    self.wanted.insert(id, (tokens, max_tokens.min(room)));
                }
            }
            Op::Cancel(which) if !self.wanted.is_empty() => {
                let id = (which % self.wanted.len()) as u64;
                if self.engine.cancel(RequestId(id)) {
                    self.cancelled.push(id);
                }
            }
            Op::Cancel(_) => {}
            Op::Wait(us) => self.advance(self.now + Micros(us)),
        }
        self.check();
    }

    fn advance(&mut self, now: Micros) {
        let mut events = Vec::new();
        self.engine.advance(now, &mut events);
        self.now = now;
        for event in events {
            let id = event.id().0;
            assert!(!self.cancelled.contains(&id), "{id} was cancelled");
            assert!(!self.finished.contains_key(&id), "{id} had finished");
            match event {
                EngineEvent::Token { n, .. } => *self.got.entry(id).or_default() += n,
                EngineEvent::Finished { cached, completion, .. } => {
                    let (tokens, _) = self.wanted[&id];
                    assert_eq!(completion, self.got[&id]);
                    assert!(cached.is_multiple_of(16) && cached < tokens);
                    self.finished.insert(id, completion);
                }
            }
        }
    }

    fn check(&self) {
        let engine = &self.engine;
        let inside = engine.running.iter().chain(&engine.waiting);
        let held: Vec<u32> = inside.flat_map(|s| s.blocks.iter().copied()).collect();
        engine.blocks.check(&held);
        assert!(engine.entering.iter().all(|(_, s)| s.blocks.is_empty()));
        assert!(engine.waiting.iter().all(|s| s.blocks.is_empty()));
        assert!(engine.running.len() <= engine.facts.max_sequences as usize);
        let in_step: u32 = engine.running.iter().map(|s| s.in_step).sum();
        assert!(in_step <= engine.facts.max_batched_tokens);
        let usage = engine.reported(self.now).kv_usage.unwrap();
        assert!((0.0..=1.0).contains(&usage));
        for sequence in &engine.running {
            let space = sequence.blocks.len() as u32 * engine.facts.block_size;
            assert!(sequence.computed + sequence.in_step <= space, "every token has its place");
        }
    }

    fn finish(&mut self) {
        while let Some(at) = self.engine.next_event_at() {
            assert!(at >= self.now, "time goes on");
            self.advance(at);
            self.check();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_lost_and_space_is_conserved(
        ops in ops(), blocks in 11u64..40, sequences in 1u32..6, budget in 8u32..80,
    ) {
        let facts = ReplicaFacts {
            kv_tokens: blocks * 16,
            max_sequences: sequences,
            max_batched_tokens: budget,
            ..facts()
        };
        let mut driver = Driver::new(facts);
        for op in &ops {
            driver.apply(op);
        }
        driver.finish();
        prop_assert!(driver.engine.is_empty());
        prop_assert_eq!(driver.engine.blocks.free(), driver.engine.blocks.total());
        for (id, (_, answer)) in &driver.wanted {
            if !driver.cancelled.contains(id) {
                prop_assert_eq!(driver.finished.get(id), Some(answer), "request {}", id);
            }
        }
    }

    #[test]
    fn the_same_traffic_gives_the_same_events(ops in ops()) {
        let trace = || {
            let mut driver = Driver::new(ReplicaFacts { kv_tokens: 200, ..facts() });
            for op in &ops {
                driver.apply(op);
            }
            run(&mut driver.engine)
        };
        prop_assert_eq!(trace(), trace());
    }
}

/// Requests a second of an engine that always has more waiting than it can take.
fn saturated(facts: &ReplicaFacts, workload: Workload) -> f64 {
    let mut engine = engine(facts.clone());
    let mut events = Vec::new();
    let (mut next, mut done) = (0u64, Vec::new());
    let depth = 2 * u64::from(capacity(facts, workload, None).batch) + 8;
    let total = 12 * depth;
    let mut now = Micros(0);
    while (done.len() as u64) < total {
        while next < done.len() as u64 + depth {
            let prompt = Prompt::unique(workload.prompt_tokens);
            engine.submit(now, RequestId(next), prompt, workload.output_tokens).unwrap();
            next += 1;
        }
        now = engine.next_event_at().unwrap();
        engine.advance(now, &mut events);
        let finished = events.drain(..).filter(|e| matches!(e, EngineEvent::Finished { .. }));
        done.extend(finished.map(|_| now));
    }
    let (from, to) = (done.len() / 3, done.len() - 1);
    (to - from) as f64 * 1e6 / (done[to] - done[from]).as_f64()
}

#[test]
fn a_saturated_engine_carries_what_the_planner_promises() {
    let neutral = ReplicaFacts::neutral();
    let small = ReplicaFacts { kv_tokens: 60_000, max_batched_tokens: 2_048, ..neutral.clone() };
    let experts =
        ReplicaFacts { expert_bytes: 2e10, experts: 64, experts_per_token: 4, ..neutral.clone() };
    let requests =
        [(2_000, 16), (1_000, 100), (1_000, 500), (200, 200), (64, 512), (8_000, 200), (500, 1)];
    for facts in [neutral, small, experts] {
        for (prompt_tokens, output_tokens) in requests {
            let workload = Workload { prompt_tokens, output_tokens };
            let promised = capacity(&facts, workload, None).requests_per_second;
            let ratio = saturated(&facts, workload) / promised;
            assert!((0.85..1.15).contains(&ratio), "{workload:?}: {ratio} of {promised}/s");
        }
    }
}
