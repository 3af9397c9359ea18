//! Laws that hold under any order of events, sensible or not.

use llmd_sched::{
    Action, Actions, Arrival, EndpointFacts, EndpointIndex, Event, PoolConfig, PoolState,
    Resilience, RetryCause, Rng, SchedulerKind, step,
};
use llmd_types::{
    Confidence, Micros, Objective, Outcome, ReplicaFacts, ReportedLoad, RequestId, Slo, Usage,
};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Anything that can happen, in numbers small enough to meet each other.
#[derive(Clone, Debug)]
enum Op {
    Arrive {
        id: u64,
        bytes: u32,
        tokens: Option<u32>,
        family: u64,
        max: Option<u32>,
        at: Option<u16>,
    },
    Sent(u64),
    Known(u64, Option<u32>),
    FirstByte(u64),
    Progress(u64, u32),
    Retry(u64, RetryCause),
    Done(u64, Outcome, Option<u32>),
    Scrape(u16, Option<(Option<u32>, Option<u32>, Option<f64>)>),
    Up(u8, u8),
    Drain(u16),
    Down(u16),
    Config(u8),
    Timer,
    Wait(u64),
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        Just(Outcome::Done),
        Just(Outcome::Refused),
        Just(Outcome::Lost),
        Just(Outcome::Cancelled),
    ]
}

fn cause() -> impl Strategy<Value = RetryCause> {
    prop_oneof![Just(RetryCause::Unreachable), Just(RetryCause::Lost), Just(RetryCause::Unserved),]
}

fn arrive() -> impl Strategy<Value = Op> {
    let length = prop_oneof![Just(0u32), 1u32..20_000, Just(u32::MAX)];
    let counted = prop::option::of(prop_oneof![Just(0u32), 1u32..9_000, Just(u32::MAX)]);
    let max = prop::option::of(prop_oneof![Just(0u32), 1u32..500, Just(u32::MAX)]);
    let at = prop::option::weighted(0.1, 0u16..8);
    (0u64..40, length, counted, 0u64..4, max, at).prop_map(
        |(id, bytes, tokens, family, max, at)| Op::Arrive { id, bytes, tokens, family, max, at },
    )
}

fn op() -> impl Strategy<Value = Op> {
    let id = || 0u64..40;
    let load =
        (prop::option::of(0u32..300), prop::option::of(0u32..300), prop::option::of(-1.0..2.0));
    prop_oneof![
        8 => arrive(),
        4 => id().prop_map(Op::Sent),
        1 => (id(), prop::option::of(any::<u32>())).prop_map(|(id, n)| Op::Known(id, n)),
        4 => id().prop_map(Op::FirstByte),
        6 => (id(), prop_oneof![0u32..50, Just(u32::MAX)]).prop_map(|(id, n)| Op::Progress(id, n)),
        3 => (id(), cause()).prop_map(|(id, cause)| Op::Retry(id, cause)),
        6 => (id(), outcome(), prop::option::of(any::<u32>()))
            .prop_map(|(id, outcome, n)| Op::Done(id, outcome, n)),
        2 => (0u16..8, prop::option::of(load)).prop_map(|(at, load)| Op::Scrape(at, load)),
        3 => (0u8..6, 0u8..6).prop_map(|(name, kind)| Op::Up(name, kind)),
        1 => (0u16..8).prop_map(Op::Drain),
        1 => (0u16..8).prop_map(Op::Down),
        1 => (0u8..20).prop_map(Op::Config),
        2 => Just(Op::Timer),
        6 => prop_oneof![0u64..5_000, 0u64..20_000_000].prop_map(Op::Wait),
    ]
}

fn facts(kind: u8) -> Option<Arc<ReplicaFacts>> {
    let base = ReplicaFacts::neutral();
    let facts = match kind {
        0 => return None,
        1 => ReplicaFacts { speed: 0.1, max_sequences: 2, confidence: Confidence::High, ..base },
        2 => ReplicaFacts { kv_tokens: 3_000, block_size: 128, max_model_len: 2_000, ..base },
        3 => ReplicaFacts { prefix_caching: false, price_per_hour: Some(2.0), ..base },
        4 => ReplicaFacts { experts: 8, experts_per_token: 2, expert_bytes: 8e9, ..base },
        _ => ReplicaFacts { speed: f64::NAN, block_size: 0, ..base },
    };
    Some(Arc::new(facts))
}

fn config(kind: u8) -> PoolConfig {
    let schedulers = [
        SchedulerKind::ExpectedFinish,
        SchedulerKind::RoundRobin,
        SchedulerKind::Random,
        SchedulerKind::LeastRequest,
        SchedulerKind::LlmdDefault,
    ];
    let objectives = [Objective::Latency, Objective::Cost, Objective::Balanced];
    let promised = kind.is_multiple_of(2).then_some(Micros(50_000));
    PoolConfig {
        scheduler: schedulers[usize::from(kind) % 5],
        objective: objectives[usize::from(kind) % 3],
        slo: Slo { ttft_us: promised, itl_us: promised },
        attempts: u32::from(kind) % 4,
        resilience: Resilience::default(),
        prefix_seed: u64::from(kind) % 2,
        index_entries: if kind == 7 { 0 } else { 300 },
    }
}

/// Runs `ops`; keeps a model of which request is in flight where.
struct Run {
    pool: PoolState,
    rng: Rng,
    now: Micros,
    flying: BTreeMap<RequestId, EndpointIndex>,
    log: Vec<Actions>,
}

impl Run {
    fn new(seed: u64) -> Self {
        let pool = PoolState::new(config(0));
        let (flying, log) = (BTreeMap::new(), Vec::new());
        Self { pool, rng: Rng::seeded(seed), now: Micros::ZERO, flying, log }
    }

    fn happen(&mut self, event: Event<'_>) {
        match event {
            Event::Done(id, ..) | Event::Retry(id, _) => drop(self.flying.remove(&id)),
            Event::Arrive(ref arrival) | Event::ArriveAt(ref arrival, _) => {
                self.flying.remove(&arrival.request);
            }
            _ => {}
        }
        let actions = step(&mut self.pool, event, self.now, &mut self.rng);
        for action in &actions {
            if let Action::Forward(pick) = action {
                self.flying.insert(pick.request, pick.endpoint);
                assert!(pick.cached_tokens < pick.prompt_tokens);
            }
        }
        self.log.push(actions);
    }

    fn apply(&mut self, op: &Op) {
        let usage = |n: &Option<u32>| Usage {
            prompt_tokens: *n,
            cached_tokens: n.map(|n| n / 2),
            completion_tokens: *n,
        };
        match op {
            Op::Arrive { id, bytes, tokens, family, max, at } => {
                let keys: Vec<u64> =
                    (0..u64::from(bytes / 64).min(400)).map(|at| (family + 1) << 40 | at).collect();
                let arrival = Arrival {
                    request: RequestId(*id),
                    prompt_bytes: *bytes,
                    prompt_tokens: *tokens,
                    keys: &keys,
                    max_tokens: *max,
                    stream: id % 3 != 0,
                    flow: id % 5,
                    needs: 0,
                };
                match at {
                    Some(at) => self.happen(Event::ArriveAt(arrival, EndpointIndex(*at))),
                    None => self.happen(Event::Arrive(arrival)),
                }
            }
            Op::Sent(id) => self.happen(Event::Sent(RequestId(*id))),
            Op::Known(id, n) => self.happen(Event::TokensKnown(RequestId(*id), usage(n))),
            Op::FirstByte(id) => self.happen(Event::FirstByte(RequestId(*id))),
            Op::Progress(id, n) => self.happen(Event::Progress(RequestId(*id), *n)),
            Op::Retry(id, cause) => self.happen(Event::Retry(RequestId(*id), *cause)),
            Op::Done(id, outcome, n) => {
                self.happen(Event::Done(RequestId(*id), *outcome, usage(n)));
            }
            Op::Scrape(at, load) => {
                let load = load.map(|(running, waiting, kv_usage)| ReportedLoad {
                    at: self.now,
                    running,
                    waiting,
                    kv_usage,
                });
                self.happen(Event::Scrape(EndpointIndex(*at), load));
            }
            Op::Up(name, kind) => self.happen(Event::EndpointUp(EndpointFacts {
                name: format!("e{name}").into(),
                variant: format!("v{}", kind % 3).into(),
                facts: facts(*kind),
                offers: u32::MAX,
            })),
            Op::Drain(at) => self.happen(Event::EndpointDrain(EndpointIndex(*at))),
            Op::Down(at) => self.happen(Event::EndpointDown(EndpointIndex(*at))),
            Op::Config(kind) => self.happen(Event::Config(config(*kind))),
            Op::Timer => self.happen(Event::Timer),
            Op::Wait(us) => self.now += Micros(*us),
        }
    }

    /// What is counted in flight is exactly what flies.
    fn check(&self) {
        let status = self.pool.status(self.now);
        assert!(status.index_entries <= 300, "{} entries", status.index_entries);
        for endpoint in &status.endpoints {
            let flying = self.flying.values().filter(|at| **at == endpoint.index).count();
            assert_eq!(endpoint.inflight_requests as usize, flying, "{endpoint:?}");
            if flying == 0 {
                assert_eq!(endpoint.inflight_tokens, 0, "{endpoint:?}");
            }
            for factor in [endpoint.prefill_correction, endpoint.step_correction] {
                assert!((1.0 / 16.0..=16.0).contains(&factor), "{endpoint:?}");
            }
        }
        let counted: usize = status.endpoints.iter().map(|e| e.inflight_requests as usize).sum();
        assert_eq!(counted, self.flying.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1_500,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn counts_are_exact_under_any_events_and_zero_at_rest(
        ops in prop::collection::vec(op(), 1..250),
    ) {
        let mut run = Run::new(1);
        for at in 0..3 {
            run.apply(&Op::Up(at, at));
        }
        for op in &ops {
            run.apply(op);
            run.check();
        }
        for id in 0..40 {
            run.apply(&Op::Done(id, Outcome::Cancelled, None));
        }
        run.check();
        let status = run.pool.status(run.now);
        prop_assert_eq!(status.requests, 0);
        prop_assert!(run.flying.is_empty());
    }

    #[test]
    fn the_same_events_and_seed_give_the_same_actions(
        ops in prop::collection::vec(op(), 1..200), seed in any::<u64>(),
    ) {
        let mut runs = [Run::new(seed), Run::new(seed)];
        for run in &mut runs {
            for op in &ops {
                run.apply(op);
            }
        }
        prop_assert_eq!(&runs[0].log, &runs[1].log);
    }

    #[test]
    fn a_pick_is_a_ready_endpoint_not_tried_before(ops in prop::collection::vec(op(), 1..250)) {
        let mut run = Run::new(1);
        let mut tried: BTreeMap<RequestId, Vec<EndpointIndex>> = BTreeMap::new();
        for op in &ops {
            let before = run.log.len();
            run.apply(op);
            if let Op::Arrive { id, .. } = op {
                tried.remove(&RequestId(*id));
            }
            if matches!(op, Op::Arrive { at: Some(_), .. }) {
                continue;
            }
            for action in run.log[before..].iter().flatten() {
                let Action::Forward(pick) = action else { continue };
                let status = run.pool.status(run.now);
                let found = status.endpoints.iter().find(|e| e.index == pick.endpoint);
                prop_assert!(found.is_some_and(|e| e.state == llmd_sched::EndpointState::Ready));
                let before = tried.entry(pick.request).or_default();
                if matches!(op, Op::Retry(..)) {
                    prop_assert!(!before.contains(&pick.endpoint));
                }
                before.push(pick.endpoint);
            }
        }
    }
}
