//! One request from its arrival to its account: what must be given back exactly once.
//!
//! Made in phase `receive`, moved along all phases, and at last into the body of the answer.
//! However a request ends – answered, failed, or dropped because the client left – the load it
//! put on an endpoint is given back here, once.

use crate::api::Errors;
use crate::config::Model;
use crate::endpoint::Endpoint;
use crate::error::{self, Failure, echo};
use crate::headers;
use crate::pool::{Picked, Pool};
use crate::repeats::Kind;
use crate::responses::Place;
use crate::router::{Open, Router, Table};
use crate::trace::{Parent, Trace};
use http::{HeaderMap, HeaderValue};
use llmd_sched::{Arrival, Refusal, RetryCause};
use llmd_types::{Outcome, Phase, RequestId, Usage};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// The status under which a request is counted whose client left (nginx's number for it).
const CLIENT_LEFT: u16 = 499;

/// A request.
#[derive(Debug)]
pub(crate) struct Flight {
    /// The tables it began with.
    pub(crate) table: Arc<Table>,
    /// Its spans.
    pub(crate) trace: Trace,
    /// Its number.
    pub(crate) number: RequestId,
    /// Its name in headers and logs.
    pub(crate) name: HeaderValue,
    /// When it arrived.
    pub(crate) begun: Instant,
    /// What the engine told of it.
    pub(crate) usage: Usage,
    /// How its client expects errors.
    pub(crate) errors: Errors,
    /// The settings of its model, from the time when it was admitted.
    pub(crate) model: Option<Arc<Model>>,
    /// Tokens counted in a stream, for engines that do not tell.
    pub(crate) counted: u32,
    router: Arc<Router>,
    pool: Option<Arc<Pool>>,
    placed: Option<Picked>,
    /// That of the last attempt, for the log: a failed one is placed nowhere.
    last: Option<Arc<Endpoint>>,
    ended: bool,
    _open: Open,
}

impl Flight {
    /// A request arrives.
    pub(crate) fn begin(router: &Arc<Router>, client: &HeaderMap) -> Self {
        let table = router.table();
        let number = router.ids.number();
        let name = headers::request_id(client).cloned();
        let name = name.unwrap_or_else(|| router.ids.name(number));
        let parent = client.get(headers::TRACEPARENT).and_then(Parent::parse);
        let mut trace = table.tracer.begin(parent);
        trace.phase(Phase::Receive);
        Self {
            trace,
            number,
            name,
            begun: Instant::now(),
            usage: Usage::default(),
            errors: Errors::OpenAi,
            model: None,
            counted: 0,
            router: Arc::clone(router),
            pool: None,
            placed: None,
            last: None,
            ended: false,
            _open: Open::count(router),
            table,
        }
    }

    /// When its time is used up; `None` is beyond all time.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.begun.checked_add(self.total())
    }

    /// The time that is left to it.
    pub(crate) fn time_left(&self) -> Duration {
        self.total().saturating_sub(self.begun.elapsed())
    }

    fn total(&self) -> Duration {
        Duration::from_millis(self.table.config.limits.total_ms)
    }

    /// It belongs to this pool.
    pub(crate) fn admit(&mut self, pool: Arc<Pool>, model: Arc<Model>) {
        self.model = Some(model);
        self.pool = Some(pool);
    }

    /// The pool that it was admitted to.
    pub(crate) fn pool(&self) -> Option<&Arc<Pool>> {
        self.pool.as_ref()
    }

    /// The endpoint that it is at.
    pub(crate) fn placed(&self) -> Option<&Picked> {
        self.placed.as_ref()
    }

    /// The answer that its endpoint made can be continued there under this name.
    pub(crate) fn made(&self, id: &str) {
        if let Some((placed, pool)) = self.placed.as_ref().zip(self.pool.as_ref()) {
            let endpoint = placed.endpoint.known.name.clone();
            let place = Place { model: Arc::clone(&pool.name), endpoint };
            let responses = self.router.responses.lock();
            responses.unwrap_or_else(PoisonError::into_inner).made(id, place);
        }
    }

    /// The endpoint that made an answer.
    pub(crate) fn maker(&self, id: &str) -> Result<String, Failure> {
        let responses = self.router.responses.lock().unwrap_or_else(PoisonError::into_inner);
        let place = responses.place(id);
        let pool = self.pool.as_ref();
        let here = place.filter(|place| pool.is_some_and(|pool| pool.name == place.model));
        // An endpoint that left took its answers along.
        let there = here.filter(|place| pool.is_some_and(|pool| pool.has(&place.endpoint)));
        there.map(|place| place.endpoint.clone()).ok_or_else(|| {
            let message =
                format!("the response {:?} is not known here: send the whole input", echo(id));
            Failure::new(error::Kind::UnknownResponse, message).param("previous_response_id")
        })
    }

    /// Asks for an endpoint.
    pub(crate) fn place(
        &mut self,
        arrival: Arrival<'_>,
        only: Option<&str>,
    ) -> Result<(), Failure> {
        self.trace.phase(Phase::Pick);
        let Some(pool) = self.pool.clone() else { return Err(refused(Refusal::NoEndpoint, "")) };
        let picked = pool.arrive(arrival, only).map_err(|why| refused(why, &pool.name))?;
        self.keep(picked);
        Ok(())
    }

    /// Asks for another endpoint after a failed attempt; false when there is none, and then the
    /// load is given back already.
    pub(crate) fn place_again(&mut self, stream: bool, cause: RetryCause) -> bool {
        self.trace.end_attempt();
        self.trace.phase(Phase::Pick);
        self.placed = None;
        let Some(pool) = self.pool.clone() else { return false };
        let Ok(picked) = pool.retry(self.number, cause) else { return false };
        pool.metrics.retried(stream);
        self.keep(picked);
        true
    }

    fn keep(&mut self, picked: Picked) {
        let metrics = &picked.endpoint.variant.metrics;
        metrics.picks.inc();
        metrics.prefix_hit_tokens.inc_by(u64::from(picked.pick.cached_tokens));
        self.trace.picked(&picked.pick);
        self.last = Some(Arc::clone(&picked.endpoint));
        self.placed = Some(picked);
    }

    /// Phase `account`: the request ended with this status.
    pub(crate) fn end(&mut self, status: u16, outcome: Outcome, error: Option<&'static str>) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        self.trace.end_attempt();
        self.trace.phase(Phase::Account);
        let metrics = match &self.pool {
            Some(pool) => {
                pool.done(self.number, outcome, self.usage);
                &pool.metrics
            }
            None => &self.router.other,
        };
        metrics.ended(status, self.begun.elapsed().as_secs_f64());
        if let Some(placed) = &self.placed {
            let metrics = &placed.endpoint.variant.metrics;
            let prompt = self.usage.prompt_tokens.unwrap_or(placed.pick.prompt_tokens);
            metrics.tokens_in.inc_by(u64::from(prompt));
            let generated = self.usage.completion_tokens.unwrap_or(self.counted);
            metrics.tokens_out.inc_by(u64::from(generated));
        }
        self.trace.end(status, error, self.usage);
        if let Some(error) = error {
            let endpoint = self.last.as_ref().map_or("", |last| last.known.name.as_str());
            let model = self.pool.as_ref().map_or("", |pool| &pool.name);
            let request = self.name.to_str().unwrap_or_default();
            if status >= 500 {
                let (line, endpoint, model) = ("request failed", endpoint.into(), model.into());
                let kind = Kind { line, error, model, endpoint };
                if self.router.repeats.is_first(&kind) {
                    let Kind { model, endpoint, .. } = &kind;
                    tracing::warn!(request, model, endpoint, status, error, "{line}");
                }
            } else {
                tracing::debug!(request, model, endpoint, status, error, "request not served");
            }
        }
    }
}

impl Drop for Flight {
    /// Dropped in any phase before its end: the client left, or lets us wait for it.
    fn drop(&mut self) {
        if !self.ended && self.time_left().is_zero() {
            let late = out_of_time();
            self.end(late.status().as_u16(), Outcome::Cancelled, Some(late.code()));
        }
        self.end(CLIENT_LEFT, Outcome::Cancelled, Some("client_left"));
    }
}

/// The request used up its time.
pub(crate) fn out_of_time() -> Failure {
    Failure::new(error::Kind::OutOfTime, "the request used up its time")
}

/// The scheduler's refusal in the client's words.
fn refused(why: Refusal, model: &str) -> Failure {
    match why {
        Refusal::TooLong(most) => Failure::new(
            error::Kind::TooLong,
            format!("the prompt is too long: model {model:?} takes at most {most} tokens"),
        )
        .param("messages"),
        Refusal::NoEndpoint
        | Refusal::AttemptsUsed
        | Refusal::RetryBudgetUsed
        | Refusal::UnknownEndpoint => Failure::new(
            error::Kind::NoEndpoint,
            format!("no endpoint of model {model:?} is ready"),
        ),
    }
}
