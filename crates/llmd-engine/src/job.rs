//! One request inside the server, from its arrival to its line in the access log.
//!
//! A [`Job`] may be dropped at any moment, which is how a client that leaves shows: its answers
//! are then taken from the engine, and its line says `abort`.

use crate::access_log::{AccessLog, Record};
use crate::clockwork::Clockwork;
use crate::request::{Ask, Seen};
use http::StatusCode;
use llmd_types::{Micros, RequestId};
use std::sync::Arc;
use std::task::{Context, Poll};

/// The status of a request whose client left before there was one (as nginx logs it).
const CLIENT_LEFT: u16 = 499;

/// One request.
#[derive(Debug)]
pub(crate) struct Job {
    clockwork: Arc<Clockwork>,
    log: Arc<AccessLog>,
    record: Record,
    choices: Vec<Choice>,
}

/// One of its answers.
#[derive(Debug)]
struct Choice {
    id: RequestId,
    /// Tokens of it that were handed on.
    tokens: u32,
    whole: bool,
}

/// Tokens of one answer that are new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct News {
    pub(crate) choice: usize,
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) whole: bool,
}

/// What a request used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Used {
    pub(crate) prompt: u32,
    pub(crate) cached: u32,
    pub(crate) completion: u32,
}

impl Job {
    /// A request has arrived; until more is known, its end is that the client left.
    pub(crate) fn new(clockwork: Arc<Clockwork>, log: Arc<AccessLog>, request_id: String) -> Self {
        let record = Record {
            request_id,
            model: String::new(),
            stream: false,
            prompt_tokens: 0,
            cached_tokens: 0,
            completion_tokens: 0,
            status: CLIENT_LEFT,
            finish: "abort",
            arrive_us: clockwork.unix_us(clockwork.now()),
            first_token_us: None,
            end_us: 0,
        };
        Self { clockwork, log, record, choices: Vec::new() }
    }

    pub(crate) fn request_id(&self) -> &str {
        &self.record.request_id
    }

    /// When it arrived, in Unix seconds.
    pub(crate) fn arrived_at_seconds(&self) -> u64 {
        self.record.arrive_us / 1_000_000
    }

    /// Notes what its body said, be it refused or not.
    pub(crate) fn note(&mut self, seen: Seen) {
        self.record.model = seen.model;
        self.record.model.truncate(self.record.model.floor_char_boundary(256));
        self.record.stream = seen.stream;
        self.record.prompt_tokens = seen.prompt_tokens;
    }

    /// It is refused.
    pub(crate) fn refuse(mut self, status: StatusCode) {
        self.clockwork.count_refusal();
        self.record.status = status.as_u16();
        self.record.finish = "error";
    }

    /// Its answers begin.
    pub(crate) fn start(&mut self, ask: &Ask) -> Result<(), llmd_sim::engine::TooLong> {
        let ids = self.clockwork.submit(ask)?;
        let choice = |id| Choice { id, tokens: 0, whole: false };
        self.choices = ids.into_iter().map(choice).collect();
        Ok(())
    }

    /// The status was sent; what may follow is the body alone.
    pub(crate) fn head_sent(&mut self) {
        self.record.status = StatusCode::OK.as_u16();
    }

    /// Appends what is new of the answers to `news`: for a stream each token, else only whole
    /// answers. Ready as soon as there is anything.
    pub(crate) fn poll_news(&mut self, context: &Context<'_>, news: &mut Vec<News>) -> Poll<()> {
        for (index, choice) in self.choices.iter_mut().enumerate().filter(|(_, c)| !c.whole) {
            let now = self.clockwork.poll(choice.id, choice.tokens, context);
            let Poll::Ready((to, whole)) = now else { continue };
            news.push(News { choice: index, from: choice.tokens, to, whole });
            (choice.tokens, choice.whole) = (to, whole);
        }
        if news.is_empty() { Poll::Pending } else { Poll::Ready(()) }
    }

    /// Whether every answer was handed on to its end.
    pub(crate) fn is_whole(&self) -> bool {
        self.choices.iter().all(|choice| choice.whole)
    }

    /// The answer went out whole, for this reason.
    pub(crate) fn finish(&mut self, reason: &'static str) -> Used {
        self.record.finish = reason;
        self.settle();
        Used {
            prompt: self.record.prompt_tokens,
            cached: self.record.cached_tokens,
            completion: self.record.completion_tokens,
        }
    }

    /// Takes the answers out of the engine and books what they used.
    fn settle(&mut self) {
        let mut first_at: Option<Micros> = None;
        for (index, choice) in self.choices.drain(..).enumerate() {
            let Some(progress) = self.clockwork.take(choice.id) else { continue };
            self.record.completion_tokens += progress.tokens;
            if index == 0 {
                self.record.cached_tokens = progress.cached;
            }
            first_at = first_at.into_iter().chain(progress.first_at).min();
        }
        if let Some(at) = first_at {
            self.record.first_token_us = Some(self.clockwork.unix_us(at));
        }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        self.settle();
        self.record.end_us = self.clockwork.unix_us(self.clockwork.now());
        self.log.write(&self.record);
    }
}
