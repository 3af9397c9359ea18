//! One simulated engine: continuous batching over a paged KV space, in integer microseconds.
//!
//! Driven by `llmd-engine` in real time and by the simulator in virtual time: they submit and
//! cancel requests, ask when something happens next, and advance to it. It follows vLLM's v1
//! scheduler: running sequences first and in order, then waiting prompts first come first
//! served, in chunks within the token budget; the newest sequence is thrown back and computed
//! again when KV space runs out; a step's tokens are seen one step later. All times come from
//! `llmd_perf::step_us`. It has no clock and no randomness, and knows nothing of text.
//!
//! - `blocks`: the KV space and its prefix cache
//! - `sequence`: a request inside the engine
//! - `schedule`: what the next step works on

mod blocks;
mod schedule;
mod sequence;

#[cfg(test)]
mod laws;
#[cfg(test)]
mod tests;

use blocks::BlockPool;
use llmd_types::{Micros, ReplicaFacts, ReportedLoad, RequestId};
use sequence::Sequence;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

pub use sequence::Prompt;

/// What happened in an engine, at the engine's own time: never after the `now` of `advance`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineEvent {
    /// Tokens of the answer came out.
    Token {
        /// The request.
        id: RequestId,
        /// When they came out.
        at: Micros,
        /// How many.
        n: u32,
    },
    /// The answer is whole; always right after its last token.
    Finished {
        /// The request.
        id: RequestId,
        /// When its last token came out.
        at: Micros,
        /// Prompt tokens that were found in the prefix cache.
        cached: u32,
        /// Tokens of the answer.
        completion: u32,
    },
}

impl EngineEvent {
    /// The request it is about.
    pub fn id(&self) -> RequestId {
        match *self {
            Self::Token { id, .. } | Self::Finished { id, .. } => id,
        }
    }
}

/// A prompt that leaves no room for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong {
    /// Tokens of the prompt.
    pub tokens: u32,
    /// Most tokens of prompt and answer together.
    pub limit: u32,
}

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a prompt of {} tokens leaves no room in {}", self.tokens, self.limit)
    }
}

impl std::error::Error for TooLong {}

/// Counts since the engine was made. They only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Prompt tokens that were looked up in the prefix cache.
    pub prefix_query_tokens: u64,
    /// Of these, tokens found.
    pub prefix_hit_tokens: u64,
    /// Tokens of prompts whose first answer token was computed.
    pub prompt_tokens: u64,
    /// Answer tokens computed.
    pub generation_tokens: u64,
    /// Sequences thrown back for want of KV space.
    pub preemptions: u64,
    /// Engine steps.
    pub steps: u64,
}

/// One simulated engine.
#[derive(Debug)]
pub struct Engine {
    facts: Arc<ReplicaFacts>,
    blocks: BlockPool,
    /// Submitted, but still in the front end (`request_us`): the first step not before the time.
    entering: VecDeque<(Micros, Sequence)>,
    waiting: VecDeque<Sequence>,
    running: Vec<Sequence>,
    /// When the step that now runs ends.
    step_ends_at: Option<Micros>,
    /// Tokens that a step has computed and that are not seen yet, in order of time.
    outbox: VecDeque<EngineEvent>,
    counters: Counters,
}

impl Engine {
    /// An idle engine with an empty cache.
    pub fn new(facts: Arc<ReplicaFacts>) -> Self {
        let total = facts.kv_tokens / u64::from(facts.block_size.max(1));
        Self {
            blocks: BlockPool::new(u32::try_from(total).unwrap_or(u32::MAX)),
            facts,
            entering: VecDeque::new(),
            waiting: VecDeque::new(),
            running: Vec::new(),
            step_ends_at: None,
            outbox: VecDeque::new(),
            counters: Counters::default(),
        }
    }

    /// Most tokens of prompt and answer together: the model's limit, and what KV space holds.
    pub fn context_limit(&self) -> u32 {
        let space = u64::from(self.blocks.total()) * u64::from(self.facts.block_size);
        u32::try_from(space).unwrap_or(u32::MAX).min(self.facts.max_model_len)
    }

    /// Takes a request in. Its answer has `max_tokens` tokens (at least one), or as many as the
    /// context limit leaves. Call `advance(now)` first where the engine may be behind.
    pub fn submit(
        &mut self,
        now: Micros,
        id: RequestId,
        mut prompt: Prompt,
        max_tokens: u32,
    ) -> Result<(), TooLong> {
        if !self.facts.prefix_caching {
            prompt.keys = Arc::default();
        }
        let (tokens, limit) = (prompt.tokens.max(1), self.context_limit());
        if tokens >= limit {
            return Err(TooLong { tokens, limit });
        }
        let answer = max_tokens.clamp(1, limit - tokens);
        let ready_at = now + Micros::from_f64(llmd_perf::request_us(&self.facts));
        self.entering.push_back((ready_at, Sequence::new(id, prompt, answer)));
        Ok(())
    }

    /// Forgets a request: its space is free for the next step, and nothing more is said of it.
    /// Returns whether it was there.
    pub fn cancel(&mut self, id: RequestId) -> bool {
        let on_its_way = self.outbox.len();
        self.outbox.retain(|event| event.id() != id);
        let entering = self.entering.iter().position(|(_, s)| s.id == id);
        let waiting = self.waiting.iter().position(|s| s.id == id);
        let running = self.running.iter().position(|s| s.id == id);
        let found = match (entering, waiting, running) {
            (Some(at), _, _) => self.entering.remove(at).map(|(_, s)| s),
            (_, Some(at), _) => self.waiting.remove(at),
            (_, _, Some(at)) => Some(self.running.remove(at)),
            _ => None,
        };
        let Some(mut sequence) = found else { return self.outbox.len() < on_its_way };
        self.blocks.release(&mut sequence.blocks);
        true
    }

    /// Prompt tokens of a running request that were found in the prefix cache.
    pub fn cached(&self, id: RequestId) -> Option<u32> {
        self.running.iter().find(|sequence| sequence.id == id)?.cached
    }

    /// When something will happen next; `None` while the engine has nothing to do.
    pub fn next_event_at(&self) -> Option<Micros> {
        let seen = self.outbox.front().map(event_at);
        let entering = self.entering.front().map(|(ready_at, _)| *ready_at);
        // A request that becomes ready while a step runs waits for its end.
        let work = self.step_ends_at.or(entering);
        [seen, work].into_iter().flatten().min()
    }

    /// Lets all happen that is due by `now`, each thing at its own time.
    pub fn advance(&mut self, now: Micros, events: &mut Vec<EngineEvent>) {
        while let Some(at) = self.next_event_at().filter(|at| *at <= now) {
            let produced = if self.step_ends_at == Some(at) { self.end_step(at) } else { None };
            if self.step_ends_at.is_none() {
                self.start_step(at);
            }
            if let Some(produced) = produced {
                self.post(produced, at);
            }
            while self.outbox.front().is_some_and(|event| event_at(event) <= at) {
                events.extend(self.outbox.pop_front());
            }
        }
    }

    /// The load as the engine would report it at `now`. As with vLLM, a request that is still in
    /// the front end is in neither number.
    pub fn reported(&self, now: Micros) -> ReportedLoad {
        let ready = self.entering.iter().take_while(|(at, _)| *at <= now).count();
        ReportedLoad {
            at: now,
            running: Some(self.running.len() as u32),
            waiting: Some((self.waiting.len() + ready) as u32),
            kv_usage: Some(self.blocks.usage()),
        }
    }

    /// Counts since the start.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// The facts it runs on.
    pub fn facts(&self) -> &Arc<ReplicaFacts> {
        &self.facts
    }

    /// Requests inside, in whatever state.
    pub fn len(&self) -> usize {
        self.entering.len() + self.waiting.len() + self.running.len()
    }

    /// Whether no request is inside (tokens may still be on their way out).
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Books what the step computed and frees what is whole.
    fn end_step(&mut self, at: Micros) -> Option<Produced> {
        self.step_ends_at = None;
        let mut produced = Produced::default();
        let (blocks, counters) = (&mut self.blocks, &mut self.counters);
        self.running.retain_mut(|sequence| {
            if !sequence.end_step() {
                return true;
            }
            counters.generation_tokens += 1;
            if sequence.generated == 1 {
                counters.prompt_tokens += u64::from(sequence.prompt.tokens);
            }
            produced.context_tokens += u64::from(sequence.computed);
            produced.events.push(EngineEvent::Token { id: sequence.id, at, n: 1 });
            if sequence.generated < sequence.answer {
                return true;
            }
            produced.events.push(EngineEvent::Finished {
                id: sequence.id,
                at,
                cached: sequence.cached.unwrap_or(0),
                completion: sequence.generated,
            });
            blocks.release(&mut sequence.blocks);
            false
        });
        (!produced.events.is_empty()).then_some(produced)
    }

    /// Puts a step's tokens in the outbox: they are seen when the next step ends. Where none
    /// follows, they are seen after the time in which the engine would have decoded once more.
    fn post(&mut self, mut produced: Produced, ended_at: Micros) {
        let seen_at = self.step_ends_at.unwrap_or_else(|| {
            let tokens = produced.events.iter().filter(|e| matches!(e, EngineEvent::Token { .. }));
            let batch = tokens.count() as u32;
            ended_at + whole_us(llmd_perf::itl_us(&self.facts, batch, produced.context_tokens))
        });
        let seen_at = seen_at.max(self.outbox.back().map_or(Micros::ZERO, event_at));
        for event in &mut produced.events {
            match event {
                EngineEvent::Token { at, .. } | EngineEvent::Finished { at, .. } => *at = seen_at,
            }
        }
        self.outbox.extend(produced.events);
    }
}

/// What one step brought forth.
#[derive(Debug, Default)]
struct Produced {
    events: Vec<EngineEvent>,
    /// Context behind the sequences that brought forth a token.
    context_tokens: u64,
}

fn event_at(event: &EngineEvent) -> Micros {
    match *event {
        EngineEvent::Token { at, .. } | EngineEvent::Finished { at, .. } => at,
    }
}

/// A step's time as the engine's clock counts it: at least one tick, so that time goes on.
fn whole_us(us: f64) -> Micros {
    Micros::from_f64(us).max(Micros(1))
}
