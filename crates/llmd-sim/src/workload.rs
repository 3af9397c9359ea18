//! What is asked of a simulated fleet, and when: jobs with real prompt bytes, so that prefix
//! keys tell prompts apart as in the router, and at the same places.

use llmd_sched::{Rng, prefix};
use llmd_types::Micros;

/// Bytes of a token in simulated prompts; a key stands for 16 tokens.
pub const BYTES_PER_TOKEN: u32 = 4;

/// One request to come.
#[derive(Clone, Debug)]
pub struct Job {
    /// Its prompt's length.
    pub prompt_tokens: u32,
    /// A key for each block of the prompt's bytes, for engines.
    pub blocks: Vec<u64>,
    /// Those that a router makes.
    pub keys: Vec<u64>,
    /// Tokens of its answer.
    pub output_tokens: u32,
    /// Whether the answer is streamed.
    pub stream: bool,
    /// See [`llmd_sched::Arrival::flow`].
    pub flow: u64,
}

impl Job {
    /// A streamed job whose prompt starts with `shared` tokens that all prompts of `family`
    /// share, and goes on with `own` tokens that no other has.
    pub fn new(family: u64, shared: u32, own: u32, output_tokens: u32, rng: &mut Rng) -> Self {
        let mut bytes = Vec::new();
        fill(&mut Rng::seeded(family), shared, &mut bytes);
        fill(&mut Rng::seeded(rng.next_u64()), own, &mut bytes);
        let mut key = prefix::seed("simulated");
        let (pieces, _) = bytes.as_chunks::<{ prefix::BLOCK_BYTES }>();
        let mut blocks = Vec::with_capacity(pieces.len());
        for piece in pieces {
            key = prefix::link(key, piece);
            blocks.push(key);
        }
        let mut keys = Vec::new();
        prefix::keep(&blocks, &mut keys);
        let prompt_tokens = shared + own;
        Self { prompt_tokens, blocks, keys, output_tokens, stream: true, flow: 0 }
    }
}

fn fill(rng: &mut Rng, tokens: u32, bytes: &mut Vec<u8>) {
    for _ in 0..tokens {
        bytes.extend_from_slice(&rng.next_u64().to_le_bytes()[..BYTES_PER_TOKEN as usize]);
    }
}

/// When jobs come, in their order.
#[derive(Clone, Debug)]
pub enum Arrivals {
    /// At stated times, which do not fall.
    At(Vec<Micros>),
    /// So many at once; each that ends lets the next one in. 1 is one after the other.
    Closed(usize),
}

impl Arrivals {
    /// `count` arrivals of a Poisson process with so many a second.
    pub fn poisson(count: usize, per_second: f64, rng: &mut Rng) -> Self {
        let mut now = Micros::ZERO;
        let mut times = Vec::with_capacity(count);
        for _ in 0..count {
            now += Micros::from_f64(exponential(rng) * 1e6 / per_second);
            times.push(now);
        }
        Self::At(times)
    }
}

/// A number from the exponential distribution of mean 1, by von Neumann's method: it needs
/// comparisons only, where a logarithm could differ between machines in its last bit.
fn exponential(rng: &mut Rng) -> f64 {
    let mut whole = 0.0;
    loop {
        let first = rng.unit();
        let (mut last, mut falls) = (first, 0);
        loop {
            let next = rng.unit();
            if next >= last {
                break;
            }
            (last, falls) = (next, falls + 1);
        }
        if falls % 2 == 0 {
            return whole + first;
        }
        whole += 1.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_come_at_the_stated_rate_and_are_spread_as_a_poisson_process() {
        let mut rng = Rng::seeded(3);
        let draws: Vec<f64> = (0..20_000).map(|_| exponential(&mut rng)).collect();
        let mean = draws.iter().sum::<f64>() / 20_000.0;
        let longer = draws.iter().filter(|draw| **draw > 1.0).count() as f64 / 20_000.0;
        assert!((mean - 1.0).abs() < 0.03, "{mean}");
        assert!((longer - 0.3679).abs() < 0.015, "{longer} of them longer than the mean");
    }

    #[test]
    fn prompts_of_one_family_share_their_first_keys_and_no_other() {
        let mut rng = Rng::seeded(3);
        let first = Job::new(1, 2_048, 256, 16, &mut rng);
        let second = Job::new(1, 2_048, 256, 16, &mut rng);
        let third = Job::new(2, 2_048, 256, 16, &mut rng);
        assert_eq!((first.blocks.len(), first.keys.len()), (144, 45));
        assert_eq!(first.blocks[..128], second.blocks[..128]);
        assert_eq!(first.keys[..44], second.keys[..44]);
        assert!(first.blocks[128..].iter().all(|key| !second.blocks.contains(key)));
        assert!(first.blocks.iter().all(|key| !third.blocks.contains(key)));
    }
}
