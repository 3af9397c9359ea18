//! Which endpoint holds which prompt prefix, as far as we can tell from what we sent there.
//!
//! Called by the pick (lookup) and after a request was sent (insert, in bounded pieces).
//! Never trusted further than an endpoint's own KV space: each endpoint has a list of its
//! prefixes, newest first, cut at the size of that space.
//!
//! Along a chain the sets of endpoints only shrink, because a longer prefix always stands
//! behind its shorter ones in an endpoint's list, and lists are cut at the back. So a lookup
//! need not walk a chain: where the sets at both ends of a stretch are equal, all between are.

use crate::prefix;
use hashbrown::HashMap;
use std::hash::{BuildHasher, Hasher};

/// Endpoints that share one map: a set of them is one number.
const GROUP: usize = 128;
/// Most prefixes dropped in one piece of an insert: a share may have shrunk to a fraction.
const MOST_DROPPED: usize = 512;
/// A chain that was put first lately stays where it is when it is used again: until what was put
/// before it since is more than this part of all that its endpoint may hold.
const LATELY: usize = 8;
/// The list's end.
const NONE: u32 = u32::MAX;

/// Spreads numbers over a map's buckets. No attack to fear: keys are hashes or our own numbers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spread(u64);

impl BuildHasher for Spread {
    type Hasher = Self;
    fn build_hasher(&self) -> Self {
        Self(0)
    }
}

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }
    fn write_u64(&mut self, number: u64) {
        let mixed = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }
}

/// One prefix in an endpoint's list.
#[derive(Clone, Copy, Debug)]
struct Node {
    key: u64,
    newer: u32,
    older: u32,
    blocks: u32,
    /// [`Holder::moves`] when it, or what it stands behind, was put first.
    put_at: u32,
}

/// An endpoint's prefixes, newest first.
#[derive(Debug)]
struct Holder {
    nodes: Vec<Node>,
    free: Vec<u32>,
    places: HashMap<u64, u32, Spread>,
    newest: u32,
    oldest: u32,
    blocks: u64,
    /// Times that a prefix was put to another place; wraps around.
    moves: u32,
    /// Blocks that its KV space can hold.
    most_blocks: u64,
    /// It is there, and has a share of the entries.
    joined: bool,
}

impl Holder {
    fn new() -> Self {
        Self {
            nodes: Vec::new(),
            free: Vec::new(),
            places: HashMap::with_hasher(Spread::default()),
            newest: NONE,
            oldest: NONE,
            blocks: 0,
            moves: 0,
            most_blocks: 0,
            joined: false,
        }
    }

    fn unlink(&mut self, place: u32) {
        let Node { newer, older, .. } = self.nodes[place as usize];
        match self.nodes.get_mut(newer as usize) {
            Some(node) => node.older = older,
            None => self.newest = older,
        }
        match self.nodes.get_mut(older as usize) {
            Some(node) => node.newer = newer,
            None => self.oldest = newer,
        }
    }

    /// Puts a node right behind `front`, or first when that is [`NONE`].
    fn link(&mut self, place: u32, front: u32) {
        self.moves = self.moves.wrapping_add(1);
        let put_at = self.nodes.get(front as usize).map_or(self.moves, |node| node.put_at);
        let older = match self.nodes.get_mut(front as usize) {
            Some(node) => std::mem::replace(&mut node.older, place),
            None => std::mem::replace(&mut self.newest, place),
        };
        match self.nodes.get_mut(older as usize) {
            Some(node) => node.newer = place,
            None => self.oldest = place,
        }
        let node = &mut self.nodes[place as usize];
        (node.newer, node.older, node.put_at) = (front, older, put_at);
    }

    fn add(&mut self, key: u64, blocks: u32, front: u32) -> u32 {
        let node = Node { key, newer: NONE, older: NONE, blocks, put_at: 0 };
        let place = if let Some(place) = self.free.pop() {
            self.nodes[place as usize] = node;
            place
        } else {
            self.nodes.push(node);
            (self.nodes.len() - 1) as u32
        };
        self.places.insert(key, place);
        self.blocks += u64::from(blocks);
        self.link(place, front);
        place
    }

    /// The longest of `keys` that it holds and that may stay where it is, and how many that
    /// covers; else none. Since it holds no prefix without its shorter ones, it is bisected.
    fn stays(&self, keys: &[u64], share: usize) -> (u32, usize) {
        let held = keys.partition_point(|key| self.places.contains_key(key));
        let longest = held.checked_sub(1).and_then(|at| self.places.get(&keys[at]));
        let Some(place) = longest.copied() else { return (NONE, 0) };
        let moves = self.moves.wrapping_sub(self.nodes[place as usize].put_at);
        let each = self.blocks.div_ceil(self.places.len() as u64).max(1);
        let room = self.most_blocks / each;
        let lately = u64::from(moves) < room.min(share as u64) / LATELY as u64;
        if lately { (place, held) } else { (NONE, 0) }
    }

    /// Drops the oldest prefix and returns its key.
    fn drop_oldest(&mut self) -> Option<u64> {
        let place = self.oldest;
        let node = *self.nodes.get(place as usize)?;
        self.unlink(place);
        self.places.remove(&node.key);
        self.blocks -= u64::from(node.blocks);
        self.free.push(place);
        Some(node.key)
    }
}

/// The prefixes of all endpoints of a pool.
#[derive(Debug)]
pub(crate) struct Index {
    groups: Vec<HashMap<u64, u128, Spread>>,
    holders: Vec<Holder>,
    entries: usize,
    most_entries: usize,
    /// Endpoints that share the entries.
    joined: usize,
    /// Who gives next, see [`Self::drop_above_share`].
    giver: usize,
}

impl Index {
    pub(crate) fn new(most_entries: u32) -> Self {
        // Grown by hand it would be rehashed under the pool's lock, for tens of milliseconds.
        let first = HashMap::with_capacity_and_hasher(most_entries as usize, Spread::default());
        let (groups, holders, most_entries) = (vec![first], Vec::new(), most_entries as usize);
        Self { groups, holders, entries: 0, most_entries, joined: 0, giver: 0 }
    }

    /// An endpoint joins, or its KV space is known better. 0 blocks: it keeps no prefixes.
    pub(crate) fn join(&mut self, endpoint: usize, most_blocks: u64) {
        while self.holders.len() <= endpoint {
            self.holders.push(Holder::new());
        }
        while self.groups.len() * GROUP <= endpoint {
            self.groups.push(HashMap::with_hasher(Spread::default()));
        }
        let holder = &mut self.holders[endpoint];
        self.joined += usize::from(!holder.joined);
        holder.joined = true;
        holder.most_blocks = most_blocks;
    }

    /// Entries that one endpoint may have.
    fn share(&self) -> usize {
        self.most_entries / self.joined.max(1)
    }

    /// All entries are taken, though this endpoint has not its share yet, because the shares
    /// have shrunk: the next endpoint above its share gives one.
    fn drop_above_share(&mut self) -> bool {
        let share = self.share();
        for _ in 0..self.holders.len() {
            let holder = &self.holders[self.giver];
            if holder.places.len() > if holder.joined { share } else { 0 } {
                return self.drop_oldest(self.giver);
            }
            self.giver = (self.giver + 1) % self.holders.len();
        }
        false
    }

    /// Forgets up to `most` prefixes of an endpoint that left. True when none is left.
    pub(crate) fn forget(&mut self, endpoint: usize, most: usize) -> bool {
        if let Some(holder) = self.holders.get_mut(endpoint) {
            self.joined -= usize::from(holder.joined);
            holder.joined = false;
        }
        for _ in 0..most {
            if !self.drop_oldest(endpoint) {
                return true;
            }
        }
        self.holders.get(endpoint).is_none_or(|holder| holder.newest == NONE)
    }

    fn drop_oldest(&mut self, endpoint: usize) -> bool {
        let Some(key) = self.holders.get_mut(endpoint).and_then(Holder::drop_oldest) else {
            return false;
        };
        self.entries -= 1;
        let (sets, bit) = (&mut self.groups[endpoint / GROUP], endpoint % GROUP);
        if let Some(set) = sets.get_mut(&key) {
            *set &= !(1 << bit);
            if *set == 0 {
                sets.remove(&key);
            }
        }
        true
    }

    /// Tells that `endpoint` holds the prefixes `keys[from..from + most]`; those before `from`
    /// were told already. Returns where to go on; `keys.len()` when all is done.
    pub(crate) fn insert(
        &mut self,
        endpoint: usize,
        keys: &[u64],
        from: usize,
        most: usize,
    ) -> usize {
        // What an endpoint that left was sent is of no use, and it has no share to put it in.
        let holder = self.holders.get(endpoint).filter(|holder| holder.joined);
        let Some(holder) = holder else { return keys.len() };
        let (mut front, from) = if from == 0 {
            holder.stays(keys, self.share())
        } else {
            // What lies behind a prefix that was dropped meanwhile may not be told.
            let Some(place) = holder.places.get(&keys[from - 1]) else { return keys.len() };
            (*place, from)
        };
        let to = keys.len().min(from + most);
        let mut dropped = 0;
        for (at, key) in keys.iter().enumerate().take(to).skip(from) {
            let blocks = (prefix::blocks(at + 1) - prefix::blocks(at)) as u32;
            let holder = &mut self.holders[endpoint];
            if let Some(&place) = holder.places.get(key) {
                holder.unlink(place);
                holder.link(place, front);
                front = place;
                continue;
            }
            while self.is_full_for(endpoint, blocks) {
                // The list's end is this chain itself: it is longer than the space.
                if self.holders[endpoint].oldest == front || !self.drop_oldest(endpoint) {
                    return keys.len();
                }
                dropped += 1;
                if dropped > MOST_DROPPED {
                    return at;
                }
            }
            if self.entries >= self.most_entries && !self.drop_above_share() {
                return keys.len();
            }
            front = self.holders[endpoint].add(*key, blocks, front);
            self.entries += 1;
            *self.groups[endpoint / GROUP].entry(*key).or_insert(0) |= 1 << (endpoint % GROUP);
        }
        to
    }

    fn is_full_for(&self, endpoint: usize, blocks: u32) -> bool {
        let holder = &self.holders[endpoint];
        holder.blocks + u64::from(blocks) > holder.most_blocks
            || holder.places.len() >= self.share()
    }

    /// Writes to `depths[e]` how many of `keys`, from the first on, endpoint `e` holds.
    pub(crate) fn lookup(&self, keys: &[u64], depths: &mut [u32]) {
        depths.fill(0);
        for (sets, depths) in self.groups.iter().zip(depths.chunks_mut(GROUP)) {
            let Some(first) = keys.first().and_then(|key| sets.get(key)) else { continue };
            let last = keys.last().and_then(|key| sets.get(key)).map_or(0, |set| set & first);
            let mut found = Found { sets, keys, depths };
            found.mark(last, keys.len());
            found.narrow(1, keys.len(), *first, last);
        }
    }

    /// Entries in all: prefixes, counted once for each endpoint that holds them.
    pub(crate) fn len(&self) -> usize {
        self.entries
    }
}

/// A lookup under way in one group.
struct Found<'a> {
    sets: &'a HashMap<u64, u128, Spread>,
    keys: &'a [u64],
    depths: &'a mut [u32],
}

impl Found<'_> {
    fn mark(&mut self, mut set: u128, depth: usize) {
        while set != 0 {
            if let Some(place) = self.depths.get_mut(set.trailing_zeros() as usize) {
                *place = depth as u32;
            }
            set &= set - 1;
        }
    }

    /// `at_low` holds the first `low` keys, `at_high` the first `high`: those that are only in
    /// the first set end somewhere between.
    fn narrow(&mut self, low: usize, high: usize, at_low: u128, at_high: u128) {
        if at_low == at_high {
            return;
        }
        if high - low <= 1 {
            return self.mark(at_low & !at_high, low);
        }
        let middle = low.midpoint(high);
        let at_middle =
            self.sets.get(&self.keys[middle - 1]).map_or(at_high, |set| set & at_low | at_high);
        self.narrow(low, middle, at_low, at_middle);
        self.narrow(middle, high, at_middle, at_high);
    }
}

#[cfg(test)]
mod tests;
