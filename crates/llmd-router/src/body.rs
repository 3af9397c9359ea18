//! What the router reads of a request's body, in one pass. The body itself is never changed,
//! but for the model's name where the configuration asks for it.
//!
//! Called in phase `parse`. Values that the router only counts with (`stream`, limits) are read
//! with leniency: whether they are right is the engine's to say, in its own words.

use crate::error::Failure;
use bytes::{BufMut, Bytes, BytesMut};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::ops::Range;

/// The parts of a body that routing needs, as places in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ask {
    /// The model as the client named it.
    pub(crate) model: String,
    /// Where that name stands, quotes included.
    pub(crate) model_span: Range<usize>,
    /// Whether an event stream is asked for.
    pub(crate) stream: bool,
    /// The most tokens that are wanted.
    pub(crate) max_tokens: Option<u32>,
    /// What makes the prompt, in the order in which templates put it: tools, messages, prompt.
    pub(crate) prompt: Vec<Range<usize>>,
    /// Prompt tokens, where the prompt is a list of token ids.
    pub(crate) prompt_tokens: Option<u32>,
}

#[derive(Deserialize)]
struct Wire<'a> {
    #[serde(borrow, default)]
    model: Option<&'a RawValue>,
    #[serde(borrow, default)]
    stream: Option<&'a RawValue>,
    #[serde(borrow, default)]
    max_tokens: Option<&'a RawValue>,
    #[serde(borrow, default)]
    max_completion_tokens: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tools: Option<&'a RawValue>,
    #[serde(borrow, default)]
    messages: Option<&'a RawValue>,
    #[serde(borrow, default)]
    prompt: Option<&'a RawValue>,
}

/// What stands where an object must: `serde` would read a list as the fields of a struct in
/// turn, and speak of its own types where it meets anything else. `None` for an object.
pub(crate) fn instead_of_object(body: &[u8]) -> Option<&'static str> {
    match body.trim_ascii_start().first() {
        Some(b'{') => None,
        Some(b'[') => Some("a list"),
        Some(b'"') => Some("a string"),
        Some(b'n') => Some("null"),
        Some(b't' | b'f') => Some("a boolean"),
        Some(b'-' | b'0'..=b'9') => Some("a number"),
        Some(_) => Some("no JSON"),
        None => Some("empty"),
    }
}

/// Reads a body; malformed JSON and a missing model are the client's failures.
pub(crate) fn parse(body: &[u8]) -> Result<Ask, Failure> {
    if let Some(found) = instead_of_object(body) {
        let message = format!("the body must be a JSON object, it is {found}");
        return Err(Failure::bad_request(message));
    }
    let wire: Wire<'_> = serde_json::from_slice(body)
        .map_err(|error| Failure::bad_request(format!("the body is not valid: {error}")))?;
    let model = wire
        .model
        .ok_or_else(|| Failure::bad_request("`model` is missing".into()).param("model"))?;
    let name: String = serde_json::from_str(model.get())
        .map_err(|_| Failure::bad_request("`model` must be a string".into()).param("model"))?;
    let span = |raw: &RawValue| span(body, raw.get());
    let present = [wire.tools, wire.messages, wire.prompt].into_iter().flatten();
    let max_tokens = wire.max_completion_tokens.or(wire.max_tokens);
    Ok(Ask {
        model: name,
        model_span: span(model),
        stream: wire.stream.is_some_and(|raw| matches!(raw.get(), "true" | "\"true\"")),
        max_tokens: max_tokens.and_then(|raw| raw.get().parse().ok()),
        prompt: present.filter(|raw| raw.get() != "null").map(span).collect(),
        prompt_tokens: wire.prompt.and_then(|raw| token_ids(raw.get())),
    })
}

/// Where `part`, a slice of `whole`, stands in it.
fn span(whole: &[u8], part: &str) -> Range<usize> {
    let start = part.as_ptr() as usize - whole.as_ptr() as usize;
    start..start + part.len()
}

/// The number of ids in `[1, 2, 3]`; `None` for text and lists of texts.
fn token_ids(prompt: &str) -> Option<u32> {
    let inside = prompt.strip_prefix('[')?.trim_ascii_start();
    if !inside.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    let commas = inside.bytes().filter(|byte| *byte == b',').count();
    u32::try_from(commas + 1).ok()
}

/// The same body with another model name.
pub(crate) fn rename(body: &Bytes, span: &Range<usize>, name: &str) -> Bytes {
    let name = serde_json::Value::from(name).to_string();
    let mut renamed = BytesMut::with_capacity(body.len() + name.len());
    renamed.put_slice(&body[..span.start]);
    renamed.put_slice(name.as_bytes());
    renamed.put_slice(&body[span.end..]);
    renamed.freeze()
}

#[cfg(test)]
mod tests;
