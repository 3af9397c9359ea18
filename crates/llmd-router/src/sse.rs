//! Server-sent events as far as the router reads them: where events end, how many there were,
//! and what usage the last ones told.
//!
//! Used by `stream`. The bytes of an event are never changed. The beginning of an event whose
//! end has not arrived is held back, so that an error event never lands inside another event.
//! However a stream is cut into pieces, its bytes, counts and usage are the same.

use crate::api::{Api, Told};
use crate::include::Hidden;
use crate::responses;
use crate::usage;
use bytes::{Bytes, BytesMut};
use llmd_types::Usage;
use memchr::memmem;
use std::borrow::Cow;

/// Most bytes of an event that are held back and read. The last event of a response holds all
/// of its text, and its tools: some hundred kB. Longer events (pictures) are passed on as they
/// come, and only their begin is read.
const HELD_MAX: usize = 1 << 20;

/// What has passed of one stream.
#[derive(Debug)]
pub(crate) struct Events {
    api: &'static Api,
    held: BytesMut,
    /// How much of `held` is known to hold no end of an event.
    searched: usize,
    /// The last bytes that passed on were the begin of an event too long to hold.
    inside: bool,
    /// A byte order mark may come.
    first: bool,
    hidden: Option<Hidden>,
    /// Usage, as soon as an event told it.
    pub(crate) usage: Usage,
    /// The answer's name, where it can be continued later.
    pub(crate) made: Option<String>,
    /// Whether an event passed by that ends such a stream.
    pub(crate) done: bool,
}

/// What one piece brought.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Passed {
    /// The bytes that may go on; empty while an event is unfinished.
    pub(crate) bytes: Bytes,
    /// Events in them that bring a token, as far as the router can tell.
    pub(crate) count: u32,
}

impl Events {
    /// A stream of that API begins; `hide` takes out of it what the router asked for.
    pub(crate) fn new(api: &'static Api, hide: bool) -> Self {
        Self {
            api,
            held: BytesMut::new(),
            searched: 0,
            inside: false,
            first: true,
            hidden: hide.then(Hidden::default),
            usage: Usage::default(),
            made: None,
            done: false,
        }
    }

    /// Takes a piece in, gives whole events out.
    pub(crate) fn push(&mut self, piece: Bytes) -> Passed {
        if self.held.is_empty() && !self.inside && ends_event(&piece) {
            return self.whole(piece);
        }
        self.held.extend_from_slice(&piece);
        if self.inside {
            return self.push_inside();
        }
        let from = self.searched.saturating_sub(3);
        let end = last_end(&self.held[from..]).map_or(0, |end| from + end);
        let whole = self.held.split_to(end).freeze();
        let mut passed = self.whole(whole);
        if self.held.len() > HELD_MAX {
            self.inside = true;
            let before = self.kept();
            let held = std::mem::take(&mut self.held);
            passed.count += self.event(&held[..HELD_MAX], true);
            self.held = held;
            let begin = self.push_inside().bytes;
            passed.bytes = joined(&[passed.bytes, before, begin]);
        }
        self.searched = self.held.len();
        passed
    }

    /// More of an event that is too long to hold, and what comes behind it.
    fn push_inside(&mut self) -> Passed {
        let Some(end) = first_end(&self.held) else {
            // Line ends may be half of the event's.
            let kept = self.held.iter().rev().take(3).take_while(|byte| is_line_end(**byte));
            let end = self.held.len() - kept.count();
            return Passed { bytes: self.held.split_to(end).freeze(), count: 0 };
        };
        self.inside = false;
        self.searched = 0;
        let bytes = self.held.split_to(end).freeze();
        let behind = self.push(Bytes::new());
        Passed { bytes: joined(&[bytes, behind.bytes]), count: behind.count }
    }

    /// What is left when the stream ends without the blank line behind its last event.
    pub(crate) fn rest(&mut self) -> Passed {
        let left = self.held.split().freeze();
        if self.inside {
            return Passed { bytes: left, count: 0 };
        }
        let passed = self.whole(left);
        let kept = self.kept();
        Passed { bytes: joined(&[passed.bytes, kept]), count: passed.count }
    }

    /// What goes on before an error event, where the stream broke: what was held back whole, and
    /// the end of an event whose begin has passed on, lest the error is read as a part of it.
    pub(crate) fn cut(&mut self) -> Bytes {
        if self.inside { Bytes::from_static(b"\n\n") } else { self.kept() }
    }

    /// A whole event that was held back to see what comes behind it.
    fn kept(&mut self) -> Bytes {
        self.hidden.as_mut().map(Hidden::rest).unwrap_or_default()
    }

    /// Reads whole events.
    fn whole(&mut self, bytes: Bytes) -> Passed {
        let mut count = 0;
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let length = first_end(rest).unwrap_or(rest.len());
            let (event, behind) = rest.split_at(length);
            // As it would be read if it came in small pieces.
            let long = length > HELD_MAX + 1;
            count += self.event(if long { &event[..HELD_MAX] } else { event }, long);
            rest = behind;
        }
        let bytes = match &mut self.hidden {
            Some(hidden) => hidden.pass(bytes),
            None => bytes,
        };
        Passed { bytes, count }
    }

    /// Reads one event, or its begin: how many tokens it brings.
    fn event(&mut self, event: &[u8], begin: bool) -> u32 {
        let event = match event.strip_prefix(b"\xef\xbb\xbf") {
            Some(marked) if self.first => marked,
            _ => event,
        };
        self.first = false;
        let Fields { name, data } = fields(event);
        let ends = self.api.ends;
        self.done |= !name.is_empty() && ends.iter().any(|end| end.as_bytes() == name);
        let Some(data) = data else { return 0 };
        let data = data.trim_ascii();
        if data == b"[DONE]" {
            self.done = true;
            return 0;
        }
        // An event without a name tells its type in its data.
        self.done |= name.is_empty() && ends.iter().any(|end| has_type(data, end));
        if self.done && self.api.keeps && !begin {
            self.made = responses::id_of(data);
        }
        let mut seen = usage::Seen::default();
        if !begin && self.api.usage != Told::Never && memmem::find(data, b"\"usage\"").is_some() {
            seen = usage::of(data);
            self.usage = usage::merged(self.usage, seen.usage.unwrap_or_default());
        }
        // Of events with names, deltas bring text; Anthropic's last one brings usage alone.
        let named = name.ends_with(b"delta") && seen.usage.is_none();
        u32::from(!seen.only && (name.is_empty() || named))
    }
}

/// What the router reads of an event's fields.
#[derive(Debug, Default)]
struct Fields<'a> {
    name: &'a [u8],
    /// All its data lines.
    data: Option<Cow<'a, [u8]>>,
}

fn fields(event: &[u8]) -> Fields<'_> {
    let mut fields = Fields::default();
    let mut rest = event;
    while !rest.is_empty() {
        let at = memchr::memchr2(b'\n', b'\r', rest).unwrap_or(rest.len());
        let (line, behind) = rest.split_at(at);
        rest = behind.get(1..).unwrap_or_default();
        let colon = memchr::memchr(b':', line).unwrap_or(line.len());
        let value = line.get(colon + 1..).unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match &line[..colon] {
            b"event" => fields.name = value,
            b"data" => match &mut fields.data {
                None => fields.data = Some(Cow::Borrowed(value)),
                Some(before) => {
                    before.to_mut().push(b'\n');
                    before.to_mut().extend_from_slice(value);
                }
            },
            _ => {}
        }
    }
    fields
}

/// An event's data.
pub(crate) fn data(event: &[u8]) -> Cow<'_, [u8]> {
    fields(event).data.unwrap_or_default()
}

/// The place behind the first blank line that ends something.
pub(crate) fn first_end(bytes: &[u8]) -> Option<usize> {
    let mut ends = memchr::memchr2_iter(b'\n', b'\r', bytes).map(|at| at + 1);
    ends.find(|end| ends_event(&bytes[..*end]))
}

/// The place behind the last one.
fn last_end(bytes: &[u8]) -> Option<usize> {
    let mut ends = memchr::memrchr2_iter(b'\n', b'\r', bytes).map(|at| at + 1);
    ends.find(|end| ends_event(&bytes[..*end]))
}

/// Whether the last line of these is blank. A line ends with LF, CR LF or CR; a CR behind a LF
/// may be the first half of an end, and is waited for.
fn ends_event(bytes: &[u8]) -> bool {
    bytes.ends_with(b"\n\n") || bytes.ends_with(b"\n\r\n") || bytes.ends_with(b"\r\r")
}

pub(crate) fn is_line_end(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r')
}

/// Whether JSON says `"type": "kind"`. Quotes inside a JSON string are escaped, so no text that
/// a model writes looks like this.
fn has_type(json: &[u8], kind: &str) -> bool {
    memmem::find_iter(json, b"\"type\":").any(|at| {
        let value = json[at + 7..].trim_ascii_start();
        let value = value.strip_prefix(b"\"").and_then(|v| v.strip_prefix(kind.as_bytes()));
        value.is_some_and(|behind| behind.starts_with(b"\""))
    })
}

fn joined(pieces: &[Bytes]) -> Bytes {
    let mut filled = pieces.iter().filter(|piece| !piece.is_empty());
    match (filled.next(), filled.next()) {
        (None, _) => Bytes::new(),
        (Some(one), None) => one.clone(),
        _ => pieces.concat().into(),
    }
}

#[cfg(test)]
mod tests;
