use super::{BLOCK_BYTES, COARSE_STEP, FINE_BLOCKS, MAX_KEPT, blocks, chain, keep, seed};

fn keys(seed: u64, bytes: &[u8]) -> Vec<u64> {
    let mut keys = Vec::new();
    chain(seed, bytes, &mut keys);
    keys
}

#[test]
fn prompts_share_keys_exactly_up_to_the_first_byte_that_differs() {
    let one = vec![7u8; 10 * BLOCK_BYTES];
    let mut other = one.clone();
    other[4 * BLOCK_BYTES] = 8;
    let (one, other) = (keys(1, &one), keys(1, &other));
    assert_eq!(one[..4], other[..4]);
    assert!(one[4..].iter().zip(&other[4..]).all(|(a, b)| a != b));
}

#[test]
fn equal_blocks_at_different_places_and_of_different_models_have_different_keys() {
    let bytes = vec![7u8; 3 * BLOCK_BYTES];
    let mut all = keys(seed("one"), &bytes);
    all.extend(keys(seed("other"), &bytes));
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 6);
}

#[test]
fn a_piece_shorter_than_a_block_has_no_key_and_parts_chain_through_the_last_key() {
    let bytes: Vec<u8> = (0..4 * BLOCK_BYTES + 9).map(|at| at as u8).collect();
    let whole = keys(1, &bytes);
    assert_eq!(whole.len(), 4);
    let mut parts = keys(1, &bytes[..2 * BLOCK_BYTES]);
    let last = parts[1];
    chain(last, &bytes[2 * BLOCK_BYTES..], &mut parts);
    assert_eq!(parts, whole);
}

#[test]
fn long_prompts_keep_every_key_at_first_then_the_ends_of_coarse_steps() {
    let all: Vec<u64> = (0..100_000).collect();
    let mut kept = Vec::new();
    keep(&all[..FINE_BLOCKS + COARSE_STEP - 1], &mut kept);
    assert_eq!(kept, all[..FINE_BLOCKS]);
    keep(&all, &mut kept);
    assert_eq!(kept.len(), MAX_KEPT);
    for (depth, key) in (1..).zip(&kept) {
        // A key numbered from 0 ends the block after it.
        assert_eq!(blocks(depth), key + 1);
    }
}
