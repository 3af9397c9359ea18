//! What was counted, on both ends: times of answers, and which prompts an engine had lately.

use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io;
use std::time::Duration;

/// Prompts that an engine keeps: with four engines, together half as many again as there are.
const KEPT: usize = 24;

/// An engine's memory of prompts, as its KV cache would be.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    requests: u64,
    hits: u64,
    /// Newest first.
    prompts: VecDeque<Vec<u8>>,
}

impl Kept {
    /// A request with this prompt.
    pub(crate) fn request(&mut self, prompt: &[u8]) {
        self.requests += 1;
        let at = self.prompts.iter().position(|kept| kept == prompt);
        self.hits += u64::from(at.is_some());
        let kept = at.and_then(|at| self.prompts.remove(at)).unwrap_or_else(|| prompt.to_vec());
        self.prompts.push_front(kept);
        self.prompts.truncate(KEPT);
    }

    /// Requests, and how many of them met their prompt.
    pub(crate) fn report(&self) -> Value {
        json!({"requests": self.requests, "hits": self.hits})
    }
}

/// The answers of one run.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    times_us: Vec<u32>,
    /// Not answered with status 200 and a whole body.
    pub(crate) failed: u64,
    /// Tokens of streams.
    pub(crate) tokens: u64,
    /// Streams that ended before all of their tokens came.
    pub(crate) short: u64,
    /// What the first failure was.
    pub(crate) error: Option<String>,
}

impl Answers {
    /// A right answer came.
    pub(crate) fn good(&mut self, after: Duration) {
        self.times_us.push(u32::try_from(after.as_micros()).unwrap_or(u32::MAX));
    }

    /// Something else came, or nothing.
    pub(crate) fn bad(&mut self, error: &io::Error) {
        self.failed += 1;
        self.error.get_or_insert_with(|| error.to_string());
    }

    /// Right answers so far.
    pub(crate) fn count(&self) -> u64 {
        self.times_us.len() as u64
    }

    /// As JSON, without the first `warm` answers, which took no part.
    pub(crate) fn report(&self, warm: u64) -> Value {
        let mut times = self.times_us[usize::try_from(warm).unwrap_or(0)..].to_vec();
        times.sort_unstable();
        let at = |share: f64| {
            let place = (times.len() as f64 * share) as usize;
            times.get(place.min(times.len().saturating_sub(1))).copied().unwrap_or(0)
        };
        json!({
            "requests": times.len(), "failed": self.failed, "error": self.error,
            "tokens": self.tokens, "short_streams": self.short,
            "p50_us": at(0.5), "p99_us": at(0.99), "max_us": at(1.0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_that_was_there_lately_is_a_hit() {
        let mut kept = Kept::default();
        for prompt in 0..=KEPT {
            kept.request(&[prompt as u8]);
        }
        kept.request(&[1]);
        kept.request(&[0]);
        assert_eq!(kept.report(), json!({"requests": KEPT + 3, "hits": 1}));
    }

    #[test]
    fn times_of_the_warm_up_are_left_out() {
        let mut answers = Answers::default();
        for us in [9_000_000, 1, 2, 3, 4] {
            answers.good(Duration::from_micros(us));
        }
        answers.bad(&io::Error::other("no"));
        let report = answers.report(1);
        assert_eq!((&report["requests"], &report["failed"]), (&json!(4), &json!(1)));
        assert_eq!((&report["p50_us"], &report["max_us"]), (&json!(3), &json!(4)));
    }
}
