//! One run: a workload arrives at a pool of simulated engines, in virtual time.
//!
//! The order of things at one time is fixed: what engines bring forth, then scrapes, then
//! limits of time, then arrivals; engines in the order of the scenario.

use crate::engine::{Engine, EngineEvent, Prompt};
use crate::report::{Report, Trip};
use crate::workload::{Arrivals, BYTES_PER_TOKEN, Job};
use llmd_sched::{
    Action, Arrival, EndpointFacts, EndpointIndex, Event, Pick, PoolConfig, PoolState, RetryCause,
    Rng, step,
};
use llmd_types::{Micros, Outcome, ReplicaFacts, RequestId, Usage};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// One endpoint of a simulated pool.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its variant.
    pub variant: Arc<str>,
    /// What its engine can do.
    pub engine: Arc<ReplicaFacts>,
    /// What the scheduler is told of it; `None` leaves it with the neutral prior.
    pub told: Option<Arc<ReplicaFacts>>,
}

impl Member {
    /// A member that is as the scheduler is told.
    pub fn honest(variant: &str, facts: ReplicaFacts) -> Self {
        let engine = Arc::new(facts);
        Self { variant: variant.into(), told: Some(engine.clone()), engine }
    }
}

/// A pool to simulate.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Its settings.
    pub config: PoolConfig,
    /// Its endpoints.
    pub members: Vec<Member>,
    /// Time between two scrapes of an endpoint; `None` is never.
    pub scrape_every: Option<Micros>,
    /// How long a request may hear nothing: without a first token it is then tried elsewhere,
    /// behind that it is lost. `None` waits for ever, so that every engine must serve.
    pub patience: Option<Micros>,
    /// Members, by their places, whose engines do nothing more from a time on.
    pub hangs: Vec<(usize, Micros)>,
    /// Seed of the scheduler's randomness.
    pub seed: u64,
}

impl Scenario {
    /// The default scheduler over `members`, scraped every 200 ms.
    pub fn new(members: Vec<Member>, seed: u64) -> Self {
        let scrape_every = Some(Micros::from_millis(200));
        let config = PoolConfig::default();
        Self { config, members, scrape_every, patience: None, hangs: Vec::new(), seed }
    }
}

/// A request under way.
struct Flight {
    job: usize,
    pick: Pick,
    member: usize,
    arrived_at: Micros,
    first_token_at: Option<Micros>,
    /// When its patience ends.
    until: Option<Micros>,
}

/// Everything in a run that changes.
struct Fleet<'a> {
    jobs: &'a [Job],
    pool: PoolState,
    rng: Rng,
    engines: Vec<Engine>,
    /// When each engine stops doing anything.
    hang_at: Vec<Micros>,
    patience: Option<Micros>,
    /// When the patience of requests ends, soonest first.
    limits: BTreeSet<(Micros, RequestId)>,
    /// Which member has a number; and the numbers of the members.
    numbers: Vec<EndpointIndex>,
    flights: BTreeMap<RequestId, Flight>,
    trips: Vec<Trip>,
    refused: u64,
    lost: u64,
}

/// Runs `jobs` to their ends.
pub fn run(scenario: &Scenario, jobs: &[Job], arrivals: &Arrivals) -> Report {
    let mut fleet = Fleet::new(scenario, jobs);
    let mut next_job = 0;
    let mut scrape_at = scenario.scrape_every.map(|_| Micros::ZERO);
    let mut now = Micros::ZERO;
    let mut seen = Vec::new();
    loop {
        let ended = fleet.trips.len() as u64 + fleet.refused + fleet.lost;
        if ended == jobs.len() as u64 {
            break;
        }
        let arrival_at = match arrivals {
            Arrivals::At(times) => times.get(next_job).copied(),
            Arrivals::Closed(most) => (next_job as u64 - ended < *most as u64).then_some(now),
        };
        let arrival_at = arrival_at.filter(|_| next_job < jobs.len());
        let engine_at = fleet.engine_at();
        let limit_at = fleet.limits.first().map(|(at, _)| *at);
        let Some(at) = [arrival_at, engine_at, scrape_at, limit_at].into_iter().flatten().min()
        else {
            break;
        };
        now = now.max(at);
        if engine_at == Some(at) {
            fleet.advance_engines(now, &mut seen);
        } else if scrape_at == Some(at) {
            fleet.scrape(now);
            scrape_at = scenario.scrape_every.map(|every| now + every);
        } else if limit_at == Some(at) {
            fleet.late(now);
        } else {
            fleet.arrive(next_job, now);
            next_job += 1;
        }
    }
    let status = fleet.pool.status(now);
    let members = fleet.engines.len();
    Report { trips: fleet.trips, refused: fleet.refused, lost: fleet.lost, status, members }
}

impl<'a> Fleet<'a> {
    fn new(scenario: &Scenario, jobs: &'a [Job]) -> Self {
        let mut fleet = Self {
            jobs,
            pool: PoolState::new(scenario.config.clone()),
            rng: Rng::seeded(scenario.seed),
            engines: Vec::new(),
            hang_at: vec![Micros::MAX; scenario.members.len()],
            patience: scenario.patience,
            limits: BTreeSet::new(),
            numbers: Vec::new(),
            flights: BTreeMap::new(),
            trips: Vec::new(),
            refused: 0,
            lost: 0,
        };
        for (member, at) in &scenario.hangs {
            fleet.hang_at[*member] = *at;
        }
        for (place, member) in scenario.members.iter().enumerate() {
            let name: Arc<str> = format!("{}-{place}", member.variant).into();
            let (variant, facts) = (member.variant.clone(), member.told.clone());
            fleet.engines.push(Engine::new(member.engine.clone()));
            let up = Event::EndpointUp(EndpointFacts { name, variant, facts, offers: u32::MAX });
            fleet.happen(up, Micros::ZERO);
        }
        fleet
    }

    /// Lets the scheduler know, and does what it says.
    fn happen(&mut self, event: Event<'_>, now: Micros) {
        for action in step(&mut self.pool, event, now, &mut self.rng) {
            match action {
                Action::Joined(index, _) => self.numbers.push(index),
                Action::WakeAt(_) => self.happen(Event::Timer, now),
                Action::Refuse(id, _) => {
                    self.forget(id);
                    self.refused += 1;
                }
                Action::Forward(pick) => self.forward(pick, now),
            }
        }
    }

    fn arrive(&mut self, job: usize, now: Micros) {
        let asked = &self.jobs[job];
        self.happen(
            Event::Arrive(Arrival {
                request: RequestId(job as u64),
                prompt_bytes: asked.prompt_tokens * BYTES_PER_TOKEN,
                prompt_tokens: None,
                keys: &asked.keys,
                max_tokens: Some(asked.output_tokens),
                stream: asked.stream,
                flow: asked.flow,
                needs: 0,
            }),
            now,
        );
    }

    fn forward(&mut self, pick: Pick, now: Micros) {
        let job = pick.request.0 as usize;
        let asked = &self.jobs[job];
        let Some(member) = self.numbers.iter().position(|number| *number == pick.endpoint) else {
            return;
        };
        let engine = &mut self.engines[member];
        let chain_block = llmd_sched::prefix::BLOCK_BYTES as u32 / BYTES_PER_TOKEN;
        let block = engine.facts().block_size;
        let prompt = Prompt::from_chain(asked.prompt_tokens, &asked.blocks, chain_block, block);
        if engine.submit(now, pick.request, prompt, asked.output_tokens).is_err() {
            self.refused += 1;
            self.happen(Event::Done(pick.request, Outcome::Refused, Usage::default()), now);
            return;
        }
        // Another attempt of a request that is under way: it arrived before.
        let arrived_at = self.forget(pick.request).map_or(now, |flight| flight.arrived_at);
        let flight = Flight { job, pick, member, arrived_at, first_token_at: None, until: None };
        self.flights.insert(pick.request, flight);
        self.heard(pick.request, now);
        self.happen(Event::Sent(pick.request), now);
    }

    /// It hears something now: its patience begins anew.
    fn heard(&mut self, id: RequestId, now: Micros) {
        let (Some(patience), Some(flight)) = (self.patience, self.flights.get_mut(&id)) else {
            return;
        };
        if let Some(until) = flight.until.replace(now + patience) {
            self.limits.remove(&(until, id));
        }
        self.limits.insert((now + patience, id));
    }

    fn forget(&mut self, id: RequestId) -> Option<Flight> {
        let flight = self.flights.remove(&id)?;
        if let Some(until) = flight.until {
            self.limits.remove(&(until, id));
        }
        Some(flight)
    }

    /// A request's patience is over.
    fn late(&mut self, now: Micros) {
        let Some((_, id)) = self.limits.pop_first() else { return };
        let Some(flight) = self.flights.get(&id) else { return };
        self.engines[flight.member].cancel(id);
        if flight.first_token_at.is_none() {
            self.happen(Event::Retry(id, RetryCause::Unserved), now);
        } else {
            self.forget(id);
            self.lost += 1;
            self.happen(Event::Done(id, Outcome::Lost, Usage::default()), now);
        }
    }

    /// When an engine that does not hang has something to do.
    fn engine_at(&self) -> Option<Micros> {
        let engines = self.engines.iter().zip(&self.hang_at);
        engines.filter_map(|(engine, hang)| engine.next_event_at().filter(|at| at < hang)).min()
    }

    fn advance_engines(&mut self, now: Micros, seen: &mut Vec<EngineEvent>) {
        for member in 0..self.engines.len() {
            if now >= self.hang_at[member] {
                continue;
            }
            self.engines[member].advance(now, seen);
            for event in seen.drain(..) {
                match event {
                    EngineEvent::Token { id, n, .. } => self.token(id, n, now),
                    EngineEvent::Finished { id, cached, completion, .. } => {
                        self.finished(id, member, cached, completion, now);
                    }
                }
            }
        }
    }

    fn token(&mut self, id: RequestId, tokens: u32, now: Micros) {
        let Some(flight) = self.flights.get_mut(&id) else { return };
        let first = flight.first_token_at.is_none();
        flight.first_token_at.get_or_insert(now);
        let stream = self.jobs[flight.job].stream;
        self.heard(id, now);
        // A router sees nothing of an answer in one piece before its end.
        if stream {
            if first {
                self.happen(Event::FirstByte(id), now);
            }
            self.happen(Event::Progress(id, tokens), now);
        }
    }

    fn finished(&mut self, id: RequestId, member: usize, cached: u32, tokens: u32, now: Micros) {
        let Some(flight) = self.forget(id) else { return };
        let asked = &self.jobs[flight.job];
        let usage = Usage {
            prompt_tokens: Some(asked.prompt_tokens),
            cached_tokens: Some(cached),
            completion_tokens: Some(tokens),
        };
        if !asked.stream {
            self.happen(Event::FirstByte(id), now);
        }
        self.happen(Event::Done(id, Outcome::Done, usage), now);
        self.trips.push(Trip {
            job: flight.job,
            member,
            pick: flight.pick,
            arrived_at: flight.arrived_at,
            first_token_at: flight.first_token_at.unwrap_or(now),
            ended_at: now,
            prompt_tokens: asked.prompt_tokens,
            cached_tokens: cached,
            completion_tokens: tokens,
        });
    }

    fn scrape(&mut self, now: Micros) {
        for member in 0..self.engines.len() {
            let load = self.engines[member].reported(now);
            self.happen(Event::Scrape(self.numbers[member], Some(load)), now);
        }
    }
}
