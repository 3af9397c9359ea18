//! What a prompt weighs and begins with: its length in bytes of text, and its prefix keys.
//!
//! Called in phase `tokenize`, on the raw bytes of the body, without a copy. A part that is no
//! text (a picture, a recording) stands for as many bytes of text as its tokens would take: what
//! it holds goes into the keys, its size does not count. So the same picture keeps its prefix,
//! another one of the same size does not, and base64 is never taken for a long prompt.

use crate::body::{Media, Part};
use crate::config::Multimodal;
use llmd_sched::prefix::{Chain, link};

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
    // What stands for parts that are no text: a number that tells of all their bytes, over and
    // over, for the length that they stand for.
    let stand_ins: Vec<Vec<u8>> = parts
        .iter()
        .filter_map(|part| Some((part.media?, &body[part.span.clone()])))
        .map(|(media, bytes)| {
            let length = stands_for(media, counts);
            link(seed, bytes).to_le_bytes().into_iter().cycle().take(length).collect()
        })
        .collect();
    let mut chain = Chain::new(seed);
    let mut next = stand_ins.iter();
    for part in parts {
        match part.media.and_then(|_| next.next()) {
            Some(stand_in) => chain.push(stand_in),
            None => chain.push(&body[part.span.clone()]),
        }
    }
    chain.keys()
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
