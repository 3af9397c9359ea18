//! What the router reads of a request's body, in one pass. The body itself is never changed,
//! but by [`Edit`]s: the model's name where the configuration asks for it, and [`crate::include`].
//!
//! Called in phase `parse`. Values that the router only counts with (`stream`, limits) are read
//! with leniency: whether they are right is the engine's to say, in its own words. What two
//! readers could take in two ways (a key that is there twice) is refused.

mod json;
mod multipart;

use crate::api::{Api, Form};
use crate::error::{Failure, Kind, echo};
use bytes::{BufMut, Bytes, BytesMut};
use http::header::{self, HeaderMap, HeaderValue};
use std::borrow::Cow;
use std::ops::Range;

pub(crate) use json::truth;

/// Most keys (or form parts) at the top of a body. Each is compared with those before it.
const MAX_KEYS: usize = 256;

/// The parts of a body that routing needs, as places in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ask {
    /// What is asked.
    pub(crate) api: &'static Api,
    /// The model as the client named it; empty where it named none and need not.
    pub(crate) model: String,
    /// Where that name stands, quotes included; empty where there is none.
    pub(crate) model_span: Range<usize>,
    /// Whether an event stream is asked for.
    pub(crate) stream: bool,
    /// The most tokens that are wanted.
    pub(crate) max_tokens: Option<u32>,
    /// What makes the prompt, in the order in which templates put it.
    pub(crate) prompt: Vec<Part>,
    /// Prompt tokens, where the prompt is a list of token ids.
    pub(crate) prompt_tokens: Option<u32>,
    /// The value of `stream_options`.
    pub(crate) options: Option<Range<usize>>,
    /// Where a last member can be added.
    pub(crate) end: usize,
    /// An answer that this request continues, and that only one engine has.
    pub(crate) previous: Option<String>,
}

/// A piece of the prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// What it is where it is no text.
    pub(crate) media: Option<Media>,
    /// Where it stands.
    pub(crate) span: Range<usize>,
}

/// What is in a prompt beside text. Its bytes are no measure of its tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Media {
    /// A picture.
    Image,
    /// Speech or sound.
    Audio,
    /// A film.
    Video,
    /// A document.
    File,
    /// One of these: what it holds tells.
    Source,
}

impl Ask {
    fn new(api: &'static Api) -> Self {
        Self {
            api,
            model: String::new(),
            model_span: 0..0,
            stream: false,
            max_tokens: None,
            prompt: Vec::new(),
            prompt_tokens: None,
            options: None,
            end: 0,
            previous: None,
        }
    }

    /// What puts another model's name into the body.
    pub(crate) fn rename(&self, name: &str) -> Option<Edit> {
        if self.model == name || self.model_span.is_empty() {
            return None;
        }
        let text = match self.api.form {
            Form::Json => serde_json::Value::from(name).to_string(),
            Form::Multipart => name.to_owned(),
        };
        Some(Edit { place: self.model_span.clone(), text })
    }
}

/// Reads a body of an API; what is malformed, and a missing model, are the client's failures.
pub(crate) fn parse(api: &'static Api, headers: &HeaderMap, body: &[u8]) -> Result<Ask, Failure> {
    let encoding = headers.get(header::CONTENT_ENCODING).map(HeaderValue::as_bytes);
    if encoding.is_some_and(|encoding| !encoding.eq_ignore_ascii_case(b"identity")) {
        let message = "a body with a content-encoding is not read: send it as it is";
        return Err(Failure::new(Kind::MediaType, message));
    }
    let ask = match api.form {
        Form::Json => json::parse(api, body)?,
        Form::Multipart => multipart::parse(api, headers, body)?,
    };
    if ask.model_span.is_empty() && api.names_model {
        return Err(Failure::bad_request("`model` is missing".into()).param("model"));
    }
    Ok(ask)
}

/// A change of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Edit {
    /// What goes; nothing where something is added only.
    pub(crate) place: Range<usize>,
    /// What comes instead.
    pub(crate) text: String,
}

/// The same body with these changes, which do not overlap.
pub(crate) fn edited(body: &Bytes, mut edits: Vec<Edit>) -> Bytes {
    if edits.is_empty() {
        return body.clone();
    }
    edits.sort_by_key(|edit| edit.place.start);
    let more: usize = edits.iter().map(|edit| edit.text.len()).sum();
    let mut out = BytesMut::with_capacity(body.len() + more);
    let mut from = 0;
    for edit in edits {
        out.put_slice(&body[from..edit.place.start]);
        out.put_slice(edit.text.as_bytes());
        from = edit.place.end;
    }
    out.put_slice(&body[from..]);
    out.freeze()
}

/// Keys that were there already.
#[derive(Debug)]
struct Seen<'a>(Vec<Cow<'a, str>>);

impl Default for Seen<'_> {
    /// With room for those that most bodies have.
    fn default() -> Self {
        Self(Vec::with_capacity(16))
    }
}

impl<'a> Seen<'a> {
    /// One more; refused when it is there twice, or one too many.
    fn add(&mut self, key: Cow<'a, str>) -> Result<(), Failure> {
        if self.0.contains(&key) {
            return Err(Failure::bad_request(format!("{:?} is there twice", echo(&key))));
        }
        if self.0.len() == MAX_KEYS {
            return Err(Failure::bad_request(format!("more than {MAX_KEYS} keys")));
        }
        self.0.push(key);
        Ok(())
    }
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
        Some(0xef) if body.starts_with(b"\xef\xbb\xbf") => Some("behind a byte order mark"),
        Some(0xfe | 0xff | 0) => Some("not in UTF-8"),
        Some(_) => Some("no JSON"),
        None => Some("empty"),
    }
}

#[cfg(test)]
mod tests;
