//! The index against a model that walks everything.

use super::{Index, LATELY, NONE};
use crate::prefix::blocks;
use proptest::prelude::*;

/// An endpoint's prefixes as a plain list, newest first.
#[derive(Clone, Debug, Default)]
struct Plain {
    list: Vec<Held>,
    most: u64,
    moves: u32,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    key: u64,
    size: u64,
    put_at: u32,
}

impl Plain {
    fn insert(&mut self, keys: &[u64], share: usize) {
        let (mut front, from) = self.stays(keys, share);
        for (at, key) in keys.iter().enumerate().skip(from) {
            let size = blocks(at + 1) - blocks(at);
            let old = self.list.iter().position(|held| held.key == *key);
            if let Some(old) = old {
                self.list.remove(old);
            } else {
                while self.blocks() + size > self.most || self.list.len() >= share {
                    if self.list.len() <= front {
                        return;
                    }
                    self.list.pop();
                }
            }
            self.moves += 1;
            let before = front.checked_sub(1).map(|before| self.list[before].put_at);
            let put_at = before.unwrap_or(self.moves);
            self.list.insert(front, Held { key: *key, size, put_at });
            front += 1;
        }
    }

    /// Where a chain that was put first lately stays, and how many of its keys are there.
    fn stays(&self, keys: &[u64], share: usize) -> (usize, usize) {
        let depth = self.depth(keys) as usize;
        let Some(last) = depth.checked_sub(1) else { return (0, 0) };
        let place = self.list.iter().position(|held| held.key == keys[last]).unwrap();
        let room = self.most / self.blocks().div_ceil(self.list.len() as u64).max(1);
        let most = room.min(share as u64) / LATELY as u64;
        if u64::from(self.moves - self.list[place].put_at) < most {
            (place + 1, depth)
        } else {
            (0, 0)
        }
    }

    fn blocks(&self) -> u64 {
        self.list.iter().map(|held| held.size).sum()
    }

    fn depth(&self, keys: &[u64]) -> u32 {
        let known = |key: &&u64| self.list.iter().any(|held| held.key == **key);
        keys.iter().take_while(known).count() as u32
    }
}

#[derive(Clone, Debug)]
enum Op {
    Insert { endpoint: usize, path: Vec<u8>, piece: usize },
    Forget { endpoint: usize },
    Resize { endpoint: usize, most: u64 },
}

/// Keys of a way down a tree: equal beginnings give equal keys, as a chain does.
fn keys_of(path: &[u8]) -> Vec<u64> {
    let mut key = 17u64;
    path.iter()
        .map(|turn| {
            key = (key ^ u64::from(*turn)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
            key
        })
        .collect()
}

fn path() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(0u8..2, 1..9),
        (0u8..2, 1usize..150).prop_map(|(turn, length)| vec![turn; length]),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let insert = (0usize..ENDPOINTS, path(), 1usize..70)
        .prop_map(|(endpoint, path, piece)| Op::Insert { endpoint, path, piece });
    prop_oneof![
        12 => insert,
        1 => (0usize..ENDPOINTS).prop_map(|endpoint| Op::Forget { endpoint }),
        1 => (0usize..ENDPOINTS, 0u64..200)
            .prop_map(|(endpoint, most)| Op::Resize { endpoint, most }),
    ]
}

/// Few, but in two groups.
const ENDPOINTS: usize = 5;
const PLACES: [usize; ENDPOINTS] = [0, 1, 127, 128, 200];

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn lookups_say_what_a_walk_over_plain_lists_says(
        ops in prop::collection::vec(op(), 1..60),
        asked in prop::collection::vec(path(), 1..12),
        most_entries in 10u32..400,
    ) {
        let mut index = Index::new(most_entries);
        let mut plain = vec![Plain::default(); ENDPOINTS];
        for (place, plain) in PLACES.iter().zip(&mut plain) {
            index.join(*place, 100);
            plain.most = 100;
        }
        let share = most_entries as usize / ENDPOINTS;
        for op in ops {
            match op {
                Op::Insert { endpoint, path, piece } => {
                    let keys = keys_of(&path);
                    let mut from = 0;
                    while from < keys.len() {
                        from = index.insert(PLACES[endpoint], &keys, from, piece);
                    }
                    plain[endpoint].insert(&keys, share);
                }
                Op::Forget { endpoint } => {
                    while !index.forget(PLACES[endpoint], 3) {}
                    index.join(PLACES[endpoint], plain[endpoint].most);
                    plain[endpoint].list.clear();
                }
                Op::Resize { endpoint, most } => {
                    index.join(PLACES[endpoint], most);
                    plain[endpoint].most = most;
                }
            }
            let held: usize = plain.iter().map(|plain| plain.list.len()).sum();
            prop_assert_eq!(index.len(), held);
        }
        let mut depths = vec![9; 201];
        for path in asked {
            let keys = keys_of(&path);
            index.lookup(&keys, &mut depths);
            for (place, plain) in PLACES.iter().zip(&plain) {
                prop_assert_eq!(depths[*place], plain.depth(&keys));
            }
        }
    }
}

#[test]
fn what_is_pushed_out_is_the_longest_unused_and_the_end_of_a_chain_before_its_beginning() {
    let mut index = Index::new(1_000);
    index.join(0, 10);
    let (old, new) = (keys_of(&[0; 6]), keys_of(&[1; 6]));
    index.insert(0, &old, 0, 64);
    index.insert(0, &new, 0, 64);
    let mut depths = [0];
    index.lookup(&old, &mut depths);
    assert_eq!(depths, [4], "ten blocks hold the new six and the first four of the old");
    index.lookup(&new, &mut depths);
    assert_eq!(depths, [6]);
}

#[test]
fn entries_stay_below_the_limit_however_many_endpoints_share_it() {
    let mut index = Index::new(100);
    for endpoint in 0..4 {
        index.join(endpoint, u64::MAX);
    }
    for round in 0..50u8 {
        for endpoint in 0..4 {
            index.insert(endpoint, &keys_of(&[round; 8]), 0, 64);
        }
        assert!(index.len() <= 100, "{} entries", index.len());
    }
}

#[test]
fn entries_stay_below_the_limit_when_more_endpoints_come_to_share_it() {
    let mut index = Index::new(100);
    for endpoint in 0..6 {
        index.join(endpoint, u64::MAX);
        for round in 0..30u8 {
            index.insert(endpoint, &keys_of(&[round; 8]), 0, 64);
            assert!(index.len() <= 100, "{} entries", index.len());
        }
        let mut depths = [0; 6];
        index.lookup(&keys_of(&[29; 8]), &mut depths);
        assert_eq!(depths[endpoint], 8, "the newcomer gets its share");
    }
    index.forget(5, 3);
    for round in 40..80u8 {
        index.insert(0, &keys_of(&[round; 8]), 0, 64);
        assert!(index.len() <= 100, "{} entries", index.len());
    }
}

#[test]
fn an_endpoint_that_left_takes_nothing_in() {
    let mut index = Index::new(4);
    for endpoint in 0..2 {
        index.join(endpoint, 100);
        index.insert(endpoint, &keys_of(&[0; 2]), 0, 64);
    }
    index.forget(0, 1);
    assert_eq!(index.insert(0, &keys_of(&[1; 4]), 0, 64), 4, "nothing is left to do");
    assert_eq!(index.len(), 3);
}

#[test]
fn an_endpoint_without_prefix_space_is_never_said_to_hold_one() {
    let mut index = Index::new(100);
    index.join(0, 0);
    let keys = keys_of(&[1; 8]);
    assert_eq!(index.insert(0, &keys, 0, 64), keys.len(), "nothing is left to do");
    assert_eq!(index.holders[0].newest, NONE);
}
