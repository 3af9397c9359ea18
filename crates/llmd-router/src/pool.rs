//! One model's pool: the scheduler's state behind a plain mutex, and the endpoints it speaks of.
//!
//! Called by the phases of every request, by the scraper and by the task that follows
//! discovery. The mutex is held for one `step` at a time and never across an await: a pick is a
//! few microseconds. It decides nothing itself; who gets a request is `llmd-sched`'s answer.

mod membership;

pub(crate) use membership::follow;
pub(crate) use membership::label;

use crate::config::{Config, Model, Scheduler, Source};
use crate::endpoint::{Endpoint, Variant};
use crate::metrics::{Hold, Metrics, ModelMetrics};
use crate::repeats::Repeats;
use crate::tls::{Dial, Tls};
use llmd_discovery::Snapshot;
use llmd_sched::{
    Action, Actions, Arrival, EndpointIndex, Event, HealthStatus, Pick, PoolConfig, PoolState,
    PoolStatus, Refusal, RetryCause, Rng, SchedulerKind, prefix, step,
};
use llmd_types::{Micros, Outcome, ReportedLoad, RequestId, Usage};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio::sync::Notify;

/// Pieces of the prefix index that a request tells at once: enough for the longest prompt. What
/// is left then is others' and done by the pool's own task.
const SENT_PIECES: u32 = 16;

/// A choice, with the endpoint that its number stands for.
#[derive(Clone, Debug)]
pub(crate) struct Picked {
    /// Where to.
    pub(crate) endpoint: Arc<Endpoint>,
    /// The choice and its reasons.
    pub(crate) pick: Pick,
}

/// What all pools of a router share.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    /// What is counted.
    pub(crate) metrics: Arc<Metrics>,
    /// Lines of the log that come often.
    pub(crate) repeats: Arc<Repeats>,
    /// The zero point of the schedulers' time.
    pub(crate) zero: Instant,
}

/// One model's endpoints, requests and scheduler.
#[derive(Debug)]
pub(crate) struct Pool {
    /// The served name.
    pub(crate) name: Arc<str>,
    /// Where this model's prefix chains start.
    pub(crate) prefix_seed: u64,
    /// Handles of the model's metrics.
    pub(crate) metrics: ModelMetrics,
    shared: Shared,
    state: Mutex<State>,
    /// The scheduler asked for a timer.
    wake: Notify,
}

#[derive(Debug)]
struct State {
    sched: PoolState,
    rng: Rng,
    wake_at: Option<Micros>,
    model: Arc<Model>,
    variants: BTreeMap<String, Arc<Variant>>,
    /// TLS of endpoints that have settings of their own, by name.
    dials: BTreeMap<String, Dial>,
    /// That of endpoints that belong to none.
    no_variant: Arc<Variant>,
    /// By the scheduler's number.
    slots: Vec<Option<Arc<Endpoint>>>,
    /// All that discovery names, by name: with the scheduler's number where it has one.
    members: BTreeMap<String, Member>,
    last: Snapshot,
}

#[derive(Clone, Debug)]
struct Member {
    endpoint: Arc<Endpoint>,
    index: Option<EndpointIndex>,
    /// What is counted of it; for as long as it is one that the scheduler knows.
    _counted: Option<Arc<Hold>>,
}

/// What status shows of a pool.
#[derive(Debug)]
pub(crate) struct Overview {
    /// The configuration in force.
    pub(crate) model: Arc<Model>,
    /// The scheduler's view.
    pub(crate) status: PoolStatus,
    /// All that discovery names, with the scheduler's number where it has one.
    pub(crate) members: Vec<(Arc<Endpoint>, Option<EndpointIndex>)>,
    /// What discovery has to complain about.
    pub(crate) problems: Vec<String>,
}

impl Pool {
    /// A pool without endpoints.
    pub(crate) fn new(model: &Arc<Model>, config: &Config, tls: &Tls, shared: &Shared) -> Self {
        let metrics = &shared.metrics;
        let name: Arc<str> = Arc::from(model.name.as_str());
        // Without a seed in the configuration, two routers must not choose alike.
        let seed = model.seed.unwrap_or_else(crate::ids::entropy);
        let state = State {
            sched: PoolState::new(pool_config(model, config)),
            rng: Rng::seeded(seed),
            wake_at: None,
            variants: variants(model, tls, metrics),
            dials: dials(model, tls),
            no_variant: Arc::new(no_variant(model, metrics)),
            model: Arc::clone(model),
            slots: Vec::new(),
            members: BTreeMap::new(),
            last: Snapshot::default(),
        };
        Self {
            prefix_seed: prefix::seed(&name),
            metrics: metrics.model(&name),
            shared: shared.clone(),
            name,
            state: Mutex::new(state),
            wake: Notify::new(),
        }
    }

    /// Now, in the scheduler's time.
    pub(crate) fn now(&self) -> Micros {
        Micros(u64::try_from(self.shared.zero.elapsed().as_micros()).unwrap_or(u64::MAX))
    }

    /// The configuration in force.
    pub(crate) fn model(&self) -> Arc<Model> {
        Arc::clone(&self.lock().model)
    }

    /// Places a request; `only` names the endpoint that it must go to.
    pub(crate) fn arrive(
        &self,
        arrival: Arrival<'_>,
        only: Option<&str>,
    ) -> Result<Picked, Refusal> {
        let mut state = self.lock();
        let event = match only {
            None => Event::Arrive(arrival),
            Some(name) => {
                let member = state.members.get(name);
                let index = member.and_then(|member| member.index);
                Event::ArriveAt(arrival, index.ok_or(Refusal::UnknownEndpoint)?)
            }
        };
        let actions = self.step(&mut state, event);
        picked(&state, &actions)
    }

    /// The attempt failed: places the request again.
    pub(crate) fn retry(&self, request: RequestId, cause: RetryCause) -> Result<Picked, Refusal> {
        let mut state = self.lock();
        let actions = self.step(&mut state, Event::Retry(request, cause));
        picked(&state, &actions)
    }

    /// The attempt is on its way to the endpoint. What the prefix index has to be told of it is
    /// done here, piece by piece with the lock free in between: handing it to the pool's own task
    /// would cost a switch of threads for every prompt longer than a piece.
    pub(crate) fn sent(&self, request: RequestId) {
        let mut event = Event::Sent(request);
        for _ in 0..SENT_PIECES {
            let state = &mut *self.lock();
            step(&mut state.sched, event, self.now(), &mut state.rng);
            if !state.sched.has_index_work() {
                return;
            }
            event = Event::Timer;
        }
        let mut state = self.lock();
        self.step(&mut state, Event::Timer);
    }

    /// The first byte of a streamed answer came.
    pub(crate) fn first_byte(&self, request: RequestId) {
        self.tell(Event::FirstByte(request));
    }

    /// More tokens of a streamed answer came.
    pub(crate) fn progress(&self, request: RequestId, tokens: u32) {
        self.tell(Event::Progress(request, tokens));
    }

    /// The request ended; its load is given back.
    pub(crate) fn done(&self, request: RequestId, outcome: Outcome, usage: Usage) {
        self.tell(Event::Done(request, outcome, usage));
    }

    /// A reading of an endpoint's metrics, or that there was none.
    pub(crate) fn scraped(&self, endpoint: EndpointIndex, load: Option<ReportedLoad>) {
        self.tell(Event::Scrape(endpoint, load));
    }

    /// What an active check of an endpoint said.
    pub(crate) fn checked(&self, endpoint: EndpointIndex, good: bool) {
        self.tell(Event::Check(endpoint, good));
    }

    /// Endpoints that the scheduler knows, with their numbers.
    pub(crate) fn joined(&self) -> Vec<(EndpointIndex, Arc<Endpoint>)> {
        let state = self.lock();
        let members = state.members.values();
        members.filter_map(|m| Some((m.index?, Arc::clone(&m.endpoint)))).collect()
    }

    /// Whether the scheduler may place requests on an endpoint of that name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.lock().members.get(name).is_some_and(|member| member.index.is_some())
    }

    /// An endpoint by name, and whether the scheduler may place requests on it.
    pub(crate) fn endpoint(&self, name: &str) -> Option<(Arc<Endpoint>, bool)> {
        let state = self.lock();
        let member = state.members.get(name)?;
        Some((Arc::clone(&member.endpoint), member.index.is_some()))
    }

    /// Endpoints that the scheduler knows, with their health.
    pub(crate) fn healths(&self) -> Vec<(Arc<Endpoint>, HealthStatus)> {
        let now = self.now();
        let state = self.lock();
        let health =
            |m: &Member| Some((Arc::clone(&m.endpoint), state.sched.health(m.index?, now)?));
        state.members.values().filter_map(health).collect()
    }

    /// Everything for status and metrics.
    pub(crate) fn overview(&self) -> Overview {
        let now = self.now();
        let state = self.lock();
        let members = state.members.values();
        Overview {
            model: Arc::clone(&state.model),
            status: state.sched.status(now),
            members: members.map(|m| (Arc::clone(&m.endpoint), m.index)).collect(),
            problems: state.last.problems.clone(),
        }
    }

    fn tell(&self, event: Event<'_>) {
        let mut state = self.lock();
        self.step(&mut state, event);
    }

    /// The one place where the scheduler is called.
    fn step(&self, state: &mut State, event: Event<'_>) -> Actions {
        let now = self.now();
        let actions = step(&mut state.sched, event, now, &mut state.rng);
        for action in &actions {
            if let Action::WakeAt(at) = action {
                let at = state.wake_at.map_or(*at, |old| old.min(*at));
                state.wake_at = Some(at);
                self.wake.notify_one();
            }
        }
        actions
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn picked(state: &State, actions: &Actions) -> Result<Picked, Refusal> {
    for action in actions {
        match action {
            Action::Forward(pick) => {
                let slot = state.slots.get(usize::from(pick.endpoint.0));
                let endpoint = slot.cloned().flatten().ok_or(Refusal::UnknownEndpoint)?;
                return Ok(Picked { endpoint, pick: *pick });
            }
            Action::Refuse(_, refusal) => return Err(*refusal),
            Action::Joined(..) | Action::WakeAt(_) => {}
        }
    }
    // A retry of a request that the scheduler no longer knows.
    Err(Refusal::AttemptsUsed)
}

fn pool_config(model: &Model, config: &Config) -> PoolConfig {
    PoolConfig {
        objective: model.objective,
        scheduler: match model.scheduler {
            Scheduler::ExpectedFinish => SchedulerKind::ExpectedFinish,
            Scheduler::RoundRobin => SchedulerKind::RoundRobin,
            Scheduler::Random => SchedulerKind::Random,
            Scheduler::LeastRequest => SchedulerKind::LeastRequest,
            Scheduler::LlmDDefault => SchedulerKind::LlmdDefault,
        },
        slo: model.slo,
        attempts: config.retry.attempts,
        resilience: config.resilience.rules(&config.retry),
        prefix_seed: prefix::seed(&model.name),
        ..PoolConfig::default()
    }
}

fn variants(model: &Model, tls: &Tls, metrics: &Metrics) -> BTreeMap<String, Arc<Variant>> {
    let made = model.variants.iter().map(|variant| {
        let made = Variant {
            name: Arc::from(variant.name.as_str()),
            accelerator: variant.accelerator.clone(),
            simulated: variant.simulated,
            served_name: variant.served_name.clone(),
            offers: variant.offers(),
            facts: variant.facts.clone().map(Arc::new),
            dial: tls.dial(variant.tls.as_ref()),
            metrics: metrics.variant(&model.name, &variant.name),
        };
        (variant.name.clone(), Arc::new(made))
    });
    made.collect()
}

fn dials(model: &Model, tls: &Tls) -> BTreeMap<String, Dial> {
    let endpoints = model.sources.iter().filter_map(|source| match source {
        Source::Static { endpoints } => Some(endpoints),
        Source::File { .. } | Source::Process { .. } | Source::Dns(_) => None,
    });
    let own = endpoints
        .flatten()
        .filter_map(|endpoint| Some((endpoint.name.clone(), tls.dial(endpoint.tls.as_ref())?)));
    own.collect()
}

fn no_variant(model: &Model, metrics: &Metrics) -> Variant {
    Variant {
        name: Arc::from(""),
        accelerator: String::new(),
        simulated: false,
        served_name: None,
        offers: u32::MAX,
        facts: None,
        dial: None,
        metrics: metrics.variant(&model.name, ""),
    }
}

#[cfg(test)]
mod tests;
