//! Prefix keys: numbers for the beginnings of a prompt, close together at first, then sparse.
//!
//! Made by the router and the simulator from the raw bytes of a prompt, read by the index.
//! Two prompts share a key exactly when they share all bytes before it. A prefix that is
//! spaced or escaped differently does not meet; that costs affinity, never correctness.
//!
//! What a request costs grows with the number of its keys, and what a key is worth falls with
//! its place: behind 64 KiB the next 4 KiB are a few percent of a prompt. So the place of a key
//! follows from its number alone ([`blocks`]), and a long prompt has few.

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// The unit in which places in a prompt are counted: about 16 tokens of text.
pub const BLOCK_BYTES: usize = 64;

/// Most keys of one prompt: its first 1.7 MB. What lies behind is not looked up.
const MOST_KEYS: usize = 512;

/// Where the chains of a model start, so that equal prompts of two models do not meet.
pub fn seed(model: &str) -> u64 {
    xxh3_64_with_seed(model.as_bytes(), 0)
}

/// The key behind `bytes`, when the one before them is `key`. Their own hash goes into it, not
/// they themselves: a long hash with a seed prepares itself anew for each seed.
pub fn link(key: u64, bytes: &[u8]) -> u64 {
    xxh3_64_with_seed(&xxh3_64(bytes).to_le_bytes(), key)
}

/// Blocks that lie before the end of key number `depth` (counted from 1): every block of the
/// first KiB has a key, every 4th to 8 KiB, every 16th to 64 KiB, every 64th behind.
pub const fn blocks(depth: usize) -> u64 {
    let blocks = match depth {
        0..=16 => depth,
        17..=44 => 16 + (depth - 16) * 4,
        45..=100 => 128 + (depth - 44) * 16,
        _ => 1_024 + (depth - 100) * 64,
    };
    blocks as u64
}

/// Keeps of `all`, a key for each block, those that the index knows.
pub fn keep(all: &[u64], kept: &mut Vec<u64>) {
    kept.clear();
    let places = (1..=MOST_KEYS).map(|depth| blocks(depth) as usize - 1);
    kept.extend(places.map_while(|place| all.get(place)));
}

/// Makes the keys of a prompt that comes in pieces. Where a piece ends makes no difference.
#[derive(Debug)]
pub struct Chain<'a> {
    key: u64,
    keys: Vec<u64>,
    /// The last piece, as far as it has no key yet. It is copied only when another follows.
    rest: &'a [u8],
    /// What was left of the pieces before it.
    begun: Vec<u8>,
}

impl<'a> Chain<'a> {
    /// One that begins at `seed`.
    pub fn new(seed: u64) -> Self {
        Self { key: seed, keys: Vec::with_capacity(64), rest: &[], begun: Vec::new() }
    }

    /// More of the prompt.
    pub fn push(&mut self, bytes: &'a [u8]) {
        self.begun.extend_from_slice(std::mem::take(&mut self.rest));
        self.rest = bytes;
        while let Some(step) = self.step() {
            let missing = step - self.begun.len();
            let Some((piece, rest)) = self.rest.split_at_checked(missing) else { return };
            self.rest = rest;
            if self.begun.is_empty() {
                self.key = link(self.key, piece);
            } else {
                self.begun.extend_from_slice(piece);
                self.key = link(self.key, &self.begun);
                self.begun.clear();
            }
            self.keys.push(self.key);
        }
        self.rest = &[];
    }

    /// Bytes from the last key to the next one, if there may be more.
    fn step(&self) -> Option<usize> {
        let depth = self.keys.len();
        let blocks = (blocks(depth + 1) - blocks(depth)) as usize;
        (depth < MOST_KEYS).then_some(blocks * BLOCK_BYTES)
    }

    /// The keys; a last piece that is shorter than a step has none.
    pub fn keys(self) -> Vec<u64> {
        self.keys
    }
}

#[cfg(test)]
mod tests;
