//! Server-sent events as far as the router reads them: where events end, how many there were,
//! and what usage the last ones told.
//!
//! Used by `stream`. The bytes of an event are never changed. The beginning of an event whose
//! end has not arrived is held back, so that an error event never lands inside another event.

use bytes::{Bytes, BytesMut};
use llmd_types::Usage;
use serde::Deserialize;

/// Most bytes of an unfinished event that are held back; more are passed on as they are.
const HELD_MAX: usize = 64 << 10;
/// An event up to this long is looked at for usage. Usage chunks are a few hundred bytes.
const USAGE_MAX: usize = 8 << 10;

/// What has passed of one stream.
#[derive(Debug, Default)]
pub(crate) struct Events {
    held: BytesMut,
    /// Usage, as soon as an event told it.
    pub(crate) usage: Usage,
    /// Whether `[DONE]` passed by.
    pub(crate) done: bool,
}

/// What one piece brought.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Passed {
    /// The bytes that may go on; empty while an event is unfinished.
    pub(crate) bytes: Bytes,
    /// Data events in them, `[DONE]` not counted.
    pub(crate) count: u32,
}

impl Events {
    /// Takes a piece in, gives whole events out.
    pub(crate) fn push(&mut self, piece: Bytes) -> Passed {
        let bytes = if self.held.is_empty() && end_of_events(&piece) == piece.len() {
            piece
        } else {
            self.held.extend_from_slice(&piece);
            let mut end = end_of_events(&self.held);
            if self.held.len() - end > HELD_MAX {
                end = self.held.len();
            }
            self.held.split_to(end).freeze()
        };
        let count = self.read(&bytes);
        Passed { bytes, count }
    }

    /// What is left when the stream ends without the blank line behind its last event.
    pub(crate) fn rest(&mut self) -> Passed {
        let bytes = std::mem::take(&mut self.held).freeze();
        let count = self.read(&bytes);
        Passed { bytes, count }
    }

    fn read(&mut self, bytes: &[u8]) -> u32 {
        let mut count = 0;
        for line in bytes.split(|byte| matches!(byte, b'\n' | b'\r')) {
            let Some(data) = line.strip_prefix(b"data:") else { continue };
            let data = data.trim_ascii();
            if data == b"[DONE]" {
                self.done = true;
                continue;
            }
            count += 1;
            if data.len() <= USAGE_MAX && has(data, b"\"usage\":{") {
                self.usage = usage_of(data).unwrap_or(self.usage);
            }
        }
        count
    }
}

/// The place behind the last blank line.
fn end_of_events(bytes: &[u8]) -> usize {
    let is_end = |at: &usize| {
        let before = &bytes[..=*at];
        before.ends_with(b"\n\n") || before.ends_with(b"\n\r\n") || before.ends_with(b"\r\r")
    };
    (0..bytes.len()).rev().find(is_end).map_or(0, |at| at + 1)
}

fn has(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    usage: Option<WireUsage>,
}

#[derive(Deserialize)]
struct WireUsage {
    #[serde(default)]
    prompt_tokens: Option<u32>,
    #[serde(default)]
    completion_tokens: Option<u32>,
    #[serde(default)]
    prompt_tokens_details: Option<Details>,
}

#[derive(Deserialize)]
struct Details {
    #[serde(default)]
    cached_tokens: Option<u32>,
}

/// The usage in a JSON object of the `OpenAI` API.
pub(crate) fn usage_of(json: &[u8]) -> Option<Usage> {
    let usage = serde_json::from_slice::<Message>(json).ok()?.usage?;
    Some(Usage {
        prompt_tokens: usage.prompt_tokens,
        cached_tokens: usage.prompt_tokens_details.and_then(|details| details.cached_tokens),
        completion_tokens: usage.completion_tokens,
    })
}

#[cfg(test)]
mod tests;
