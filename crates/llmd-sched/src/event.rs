//! What can happen to a pool, and what the scheduler wants done about it.
//!
//! The router (real time) and the simulator (virtual time) make events and carry out actions;
//! nothing else goes in or out of [`crate::step`].

use llmd_types::{Micros, Outcome, ReplicaFacts, ReportedLoad, RequestId, Usage};
use smallvec::SmallVec;
use std::sync::Arc;

/// An endpoint's number in its pool. Numbers of endpoints that left are used again only after
/// their last request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndpointIndex(pub u16);

/// What is known of an endpoint when it joins a pool.
#[derive(Clone, Debug)]
pub struct EndpointFacts {
    /// Its name, unique in the pool and for all time (a new replica has a new name).
    pub name: Arc<str>,
    /// The variant that it belongs to; endpoints of one variant learn from each other.
    pub variant: Arc<str>,
    /// What it can do; `None` gets the neutral prior, and status says so.
    pub facts: Option<Arc<ReplicaFacts>>,
    /// Kinds of requests that it can serve, a bit each.
    pub offers: u32,
}

/// A request as the scheduler sees it. Borrowed: nothing is kept but what accounting needs.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// Its number.
    pub request: RequestId,
    /// Bytes of the prompt (of messages and tools as they stand in the body).
    pub prompt_bytes: u32,
    /// Tokens of the prompt where they are known (token ids, or a tokenizer).
    pub prompt_tokens: Option<u32>,
    /// The prefix keys: of a [`crate::prefix::Chain`].
    pub keys: &'a [u64],
    /// The most tokens the client wants.
    pub max_tokens: Option<u32>,
    /// Whether the answer is streamed (then tokens are counted as they pass).
    pub stream: bool,
    /// Requests that share fairness and output length: a hash of tenant or session; 0 is all.
    pub flow: u64,
    /// Bits that its endpoint must offer; 0 is content with any.
    pub needs: u32,
}

/// Something happened.
#[derive(Clone, Debug)]
pub enum Event<'a> {
    /// A request wants an endpoint.
    Arrive(Arrival<'a>),
    /// A request wants this endpoint and no other (probes).
    ArriveAt(Arrival<'a>, EndpointIndex),
    /// The attempt was sent: the long part of the index insert may run now.
    Sent(RequestId),
    /// The engine told the prompt's true length.
    TokensKnown(RequestId, Usage),
    /// The first byte of the answer's body arrived. Not its head: engines send that before they
    /// have computed anything, and a time to first token is learned from this.
    FirstByte(RequestId),
    /// More tokens of a streamed answer passed by; the first one with, or after, the first byte.
    Progress(RequestId, u32),
    /// The attempt failed before anything was sent to the client: pick another endpoint.
    Retry(RequestId, RetryCause),
    /// The request ended.
    Done(RequestId, Outcome, Usage),
    /// A new reading of an endpoint's metrics; `None` when it could not be read.
    Scrape(EndpointIndex, Option<ReportedLoad>),
    /// An active check of an endpoint succeeded, or did not. It is no request: no load is
    /// counted.
    Check(EndpointIndex, bool),
    /// An endpoint joins, or its facts changed.
    EndpointUp(EndpointFacts),
    /// An endpoint gets nothing more; what runs there ends by itself.
    EndpointDrain(EndpointIndex),
    /// An endpoint is gone. What runs there is counted until its own end or retry is told; an
    /// endpoint of the same name that comes back takes its number and these counts over.
    EndpointDown(EndpointIndex),
    /// New settings.
    Config(crate::PoolConfig),
    /// A time that was asked for has come.
    Timer,
}

/// Why an attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryCause {
    /// No connection came about.
    Unreachable,
    /// The connection was lost.
    Lost,
    /// The endpoint answered that it cannot serve now, or did not answer in time.
    Unserved,
}

impl RetryCause {
    /// Whether such an attempt is one of [`crate::PoolConfig::attempts`]. A request that never
    /// got an answer is not given up while an endpoint is left that it was not sent to; work
    /// that endpoints turn down or sit on must not be multiplied.
    pub(crate) const fn counts(self) -> bool {
        matches!(self, Self::Unserved)
    }
}

/// What to do about it.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Send the request there.
    Forward(crate::Pick),
    /// Answer the request with an error.
    Refuse(RequestId, Refusal),
    /// An endpoint got this number.
    Joined(EndpointIndex, Arc<str>),
    /// Send [`Event::Timer`] at this time.
    WakeAt(Micros),
}

/// Why a request gets no endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The pool has no endpoint that is ready.
    NoEndpoint,
    /// No endpoint can hold a prompt of this length: the longest there is, in tokens.
    TooLong(u32),
    /// Every attempt that the configuration allows was made, or no other endpoint is left.
    AttemptsUsed,
    /// Another endpoint is left, but the pool's retry budget is used up
    /// ([`crate::Resilience::retry_budget_percent`]).
    RetryBudgetUsed,
    /// The named endpoint is not there.
    UnknownEndpoint,
}

/// Actions of one step; inline, so that a pick allocates nothing.
pub type Actions = SmallVec<[Action; 2]>;
