//! The stated rule that stands in for a tokenizer: four bytes are a token.
//!
//! A prompt's bytes are `tools` and `messages` (or `prompt`) exactly as they stand in the
//! request's body, in that order, so that equal text counts and is cached alike whoever sends
//! it; token ids are four bytes each. A last token may have fewer. Keys of the prefix cache
//! are a chain of hashes over the bytes of whole blocks.

use llmd_sim::engine::Prompt;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Bytes that count as one token.
pub(crate) const TOKEN_BYTES: usize = 4;

/// The prompt of `bytes`. Prompts with different seeds share nothing.
pub(crate) fn prompt(bytes: &[u8], block_size: u32, seed: u64) -> Prompt {
    let tokens = u32::try_from(bytes.len().div_ceil(TOKEN_BYTES)).unwrap_or(u32::MAX);
    let mut key = seed;
    let blocks = bytes.chunks_exact((block_size as usize).max(1).saturating_mul(TOKEN_BYTES));
    let keys = blocks.map(|block| {
        key = xxh3_64_with_seed(block, key);
        key
    });
    Prompt { tokens, keys: keys.collect() }
}

/// What the prompt says, as one number: it chooses words and length of the answer.
pub(crate) fn content(bytes: &[u8], seed: u64) -> u64 {
    xxh3_64_with_seed(bytes, seed)
}

/// The ids that stand for the bytes; sent back as a prompt they mean the same bytes.
pub(crate) fn token_ids(bytes: &[u8]) -> Vec<u32> {
    let ids = bytes.chunks(TOKEN_BYTES).map(|chunk| {
        let mut id = [0; TOKEN_BYTES];
        id[..chunk.len()].copy_from_slice(chunk);
        u32::from_le_bytes(id)
    });
    ids.collect()
}
