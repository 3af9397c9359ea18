//! The engine model in real time: it sleeps until the model's next event, then lets it happen.
//!
//! HTTP handlers submit, poll and cancel through [`Clockwork`]; one task runs [`Clockwork::drive`].
//! A late wake-up catches up with all that was due at the model's own times, so the mean speed is
//! the model's whatever the timer's grain. Requests read how far their answer is: nothing queues
//! up behind a client that reads slowly.

use crate::request::{Answer, Ask, Finish};
use crate::stats::Stats;
use llmd_sim::engine::{Engine, EngineEvent, TooLong};
use llmd_types::{Micros, ReplicaFacts, RequestId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::Notify;

/// The engine and its clock.
#[derive(Debug)]
pub(crate) struct Clockwork {
    state: Mutex<State>,
    /// Something earlier than expected may have to happen.
    changed: Notify,
    started: Instant,
    started_unix: Duration,
}

#[derive(Debug)]
struct State {
    engine: Engine,
    live: HashMap<RequestId, Progress>,
    stats: Stats,
    next_id: u64,
    events: Vec<EngineEvent>,
}

/// How far one answer is.
#[derive(Clone, Debug)]
pub(crate) struct Progress {
    /// Tokens that have come out.
    pub(crate) tokens: u32,
    /// Prompt tokens found in the cache; known at the end.
    pub(crate) cached: u32,
    /// Whether that is all.
    pub(crate) whole: bool,
    /// When the first token was seen here (not the model's time for it).
    pub(crate) first_at: Option<Micros>,
    finish: Finish,
    arrived_at: Micros,
    last_at: Micros,
    /// Whether the waiting task wants every token, or only the last.
    each: bool,
    waker: Option<Waker>,
}

impl Clockwork {
    pub(crate) fn new(facts: ReplicaFacts) -> Arc<Self> {
        let state = State {
            engine: Engine::new(Arc::new(facts)),
            live: HashMap::new(),
            stats: Stats::new(),
            next_id: 0,
            events: Vec::new(),
        };
        let started_unix = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        let (state, changed) = (Mutex::new(state), Notify::new());
        Arc::new(Self { state, changed, started: Instant::now(), started_unix })
    }

    /// The engine's time: microseconds since the start.
    pub(crate) fn now(&self) -> Micros {
        Micros(u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX))
    }

    /// A point of the engine's time in Unix microseconds.
    pub(crate) fn unix_us(&self, at: Micros) -> u64 {
        u64::try_from(self.started_unix.as_micros()).unwrap_or(u64::MAX).saturating_add(at.0)
    }

    /// Most tokens of prompt and answer together.
    pub(crate) fn context_limit(&self) -> u32 {
        self.state().engine.context_limit()
    }

    /// Starts all answers of a request; one that does not fit leaves none behind.
    pub(crate) fn submit(&self, ask: &Ask) -> Result<Vec<RequestId>, TooLong> {
        let now = self.now();
        let state = &mut *self.state();
        state.advance(now);
        let mut ids = Vec::with_capacity(ask.answers.len());
        for Answer { tokens, finish, .. } in &ask.answers {
            let id = RequestId(state.next_id);
            state.next_id += 1;
            state.engine.submit(now, id, ask.prompt.clone(), *tokens)?;
            state.live.insert(id, Progress::new(*finish, now, ask.stream));
            ids.push(id);
        }
        self.changed.notify_one();
        Ok(ids)
    }

    /// Waits until an answer has more than `have` tokens (a streamed one) or is whole.
    pub(crate) fn poll(
        &self,
        id: RequestId,
        have: u32,
        context: &Context<'_>,
    ) -> Poll<(u32, bool)> {
        let state = &mut *self.state();
        // Gone only after its request has ended, when nobody asks any more.
        let Some(progress) = state.live.get_mut(&id) else { return Poll::Pending };
        if progress.whole || (progress.each && progress.tokens > have) {
            return Poll::Ready((progress.tokens, progress.whole));
        }
        progress.waker = Some(context.waker().clone());
        Poll::Pending
    }

    /// Forgets an answer and tells how far it was; one that is not whole is aborted.
    pub(crate) fn take(&self, id: RequestId) -> Option<Progress> {
        let state = &mut *self.state();
        let mut progress = state.live.remove(&id)?;
        if !progress.whole {
            progress.cached = state.engine.cached(id).unwrap_or(0);
            state.engine.cancel(id);
            state.stats.aborted += 1;
        }
        Some(progress)
    }

    /// A text that no other request has, of this process or one before it.
    pub(crate) fn unique(&self) -> String {
        let state = &mut *self.state();
        state.next_id += 1;
        format!("{:x}-{}", self.started_unix.as_micros(), state.next_id)
    }

    /// Counts a request that was refused.
    pub(crate) fn count_refusal(&self) {
        self.state().stats.refused += 1;
    }

    /// The page of metrics.
    pub(crate) fn metrics(&self, model: &str) -> String {
        let now = self.now();
        let state = &mut *self.state();
        state.advance(now);
        state.stats.render(&state.engine, now, model)
    }

    /// Lets the engine's time go by, without end.
    pub(crate) async fn drive(self: Arc<Self>) {
        loop {
            let next = {
                let state = &mut *self.state();
                state.advance(self.now());
                state.engine.next_event_at()
            };
            let due = next.and_then(|at| self.started.checked_add(Duration::from_micros(at.0)));
            match due {
                None => self.changed.notified().await,
                Some(due) => {
                    let _ = tokio::time::timeout_at(due.into(), self.changed.notified()).await;
                }
            }
        }
    }

    /// A panic elsewhere leaves nothing half done that the next one could not go on with.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Lets happen what is due and tells the answers that wait for it.
    fn advance(&mut self, now: Micros) {
        let mut events = std::mem::take(&mut self.events);
        self.engine.advance(now, &mut events);
        for event in events.drain(..) {
            let Some(progress) = self.live.get_mut(&event.id()) else { continue };
            progress.note(event, now, &mut self.stats);
        }
        self.events = events;
    }
}

impl Progress {
    fn new(finish: Finish, now: Micros, each: bool) -> Self {
        Self {
            tokens: 0,
            cached: 0,
            whole: false,
            first_at: None,
            finish,
            arrived_at: now,
            last_at: now,
            each,
            waker: None,
        }
    }

    fn note(&mut self, event: EngineEvent, now: Micros, stats: &mut Stats) {
        match event {
            EngineEvent::Token { at, n, .. } => {
                let span = at.since(self.last_at);
                if self.tokens == 0 {
                    stats.ttft.observe(span);
                } else {
                    stats.itl.observe(span);
                }
                self.first_at.get_or_insert(now);
                self.last_at = at;
                self.tokens += n;
            }
            EngineEvent::Finished { at, cached, .. } => {
                stats.e2e.observe(at.since(self.arrived_at));
                match self.finish {
                    Finish::Stop => stats.stopped += 1,
                    Finish::Length => stats.length += 1,
                }
                self.cached = cached;
                self.whole = true;
            }
        }
        if (self.each || self.whole)
            && let Some(waker) = self.waker.take()
        {
            waker.wake();
        }
    }
}
