//! The KV space: blocks with holders, and the prefix cache that idle blocks make.
//!
//! A block whose last holder leaves keeps its key until it is taken for something else, the
//! longest idle first. Only whole prompt blocks have keys: an answer comes back as history in
//! other bytes, so it is not kept to be found.

use super::sequence::Sequence;
use std::collections::HashMap;

const NONE: u32 = u32::MAX;

#[derive(Debug)]
struct Block {
    key: Option<u64>,
    holders: u32,
    /// Neighbours in the list of idle blocks.
    before: u32,
    after: u32,
}

/// Blocks found for a chain of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hits {
    /// How many, from the first key on.
    pub(super) blocks: u32,
    /// Of these, how many nobody holds: they count as free space until held.
    pub(super) idle: u32,
}

#[derive(Debug)]
pub(super) struct BlockPool {
    total: u32,
    held: u32,
    /// Blocks used at least once; the others are made when first taken.
    blocks: Vec<Block>,
    /// Ends of the list of idle blocks: taken from the front, put back at the end.
    longest_idle: u32,
    last_idle: u32,
    /// Looked up, never walked: its order decides nothing.
    by_key: HashMap<u64, u32>,
}

impl BlockPool {
    pub(super) fn new(total: u32) -> Self {
        let total = total.min(NONE - 1);
        let (blocks, by_key) = (Vec::new(), HashMap::new());
        Self { total, held: 0, blocks, longest_idle: NONE, last_idle: NONE, by_key }
    }

    pub(super) fn total(&self) -> u32 {
        self.total
    }

    /// Blocks that nobody holds.
    pub(super) fn free(&self) -> u32 {
        self.total - self.held
    }

    /// Share of the blocks that are held.
    pub(super) fn usage(&self) -> f64 {
        f64::from(self.held) / f64::from(self.total.max(1))
    }

    /// How many of `keys`, from the first on, are there.
    pub(super) fn find(&self, keys: &[u64]) -> Hits {
        let mut hits = Hits { blocks: 0, idle: 0 };
        for index in keys.iter().map_while(|key| self.by_key.get(key)) {
            hits.blocks += 1;
            hits.idle += u32::from(self.blocks[*index as usize].holders == 0);
        }
        hits
    }

    /// Holds the blocks of `keys`, which `find` has found.
    pub(super) fn hold(&mut self, keys: &[u64], into: &mut Vec<u32>) {
        for key in keys {
            let Some(&index) = self.by_key.get(key) else { return };
            if self.blocks[index as usize].holders == 0 {
                self.unlink(index);
                self.held += 1;
            }
            self.blocks[index as usize].holders += 1;
            into.push(index);
        }
    }

    /// Holds `count` blocks for new content; the caller has seen that they are free.
    pub(super) fn take(&mut self, count: u32, into: &mut Vec<u32>) {
        for _ in 0..count.min(self.free()) {
            let index = self.fresh().unwrap_or_else(|| self.evict());
            self.blocks[index as usize].holders = 1;
            self.held += 1;
            into.push(index);
        }
    }

    /// Gives keys to the blocks that the sequence's step fills. A key that another block
    /// already has stays there.
    pub(super) fn name(&mut self, sequence: &Sequence, block_size: u32) {
        let first = (sequence.computed / block_size) as usize;
        let end = ((sequence.computed + sequence.in_step) / block_size) as usize;
        for at in first..end.min(sequence.prompt.keys.len()) {
            let (key, index) = (sequence.prompt.keys[at], sequence.blocks[at]);
            if self.blocks[index as usize].key.is_none() && !self.by_key.contains_key(&key) {
                self.by_key.insert(key, index);
                self.blocks[index as usize].key = Some(key);
            }
        }
    }

    /// Gives back all of `blocks`, the end of the prefix first, so that it is evicted first.
    pub(super) fn release(&mut self, blocks: &mut Vec<u32>) {
        for index in blocks.drain(..).rev() {
            let block = &mut self.blocks[index as usize];
            block.holders -= 1;
            if block.holders == 0 {
                self.held -= 1;
                self.link_last(index);
            }
        }
    }

    /// A block that was never used.
    fn fresh(&mut self) -> Option<u32> {
        let index = self.blocks.len() as u32;
        (index < self.total).then(|| {
            self.blocks.push(Block { key: None, holders: 0, before: NONE, after: NONE });
            index
        })
    }

    /// The longest idle block, without its key.
    fn evict(&mut self) -> u32 {
        let index = self.longest_idle;
        self.unlink(index);
        if let Some(key) = self.blocks[index as usize].key.take() {
            self.by_key.remove(&key);
        }
        index
    }

    fn link_last(&mut self, index: u32) {
        let before = std::mem::replace(&mut self.last_idle, index);
        self.blocks[index as usize].before = before;
        self.blocks[index as usize].after = NONE;
        match before {
            NONE => self.longest_idle = index,
            _ => self.blocks[before as usize].after = index,
        }
    }

    fn unlink(&mut self, index: u32) {
        let Block { before, after, .. } = self.blocks[index as usize];
        match before {
            NONE => self.longest_idle = after,
            _ => self.blocks[before as usize].after = after,
        }
        match after {
            NONE => self.last_idle = before,
            _ => self.blocks[after as usize].before = before,
        }
    }

    /// Checks every link and count against `holders`, the blocks of all sequences.
    #[cfg(test)]
    pub(super) fn check(&self, held_by_sequences: &[u32]) {
        let mut holders = vec![0; self.blocks.len()];
        for index in held_by_sequences {
            holders[*index as usize] += 1;
        }
        let found: Vec<u32> = self.blocks.iter().map(|b| b.holders).collect();
        assert_eq!(found, holders, "each holder is counted");
        let held = holders.iter().filter(|n| **n > 0).count() as u32;
        assert_eq!(self.held, held);
        let (mut idle, mut at, mut before) = (0, self.longest_idle, NONE);
        while at != NONE {
            assert_eq!(self.blocks[at as usize].before, before);
            assert_eq!(self.blocks[at as usize].holders, 0, "only idle blocks are in the list");
            (idle, before, at) = (idle + 1, at, self.blocks[at as usize].after);
        }
        assert_eq!(self.last_idle, before);
        assert_eq!(self.blocks.len() as u32, held + idle, "every block is held or idle");
        assert!(self.blocks.len() as u32 <= self.total);
        for (key, index) in &self.by_key {
            assert_eq!(self.blocks[*index as usize].key, Some(*key));
        }
    }
}
