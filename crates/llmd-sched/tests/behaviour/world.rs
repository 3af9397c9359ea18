//! A pool with a clock, and short words for what tests do to it.

use llmd_sched::{
    Action, Actions, Arrival, EndpointFacts, EndpointIndex, EndpointStatus, Event, Pick,
    PoolConfig, PoolState, Refusal, RetryCause, Rng, SchedulerKind, prefix, step,
};
use llmd_types::{Micros, Outcome, ReplicaFacts, ReportedLoad, RequestId, Usage};
use std::sync::Arc;

pub(crate) struct World {
    pub(crate) pool: PoolState,
    pub(crate) rng: Rng,
    pub(crate) now: Micros,
    next: u64,
}

/// What a test asks for; the rest is usual.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ask {
    pub(crate) bytes: u32,
    pub(crate) tokens: Option<u32>,
    pub(crate) keys: Vec<u64>,
    pub(crate) max_tokens: Option<u32>,
    pub(crate) whole: bool,
    pub(crate) flow: u64,
    pub(crate) needs: u32,
}

/// A prompt of so many tokens, counted, whose answer has at most so many.
pub(crate) fn ask(tokens: u32, max_tokens: u32) -> Ask {
    let (bytes, tokens) = (tokens * 4, Some(tokens));
    Ask { bytes, tokens, max_tokens: Some(max_tokens), ..Ask::default() }
}

/// Facts that make round times: 1 us a prompt token, 1 ms a step whatever is in it.
pub(crate) fn round() -> ReplicaFacts {
    ReplicaFacts {
        weight_bytes: 0.0,
        flops_per_token: 1e6,
        gemm_flops: 1e12,
        gemm_half_tokens: 0.0,
        attention_flops_per_pair: 0.0,
        kv_bytes_per_token: 0.0,
        step_us: 1_000.0,
        sequence_us: 0.0,
        token_us: 0.0,
        request_us: 0.0,
        max_batched_tokens: 100_000,
        max_sequences: 1_000,
        kv_tokens: 1_000_000,
        max_model_len: 100_000,
        ..ReplicaFacts::neutral()
    }
}

/// The same, so many times slower.
pub(crate) fn slower(times: f64) -> ReplicaFacts {
    ReplicaFacts { speed: 1.0 / times, ..round() }
}

pub(crate) fn usage(prompt: u32, completion: u32) -> Usage {
    Usage { prompt_tokens: Some(prompt), cached_tokens: None, completion_tokens: Some(completion) }
}

impl World {
    pub(crate) fn new(config: PoolConfig) -> Self {
        let (pool, rng) = (PoolState::new(config), Rng::seeded(5));
        Self { pool, rng, now: Micros(1_000_000), next: 0 }
    }

    /// With one endpoint for each of `facts`, named e0, e1, … of variants v0, v1, …
    pub(crate) fn with(config: PoolConfig, facts: &[ReplicaFacts]) -> Self {
        let mut world = Self::new(config);
        for (at, facts) in facts.iter().enumerate() {
            world.up(&format!("e{at}"), &format!("v{at}"), Some(facts.clone()));
        }
        world
    }

    pub(crate) fn scheduled(scheduler: SchedulerKind, endpoints: usize) -> Self {
        let config = PoolConfig { scheduler, ..PoolConfig::default() };
        Self::with(config, &vec![round(); endpoints])
    }

    pub(crate) fn step(&mut self, event: Event<'_>) -> Actions {
        step(&mut self.pool, event, self.now, &mut self.rng)
    }

    pub(crate) fn wait(&mut self, us: u64) {
        self.now += Micros(us);
    }

    pub(crate) fn up(
        &mut self,
        name: &str,
        variant: &str,
        facts: Option<ReplicaFacts>,
    ) -> EndpointIndex {
        self.up_with(name, variant, facts, u32::MAX)
    }

    pub(crate) fn up_with(
        &mut self,
        name: &str,
        variant: &str,
        facts: Option<ReplicaFacts>,
        offers: u32,
    ) -> EndpointIndex {
        let facts = EndpointFacts {
            name: name.into(),
            variant: variant.into(),
            facts: facts.map(Arc::new),
            offers,
        };
        match self.step(Event::EndpointUp(facts)).as_slice() {
            [Action::Joined(index, joined)] if &**joined == name => *index,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn try_arrive(
        &mut self,
        ask: &Ask,
        at: Option<EndpointIndex>,
    ) -> Result<Pick, Refusal> {
        self.next += 1;
        let mut keys = Vec::new();
        prefix::keep(&ask.keys, &mut keys);
        let arrival = Arrival {
            request: RequestId(self.next),
            prompt_bytes: ask.bytes,
            prompt_tokens: ask.tokens,
            keys: &keys,
            max_tokens: ask.max_tokens,
            stream: !ask.whole,
            flow: ask.flow,
            needs: ask.needs,
        };
        let actions = match at {
            Some(index) => self.step(Event::ArriveAt(arrival, index)),
            None => self.step(Event::Arrive(arrival)),
        };
        result(&actions)
    }

    pub(crate) fn arrive(&mut self, ask: &Ask) -> Pick {
        self.try_arrive(ask, None).unwrap()
    }

    /// The place of the endpoint that a request of this kind goes to.
    pub(crate) fn place(&mut self, ask: &Ask) -> u16 {
        self.arrive(ask).endpoint.0
    }

    /// After an attempt that counts.
    pub(crate) fn try_retry(&mut self, id: RequestId) -> Result<Pick, Refusal> {
        self.failed(id, RetryCause::Unserved)
    }

    pub(crate) fn failed(&mut self, id: RequestId, cause: RetryCause) -> Result<Pick, Refusal> {
        result(&self.step(Event::Retry(id, cause)))
    }

    /// Tells that it was sent, until the index knows all of it.
    pub(crate) fn send(&mut self, id: RequestId) {
        let mut actions = self.step(Event::Sent(id));
        while let [Action::WakeAt(at)] = actions.as_slice() {
            assert_eq!(*at, self.now);
            actions = self.step(Event::Timer);
        }
        assert!(actions.is_empty(), "{actions:?}");
    }

    pub(crate) fn end(&mut self, id: RequestId, outcome: Outcome, usage: Usage) {
        assert!(self.step(Event::Done(id, outcome, usage)).is_empty());
    }

    pub(crate) fn cancel(&mut self, id: RequestId) {
        self.end(id, Outcome::Cancelled, Usage::default());
    }

    /// A reading taken now.
    pub(crate) fn report(&mut self, endpoint: u16, running: u32, waiting: u32, kv_usage: f64) {
        let load = ReportedLoad {
            at: self.now,
            running: Some(running),
            waiting: Some(waiting),
            kv_usage: Some(kv_usage),
        };
        self.step(Event::Scrape(EndpointIndex(endpoint), Some(load)));
    }

    pub(crate) fn endpoint(&self, place: u16) -> EndpointStatus {
        self.pool.status(self.now).endpoint(EndpointIndex(place)).unwrap().clone()
    }

    /// Requests in flight at each endpoint that is listed.
    pub(crate) fn inflight(&self) -> Vec<u32> {
        let status = self.pool.status(self.now);
        status.endpoints.iter().map(|endpoint| endpoint.inflight_requests).collect()
    }

    pub(crate) fn assert_at_rest(&self) {
        let status = self.pool.status(self.now);
        assert_eq!(status.requests, 0);
        for endpoint in status.endpoints {
            assert_eq!((endpoint.inflight_requests, endpoint.inflight_tokens), (0, 0));
        }
    }
}

pub(crate) fn result(actions: &Actions) -> Result<Pick, Refusal> {
    match actions.as_slice() {
        [Action::Forward(pick)] => Ok(*pick),
        [Action::Refuse(_, refusal)] => Err(*refusal),
        other => panic!("{other:?}"),
    }
}
