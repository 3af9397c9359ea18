//! What the scheduler remembers of a request from its arrival to its end.
//!
//! Kept in `pool`, changed by `handlers` and `cycle`. Nothing of the prompt is kept but the
//! thinned prefix keys, in a buffer that is used again.

use crate::event::EndpointIndex;
use crate::forecast::Forecast;
use crate::index::Spread;
use crate::load::Charge;
use hashbrown::HashMap;
use llmd_types::{Micros, RequestId};
use smallvec::SmallVec;

/// A request in flight, or between two attempts.
#[derive(Debug, Default)]
pub(crate) struct Request {
    /// Bytes and tokens of the prompt, and where the tokens are known from.
    pub(crate) prompt_bytes: u32,
    pub(crate) prompt_tokens: u32,
    pub(crate) length: Length,
    pub(crate) max_tokens: Option<u32>,
    /// Tokens that the answer is expected to have.
    pub(crate) output: u32,
    pub(crate) stream: bool,
    pub(crate) flow: u64,
    /// What its endpoint must offer.
    pub(crate) needs: u32,
    /// Wants one endpoint and no other.
    pub(crate) pinned: bool,
    pub(crate) keys: Vec<u64>,
    /// How many of `keys` the index was told of this attempt's endpoint.
    pub(crate) indexed: usize,
    /// Endpoints tried, the present one last.
    pub(crate) tried: SmallVec<[EndpointIndex; 4]>,
    /// Of these attempts, those that count against the configured number.
    pub(crate) counted: u32,
    /// Where it is in flight.
    pub(crate) endpoint: Option<EndpointIndex>,
    pub(crate) charge: Charge,
    pub(crate) attempt: Attempt,
}

/// Where the number of a prompt's tokens is known from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Length {
    /// From its bytes.
    #[default]
    Estimated,
    /// It was counted before it came here.
    Counted,
    /// The engine told.
    Told,
}

/// The timings of one attempt, and what was predicted for it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Attempt {
    /// The endpoint's life that it was sent to.
    pub(crate) life: u32,
    pub(crate) sent_at: Micros,
    pub(crate) first_byte_at: Option<Micros>,
    pub(crate) progress_at: Micros,
    /// Tokens that passed by.
    pub(crate) tokens: u32,
    pub(crate) forecast: Forecast,
    /// Step time of this stream so far, seen and predicted (without correction).
    pub(crate) observed_us: f64,
    pub(crate) predicted_us: f64,
    /// Steps in that time.
    pub(crate) sampled: u32,
}

/// Requests by number, and key buffers to use again.
#[derive(Debug)]
pub(crate) struct Requests {
    table: HashMap<RequestId, Request, Spread>,
    spare: Vec<Vec<u64>>,
}

impl Requests {
    /// Buffers kept for later: more are given back to the allocator.
    const SPARE: usize = 1_024;

    pub(crate) fn new() -> Self {
        let table = HashMap::with_capacity_and_hasher(1_024, Spread::default());
        Self { table, spare: Vec::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    pub(crate) fn get(&self, id: RequestId) -> Option<&Request> {
        self.table.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: RequestId) -> Option<&mut Request> {
        self.table.get_mut(&id)
    }

    pub(crate) fn insert(&mut self, id: RequestId, request: Request) {
        self.table.insert(id, request);
    }

    pub(crate) fn remove(&mut self, id: RequestId) -> Option<Request> {
        self.table.remove(&id)
    }

    pub(crate) fn buffer(&mut self) -> Vec<u64> {
        self.spare.pop().unwrap_or_default()
    }

    pub(crate) fn give_back(&mut self, buffer: Vec<u64>) {
        if self.spare.len() < Self::SPARE {
            self.spare.push(buffer);
        }
    }
}
