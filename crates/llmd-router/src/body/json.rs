//! A body that is a JSON object: what of it routing needs.

use super::{Ask, Media, Part, Seen};
use crate::api::Api;
use crate::error::Failure;
use crate::json::{Object, Problem, text};
use std::borrow::Cow;
use std::ops::Range;

/// What is no text in a value, and where.
type Members = Vec<(Media, Range<usize>)>;

/// Reads it.
pub(super) fn parse(api: &'static Api, body: &[u8]) -> Result<Ask, Failure> {
    if let Some(found) = super::instead_of_object(body) {
        let at = body.len() - body.trim_ascii_start().len();
        let message = format!("the body must be a JSON object, it is {found} at byte {at}");
        return Err(Failure::bad_request(message));
    }
    if let Err(error) = std::str::from_utf8(body) {
        let message = format!("the body is not UTF-8 at byte {}", error.valid_up_to());
        return Err(Failure::bad_request(message));
    }
    let mut ask = Ask::new(api);
    let mut seen = Seen::default();
    let mut prompt: Vec<(usize, Part)> = Vec::new();
    let mut object = Object::open(body).map_err(invalid)?;
    while let Some(key) = object.key().map_err(invalid)? {
        seen.add(key.clone())?;
        if let Some(order) = api.prompt.iter().position(|name| *name == key) {
            let mut media = Members::new();
            let value = if api.rich.contains(&&*key) {
                object.value_with(|key| api.media(key), &mut media)
            } else {
                object.value()
            };
            let value = value.map_err(invalid)?;
            let raw = &body[value.clone()];
            if matches!(&*key, "prompt" | "input") {
                ask.prompt_tokens = token_ids(raw);
            }
            if raw != b"null" {
                split(body, value, media, |part| prompt.push((order, part)));
            }
            continue;
        }
        let value = object.value().map_err(invalid)?;
        note(&mut ask, &key, value, body)?;
    }
    ask.end = object.close().map_err(invalid)?;
    prompt.sort_by_key(|(order, _)| *order);
    ask.prompt = prompt.into_iter().map(|(_, part)| part).collect();
    Ok(ask)
}

/// A member that is not the prompt.
fn note(ask: &mut Ask, key: &str, value: Range<usize>, body: &[u8]) -> Result<(), Failure> {
    let raw = &body[value.clone()];
    let number = || std::str::from_utf8(raw).ok()?.parse().ok();
    match key {
        "model" if raw == b"null" && !ask.api.names_model => {}
        "model" => {
            let name = text(raw).ok_or_else(|| {
                Failure::bad_request("`model` must be a string".into()).param("model")
            })?;
            ask.model = name.into_owned();
            ask.model_span = value;
        }
        "stream" => ask.stream = truth(raw),
        "max_completion_tokens" => ask.max_tokens = number().or(ask.max_tokens),
        "max_tokens" => ask.max_tokens = ask.max_tokens.or_else(number),
        "max_output_tokens" => ask.max_tokens = number(),
        "stream_options" => ask.options = Some(value),
        "previous_response_id" if ask.api.keeps => {
            ask.previous = match raw {
                b"null" => None,
                raw => Some(text(raw).map(Cow::into_owned).ok_or_else(|| {
                    let message = "`previous_response_id` must be a string".into();
                    Failure::bad_request(message).param("previous_response_id")
                })?),
            };
        }
        _ => {}
    }
    Ok(())
}

/// Whether engines take a value for true: as pydantic reads a boolean.
pub(crate) fn truth(raw: &[u8]) -> bool {
    let Ok(raw) = std::str::from_utf8(raw) else { return false };
    if raw.starts_with('"') {
        let text: String = serde_json::from_str(raw).unwrap_or_default();
        let words = ["true", "1", "t", "yes", "y", "on"];
        return words.iter().any(|word| text.eq_ignore_ascii_case(word));
    }
    raw == "true" || raw.parse().is_ok_and(|number: f64| number.total_cmp(&1.0).is_eq())
}

/// The number of ids in `[1, 2, 3]`; `None` for text and lists of texts.
fn token_ids(prompt: &[u8]) -> Option<u32> {
    let inside = prompt.strip_prefix(b"[")?.trim_ascii_start();
    if !inside.first()?.is_ascii_digit() {
        return None;
    }
    let commas = memchr::memchr_iter(b',', inside).count();
    u32::try_from(commas + 1).ok()
}

/// A value in its pieces: text, and what is none.
fn split(body: &[u8], value: Range<usize>, media: Members, mut add: impl FnMut(Part)) {
    let mut from = value.start;
    for (media, span) in media {
        let Some(media) = settled(media, &body[span.clone()]) else { continue };
        add(Part { media: None, span: from..span.start });
        from = span.end;
        add(Part { media: Some(media), span });
    }
    add(Part { media: None, span: from..value.end });
}

/// What it is; `None` when it is text after all.
fn settled(media: Media, value: &[u8]) -> Option<Media> {
    match media {
        _ if value == b"null" => None,
        Media::Source => source(value).ok().flatten(),
        media => Some(media),
    }
}

/// `{"type": "base64", "media_type": "image/png", "data": …}` of Anthropic's API.
fn source(value: &[u8]) -> Result<Option<Media>, Problem> {
    let (mut kind, mut media_type): (&[u8], &[u8]) = (b"", b"");
    let mut object = Object::open(value)?;
    while let Some(key) = object.key()? {
        let member = &value[object.value()?];
        match &*key {
            "type" => kind = member,
            "media_type" => media_type = member,
            _ => {}
        }
    }
    Ok(match kind {
        b"\"base64\"" | b"\"url\"" | b"\"file\"" if media_type.starts_with(b"\"application/") => {
            Some(Media::File)
        }
        b"\"base64\"" | b"\"url\"" | b"\"file\"" => Some(Media::Image),
        _ => None,
    })
}

fn invalid(problem: Problem) -> Failure {
    Failure::bad_request(format!("the body is not valid: {} at byte {}", problem.what, problem.at))
}
