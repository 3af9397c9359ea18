//! A request inside the engine: what it asks for and how far it has come.

use llmd_types::RequestId;
use std::sync::Arc;

/// A prompt, as far as timing and the prefix cache care.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// Its length in tokens.
    pub tokens: u32,
    /// One key for each whole block of the engine's block size, in order. A key stands for the
    /// whole prefix up to the end of its block: equal keys mean equal prefixes.
    pub keys: Arc<[u64]>,
}

impl Prompt {
    /// A prompt that shares nothing with any other.
    pub fn unique(tokens: u32) -> Self {
        Self { tokens, keys: Arc::default() }
    }

    /// From a chain over smaller blocks: every key at the end of a block of `block_size` tokens
    /// is taken. Where the sizes do not divide, nothing is shared.
    pub fn from_chain(tokens: u32, chain: &[u64], chain_block: u32, block_size: u32) -> Self {
        if chain_block == 0 || !block_size.is_multiple_of(chain_block) {
            return Self::unique(tokens);
        }
        let ratio = (block_size / chain_block) as usize;
        let whole = (tokens / block_size.max(1)) as usize;
        let ends = chain.iter().skip(ratio.saturating_sub(1)).step_by(ratio.max(1));
        Self { tokens, keys: ends.take(whole).copied().collect() }
    }
}

/// A request's state. Tokens count as computed when their KV is in place.
#[derive(Debug)]
pub(super) struct Sequence {
    pub(super) id: RequestId,
    pub(super) prompt: Prompt,
    /// Tokens that the whole answer will have.
    pub(super) answer: u32,
    pub(super) generated: u32,
    /// Tokens whose KV is in place; counted anew each time it is admitted.
    pub(super) computed: u32,
    /// Tokens that the running step computes.
    pub(super) in_step: u32,
    /// Prompt tokens found in the cache when it was first admitted.
    pub(super) cached: Option<u32>,
    pub(super) blocks: Vec<u32>,
}

impl Sequence {
    pub(super) fn new(id: RequestId, mut prompt: Prompt, answer: u32) -> Self {
        prompt.tokens = prompt.tokens.max(1);
        let blocks = Vec::new();
        Self { id, prompt, answer, generated: 0, computed: 0, in_step: 0, cached: None, blocks }
    }

    /// Tokens known so far: the prompt's and those generated.
    pub(super) fn known(&self) -> u32 {
        self.prompt.tokens + self.generated
    }

    /// Known tokens that are not computed yet; 1 for a sequence that decodes.
    pub(super) fn remaining(&self) -> u32 {
        self.known() - self.computed
    }

    /// Whether all it needs is one token at a time.
    pub(super) fn decodes(&self) -> bool {
        self.generated > 0 && self.remaining() == 1
    }

    /// Books the step's tokens; true when a new token came out.
    pub(super) fn end_step(&mut self) -> bool {
        if self.in_step == 0 {
            return false;
        }
        self.computed += self.in_step;
        self.in_step = 0;
        let whole = self.remaining() == 0;
        self.generated += u32::from(whole);
        whole
    }
}
