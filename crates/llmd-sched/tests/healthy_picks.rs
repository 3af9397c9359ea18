//! Picks among the healthy do not change because another endpoint is there that is out.

use llmd_sched::{
    Action, Arrival, EndpointFacts, EndpointIndex, Event, PoolConfig, PoolState, Refusal,
    Resilience, RetryCause, Rng, SchedulerKind, step,
};
use llmd_types::{Micros, Outcome, ReplicaFacts, ReportedLoad, RequestId, Slo, Usage};
use proptest::prelude::*;
use std::sync::Arc;

const ENDPOINTS: u16 = 5;

/// What makes the two pools differ, before anything else or after the traffic of a while.
#[derive(Clone, Copy, Debug)]
enum Without {
    /// The other pool never had it.
    Never,
    /// In the other pool it drains.
    Drained,
}

#[derive(Clone, Debug)]
enum Op {
    Arrive { id: u64, family: u64, blocks: u64, counted: bool },
    FirstByte(u64),
    Progress(u64, u32),
    Retry(u64, RetryCause),
    Done(u64, Outcome),
    Scrape(u16, Option<(u32, u32)>),
    Wait(u64),
}

fn op() -> impl Strategy<Value = Op> {
    let id = || 0u64..30;
    let causes = [RetryCause::Unreachable, RetryCause::Lost, RetryCause::Unserved];
    let outcomes = [Outcome::Done, Outcome::Refused, Outcome::Failed, Outcome::Cancelled];
    prop_oneof![
        8 => (id(), 0u64..6, 0u64..60, any::<bool>())
            .prop_map(|(id, family, blocks, counted)| Op::Arrive { id, family, blocks, counted }),
        2 => id().prop_map(Op::FirstByte),
        2 => (id(), 1u32..30).prop_map(|(id, n)| Op::Progress(id, n)),
        2 => (id(), prop::sample::select(causes.to_vec())).prop_map(|(id, c)| Op::Retry(id, c)),
        6 => (id(), prop::sample::select(outcomes.to_vec())).prop_map(|(id, o)| Op::Done(id, o)),
        2 => (0..ENDPOINTS, prop::option::of((0u32..40, 0u32..40)))
            .prop_map(|(at, load)| Op::Scrape(at, load)),
        3 => (0u64..80_000).prop_map(Op::Wait),
    ]
}

struct Side {
    pool: PoolState,
    rng: Rng,
    /// Numbers in this pool of the endpoints by name; the one that is not there has none.
    numbers: Vec<Option<EndpointIndex>>,
    now: Micros,
}

impl Side {
    fn new(scheduler: SchedulerKind, absent: Option<u16>, index_entries: u32) -> Self {
        let slo = Slo { ttft_us: Some(Micros(60_000)), itl_us: None };
        // Slow start and the share of failures look at the whole pool: they have tests of theirs.
        let resilience = Resilience {
            breaker_open: Micros::from_millis(3_600_000),
            breaker_open_max: Micros::from_millis(3_600_000),
            ejection_failure_percent: 0,
            slow_start: Micros::ZERO,
            ..Resilience::default()
        };
        let pool = PoolState::new(PoolConfig {
            scheduler,
            slo,
            resilience,
            index_entries,
            ..PoolConfig::default()
        });
        let (rng, now) = (Rng::seeded(3), Micros(5_000_000));
        let mut side = Self { pool, rng, numbers: Vec::new(), now };
        for at in 0..ENDPOINTS {
            let here = absent != Some(at);
            let joined = here.then(|| side.join(at)).flatten();
            side.numbers.push(joined);
        }
        side
    }

    fn join(&mut self, at: u16) -> Option<EndpointIndex> {
        let speed = 1.0 + f64::from(at % 3) / 2.0;
        let facts = ReplicaFacts { speed, max_sequences: 8, ..ReplicaFacts::neutral() };
        let facts = EndpointFacts {
            name: format!("e{at}").into(),
            variant: format!("v{}", at % 2).into(),
            facts: Some(Arc::new(facts)),
            offers: u32::MAX,
        };
        let actions = self.happen(Event::EndpointUp(facts));
        actions.iter().find_map(|action| match action {
            Action::Joined(index, _) => Some(*index),
            _ => None,
        })
    }

    fn happen(&mut self, event: Event<'_>) -> llmd_sched::Actions {
        step(&mut self.pool, event, self.now, &mut self.rng)
    }

    /// The endpoint by name, or why there is none, of a request that was to be placed.
    fn placed(&mut self, event: Event<'_>) -> Option<Result<usize, Refusal>> {
        match self.happen(event).first()? {
            Action::Forward(pick) => {
                let name = self.numbers.iter().position(|at| *at == Some(pick.endpoint));
                Some(Ok(name.unwrap_or(usize::MAX)))
            }
            Action::Refuse(_, refusal) => Some(Err(*refusal)),
            _ => None,
        }
    }

    fn apply(&mut self, op: &Op) -> Option<Result<usize, Refusal>> {
        match op {
            Op::Arrive { id, family, blocks, counted } => {
                let keys: Vec<u64> = (0..*blocks).map(|at| (family + 1) << 40 | at).collect();
                let request = RequestId(*id);
                let placed = self.placed(Event::Arrive(Arrival {
                    request,
                    prompt_bytes: (blocks * 64) as u32,
                    prompt_tokens: counted.then_some((blocks * 16) as u32),
                    keys: &keys,
                    max_tokens: Some(50),
                    stream: id.is_multiple_of(2),
                    flow: 0,
                    needs: 0,
                }));
                self.happen(Event::Sent(request));
                while self.pool.has_index_work() {
                    self.happen(Event::Timer);
                }
                return placed;
            }
            Op::Retry(id, cause) => return self.placed(Event::Retry(RequestId(*id), *cause)),
            Op::FirstByte(id) => drop(self.happen(Event::FirstByte(RequestId(*id)))),
            Op::Progress(id, n) => drop(self.happen(Event::Progress(RequestId(*id), *n))),
            Op::Done(id, outcome) => {
                let usage = Usage { completion_tokens: Some(20), ..Usage::default() };
                drop(self.happen(Event::Done(RequestId(*id), *outcome, usage)));
            }
            Op::Scrape(name, load) => {
                let load = load.map(|(running, waiting)| ReportedLoad {
                    at: self.now,
                    running: Some(running),
                    waiting: Some(waiting),
                    kv_usage: None,
                });
                if let Some(index) = self.numbers[usize::from(*name)] {
                    drop(self.happen(Event::Scrape(index, load)));
                }
            }
            Op::Wait(us) => self.now += Micros(*us),
        }
        None
    }

    /// Ends all that runs at an endpoint, and takes it out.
    fn take_out(&mut self, name: u16, by_checks: bool) {
        let Some(index) = self.numbers[usize::from(name)] else { return };
        if by_checks {
            (0..3).for_each(|_| drop(self.happen(Event::Check(index, false))));
            return;
        }
        let pinned = Arrival {
            request: RequestId(u64::MAX),
            prompt_bytes: 0,
            prompt_tokens: Some(1),
            keys: &[],
            max_tokens: Some(1),
            stream: false,
            flow: 0,
            needs: 0,
        };
        self.happen(Event::ArriveAt(pinned, index));
        self.happen(Event::Retry(RequestId(u64::MAX), RetryCause::Unreachable));
    }

    fn drain(&mut self, name: u16) {
        let Some(index) = self.numbers[usize::from(name)] else { return };
        self.happen(Event::EndpointDrain(index));
    }

    fn is_out(&self, name: u16) -> bool {
        let status = self.pool.status(self.now);
        let found =
            status.endpoints.iter().find(|e| Some(e.index) == self.numbers[usize::from(name)]);
        found.is_some_and(|e| e.health.out.is_some())
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 600,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn an_endpoint_that_is_out_changes_no_pick_among_the_others(
        scheduler in prop::sample::select(vec![
            SchedulerKind::ExpectedFinish, SchedulerKind::RoundRobin, SchedulerKind::Random,
            SchedulerKind::LeastRequest, SchedulerKind::LlmdDefault,
        ]),
        gone in 0..ENDPOINTS,
        without in prop::sample::select(vec![Without::Never, Without::Drained]),
        by_checks in any::<bool>(),
        before in prop::collection::vec(op(), 0..60),
        after in prop::collection::vec(op(), 1..150),
    ) {
        // Who never was there has no share of a full index, so that it must not be full.
        let (absent, entries) = match without {
            Without::Never => (Some(gone), 1 << 16),
            Without::Drained => (None, 120),
        };
        let mut with = Side::new(scheduler, None, entries);
        let mut other = Side::new(scheduler, absent, entries);
        if matches!(without, Without::Drained) {
            for op in &before {
                prop_assert_eq!(with.apply(op), other.apply(op));
            }
            // Both know of a failure there; a probe is a pick, too.
            with.take_out(gone, by_checks);
            other.take_out(gone, by_checks);
            other.drain(gone);
        } else {
            with.take_out(gone, true);
        }
        for op in &after {
            let ill: Vec<u16> = (0..ENDPOINTS).filter(|name| other.is_out(*name)).collect();
            let (here, there) = (with.apply(op), other.apply(op));
            // Where no healthy one is left, the least ill is asked, and only there.
            if here == Some(Ok(usize::from(gone))) {
                let healthy = there.is_some_and(|placed| {
                    placed.is_ok_and(|name| !ill.iter().any(|ill| usize::from(*ill) == name))
                });
                prop_assert!(!healthy, "{:?} {:?}", op, there);
                return Ok(());
            }
            // Nor is it told then which of the others, of whom there is one less there. Who tries
            // again has had the healthy ones.
            let asked_ill = |placed: Option<Result<usize, _>>| {
                placed.is_some_and(|placed: Result<usize, _>| {
                    placed.is_ok_and(|name| ill.iter().any(|ill| usize::from(*ill) == name))
                })
            };
            if asked_ill(here) && asked_ill(there) {
                let anew = matches!(op, Op::Arrive { .. });
                let healthy = (0..ENDPOINTS).any(|name| name != gone && !ill.contains(&name));
                prop_assert!(!(anew && healthy), "{:?} {:?} {:?}", op, here, there);
                return Ok(());
            }
            prop_assert_eq!(here, there, "{:?}", op);
            if !with.is_out(gone) {
                // A late answer closed a breaker that a refused connection had opened.
                return Ok(());
            }
        }
    }
}
