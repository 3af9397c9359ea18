//! The truth of load: what we have in flight at an endpoint, counted exactly.
//!
//! Changed by `handlers` at each event, read by `forecast` and `status`. What an endpoint
//! reports of itself is never added in here (see `endpoint`): these counts are ours alone, and
//! are back at zero when our last request there has ended, however it ended.

use llmd_types::{Micros, RequestId};
use std::collections::VecDeque;

/// What one request counts for at its endpoint. Stored with the request and taken off as it
/// was put on, so no count can drift or fall below zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Charge {
    /// Prompt tokens that the endpoint has to compute.
    pub(crate) uncached: u32,
    /// Tokens of the whole prompt, plus those generated: the context that decode reads.
    pub(crate) context: u32,
    /// Tokens that are still expected to be generated.
    pub(crate) remaining: u32,
    /// Prompt tokens to compute plus all tokens to generate: KV space that it will take.
    pub(crate) space: u32,
    /// Its prompt is computed, as far as we know: it decodes.
    pub(crate) running: bool,
}

/// A prompt that waits to be computed.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    request: RequestId,
    /// Tokens not computed yet, as far as time tells.
    left: u32,
    whole: u32,
    stream: bool,
}

/// Sums over the charges at one endpoint.
#[derive(Debug, Default)]
pub(crate) struct Load {
    pub(crate) requests: u32,
    pub(crate) running: u32,
    /// Prompt tokens of waiting requests, whole.
    pub(crate) waiting_tokens: u64,
    /// Prompt tokens of waiting requests that time has not worked off yet.
    pub(crate) backlog: u64,
    /// Context of all requests, waiting ones included.
    pub(crate) context: u64,
    pub(crate) running_context: u64,
    pub(crate) remaining: u64,
    pub(crate) space: u64,
    /// Most requests at once since the last report was read.
    pub(crate) peak: u32,
    /// When a prompt last began, ended or left: spans across it say nothing of step times.
    pub(crate) prefill_at: Micros,
    queue: VecDeque<Waiting>,
    advanced_at: Micros,
}

impl Load {
    pub(crate) fn waiting(&self) -> u32 {
        self.requests - self.running
    }

    /// Tokens in flight: prompts to compute and tokens to generate.
    pub(crate) fn tokens(&self) -> u64 {
        self.waiting_tokens + self.remaining
    }

    pub(crate) fn add(&mut self, request: RequestId, charge: Charge, stream: bool, now: Micros) {
        self.count(charge);
        self.requests += 1;
        self.peak = self.peak.max(self.requests);
        if !charge.running {
            if self.queue.is_empty() {
                self.advanced_at = now;
            }
            self.queue.push_back(Waiting {
                request,
                left: charge.uncached,
                whole: charge.uncached,
                stream,
            });
            self.backlog += u64::from(charge.uncached);
            self.prefill_at = now;
        }
    }

    pub(crate) fn remove(&mut self, request: RequestId, charge: Charge, now: Micros) {
        self.discount(charge);
        self.requests -= 1;
        if !charge.running {
            self.leave_queue(request, now);
        }
    }

    /// The request's prompt is computed.
    pub(crate) fn start_running(&mut self, request: RequestId, charge: &mut Charge, now: Micros) {
        if !charge.running {
            self.leave_queue(request, now);
            self.replace(charge, Charge { running: true, ..*charge });
        }
    }

    /// The same request now counts for something else; `running` stays as it is, or turns on
    /// through [`Self::start_running`].
    pub(crate) fn replace(&mut self, charge: &mut Charge, new: Charge) {
        self.discount(*charge);
        *charge = new;
        self.count(new);
    }

    fn count(&mut self, charge: Charge) {
        self.context += u64::from(charge.context);
        self.remaining += u64::from(charge.remaining);
        self.space += u64::from(charge.space);
        if charge.running {
            self.running += 1;
            self.running_context += u64::from(charge.context);
        } else {
            self.waiting_tokens += u64::from(charge.uncached);
        }
    }

    fn discount(&mut self, charge: Charge) {
        self.context -= u64::from(charge.context);
        self.remaining -= u64::from(charge.remaining);
        self.space -= u64::from(charge.space);
        if charge.running {
            self.running -= 1;
            self.running_context -= u64::from(charge.context);
        } else {
            self.waiting_tokens -= u64::from(charge.uncached);
        }
    }

    fn leave_queue(&mut self, request: RequestId, now: Micros) {
        let place = self.queue.iter().position(|waiting| waiting.request == request);
        if let Some(waiting) = place.and_then(|place| self.queue.remove(place)) {
            self.backlog -= u64::from(waiting.left);
        }
        self.prefill_at = now;
    }

    /// Whether time changes anything here.
    pub(crate) fn has_queue(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Time passes: prompts are worked off in turn at `tokens_per_us`, at most `starts` of them
    /// (those that the engine has a place for). Answers that are not streamed show no first
    /// token, so their prompts count as computed when their time is over; returns one such,
    /// which has left the queue and is to be told by [`Self::start_running`].
    ///
    /// A stream whose time is over still waits, since its first token would have come: of such
    /// prompts no more than one step's tokens may be worked off, or an endpoint slower than
    /// believed would look idle.
    pub(crate) fn advance(
        &mut self,
        now: Micros,
        tokens_per_us: f64,
        starts: u32,
        step_tokens: u32,
    ) -> Option<RequestId> {
        let span = now.since(self.advanced_at);
        let mut credit = (span.as_f64() * tokens_per_us) as u64;
        if credit == 0 {
            return None;
        }
        self.advanced_at += time_of(credit, tokens_per_us);
        let mut late = 0;
        for waiting in self.queue.iter_mut().take(starts as usize) {
            if late >= step_tokens {
                break;
            }
            let done = u64::from(waiting.left).min(credit) as u32;
            waiting.left -= done;
            credit -= u64::from(done);
            self.backlog -= u64::from(done);
            if waiting.left > 0 {
                break;
            }
            if !waiting.stream {
                // The rest of the time is for the next call, which comes at once.
                self.advanced_at = self.advanced_at - time_of(credit, tokens_per_us);
                let computed = waiting.request;
                self.leave_queue(computed, now);
                return Some(computed);
            }
            late = late.saturating_add(waiting.whole);
        }
        None
    }
}

fn time_of(tokens: u64, tokens_per_us: f64) -> Micros {
    Micros::from_f64(tokens as f64 / tokens_per_us)
}
