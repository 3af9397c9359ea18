//! Prefix keys: one number for each prefix of a prompt, at every 64th byte.
//!
//! Made by the router and the simulator from the raw bytes of a prompt, read by the index.
//! Two prompts share a key exactly when they share all bytes before it. A prefix that is
//! spaced or escaped differently does not meet; that costs affinity, never correctness.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Bytes between two keys of a chain: about 16 tokens of text.
pub const BLOCK_BYTES: usize = 64;

/// Blocks at the start of a prompt of which every key is kept: 8 KiB, about 2,000 tokens.
const FINE_BLOCKS: usize = 128;
/// Behind them, one key in so many is kept: every KiB, about 256 tokens. Keeping all of a cold
/// 400 kB prompt would cost more than the rest of its routing.
const COARSE_STEP: usize = 16;
/// Most keys kept of one prompt: its first 925 kB. What lies behind is not looked up.
const MAX_KEPT: usize = 1_024;

/// Where the chains of a model start, so that equal prompts of two models do not meet.
pub fn seed(model: &str) -> u64 {
    xxh3_64_with_seed(model.as_bytes(), 0)
}

/// Appends the keys of `bytes` to `keys`, starting from `seed`. A last piece shorter than a
/// block has no key. Parts of a prompt are chained by giving the last key of one as the seed
/// of the next.
pub fn chain(seed: u64, bytes: &[u8], keys: &mut Vec<u64>) {
    let (blocks, _) = bytes.as_chunks::<BLOCK_BYTES>();
    keys.reserve(blocks.len());
    let mut key = seed;
    for block in blocks {
        key = xxh3_64_with_seed(block, key);
        keys.push(key);
    }
}

/// Replaces `kept` by the keys of a whole chain that the index stores: all at first, then
/// every [`COARSE_STEP`]th.
pub(crate) fn keep(keys: &[u64], kept: &mut Vec<u64>) {
    kept.clear();
    let (fine, rest) = keys.split_at(keys.len().min(FINE_BLOCKS));
    kept.extend_from_slice(fine);
    let ends = rest.chunks_exact(COARSE_STEP).filter_map(<[u64]>::last);
    kept.extend(ends.take(MAX_KEPT - FINE_BLOCKS));
}

/// Blocks that lie before the end of the kept key number `depth` (counted from 1).
pub(crate) const fn blocks(depth: usize) -> u64 {
    if depth <= FINE_BLOCKS {
        depth as u64
    } else {
        (FINE_BLOCKS + (depth - FINE_BLOCKS) * COARSE_STEP) as u64
    }
}

#[cfg(test)]
mod tests;
