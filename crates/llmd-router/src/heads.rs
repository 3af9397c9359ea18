//! Where HTTP/1 requests begin and end in what a client sends, and what makes their framing
//! ambiguous.
//!
//! Called by `wire` with every piece that is read. The HTTP library below takes some heads that
//! another server may read otherwise: it forgives a `content-length` beside a
//! `transfer-encoding`, a line that ends without CR, a length given twice. Such a request is
//! refused here, by its number on the connection. Bodies are skipped, not looked at: a request
//! costs one walk over the lines of its head. It holds no bytes but those of a line that is not
//! whole yet, refuses nothing itself, and does no I/O.

use memchr::memchr;

/// A line of a head or of chunked framing that is longer than this is no line any more: the
/// library refuses such heads by their size.
const LINE_MAX: usize = 64 << 10;

/// What is expected next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// The first line of a head.
    Start,
    /// Another line of a head.
    Head,
    /// Bytes of a body.
    Body(u64),
    /// The line that says how long a chunk is.
    Size,
    /// Bytes of a chunk, with the line end behind them.
    Chunk(u64),
    /// Lines behind the last chunk.
    Trailer,
    /// Nothing more is followed: the library refuses what came, or we do.
    Lost,
}

/// What the head that is being read says of its body.
#[derive(Clone, Copy, Debug, Default)]
struct Framing {
    length: Option<u64>,
    chunked: bool,
}

/// Follows the requests of one connection.
#[derive(Debug)]
pub(crate) struct Heads {
    part: Part,
    framing: Framing,
    /// A line whose end has not come.
    begun: Vec<u8>,
    /// Heads that were read to their end.
    whole: u32,
    fault: Option<Fault>,
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// Which of the connection's requests, from 1. All behind it are void.
    pub(crate) request: u32,
    /// What is wrong with it.
    pub(crate) why: &'static str,
}

impl Default for Heads {
    fn default() -> Self {
        let framing = Framing::default();
        Self { part: Part::Start, framing, begun: Vec::new(), whole: 0, fault: None }
    }
}

impl Heads {
    /// What is wrong, once something is.
    pub(crate) fn fault(&self) -> Option<Fault> {
        self.fault
    }

    /// Whether the client is between two requests.
    pub(crate) fn between(&self) -> bool {
        self.part == Part::Start && self.nothing_begun()
    }

    /// Half an empty line is nothing either.
    fn nothing_begun(&self) -> bool {
        self.begun.is_empty() || self.begun == b"\r"
    }

    /// Whether a head has begun and is not whole, or nobody can tell where we are.
    pub(crate) fn within_head(&self) -> bool {
        matches!(self.part, Part::Head | Part::Lost)
            || (self.part == Part::Start && !self.nothing_begun())
    }

    /// Heads that were read to their end.
    pub(crate) fn whole(&self) -> u32 {
        self.whole
    }

    /// More was read.
    pub(crate) fn push(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            bytes = match self.part {
                Part::Lost => return,
                Part::Body(left) => self.skip(bytes, left, Part::Body, Part::Start),
                Part::Chunk(left) => self.skip(bytes, left, Part::Chunk, Part::Size),
                Part::Start | Part::Head | Part::Size | Part::Trailer => self.take_line(bytes),
            };
        }
    }

    fn skip<'a>(
        &mut self,
        bytes: &'a [u8],
        left: u64,
        more: fn(u64) -> Part,
        next: Part,
    ) -> &'a [u8] {
        let count = usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
        let left = left - count as u64;
        self.part = if left == 0 { next } else { more(left) };
        &bytes[count..]
    }

    /// Takes one line, or what there is of it; returns what is behind.
    fn take_line<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let Some(end) = memchr(b'\n', bytes) else {
            self.begun.extend_from_slice(bytes);
            if self.begun.len() > LINE_MAX {
                self.lose();
            }
            return &[];
        };
        let (line, rest) = (&bytes[..end], &bytes[end + 1..]);
        if self.begun.is_empty() {
            self.line(line);
        } else {
            let mut whole = std::mem::take(&mut self.begun);
            whole.extend_from_slice(line);
            self.line(&whole);
        }
        rest
    }

    /// One line without its LF.
    fn line(&mut self, line: &[u8]) {
        let Some(line) = line.strip_suffix(b"\r") else {
            return self.refuse("a line ends without CR");
        };
        match (self.part, line) {
            // Empty lines before a request are allowed.
            (Part::Start, []) => {}
            (Part::Start, _) => {
                self.part = Part::Head;
                self.framing = Framing::default();
            }
            (Part::Head, []) => self.end_of_head(),
            (Part::Head, line) => self.field(line),
            (Part::Size, line) => self.size(line),
            (Part::Trailer, []) => self.part = Part::Start,
            _ => {}
        }
    }

    fn field(&mut self, line: &[u8]) {
        // All other fields are told from these two by their first letter.
        if !matches!(line[0], b'c' | b'C' | b't' | b'T') {
            return;
        }
        let Some(colon) = memchr(b':', line) else { return };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"content-length") {
            let Some(length) = number(value, 10) else {
                return self.refuse("content-length is no number");
            };
            if self.framing.length.replace(length).is_some() {
                self.refuse("content-length is given twice");
            }
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            let known = value.eq_ignore_ascii_case(b"chunked");
            if !known || std::mem::replace(&mut self.framing.chunked, true) {
                self.refuse("transfer-encoding is not just chunked");
            }
        }
    }

    fn end_of_head(&mut self) {
        self.part = match self.framing {
            Framing { length: Some(_), chunked: true } => {
                return self.refuse("content-length and transfer-encoding exclude each other");
            }
            Framing { chunked: true, .. } => Part::Size,
            Framing { length: Some(length), .. } if length > 0 => Part::Body(length),
            Framing { .. } => Part::Start,
        };
        self.whole = self.whole.saturating_add(1);
    }

    fn size(&mut self, line: &[u8]) {
        let digits = line.split(|byte| matches!(byte, b';' | b' ' | b'\t')).next();
        let size = digits.and_then(|digits| number(digits, 16));
        self.part = match size.map(|size| size.checked_add(2)) {
            Some(Some(2)) => Part::Trailer,
            Some(Some(with_end)) => Part::Chunk(with_end),
            _ => return self.lose(),
        };
    }

    fn refuse(&mut self, why: &'static str) {
        self.fault = Some(Fault { request: self.whole + 1, why });
        self.lose();
    }

    fn lose(&mut self) {
        self.part = Part::Lost;
        self.begun = Vec::new();
    }
}

/// Digits and nothing else.
fn number(text: &[u8], radix: u32) -> Option<u64> {
    let digits = std::str::from_utf8(text).ok()?;
    let fine = !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(radix));
    fine.then(|| u64::from_str_radix(digits, radix).ok()).flatten()
}

#[cfg(test)]
mod tests;
