//! `usage: exact`: every stream tells its usage, and no client sees that it was asked to.
//!
//! [`wish`] adds `stream_options.include_usage` to a request whose client did not. [`Hidden`]
//! takes out of the stream what that adds: the chunk with usage and no choices. What engines move
//! from the last chunk of an answer to that one ([`MOVED`]) is put back. Chunks of theirs that
//! have no choices and no usage stay.

use crate::api::Told;
use crate::body::{Ask, Edit, truth};
use crate::json::{Object, Problem};
use crate::sse;
use bytes::{BufMut, Bytes, BytesMut};
use memchr::memmem;
use std::ops::Range;

/// Members that stand in the last chunk of an answer, or, where there is one, in the usage chunk
/// behind it: the first vLLM's, the second llama.cpp's.
const MOVED: [&str; 2] = ["system_fingerprint", "timings"];

const OPTION: &str = "\"include_usage\":true";

/// Most bytes that are held back for a usage chunk; an engine that sends blank lines instead of
/// one would fill the memory.
const HELD_MAX: usize = 64 << 10;

/// The change of a body that makes its answer tell usage; `None` where it does already, and
/// where the options are such that an engine refuses them.
pub(crate) fn wish(ask: &Ask, body: &[u8]) -> Option<Edit> {
    if ask.api.usage != Told::Asked || !ask.stream {
        return None;
    }
    let Some(options) = &ask.options else {
        let text = format!(",\"stream_options\":{{{OPTION}}}");
        return Some(Edit { place: ask.end..ask.end, text });
    };
    let value = &body[options.clone()];
    if value == b"null" {
        return Some(Edit { place: options.clone(), text: format!("{{{OPTION}}}") });
    }
    let found = option(value).ok()??;
    let shifted = found.place.start + options.start..found.place.end + options.start;
    Some(Edit { place: shifted, ..found })
}

/// The change of the options; `None` where nothing may be changed.
fn option(options: &[u8]) -> Result<Option<Edit>, Problem> {
    let mut object = Object::open(options)?;
    let mut place: Option<Range<usize>> = None;
    let mut empty = true;
    while let Some(key) = object.key()? {
        empty = false;
        let value = object.value()?;
        match &*key {
            "include_usage" if place.is_some() || truth(&options[value.clone()]) => {
                return Ok(None);
            }
            "include_usage" => place = Some(value),
            // Usage in every chunk, which would be seen where it is not now.
            "continuous_usage_stats" if truth(&options[value.clone()]) => return Ok(None),
            _ => {}
        }
    }
    Ok(Some(match place {
        Some(place) => Edit { place, text: "true".into() },
        None => Edit { place: 1..1, text: format!("{OPTION}{}", if empty { "" } else { "," }) },
    }))
}

/// Takes the usage chunk out of a stream.
#[derive(Debug, Default)]
pub(crate) struct Hidden {
    /// The last chunk of an answer, until it is known what comes behind it.
    last: Bytes,
}

impl Hidden {
    /// Whole events as they came, to whole events as they go on.
    pub(crate) fn pass(&mut self, events: Bytes) -> Bytes {
        if self.last.is_empty() && !may_be_last(&events) && !has_usage(&events) {
            return events;
        }
        let mut out = BytesMut::with_capacity(self.last.len() + events.len());
        let mut from = 0;
        while from < events.len() {
            let blank = events[from..].iter().take_while(|byte| sse::is_line_end(**byte)).count();
            if blank > 0 {
                // They belong to what is before them, and are no event themselves: how a stream is
                // cut may decide with which event they come.
                self.blank(&events[from..from + blank], &mut out);
                from += blank;
                continue;
            }
            let end = from + sse::first_end(&events[from..]).unwrap_or(events.len() - from);
            let event = events.slice(from..end);
            from = end;
            if let Some(moved) = usage_chunk(&event) {
                self.release(&moved, &mut out);
                continue;
            }
            self.release(&[], &mut out);
            if may_be_last(&event) {
                self.last = event;
            } else {
                out.put_slice(&event);
            }
        }
        out.freeze()
    }

    fn blank(&mut self, ends: &[u8], out: &mut BytesMut) {
        if self.last.len() + ends.len() > HELD_MAX {
            self.release(&[], out);
        }
        if self.last.is_empty() {
            out.put_slice(ends);
        } else {
            self.last = [&self.last, ends].concat().into();
        }
    }

    /// What is held back still, when nothing more comes.
    pub(crate) fn rest(&mut self) -> Bytes {
        std::mem::take(&mut self.last)
    }

    /// Lets the last chunk go, with these members where it has them not.
    fn release(&mut self, moved: &[(&str, Vec<u8>)], out: &mut BytesMut) {
        let last = std::mem::take(&mut self.last);
        let Some(end) = memchr::memrchr(b'}', &last) else { return out.put_slice(&last) };
        out.put_slice(&last[..end]);
        for (name, value) in moved {
            let key = format!("\"{name}\":");
            if memmem::find(&last, key.as_bytes()).is_none() {
                out.put_u8(b',');
                out.put_slice(key.as_bytes());
                out.put_slice(value);
            }
        }
        out.put_slice(&last[end..]);
    }
}

fn has_usage(events: &[u8]) -> bool {
    memmem::find(events, b"\"usage\"").is_some()
}

/// Whether an answer ends in these events: a reason is given.
fn may_be_last(events: &[u8]) -> bool {
    let reasons = memmem::find_iter(events, b"\"finish_reason\":");
    let behind = |at: usize| events[at + 16..].trim_ascii_start().first() == Some(&b'"');
    reasons.into_iter().any(behind)
}

/// Of [`MOVED`], what a chunk holds that tells usage and no choices; `None` for other chunks.
fn usage_chunk(event: &[u8]) -> Option<Vec<(&'static str, Vec<u8>)>> {
    if !has_usage(event) {
        return None;
    }
    let data = sse::data(event);
    let (mut usage, mut empty, mut moved) = (false, false, Vec::new());
    let mut object = Object::open(&data).ok()?;
    while let Some(key) = object.key().ok()? {
        let value = &data[object.value().ok()?];
        match &*key {
            "usage" => usage = value.first() == Some(&b'{'),
            "choices" => {
                empty = value.iter().filter(|byte| !byte.is_ascii_whitespace()).count() == 2;
            }
            key => {
                let name = MOVED.into_iter().find(|name| *name == key);
                moved.extend(name.map(|name| (name, value.to_vec())));
            }
        }
    }
    (usage && empty).then_some(moved)
}

#[cfg(test)]
mod tests;
