//! A request's body, key by key: what is carried out, what has no effect, what is refused.
//!
//! Nothing accepted is silently not done: a parameter without effect is named in the answer's
//! `x-llmd-ctl-ignored` header, so are unknown ones (real engines let them pass), and one that
//! would change the answer's form is refused.

use crate::api_error::ApiError;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// Refused unless the value is one of these, which ask for nothing.
const REFUSED: [(&str, &[&str]); 22] = [
    ("logprobs", &["false", "0"]),
    ("top_logprobs", &["0"]),
    ("prompt_logprobs", &["0"]),
    ("echo", &["false"]),
    ("suffix", &["\"\""]),
    ("best_of", &["1"]),
    ("use_beam_search", &["false"]),
    ("response_format", &[r#"{"type": "text"}"#]),
    ("structured_outputs", &[]),
    ("guided_json", &[]),
    ("guided_regex", &[]),
    ("guided_choice", &[]),
    ("guided_grammar", &[]),
    ("stop_token_ids", &["[]"]),
    ("include_stop_str_in_output", &["false"]),
    ("tool_choice", &["\"auto\"", "\"none\""]),
    ("functions", &["[]"]),
    ("function_call", &["\"auto\"", "\"none\""]),
    ("kv_transfer_params", &[]),
    ("modalities", &[r#"["text"]"#]),
    ("audio", &[]),
    ("truncate_prompt_tokens", &[]),
];

/// Without effect, because the text is filler; still they must be numbers.
const NUMBERS: [&str; 9] = [
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "seed",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "length_penalty",
];

/// Most names in the header.
const NAMED_MAX: usize = 32;

/// The keys of a body that nobody has taken yet.
#[derive(Debug)]
pub(crate) struct Fields<'a>(BTreeMap<String, &'a RawValue>);

impl<'a> Fields<'a> {
    /// Reads a body; it must be one JSON object.
    pub(crate) fn parse(body: &'a [u8]) -> Result<Self, ApiError> {
        serde_json::from_slice(body).map(Self).map_err(|error| {
            ApiError::invalid(None, format!("the body is not a JSON object: {error}"))
        })
    }

    /// Takes a key's value as it stands in the body; `null` is as good as absent.
    pub(crate) fn take_raw(&mut self, key: &str) -> Option<&'a RawValue> {
        self.0.remove(key).filter(|raw| raw.get() != "null")
    }

    /// Takes a key's value as a `T`.
    pub(crate) fn take<T: Deserialize<'a>>(&mut self, key: &str) -> Result<Option<T>, ApiError> {
        self.take_raw(key).map(|raw| typed(key, raw)).transpose()
    }

    /// What is left: refuses what would have to be done, and returns the names of the rest.
    pub(crate) fn ignored(self) -> Result<Vec<String>, ApiError> {
        let left = self.0.into_iter().filter(|(_, raw)| raw.get() != "null");
        let mut named = Vec::new();
        for (key, raw) in left {
            if let Some((_, harmless)) = REFUSED.iter().find(|(name, _)| *name == key) {
                let value: Value = typed(&key, raw)?;
                let parse = |text: &&str| serde_json::from_str::<Value>(text).ok();
                if !harmless.iter().filter_map(parse).any(|known| known == value) {
                    return Err(ApiError::unsupported(&key));
                }
                continue;
            }
            if NUMBERS.contains(&key.as_str()) {
                typed::<f64>(&key, raw)?;
            }
            if named.len() < NAMED_MAX {
                named.push(printable(key));
            }
        }
        Ok(named)
    }
}

/// Reads `raw` as a `T`; the error names the parameter.
pub(crate) fn typed<'a, T: Deserialize<'a>>(param: &str, raw: &'a RawValue) -> Result<T, ApiError> {
    serde_json::from_str(raw.get())
        .map_err(|error| ApiError::invalid(Some(param), format!("`{param}`: {error}")))
}

/// A name that may stand in a header.
fn printable(mut name: String) -> String {
    name.retain(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'));
    name.truncate(64);
    if name.is_empty() { "?".to_owned() } else { name }
}
