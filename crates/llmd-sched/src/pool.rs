//! The state of one pool: its endpoints, its requests, what it learned.
//!
//! Owned by whoever calls [`crate::step`], which is its only writer. Numbers of endpoints are
//! places in `endpoints`; a place is used again when its last request has ended and the index
//! has forgotten it.

use crate::budget::Budget;
use crate::config::PoolConfig;
use crate::endpoint::{Endpoint, EndpointState, Foreign, Variant};
use crate::event::{EndpointFacts, EndpointIndex, Refusal};
use crate::forecast::{Ask, Batch, Corrections, Forecast, Surroundings, forecast};
use crate::index::Index;
use crate::learn::{FADES_AFTER, Habits};
use crate::prefix;
use crate::request::{Request, Requests};
use crate::rng::Rng;
use llmd_perf::Workload;
use llmd_types::{Micros, RequestId};
use std::collections::VecDeque;

/// Candidates of which all are forecast; of more, so many are chosen by [`shorten`].
///
/// [`shorten`]: PoolState::shorten_candidates
const FORECAST_ALL: usize = 256;

/// All that the scheduler knows of one pool.
#[derive(Debug)]
pub struct PoolState {
    pub(crate) config: PoolConfig,
    pub(crate) endpoints: Vec<Endpoint>,
    pub(crate) variants: Vec<Variant>,
    pub(crate) requests: Requests,
    pub(crate) index: Index,
    pub(crate) habits: Habits,
    pub(crate) budget: Budget,
    /// Requests of which the index was not told all yet.
    pub(crate) index_work: VecDeque<RequestId>,
    /// The last choice of round robin.
    pub(crate) cursor: EndpointIndex,
    pub(crate) picks: u64,
    /// Bytes a token when the endpoints' prefix space was last worked out.
    pub(crate) prefix_bytes_per_token: f64,
    // Of the present pick, kept to be used again.
    pub(crate) candidates: Vec<EndpointIndex>,
    ranked: Vec<(u64, u64, EndpointIndex)>,
    pub(crate) forecasts: Vec<Forecast>,
    pub(crate) depths: Vec<u32>,
    pub(crate) cached: Vec<u32>,
}

impl PoolState {
    /// A pool without endpoints.
    pub fn new(config: PoolConfig) -> Self {
        Self {
            index: Index::new(config.index_entries),
            config,
            endpoints: Vec::new(),
            variants: Vec::new(),
            requests: Requests::new(),
            habits: Habits::new(),
            budget: Budget::default(),
            index_work: VecDeque::with_capacity(64),
            cursor: EndpointIndex(u16::MAX),
            picks: 0,
            prefix_bytes_per_token: 0.0,
            candidates: Vec::new(),
            ranked: Vec::new(),
            forecasts: Vec::new(),
            depths: Vec::new(),
            cached: Vec::new(),
        }
    }

    /// The settings in force.
    pub const fn config(&self) -> &PoolConfig {
        &self.config
    }

    /// Whether the index has still to be told of requests that were sent: then
    /// [`crate::Event::Timer`] does a piece of it.
    pub fn has_index_work(&self) -> bool {
        !self.index_work.is_empty()
    }

    /// The place of an endpoint that is there, or was and comes back.
    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.endpoints.iter().position(|endpoint| &*endpoint.name == name)
    }

    /// A place for a new endpoint: a free one, else one more. `None` when all numbers are taken.
    pub(crate) fn vacant(&mut self, facts: &EndpointFacts) -> Option<usize> {
        let variant = self.variant(facts);
        let free = (0..self.endpoints.len()).find(|at| {
            let endpoint = &self.endpoints[*at];
            endpoint.state == EndpointState::Down && endpoint.held == 0
        });
        let place = free.unwrap_or(self.endpoints.len());
        if place >= usize::from(u16::MAX) {
            return None;
        }
        let endpoint = Endpoint::new(facts.name.clone(), variant);
        if place < self.endpoints.len() {
            while !self.index.forget(place, usize::MAX) {}
            self.endpoints[place] = endpoint;
        } else {
            self.endpoints.push(endpoint);
            self.depths.push(0);
        }
        Some(place)
    }

    /// The number of a variant, which is made when it is new.
    pub(crate) fn variant(&mut self, facts: &EndpointFacts) -> usize {
        let known = self.variants.iter().position(|variant| variant.name == facts.variant);
        known.unwrap_or_else(|| {
            let (prefill, step) = Default::default();
            let (name, picked_at) = (facts.variant.clone(), self.picks);
            self.variants.push(Variant { name, prefill, step, picked_at });
            self.variants.len() - 1
        })
    }

    /// Whether an endpoint of this number is there.
    pub(crate) fn present(&mut self, index: EndpointIndex) -> Option<&mut Endpoint> {
        let endpoint = self.endpoints.get_mut(index.at());
        endpoint.filter(|endpoint| endpoint.state != EndpointState::Down)
    }

    pub(crate) fn corrections(&self, endpoint: &Endpoint) -> Corrections {
        let variant = &self.variants[endpoint.variant];
        let unasked = (self.rounds_since(endpoint.picked_at), self.rounds_since(variant.picked_at));
        Corrections::of(endpoint, variant, unasked)
    }

    /// Picks since that one, for each endpoint that there is; 0 while they are too few to count.
    fn rounds_since(&self, pick: u64) -> u64 {
        let (picks, endpoints) = (self.picks - pick, self.endpoints.len().max(1) as u64);
        if picks <= endpoints * FADES_AFTER { 0 } else { picks / endpoints }
    }

    /// Before an endpoint is picked: what of its speed was not asked for too long is forgotten.
    fn forget(&mut self, index: EndpointIndex) {
        let variant = self.endpoints[index.at()].variant;
        let own = self.rounds_since(self.endpoints[index.at()].picked_at);
        let shared = self.rounds_since(self.variants[variant].picked_at);
        let (endpoint, variant) = (&mut self.endpoints[index.at()], &mut self.variants[variant]);
        endpoint.prefill.asked_again(own);
        endpoint.step.asked_again(own);
        variant.prefill.asked_again(shared);
        variant.step.asked_again(shared);
        variant.picked_at = self.picks;
    }

    /// One candidate alone, for a request that wants this endpoint.
    pub(crate) fn only(&mut self, index: EndpointIndex) -> Result<(), Refusal> {
        self.present(index).ok_or(Refusal::UnknownEndpoint)?;
        self.candidates.clear();
        self.candidates.push(index);
        Ok(())
    }

    /// Candidates above a few hundred are cut down to those with the longest prefix, the least
    /// loaded of each variant, and a sample.
    pub(crate) fn shorten_candidates(&mut self, rng: &mut Rng) {
        if self.candidates.len() <= FORECAST_ALL {
            return;
        }
        let Self { candidates, ranked, endpoints, depths, .. } = self;
        let quarter = FORECAST_ALL / 4;
        let mut holders = 0;
        for place in 0..candidates.len() {
            if depths[candidates[place].at()] > 0 {
                candidates.swap(holders, place);
                holders += 1;
            }
        }
        if holders > quarter {
            let deepest = |at: &EndpointIndex| (std::cmp::Reverse(depths[at.at()]), *at);
            candidates[..holders].select_nth_unstable_by_key(quarter - 1, deepest);
            holders = quarter;
        }
        // Load over what it can do, least first: requests times the time each takes there. Written
        // down once, because a comparison that looks at two endpoints costs two cache misses.
        ranked.clear();
        ranked.extend(candidates.drain(holders..).map(|at| {
            let endpoint = &endpoints[at.at()];
            let busy = f64::from(endpoint.load.requests + 1) * endpoint.saturated.us_per_request;
            (busy as u64, endpoint.picked_at, at)
        }));
        ranked.select_nth_unstable(2 * quarter);
        for place in 2 * quarter..3 * quarter {
            let other = place + rng.below(ranked.len() - place);
            ranked.swap(place, other);
        }
        candidates.extend(ranked[..3 * quarter].iter().map(|(_, _, at)| *at));
        candidates.sort_unstable();
    }

    /// Fills `forecasts` and `cached` for the candidates, after time has passed for their
    /// queues.
    pub(crate) fn predict(&mut self, ask: Ask, prompt_bytes: u32, now: Micros) {
        let (prompt, output) = self.habits.usual();
        let usual = Workload { prompt_tokens: prompt, output_tokens: output };
        let around = Surroundings { usual, foreign: self.usual_foreign(now), now };
        self.forecasts.clear();
        self.cached.clear();
        for at in 0..self.candidates.len() {
            let place = self.candidates[at].at();
            self.advance(place, now);
            let endpoint = &mut self.endpoints[place];
            endpoint.saturate(usual);
            endpoint.pace.follow(&endpoint.facts, Batch::at(endpoint, &around));
            let endpoint = &self.endpoints[place];
            let cached = self.cached_tokens(place, ask.prompt_tokens, prompt_bytes);
            let asked = Ask {
                // A length that no engine holds is a wrong estimate (an image, say).
                prompt_tokens: ask.prompt_tokens.min(endpoint.facts.max_model_len),
                ..ask
            };
            let found = forecast(endpoint, self.corrections(endpoint), &around, asked, cached);
            self.forecasts.push(found);
            self.cached.push(cached);
        }
    }

    /// Tokens of a prompt that the endpoint holds, in whole blocks of its own, and never the
    /// last token: an engine computes at least that.
    fn cached_tokens(&self, place: usize, prompt_tokens: u32, prompt_bytes: u32) -> u32 {
        let blocks = prefix::blocks(self.depths[place] as usize);
        if blocks == 0 || prompt_bytes == 0 {
            return 0;
        }
        let bytes = (blocks * prefix::BLOCK_BYTES as u64) as f64;
        let share = (bytes / f64::from(prompt_bytes)).min(1.0);
        let tokens = (share * f64::from(prompt_tokens)) as u32;
        let block = self.endpoints[place].facts.block_size;
        tokens.min(prompt_tokens.saturating_sub(1)) / block * block
    }

    /// What candidate number `at` holds of the present prompt, in tokens.
    pub(crate) fn cached(&self, at: usize) -> u32 {
        self.cached.get(at).copied().unwrap_or(0)
    }

    pub(crate) fn candidate(&self, at: usize) -> &Endpoint {
        &self.endpoints[self.candidates[at].at()]
    }

    /// When candidate number `at` was last picked.
    pub(crate) fn turn(&self, at: usize) -> u64 {
        self.candidate(at).picked_at
    }

    /// Time passes for the prompts that wait at an endpoint.
    pub(crate) fn advance(&mut self, place: usize, now: Micros) {
        while self.endpoints[place].load.has_queue() {
            let factor = self.corrections(&self.endpoints[place]).prefill;
            let endpoint = &mut self.endpoints[place];
            let Some(id) = endpoint.advance(now, factor) else { return };
            let Some(request) = self.requests.get_mut(id) else { continue };
            endpoint.load.start_running(id, &mut request.charge, now);
        }
    }

    /// Whether one more endpoint may be out for its share of failures.
    pub(crate) fn may_eject(&self) -> bool {
        let ready = || self.endpoints.iter().filter(|e| e.state == EndpointState::Ready);
        let after = ready().filter(|e| e.health.ejected()).count() + 1;
        after * 100 <= ready().count() * self.config.resilience.ejection_max_percent as usize
    }

    /// Puts a request's load on an endpoint.
    pub(crate) fn place(
        &mut self,
        id: RequestId,
        request: &mut Request,
        index: EndpointIndex,
        now: Micros,
    ) {
        self.picks += 1;
        self.forget(index);
        self.habits.placed(request.charge.uncached);
        let endpoint = &mut self.endpoints[index.at()];
        endpoint.picked_at = self.picks;
        endpoint.picks += 1;
        endpoint.held += 1;
        endpoint.serves |= !request.pinned;
        endpoint.health.placed(id, now);
        request.attempt.life = endpoint.life;
        endpoint.load.add(id, request.charge, request.stream, now);
        request.tried.push(index);
        request.endpoint = Some(index);
        request.indexed = 0;
    }

    /// Takes a request's load off its endpoint, if it has one. Its number stays held.
    pub(crate) fn release(&mut self, id: RequestId, request: &mut Request, now: Micros) {
        if let Some(index) = request.endpoint.take() {
            let endpoint = &mut self.endpoints[index.at()];
            endpoint.load.remove(id, request.charge, now);
            endpoint.health.left(id);
        }
    }

    /// The mean load of others among the endpoints that take part and tell it freshly.
    fn usual_foreign(&self, now: Micros) -> Foreign {
        let (mut sum, mut weights) = (Foreign::default(), 0.0);
        for endpoint in self.endpoints.iter().filter(|endpoint| endpoint.takes_part(now)) {
            let Some(foreign) = endpoint.reported.and_then(|reported| reported.foreign) else {
                continue;
            };
            let weight = endpoint.report_weight(now);
            sum.running += foreign.running * weight;
            sum.waiting += foreign.waiting * weight;
            weights += weight;
        }
        if weights > 0.0 {
            sum.running /= weights;
            sum.waiting /= weights;
        }
        sum
    }
}
