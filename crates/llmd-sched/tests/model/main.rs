//! `step` against a reference model: any order of events, sensible or not, leaves exactly the
//! counts, the health and the budget that the model has, and picks only whom the model allows.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod reference;

use llmd_sched::{
    Action, Actions, Arrival, EndpointFacts, EndpointIndex, EndpointState, Event, HealthStatus,
    PoolConfig, PoolState, Refusal, Resilience, RetryCause, Rng, SchedulerKind, step,
};
use llmd_types::{Micros, Outcome, ReplicaFacts, ReportedLoad, RequestId, Usage};
use proptest::prelude::*;
use reference::Model;
use std::sync::Arc;

const REQUESTS: u64 = 24;
const INDEX_ENTRIES: u32 = 200;

#[derive(Clone, Debug)]
enum Op {
    Arrive(u64, Option<u16>),
    Sent(u64),
    Known(u64, u32),
    FirstByte(u64),
    Progress(u64, u32),
    Retry(u64, RetryCause),
    Done(u64, Outcome),
    Check(u16, bool),
    Scrape(u16, Option<(Option<u32>, Option<u32>, Option<f64>)>),
    Up(u8),
    Drain(u16),
    Down(u16),
    Config(u8),
    Timer,
    Wait(u64),
}

fn op() -> impl Strategy<Value = Op> {
    let id = || 0..REQUESTS;
    let at = || 0u16..6;
    let cause = prop::sample::select(vec![
        RetryCause::Unreachable,
        RetryCause::Lost,
        RetryCause::Unserved,
        RetryCause::Unserved,
    ]);
    let outcome = prop::sample::select(vec![
        Outcome::Done,
        Outcome::Refused,
        Outcome::Failed,
        Outcome::Failed,
        Outcome::Lost,
        Outcome::Cancelled,
    ]);
    let garbage = prop_oneof![Just(f64::NAN), Just(f64::INFINITY), -1.0..2.0];
    let load = (
        prop::option::of(prop_oneof![0u32..50, Just(u32::MAX)]),
        prop::option::of(prop_oneof![0u32..50, Just(u32::MAX)]),
        prop::option::of(garbage),
    );
    prop_oneof![
        12 => id().prop_map(|id| Op::Arrive(id, None)),
        1 => (id(), at()).prop_map(|(id, at)| Op::Arrive(id, Some(at))),
        3 => id().prop_map(Op::Sent),
        1 => (id(), 0u32..1_000).prop_map(|(id, tokens)| Op::Known(id, tokens)),
        3 => id().prop_map(Op::FirstByte),
        3 => (id(), 0u32..50).prop_map(|(id, tokens)| Op::Progress(id, tokens)),
        7 => (id(), cause).prop_map(|(id, cause)| Op::Retry(id, cause)),
        10 => (id(), outcome).prop_map(|(id, outcome)| Op::Done(id, outcome)),
        4 => (at(), any::<bool>()).prop_map(|(at, good)| Op::Check(at, good)),
        2 => (at(), prop::option::of(load)).prop_map(|(at, load)| Op::Scrape(at, load)),
        3 => (0u8..6).prop_map(Op::Up),
        1 => at().prop_map(Op::Drain),
        1 => at().prop_map(Op::Down),
        1 => (0u8..20).prop_map(Op::Config),
        2 => Just(Op::Timer),
        6 => prop_oneof![0u64..2_000, 0u64..300_000, 0u64..4_000_000].prop_map(Op::Wait),
    ]
}

fn config(kind: u8) -> PoolConfig {
    let schedulers = [
        SchedulerKind::ExpectedFinish,
        SchedulerKind::RoundRobin,
        SchedulerKind::Random,
        SchedulerKind::LeastRequest,
        SchedulerKind::LlmdDefault,
    ];
    let usual = Resilience {
        breaker_failures: 3,
        ejection_min_requests: 4,
        retry_budget_min_per_second: 1,
        ..Resilience::default()
    };
    let resilience = match kind / 5 {
        0 => usual,
        1 => Resilience { breaker_failures: 0, check_successes: 2, ..usual },
        2 => Resilience {
            ejection_failure_percent: 0,
            slow_start: Micros::ZERO,
            retry_budget_percent: 0,
            retry_budget_min_per_second: 0,
            ..usual
        },
        _ => Resilience {
            check_failures: 0,
            breaker_failures: 1,
            breaker_open: Micros(700),
            breaker_open_max: Micros(1_000_000),
            ejection_window: Micros(3),
            retry_budget_percent: u32::MAX,
            ..usual
        },
    };
    PoolConfig {
        scheduler: schedulers[usize::from(kind) % 5],
        resilience,
        attempts: u32::from(kind) % 4,
        index_entries: INDEX_ENTRIES,
        ..PoolConfig::default()
    }
}

struct Run {
    pool: PoolState,
    rng: Rng,
    model: Model,
}

impl Run {
    fn new() -> Self {
        let PoolConfig { resilience, attempts, .. } = config(3);
        let model = Model::new(resilience, attempts);
        Self { pool: PoolState::new(config(3)), rng: Rng::seeded(11), model }
    }

    fn happen(&mut self, event: Event<'_>) -> Actions {
        step(&mut self.pool, event, Micros(self.model.now), &mut self.rng)
    }

    /// What came of a request that was to be placed is what the model allows.
    fn settle(&mut self, id: u64, actions: &Actions, allowed: Result<Vec<u16>, Refusal>) {
        match (actions.as_slice(), allowed) {
            ([Action::Forward(pick)], Ok(allowed)) => {
                assert_eq!(pick.request, RequestId(id));
                assert!(allowed.contains(&pick.endpoint.0), "{} of {allowed:?}", pick.endpoint.0);
                self.model.placed(id, Some(pick.endpoint.0));
            }
            ([Action::Refuse(refused, why)], Err(expected)) => {
                assert_eq!((*refused, *why), (RequestId(id), expected));
                self.model.placed(id, None);
            }
            (actions, allowed) => panic!("{actions:?} where {allowed:?} was due"),
        }
    }

    fn apply(&mut self, op: &Op) {
        match op {
            Op::Arrive(id, only) => self.arrive(*id, *only),
            Op::Retry(id, cause) => {
                let allowed = self.model.retry(*id, *cause);
                let actions = self.happen(Event::Retry(RequestId(*id), *cause));
                match allowed {
                    Some(allowed) => self.settle(*id, &actions, allowed),
                    None => assert!(actions.is_empty()),
                }
            }
            Op::Done(id, outcome) => {
                self.model.done(*id, *outcome);
                let usage = Usage { completion_tokens: Some(9), ..Usage::default() };
                self.happen(Event::Done(RequestId(*id), *outcome, usage));
            }
            Op::FirstByte(id) => {
                self.model.first_byte(*id);
                self.happen(Event::FirstByte(RequestId(*id)));
            }
            Op::Progress(id, tokens) => {
                self.model.first_byte(*id);
                self.happen(Event::Progress(RequestId(*id), *tokens));
            }
            Op::Sent(id) => drop(self.happen(Event::Sent(RequestId(*id)))),
            Op::Known(id, tokens) => {
                let usage = Usage { prompt_tokens: Some(*tokens), ..Usage::default() };
                self.happen(Event::TokensKnown(RequestId(*id), usage));
            }
            Op::Timer => drop(self.happen(Event::Timer)),
            Op::Wait(us) => self.model.now += us,
            Op::Config(kind) => {
                let new = config(*kind);
                self.model.configure(new.resilience, new.attempts);
                self.happen(Event::Config(new));
            }
            endpoint => self.apply_to_endpoint(endpoint),
        }
    }

    fn arrive(&mut self, id: u64, only: Option<u16>) {
        let keys: Vec<u64> = (0..id * 5).map(|at| (id % 4 + 1) << 40 | at).collect();
        let arrival = Arrival {
            request: RequestId(id),
            prompt_bytes: (id * 320) as u32,
            prompt_tokens: id.is_multiple_of(2).then_some(100),
            keys: &keys,
            max_tokens: Some(20),
            stream: !id.is_multiple_of(3),
            flow: id % 5,
            needs: 0,
        };
        let allowed = self.model.arrive(id, only);
        let actions = match only {
            Some(at) => self.happen(Event::ArriveAt(arrival, EndpointIndex(at))),
            None => self.happen(Event::Arrive(arrival)),
        };
        self.settle(id, &actions, allowed);
    }

    fn apply_to_endpoint(&mut self, op: &Op) {
        match op {
            Op::Check(at, good) => {
                self.model.check(*at, *good);
                self.happen(Event::Check(EndpointIndex(*at), *good));
            }
            Op::Scrape(at, load) => {
                let load = load.map(|(running, waiting, kv_usage)| ReportedLoad {
                    at: Micros(self.model.now),
                    running,
                    waiting,
                    kv_usage,
                });
                self.happen(Event::Scrape(EndpointIndex(*at), load));
            }
            Op::Up(name) => {
                let facts = ReplicaFacts { prefix_caching: *name != 2, ..ReplicaFacts::neutral() };
                let actions = self.happen(Event::EndpointUp(EndpointFacts {
                    name: format!("e{name}").into(),
                    variant: format!("v{}", name % 2).into(),
                    facts: (*name != 3).then(|| Arc::new(facts)),
                    offers: u32::MAX,
                }));
                let [Action::Joined(index, _)] = actions.as_slice() else { panic!("{actions:?}") };
                self.model.joined(*name, index.0);
            }
            Op::Drain(at) => {
                self.model.drain(*at);
                self.happen(Event::EndpointDrain(EndpointIndex(*at)));
            }
            Op::Down(at) => {
                self.model.down(*at);
                self.happen(Event::EndpointDown(EndpointIndex(*at)));
            }
            other => panic!("{other:?} is not about an endpoint"),
        }
    }

    fn check(&mut self) {
        let now = self.model.now;
        let model = &mut self.model;
        let status = self.pool.status(Micros(now));
        assert_eq!(status.requests, model.requests.len());
        assert!(status.index_entries <= INDEX_ENTRIES as usize);
        assert_eq!((status.retries, status.retries_refused), (model.paid, model.unpaid));
        assert_eq!(status.retry_budget, model.budget_left());
        let listed = model.places.values();
        let listed = listed.filter(|p| p.state != EndpointState::Down || !p.inflight.is_empty());
        assert_eq!(status.endpoints.len(), listed.count());
        for endpoint in &status.endpoints {
            let place = &model.places[&endpoint.index.0];
            assert_eq!(endpoint.state, place.state);
            assert_eq!(endpoint.inflight_requests as usize, place.inflight.len());
            let most = if place.inflight.is_empty() { 0 } else { 1 << 40 };
            assert!(endpoint.inflight_tokens <= most, "{endpoint:?}");
            let history = HealthStatus::default();
            let shown = HealthStatus {
                out_for: history.out_for,
                last: history.last,
                ejections: history.ejections,
                ..endpoint.health
            };
            assert_eq!(shown, place.health(&model.rules, now), "{}", endpoint.name);
            assert_eq!(endpoint.health.out_for.is_some(), place.is_ill(), "{}", endpoint.name);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn step_and_the_reference_model_agree_at_every_step(
        ops in prop::collection::vec(op(), 300..700),
    ) {
        let mut run = Run::new();
        for name in 0..3 {
            run.apply(&Op::Up(name));
        }
        for op in &ops {
            run.apply(op);
            run.check();
        }
        for id in 0..REQUESTS {
            run.apply(&Op::Done(id, Outcome::Cancelled));
        }
        run.check();
        let status = run.pool.status(Micros(run.model.now));
        prop_assert_eq!(status.requests, 0);
        for endpoint in status.endpoints {
            prop_assert_eq!((endpoint.inflight_requests, endpoint.inflight_tokens), (0, 0));
        }
    }
}
