//! From a request's body to what the engine is asked to do.

use crate::api_error::ApiError;
use crate::config::Config;
use crate::fields::{Fields, typed};
use crate::filler::{Filler, natural_length};
use crate::prompt;
use llmd_sim::engine::Prompt;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// Most answers to one prompt.
const CHOICES_MAX: u32 = 128;
/// Most stop texts, and the most bytes of one.
const STOPS_MAX: usize = 16;
const STOP_BYTES_MAX: usize = 256;
/// What the completions API gives when nothing is asked for.
const COMPLETION_DEFAULT_TOKENS: u32 = 16;

/// The two forms of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Api {
    Chat,
    Completions,
}

impl Api {
    /// The key of the body that carries the prompt.
    pub(crate) fn prompt_key(self) -> &'static str {
        match self {
            Self::Chat => "messages",
            Self::Completions => "prompt",
        }
    }
}

/// Why an answer ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finish {
    Stop,
    Length,
}

impl Finish {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
        }
    }
}

/// One answer, known to its end before it begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    pub(crate) filler: Filler,
    pub(crate) tokens: u32,
    pub(crate) finish: Finish,
}

/// A request that can be carried out.
#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) api: Api,
    /// The name that the client used.
    pub(crate) model: String,
    pub(crate) prompt: Prompt,
    pub(crate) answers: Vec<Answer>,
    pub(crate) stream: bool,
    pub(crate) include_usage: bool,
    /// Parameters that have no effect.
    pub(crate) ignored: Vec<String>,
}

/// What is known of a request even when it is refused, for the access log.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) model: String,
    pub(crate) stream: bool,
    pub(crate) prompt_tokens: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StreamOptions {
    #[serde(default)]
    include_usage: Option<bool>,
    #[serde(default)]
    continuous_usage_stats: Option<bool>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a text or a list of texts")]
enum Stop {
    One(String),
    Some(Vec<String>),
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    role: Cow<'a, str>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Part<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
}

/// Reads a request; `limit` is the most tokens of prompt and answer together.
pub(crate) fn parse(
    api: Api,
    body: &[u8],
    config: &Config,
    limit: u32,
    seen: &mut Seen,
) -> Result<Ask, ApiError> {
    let mut fields = Fields::parse(body)?;
    let model: String = fields
        .take("model")?
        .ok_or_else(|| ApiError::invalid(Some("model"), "`model` is missing"))?;
    seen.model.clone_from(&model);
    let stream = fields.take("stream")?.unwrap_or(false);
    seen.stream = stream;
    if !config.serves(&model) {
        return Err(ApiError::unknown_model(&model));
    }
    let include_usage = include_usage(&mut fields, stream)?;
    let salt = fields.take::<Cow<str>>("cache_salt")?.unwrap_or_default();
    let bytes = prompt_bytes(api, &mut fields)?;
    let salt = prompt::content(salt.as_bytes(), 0);
    let prompt = prompt::prompt(&bytes, config.facts.block_size, salt);
    seen.prompt_tokens = prompt.tokens;
    let content = prompt::content(&bytes, config.seed);
    let answers = answers(api, &mut fields, limit, prompt.tokens, content)?;
    let ignored = fields.ignored()?;
    Ok(Ask { api, model, prompt, answers, stream, include_usage, ignored })
}

fn include_usage(fields: &mut Fields<'_>, stream: bool) -> Result<bool, ApiError> {
    let Some(options) = fields.take::<StreamOptions>("stream_options")? else { return Ok(false) };
    let param = Some("stream_options");
    if !stream {
        return Err(ApiError::invalid(param, "`stream_options` needs `stream: true`"));
    }
    if options.continuous_usage_stats == Some(true) {
        return Err(ApiError::unsupported("stream_options.continuous_usage_stats"));
    }
    Ok(options.include_usage.unwrap_or(false))
}

/// The bytes that are counted and hashed.
pub(crate) fn prompt_bytes(api: Api, fields: &mut Fields<'_>) -> Result<Vec<u8>, ApiError> {
    match api {
        Api::Chat => chat_bytes(fields),
        Api::Completions => {
            let raw = fields
                .take_raw("prompt")
                .ok_or_else(|| ApiError::invalid(Some("prompt"), "`prompt` is missing"))?;
            completion_bytes(raw)
        }
    }
}

/// Tools first, as chat templates put them.
fn chat_bytes(fields: &mut Fields<'_>) -> Result<Vec<u8>, ApiError> {
    let param = Some("messages");
    let raw = fields
        .take_raw("messages")
        .ok_or_else(|| ApiError::invalid(param, "`messages` is missing"))?;
    let messages: Vec<Message> = typed("messages", raw)?;
    if messages.is_empty() {
        return Err(ApiError::invalid(param, "`messages` is empty"));
    }
    for message in &messages {
        check_message(message)?;
    }
    let mut bytes = Vec::with_capacity(raw.get().len());
    if let Some(tools) = fields.take_raw("tools") {
        typed::<Vec<&RawValue>>("tools", tools)?;
        bytes.extend_from_slice(tools.get().as_bytes());
    }
    bytes.extend_from_slice(raw.get().as_bytes());
    Ok(bytes)
}

fn check_message(message: &Message<'_>) -> Result<(), ApiError> {
    let param = "messages";
    if message.role.is_empty() {
        return Err(ApiError::invalid(Some(param), "a message's `role` is empty"));
    }
    let Some(content) = message.content else { return Ok(()) };
    match content.get().as_bytes().first() {
        Some(b'"') => Ok(()),
        Some(b'[') => {
            let parts: Vec<Part> = typed(param, content)?;
            let other = parts.iter().find(|part| !matches!(&*part.kind, "text" | "refusal"));
            other.map_or(Ok(()), |part| {
                let message =
                    format!("content of type `{}` is not supported: text only", part.kind);
                Err(ApiError::invalid(Some(param), message))
            })
        }
        _ => Err(ApiError::invalid(Some(param), "`content` is neither a text nor a list of parts")),
    }
}

/// A text, token ids, or a list with one of these.
fn completion_bytes(raw: &RawValue) -> Result<Vec<u8>, ApiError> {
    let invalid = |message: &str| Err(ApiError::invalid(Some("prompt"), message));
    if !raw.get().starts_with('[') {
        return text_bytes(raw);
    }
    let items: Vec<&RawValue> = typed("prompt", raw)?;
    match items[..] {
        [] => invalid("`prompt` is empty"),
        [text] if text.get().starts_with('"') => text_bytes(text),
        [ids] if ids.get().starts_with('[') => id_bytes(ids),
        [first, ..] if first.get().starts_with(['"', '[']) => {
            invalid("several prompts in one request are not supported; send one each")
        }
        _ => id_bytes(raw),
    }
}

fn text_bytes(raw: &RawValue) -> Result<Vec<u8>, ApiError> {
    if typed::<Cow<str>>("prompt", raw)?.is_empty() {
        return Err(ApiError::invalid(Some("prompt"), "`prompt` is empty"));
    }
    Ok(raw.get().as_bytes().to_vec())
}

fn id_bytes(raw: &RawValue) -> Result<Vec<u8>, ApiError> {
    let ids: Vec<u32> = typed("prompt", raw)?;
    if ids.is_empty() {
        return Err(ApiError::invalid(Some("prompt"), "`prompt` is empty"));
    }
    Ok(ids.into_iter().flat_map(u32::to_le_bytes).collect())
}

/// Length, end and text of each answer.
fn answers(
    api: Api,
    fields: &mut Fields<'_>,
    limit: u32,
    prompt_tokens: u32,
    content: u64,
) -> Result<Vec<Answer>, ApiError> {
    let legacy: Option<u32> = fields.take("max_tokens")?;
    let asked = fields.take("max_completion_tokens")?.or(legacy);
    let asked = asked.or((api == Api::Completions).then_some(COMPLETION_DEFAULT_TOKENS));
    if asked == Some(0) {
        return Err(ApiError::invalid(Some("max_tokens"), "`max_tokens` must be at least 1"));
    }
    let room = limit.saturating_sub(prompt_tokens);
    if room < asked.unwrap_or(1) {
        return Err(ApiError::too_long(api.prompt_key(), limit, prompt_tokens, asked));
    }
    let min: u32 = fields.take("min_tokens")?.unwrap_or(0);
    if min > asked.unwrap_or(room) {
        let message = format!("`min_tokens` is {min}, more than the answer may have");
        return Err(ApiError::invalid(Some("min_tokens"), message));
    }
    let ignore_eos: bool = fields.take("ignore_eos")?.unwrap_or(false);
    let stops = stops(fields)?;
    let choices: u32 = fields.take("n")?.unwrap_or(1);
    if !(1..=CHOICES_MAX).contains(&choices) {
        let message = format!("`n` must be between 1 and {CHOICES_MAX}");
        return Err(ApiError::invalid(Some("n"), message));
    }
    let answer = |choice| {
        let mut filler = Filler::new(content, choice);
        let natural = natural_length(content.wrapping_add(u64::from(choice))).max(min);
        // An answer that nobody limits ends by itself; a limit is used up to its end.
        let (mut tokens, mut finish) = match asked {
            Some(tokens) => (tokens, Finish::Length),
            None if ignore_eos || natural > room => (room, Finish::Length),
            None => (natural, Finish::Stop),
        };
        if let Some(stopped) = filler.stop_at(&stops, min.saturating_sub(1)..tokens) {
            (tokens, finish) = (stopped, Finish::Stop);
        }
        Answer { filler, tokens, finish }
    };
    Ok((0..choices).map(answer).collect())
}

fn stops(fields: &mut Fields<'_>) -> Result<Vec<String>, ApiError> {
    let stops = match fields.take("stop")? {
        None => return Ok(Vec::new()),
        Some(Stop::One(stop)) => vec![stop],
        Some(Stop::Some(stops)) => stops,
    };
    let fits = |stop: &String| (1..=STOP_BYTES_MAX).contains(&stop.len());
    if stops.len() > STOPS_MAX || !stops.iter().all(fits) {
        let message =
            format!("`stop` takes up to {STOPS_MAX} texts of 1 to {STOP_BYTES_MAX} bytes");
        return Err(ApiError::invalid(Some("stop"), message));
    }
    Ok(stops)
}
