//! The text of answers: one filler word a token, chosen by the prompt's content.
//!
//! The same prompt gets the same answer. Nothing here means anything, which is why sampling
//! parameters have no effect; the API says so in a header.

use std::ops::Range;
use xxhash_rust::xxh3::xxh3_64_with_seed;

const WORDS: [&str; 32] = [
    "amber", "basin", "cedar", "delta", "ember", "fjord", "grove", "heron", "inlet", "juniper",
    "kelp", "larch", "meadow", "north", "otter", "pebble", "quartz", "ridge", "slate", "tundra",
    "umber", "valley", "willow", "yarrow", "aspen", "birch", "cliff", "dune", "elm", "fern",
    "glade", "heath",
];

/// An answer's text, token by token.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filler {
    seed: u64,
    /// Bytes after which a stop text cuts it off.
    cut: usize,
}

impl Filler {
    /// The answer to `content`; each choice of one request has a text of its own.
    pub(crate) fn new(content: u64, choice: u32) -> Self {
        Self { seed: xxh3_64_with_seed(&choice.to_le_bytes(), content), cut: usize::MAX }
    }

    /// Token number `index`: a word, with a space before it unless it is the first.
    fn word(&self, index: u32) -> &'static str {
        WORDS[(xxh3_64_with_seed(&index.to_le_bytes(), self.seed) % WORDS.len() as u64) as usize]
    }

    /// Appends the text of tokens `from..to`; `at` is the byte where it starts, and moves on.
    pub(crate) fn write(&self, from: u32, to: u32, at: &mut usize, out: &mut String) {
        for index in from..to {
            let word = self.word(index);
            let space = usize::from(index > 0);
            let room = self.cut.saturating_sub(*at);
            if space > 0 && room > 0 {
                out.push(' ');
            }
            out.push_str(&word[..word.len().min(room.saturating_sub(space))]);
            *at += space + word.len();
        }
    }

    /// Cuts the text where one of `stops` first occurs. It is looked for as tokens number
    /// `tokens` come out, as far as it ends there. Returns the tokens made by then.
    pub(crate) fn stop_at(&mut self, stops: &[String], tokens: Range<u32>) -> Option<u32> {
        if stops.is_empty() {
            return None;
        }
        let (mut text, mut at) = (String::new(), 0);
        for index in 0..tokens.end {
            let old = text.len();
            self.write(index, index + 1, &mut at, &mut text);
            if index < tokens.start {
                continue;
            }
            // Filler is ASCII, so every byte is the start of a character. What ends before the
            // new word was seen, or not looked for.
            let found = stops.iter().filter_map(|stop| {
                let from = old.saturating_sub(stop.len().saturating_sub(1));
                text[from..].find(stop.as_str()).map(|found| from + found)
            });
            if let Some(cut) = found.min() {
                self.cut = cut;
                return Some(index + 1);
            }
        }
        None
    }
}

/// How long an answer is that nobody limits: drawn by content from these quantiles (a made-up
/// long tail with a mean near 270 tokens, not a measurement), straight lines between them.
const LENGTHS: [u32; 6] = [16, 96, 192, 352, 640, 1_024];
/// Where the quantiles lie, in hundredths.
const AT: [u32; 6] = [0, 25, 50, 75, 90, 100];

/// The drawn length of the answer to `content`.
pub(crate) fn natural_length(content: u64) -> u32 {
    let draw = (xxh3_64_with_seed(b"length", content) % 10_000) as u32;
    let upper = AT.iter().position(|at| at * 100 > draw).unwrap_or(AT.len() - 1);
    let (low, high) = (AT[upper - 1] * 100, AT[upper] * 100);
    let (short, long) = (LENGTHS[upper - 1], LENGTHS[upper]);
    short + (long - short) * (draw - low) / (high - low)
}
