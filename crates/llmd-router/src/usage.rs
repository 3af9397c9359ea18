//! The tokens that answers tell, in the words of each API.
//!
//! Read by `forward` in whole answers and by `sse` in events.

use llmd_types::Usage;
use serde::Deserialize;
use serde::de::IgnoredAny;

/// An answer, a chunk or an event, as far as it tells of usage.
#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    usage: Option<Counts>,
    /// Of chunks: one without is no token.
    #[serde(default)]
    choices: Option<Vec<IgnoredAny>>,
    /// What Anthropic's `message_start` and the events of a response wrap.
    #[serde(default, rename = "message", alias = "response")]
    inner: Option<Wrapped>,
}

#[derive(Deserialize)]
struct Wrapped {
    #[serde(default)]
    usage: Option<Counts>,
}

#[derive(Deserialize)]
struct Counts {
    #[serde(default, alias = "input_tokens")]
    prompt_tokens: Option<u32>,
    #[serde(default, alias = "output_tokens")]
    completion_tokens: Option<u32>,
    #[serde(default, alias = "input_tokens_details")]
    prompt_tokens_details: Option<Details>,
    /// Anthropic's, which are not in `input_tokens`.
    #[serde(default)]
    cache_read_input_tokens: Option<u32>,
    #[serde(default)]
    cache_creation_input_tokens: Option<u32>,
}

#[derive(Deserialize)]
struct Details {
    #[serde(default)]
    cached_tokens: Option<u32>,
}

/// What one JSON object told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// The counts, where it had any.
    pub(crate) usage: Option<Usage>,
    /// Whether it was a chunk with nothing but that.
    pub(crate) only: bool,
}

/// Reads a JSON object.
pub(crate) fn of(json: &[u8]) -> Seen {
    let Ok(message) = serde_json::from_slice::<Message>(json) else { return Seen::default() };
    let wrapped = message.inner.and_then(|wrapped| wrapped.usage);
    let usage = message.usage.or(wrapped).map(usage);
    let only = usage.is_some() && message.choices.is_some_and(|choices| choices.is_empty());
    Seen { usage, only }
}

/// What was told later goes before what was told earlier, count by count.
pub(crate) fn merged(earlier: Usage, later: Usage) -> Usage {
    Usage {
        prompt_tokens: later.prompt_tokens.or(earlier.prompt_tokens),
        cached_tokens: later.cached_tokens.or(earlier.cached_tokens),
        completion_tokens: later.completion_tokens.or(earlier.completion_tokens),
    }
}

fn usage(counts: Counts) -> Usage {
    let beside = [counts.cache_read_input_tokens, counts.cache_creation_input_tokens];
    let beside: u32 = beside.into_iter().flatten().fold(0, u32::saturating_add);
    let details = counts.prompt_tokens_details.and_then(|details| details.cached_tokens);
    Usage {
        prompt_tokens: counts.prompt_tokens.map(|tokens| tokens.saturating_add(beside)),
        cached_tokens: details.or(counts.cache_read_input_tokens),
        completion_tokens: counts.completion_tokens,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_api_is_understood() {
        let told = |prompt, cached, completion| {
            Some(Usage {
                prompt_tokens: prompt,
                cached_tokens: cached,
                completion_tokens: completion,
            })
        };
        for (json, usage) in [
            (
                r#"{"usage":{"prompt_tokens":7,"completion_tokens":2,
                    "prompt_tokens_details":{"cached_tokens":4}}}"#,
                told(Some(7), Some(4), Some(2)),
            ),
            (r#"{"usage":{"prompt_tokens":7,"total_tokens":7}}"#, told(Some(7), None, None)),
            (
                r#"{"type":"response.completed","response":{"usage":{"input_tokens":7,
                    "input_tokens_details":{"cached_tokens":4},"output_tokens":2}}}"#,
                told(Some(7), Some(4), Some(2)),
            ),
            (
                r#"{"type":"message_start","message":{"usage":{"input_tokens":3,
                    "cache_read_input_tokens":4,"cache_creation_input_tokens":null}}}"#,
                told(Some(7), Some(4), None),
            ),
            (r#"{"type":"message_delta","usage":{"output_tokens":2}}"#, told(None, None, Some(2))),
            (r#"{"usage":null}"#, None),
            (r#"{"usage":{"prompt_tokens":"7"}}"#, None),
            (r#"{"type":"error","message":"text"}"#, None),
            ("[]", None),
        ] {
            assert_eq!(of(json.as_bytes()).usage, usage, "{json}");
        }
    }

    #[test]
    fn only_a_chunk_without_choices_is_nothing_but_usage() {
        for (choices, only) in [("[]", true), ("[{}]", false), ("null", false)] {
            let json = format!("{{\"choices\":{choices},\"usage\":{{\"prompt_tokens\":1}}}}");
            assert_eq!(of(json.as_bytes()).only, only, "{choices}");
        }
        assert!(!of(b"{\"choices\":[],\"usage\":null}").only);
    }

    #[test]
    fn what_is_told_later_goes_before() {
        let start = of(br#"{"message":{"usage":{"input_tokens":7,"output_tokens":1}}}"#).usage;
        let end = of(br#"{"usage":{"output_tokens":9}}"#).usage;
        let merged = merged(start.unwrap(), end.unwrap());
        assert_eq!(merged.prompt_tokens, Some(7));
        assert_eq!(merged.completion_tokens, Some(9));
    }
}
