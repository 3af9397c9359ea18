//! A body that is a form with files (`multipart/form-data`, RFC 7578): its parts' names and
//! places. A file is looked through for its end and never copied.

use super::{Ask, MAX_KEYS, Part, Seen};
use crate::api::Api;
use crate::error::{Failure, Kind};
use http::header::{self, HeaderMap};
use memchr::memmem::Finder;
use std::borrow::Cow;
use std::ops::Range;

/// Longest head of a part.
const HEAD_MAX: usize = 8 << 10;

/// Reads it.
pub(super) fn parse(api: &'static Api, headers: &HeaderMap, body: &[u8]) -> Result<Ask, Failure> {
    let boundary = boundary(headers).ok_or_else(|| {
        let message = "the body must be multipart/form-data, with a `boundary` in content-type";
        Failure::new(Kind::MediaType, message)
    })?;
    let mut ask = Ask::new(api);
    let mut seen = Seen::default();
    let mut parts = Parts::new(body, &boundary)?;
    let mut prompt: Vec<(usize, Part)> = Vec::new();
    while let Some((name, span)) = parts.next()? {
        // Fields of many values (`timestamp_granularities[]`) are there many times.
        if !name.ends_with("[]") && name != "image" {
            seen.add(Cow::Owned(name.clone()))?;
        }
        let text = &body[span.clone()];
        if let Some(order) = api.prompt.iter().position(|key| **key == *name) {
            prompt.push((order, Part { media: api.media(name.as_bytes()), span }));
            continue;
        }
        match &*name {
            "model" => {
                ask.model = std::str::from_utf8(text).map(str::to_owned).map_err(|_| {
                    Failure::bad_request("`model` must be text in UTF-8".into()).param("model")
                })?;
                ask.model_span = span;
            }
            "stream" => ask.stream = super::truth(&[b"\"", text, b"\""].concat()),
            _ => {}
        }
    }
    prompt.sort_by_key(|(order, _)| *order);
    ask.prompt = prompt.into_iter().map(|(_, part)| part).collect();
    Ok(ask)
}

/// The parts of a body, one by one.
struct Parts<'a> {
    body: &'a [u8],
    at: usize,
    delimiter: Finder<'a>,
    length: usize,
    count: usize,
}

impl<'a> Parts<'a> {
    fn new(body: &'a [u8], boundary: &str) -> Result<Self, Failure> {
        let delimiter = Finder::new(&format!("\r\n--{boundary}")).into_owned();
        let length = boundary.len() + 4;
        // The first one need not begin a line of its own; what is before it is no part.
        let begin = &delimiter.needle()[2..];
        let at = if body.starts_with(begin) {
            begin.len()
        } else {
            let found = delimiter.find(body).map(|at| at + length);
            found.ok_or_else(|| broken("its boundary is nowhere", 0))?
        };
        Ok(Self { body, at, delimiter, length, count: 0 })
    }

    /// The next part's name, and where its content stands; `None` behind the last one.
    fn next(&mut self) -> Result<Option<(String, Range<usize>)>, Failure> {
        let rest = &self.body[self.at..];
        if rest.starts_with(b"--") {
            return Ok(None);
        }
        self.count += 1;
        if self.count > MAX_KEYS {
            return Err(broken("more than 256 parts", self.at));
        }
        let line = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        if !rest[line..].starts_with(b"\r\n") {
            return Err(broken("no line ends behind a boundary", self.at));
        }
        let head = &rest[line..rest.len().min(line + HEAD_MAX)];
        let blank = memchr::memmem::find(head, b"\r\n\r\n");
        let length = blank.ok_or_else(|| broken("a part's head does not end", self.at))?;
        let name = name(&head[..length]);
        let name = name.ok_or_else(|| broken("a part has no name", self.at))?;
        let start = self.at + line + length + 4;
        // The content may be empty: its delimiter begins with the end of its head.
        let found = self.delimiter.find(&self.body[start - 2..]);
        let end = found.ok_or_else(|| broken("a part does not end", start))? + start - 2;
        self.at = end + self.length;
        Ok(Some((name, start..end.max(start))))
    }
}

fn broken(what: &str, at: usize) -> Failure {
    Failure::bad_request(format!("the body is not valid: {what} at byte {at}"))
}

/// The name in a part's head.
fn name(head: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(head).ok()?;
    let lines = text.split("\r\n").filter_map(|line| line.split_once(':'));
    let mut values = lines.filter(|(name, _)| name.eq_ignore_ascii_case("content-disposition"));
    let (_, value) = values.next()?;
    parameter(value, "name").filter(|_| values.next().is_none())
}

fn boundary(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    let kind = value.split(';').next().unwrap_or_default().trim();
    let fits = |boundary: &String| (1..=70).contains(&boundary.len());
    let form = kind.eq_ignore_ascii_case("multipart/form-data");
    form.then(|| parameter(value, "boundary")).flatten().filter(fits)
}

/// A parameter of a header's value: `…; wanted=token` or `…; wanted="text"`. `None` as well
/// when it is there twice.
fn parameter(value: &str, wanted: &str) -> Option<String> {
    let mut found = None;
    let (_, mut rest) = value.split_once(';')?;
    loop {
        let (key, behind) = rest.split_once('=')?;
        let behind = behind.trim_start();
        let (text, after) = if let Some(quoted) = behind.strip_prefix('"') {
            unquoted(quoted)?
        } else {
            let end = behind.find(';').unwrap_or(behind.len());
            (behind[..end].trim_end().to_owned(), &behind[end..])
        };
        if key.trim().eq_ignore_ascii_case(wanted) && found.replace(text).is_some() {
            return None;
        }
        match after.trim_start().strip_prefix(';') {
            Some(next) if !next.trim().is_empty() => rest = next,
            _ => return found,
        }
    }
}

/// A quoted text up to its end, and what is behind it. `\"` is a quote; browsers write `%22`.
fn unquoted(quoted: &str) -> Option<(String, &str)> {
    let mut text = String::new();
    let mut chars = quoted.char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            '"' => return Some((text, &quoted[at + 1..])),
            '\\' => match chars.clone().next() {
                Some((_, next @ ('"' | '\\'))) => {
                    text.push(next);
                    chars.next();
                }
                // The paths that some old clients send as a file's name.
                _ => text.push('\\'),
            },
            other => text.push(other),
        }
    }
    None
}
