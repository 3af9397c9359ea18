use super::{BLOCK_BYTES, Chain, MOST_KEYS, blocks, keep, seed};

fn keys(seed: u64, pieces: &[&[u8]]) -> Vec<u64> {
    let mut chain = Chain::new(seed);
    for piece in pieces {
        chain.push(piece);
    }
    chain.keys()
}

/// Bytes before the end of each key.
fn ends() -> impl Iterator<Item = usize> {
    (1..=MOST_KEYS).map(|depth| blocks(depth) as usize * BLOCK_BYTES)
}

#[test]
fn prompts_share_keys_exactly_up_to_the_first_byte_that_differs() {
    let one: Vec<u8> = (0..200_000_u32).map(|at| (at / 7) as u8).collect();
    let all = keys(1, &[&one]);
    for at in [0, 63, 64, 1_023, 1_024, 8_191, 8_192, 65_535, 65_536, 150_000, 199_999] {
        let mut other = one.clone();
        other[at] ^= 1;
        let other = keys(1, &[&other]);
        let before = ends().take_while(|end| *end <= at).count();
        assert_eq!(all[..before], other[..before], "byte {at}");
        assert!(all[before..].iter().zip(&other[before..]).all(|(a, b)| a != b), "byte {at}");
    }
}

#[test]
fn equal_bytes_at_different_places_and_of_different_models_have_different_keys() {
    let bytes = vec![7u8; 100_000];
    let mut all = keys(seed("one"), &[&bytes]);
    let each = all.len();
    all.extend(keys(seed("other"), &[&bytes]));
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 2 * each);
}

#[test]
fn where_pieces_end_makes_no_difference_and_what_is_short_of_a_step_has_no_key() {
    let bytes: Vec<u8> = (0..70_000_u32).map(|at| (at / 5) as u8).collect();
    let whole = keys(1, &[&bytes]);
    assert_eq!(whole.len(), ends().take_while(|end| *end <= bytes.len()).count());
    for sizes in [&[1][..], &[63, 2], &[64], &[0, 500, 7], &[5_000], &[69_999, 1]] {
        let (mut pieces, mut rest) = (Vec::new(), bytes.as_slice());
        for size in sizes.iter().cycle() {
            let (piece, more) = rest.split_at((*size).min(rest.len()));
            pieces.push(piece);
            rest = more;
            if rest.is_empty() {
                break;
            }
        }
        assert_eq!(keys(1, &pieces), whole, "{sizes:?}");
    }
}

#[test]
fn long_prompts_have_few_keys() {
    for (bytes, most) in [(1_024, 16), (8 << 10, 44), (64 << 10, 100), (400_000, 181)] {
        assert_eq!(keys(1, &[&vec![0; bytes]]).len(), most, "{bytes} bytes");
    }
    let all = keys(1, &[&vec![0; 8 << 20]]);
    assert_eq!(all.len(), MOST_KEYS);
    assert!(ends().last().unwrap() > 1_700_000);
}

#[test]
fn of_a_key_for_each_block_those_are_kept_that_the_index_knows() {
    let all: Vec<u64> = (1..=100_000).collect();
    let mut kept = Vec::new();
    for length in [0, 15, 17, 23, 24, 127, 128, 1_024, 1_087, 100_000] {
        keep(&all[..length], &mut kept);
        let places = (1..=MOST_KEYS).map(blocks).take_while(|place| *place as usize <= length);
        assert_eq!(kept, places.collect::<Vec<_>>(), "{length} blocks");
    }
}
