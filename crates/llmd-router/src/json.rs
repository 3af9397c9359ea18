//! One pass over a JSON text that checks it and tells where its parts stand.
//!
//! Used by `body` and `include`. Nothing is built and nothing copied: a part is a place in the
//! text. It takes linear time and a stack of [`MAX_DEPTH`] bits whatever the text is. What it
//! takes for JSON is JSON (RFC 8259) but for one thing: of escapes in strings it only looks at
//! which quotes they take away. Whether they make sense is for whoever reads the string to
//! judge, and looking would take most of the time of a long body.

use std::borrow::Cow;
use std::ops::Range;

/// Most lists and objects inside each other, the outermost object not counted. Engines give up
/// at a few hundred, or recurse.
pub(crate) const MAX_DEPTH: u32 = 127;

/// Most members that are found in one value; what comes behind them is not told.
const MAX_FOUND: usize = 256;

/// Most strings are keys and words. Up to this length they are read byte by byte: preparing to
/// look at many at a time would take longer.
const SHORT: usize = 24;

/// What is wrong with a text, and at which byte, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// In words.
    pub(crate) what: &'static str,
    /// Where.
    pub(crate) at: usize,
}

/// An object that is read from its begin to its end, member by member.
#[derive(Debug)]
pub(crate) struct Object<'a> {
    text: &'a [u8],
    at: usize,
    begun: bool,
}

impl<'a> Object<'a> {
    /// The text is an object, as far as its first byte tells.
    pub(crate) fn open(text: &'a [u8]) -> Result<Self, Problem> {
        let mut object = Self { text, at: 0, begun: false };
        object.space();
        object.expect(b'{', "expected an object")?;
        Ok(object)
    }

    /// The next member's key without its escapes; `None` when the object has ended. The value
    /// must be read before the next key.
    pub(crate) fn key(&mut self) -> Result<Option<Cow<'a, str>>, Problem> {
        self.space();
        let begun = std::mem::replace(&mut self.begun, true);
        match self.peek() {
            Some(b'}') => {
                self.at += 1;
                return Ok(None);
            }
            Some(b',') if begun => {
                self.at += 1;
                self.space();
            }
            _ if begun => return Err(self.problem("expected `,` or `}`")),
            _ => {}
        }
        let key = self.member()?;
        let text = text(&self.text[key.clone()]);
        text.map(Some).ok_or(Problem { what: "the key is no text", at: key.start })
    }

    /// Where the value of the last key stands.
    pub(crate) fn value(&mut self) -> Result<Range<usize>, Problem> {
        self.value_with(|_| None::<()>, &mut Vec::new())
    }

    /// The same; members inside it (not inside each other) whose raw key is `wanted` are added
    /// to `found`, with the places of their values.
    pub(crate) fn value_with<T>(
        &mut self,
        wanted: impl Fn(&[u8]) -> Option<T>,
        found: &mut Vec<(T, Range<usize>)>,
    ) -> Result<Range<usize>, Problem> {
        self.space();
        let start = self.at;
        let mut open = Open::default();
        let mut pending: Option<(T, u32, usize)> = None;
        loop {
            // Here a value begins.
            let nested = self.begin(&mut open)?;
            if nested == Some(Kind::Object) {
                let key = self.member()?;
                note(&mut pending, &wanted, &self.text[key], open.depth, self.at);
            }
            if nested.is_some() {
                continue;
            }
            // Here one has ended, and perhaps those around it.
            loop {
                if pending.as_ref().is_some_and(|(_, depth, _)| *depth == open.depth)
                    && let Some((what, _, from)) = pending.take()
                    && found.len() < MAX_FOUND
                {
                    found.push((what, from..self.at));
                }
                if open.depth == 0 {
                    return Ok(start..self.at);
                }
                self.space();
                match (self.peek(), open.innermost()) {
                    (Some(b','), kind) => {
                        self.at += 1;
                        self.space();
                        if kind == Kind::Object {
                            let key = self.member()?;
                            note(&mut pending, &wanted, &self.text[key], open.depth, self.at);
                        }
                        break;
                    }
                    (Some(b'}'), Kind::Object) | (Some(b']'), Kind::List) => {
                        self.at += 1;
                        open.pop();
                    }
                    (_, Kind::Object) => return Err(self.problem("expected `,` or `}`")),
                    (_, Kind::List) => return Err(self.problem("expected `,` or `]`")),
                }
            }
        }
    }

    /// Behind the object there is nothing more; the place of its last bracket.
    pub(crate) fn close(mut self) -> Result<usize, Problem> {
        let last = self.at - 1;
        self.space();
        match self.peek() {
            None => Ok(last),
            Some(_) => Err(self.problem("something stands behind the object")),
        }
    }

    /// A whole value that is no list and no object, or the begin of one that is not empty.
    fn begin(&mut self, open: &mut Open) -> Result<Option<Kind>, Problem> {
        let (kind, end) = match self.peek() {
            Some(b'"') => return self.string().map(|_| None),
            Some(b'-' | b'0'..=b'9') => return self.number().map(|()| None),
            Some(b't') => return self.literal(b"true").map(|()| None),
            Some(b'f') => return self.literal(b"false").map(|()| None),
            Some(b'n') => return self.literal(b"null").map(|()| None),
            Some(b'{') => (Kind::Object, b'}'),
            Some(b'[') => (Kind::List, b']'),
            _ => return Err(self.problem("expected a value")),
        };
        if open.depth == MAX_DEPTH {
            return Err(self.problem("more than 128 lists and objects inside each other"));
        }
        self.at += 1;
        self.space();
        if self.peek() == Some(end) {
            self.at += 1;
            return Ok(None);
        }
        open.push(kind);
        Ok(Some(kind))
    }

    /// A key and its colon; the place of the key.
    fn member(&mut self) -> Result<Range<usize>, Problem> {
        if self.peek() != Some(b'"') {
            return Err(self.problem("expected a key in double quotes"));
        }
        let key = self.string()?;
        self.space();
        self.expect(b':', "expected `:`")?;
        self.space();
        Ok(key)
    }

    /// A string, quotes included.
    fn string(&mut self) -> Result<Range<usize>, Problem> {
        let (start, inside) = (self.at, self.at + 1);
        let ends = |byte: &u8| matches!(byte, b'"' | b'\\' | ..0x20);
        let end = self.text[inside..].iter().take(SHORT).position(ends);
        if let Some(end) = end.map(|end| inside + end).filter(|end| self.text[*end] == b'"') {
            self.at = end + 1;
            return Ok(start..self.at);
        }
        self.at = inside;
        loop {
            let quote = memchr::memchr(b'"', &self.text[self.at..]);
            let end = quote.map_or(self.text.len(), |quote| self.at + quote);
            // The quote itself is escaped behind an odd number of backslashes.
            let before = self.text[inside..end].iter().rev();
            let escaped = before.take_while(|byte| **byte == b'\\').count() % 2 == 1;
            if quote.is_some() && escaped {
                self.at = end + 1;
                continue;
            }
            if let Some(control) = control(&self.text[inside..end]) {
                self.at = inside + control;
                return Err(self.problem("a control character in a string"));
            }
            self.at = end;
            self.expect(b'"', "the text ends in a string")?;
            return Ok(start..self.at);
        }
    }

    fn number(&mut self) -> Result<(), Problem> {
        self.skip(b'-');
        if !self.skip(b'0') {
            self.digits()?;
        }
        if self.skip(b'.') {
            self.digits()?;
        }
        if self.skip(b'e') || self.skip(b'E') {
            let _sign = self.skip(b'+') || self.skip(b'-');
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), Problem> {
        let rest = &self.text[self.at..];
        let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += count;
        if count == 0 { Err(self.problem("expected a digit")) } else { Ok(()) }
    }

    fn literal(&mut self, word: &[u8]) -> Result<(), Problem> {
        if !self.text[self.at..].starts_with(word) {
            return Err(self.problem("expected a value"));
        }
        self.at += word.len();
        Ok(())
    }

    fn space(&mut self) {
        while let Some(b' ' | b'\n' | b'\t' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn skip(&mut self, byte: u8) -> bool {
        let there = self.peek() == Some(byte);
        self.at += usize::from(there);
        there
    }

    fn expect(&mut self, byte: u8, what: &'static str) -> Result<(), Problem> {
        if self.skip(byte) { Ok(()) } else { Err(self.problem(what)) }
    }

    fn problem(&self, what: &'static str) -> Problem {
        let what = if self.at < self.text.len() { what } else { "the text ends too early" };
        Problem { what, at: self.at }
    }
}

/// What a string says, without its escapes; `None` where they, or the value, make no text.
pub(crate) fn text(raw: &[u8]) -> Option<Cow<'_, str>> {
    let plain = raw.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    match std::str::from_utf8(plain) {
        Ok(text) if !plain.contains(&b'\\') => Some(Cow::Borrowed(text)),
        _ => serde_json::from_slice::<String>(raw).ok().map(Cow::Owned),
    }
}

/// What has members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    List,
    Object,
}

/// The lists and objects that are open, a bit for each.
#[derive(Debug, Default)]
struct Open {
    objects: u128,
    depth: u32,
}

impl Open {
    fn push(&mut self, kind: Kind) {
        self.objects = self.objects << 1 | u128::from(kind == Kind::Object);
        self.depth += 1;
    }

    fn pop(&mut self) {
        self.objects >>= 1;
        self.depth -= 1;
    }

    fn innermost(&self) -> Kind {
        if self.objects & 1 == 1 { Kind::Object } else { Kind::List }
    }
}

/// Remembers a member that is wanted, unless it is inside another one.
fn note<T>(
    pending: &mut Option<(T, u32, usize)>,
    wanted: impl Fn(&[u8]) -> Option<T>,
    key: &[u8],
    depth: u32,
    value: usize,
) {
    if pending.is_none() {
        *pending = wanted(&key[1..key.len() - 1]).map(|what| (what, depth, value));
    }
}

/// The first control character. All bytes are looked at first, which the compiler does many at a
/// time: joined as numbers, because as truth values it would look at one after the other.
fn control(bytes: &[u8]) -> Option<usize> {
    let any = bytes.iter().fold(0, |any, byte| any | u8::from(*byte < 0x20)) != 0;
    if any { bytes.iter().position(|byte| *byte < 0x20) } else { None }
}

#[cfg(test)]
mod tests;
