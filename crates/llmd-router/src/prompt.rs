//! What a prompt weighs and begins with: its length in bytes of text, and its prefix keys.
//!
//! Called in phase `tokenize`, on the raw bytes of the body, without a copy. A part that is no
//! text (a picture, a recording) stands for as many bytes of text as its tokens would take: what
//! it holds goes into the keys, its size does not count. So the same picture keeps its prefix,
//! another one of the same size does not, and base64 is never taken for a long prompt.

use crate::body::{Media, Part};
use crate::config::Multimodal;
use llmd_sched::prefix::{self, BLOCK_BYTES};

/// Bytes of text that a token of another part counts for: what the scheduler takes a token for
/// before it has learned better.
const TOKEN_BYTES: usize = 4;

/// The length of a prompt as bytes of text.
pub(crate) fn bytes(parts: &[Part], counts: &Multimodal) -> u32 {
    let length = |part: &Part| match part.media {
        None => part.span.len(),
        Some(media) => stands_for(media, counts),
    };
    let sum = parts.iter().map(length).fold(0, usize::saturating_add);
    u32::try_from(sum).unwrap_or(u32::MAX)
}

/// The prefix keys of a prompt.
pub(crate) fn keys(seed: u64, body: &[u8], parts: &[Part], counts: &Multimodal) -> Vec<u64> {
    let mut keys = Vec::new();
    let mut seed = seed;
    for (part, behind) in parts.iter().zip((0..parts.len()).rev()) {
        let bytes = &body[part.span.clone()];
        let Some(media) = part.media else {
            seed = chain(seed, bytes, behind > 0, &mut keys);
            continue;
        };
        // One key tells of all its bytes; others follow from it, for the length it stands for.
        let before = keys.len();
        seed = chain(seed, bytes, true, &mut keys);
        keys.truncate(before);
        let blocks = stands_for(media, counts) / BLOCK_BYTES;
        let all = seed.rotate_left(32);
        keys.extend((0..blocks as u64).map(|step| all ^ step));
    }
    keys
}

/// Adds the keys of a part; the last of them. The rest of a part that is `closed` has one too:
/// another part follows, and what stood before it has to tell prompts apart.
fn chain(seed: u64, bytes: &[u8], closed: bool, keys: &mut Vec<u64>) -> u64 {
    prefix::chain(seed, bytes, keys);
    let seed = if bytes.len() < BLOCK_BYTES { seed } else { keys.last().copied().unwrap_or(seed) };
    let (_, rest) = bytes.as_chunks::<BLOCK_BYTES>();
    if !closed || rest.is_empty() {
        return seed;
    }
    let mut block = [0; BLOCK_BYTES];
    block[..rest.len()].copy_from_slice(rest);
    prefix::chain(seed, &block, keys);
    keys.last().copied().unwrap_or(seed)
}

fn stands_for(media: Media, counts: &Multimodal) -> usize {
    let tokens = match media {
        Media::Image | Media::Source => counts.image_tokens,
        Media::Audio => counts.audio_tokens,
        Media::Video => counts.video_tokens,
        Media::File => counts.file_tokens,
    };
    (tokens as usize).saturating_mul(TOKEN_BYTES)
}

#[cfg(test)]
mod tests;
