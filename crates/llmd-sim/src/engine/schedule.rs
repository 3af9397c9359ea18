//! What the next step works on: the scheduling rules of the engine.

use super::sequence::Sequence;
use super::{Engine, whole_us};
use llmd_perf::Step;
use llmd_types::Micros;

impl Engine {
    /// Starts a step at `at` if there is anything to do.
    pub(super) fn start_step(&mut self, at: Micros) {
        while self.entering.front().is_some_and(|(ready_at, _)| *ready_at <= at) {
            self.waiting.extend(self.entering.pop_front().map(|(_, sequence)| sequence));
        }
        let mut plan = StepPlan { budget: self.facts.max_batched_tokens, step: Step::default() };
        // 1. What runs goes on, in order. 2. New prompts enter, unless space has just run out.
        let preempted = self.continue_running(&mut plan);
        if !preempted {
            self.admit_waiting(&mut plan);
        }
        if plan.budget < self.facts.max_batched_tokens {
            self.counters.steps += 1;
            self.step_ends_at = Some(at + whole_us(llmd_perf::step_us(&self.facts, &plan.step)));
        }
    }

    /// Gives each running sequence its tokens. Returns whether one was thrown back.
    fn continue_running(&mut self, plan: &mut StepPlan) -> bool {
        let mut preempted = false;
        let mut index = 0;
        while index < self.running.len() && plan.budget > 0 {
            let tokens = self.running[index].remaining().min(plan.budget);
            let need = self.blocks_missing(&self.running[index], tokens);
            while need > self.blocks.free() && index < self.running.len() {
                preempted |= self.preempt_newest();
            }
            if let Some(sequence) = self.running.get_mut(index) {
                self.blocks.take(need, &mut sequence.blocks);
                plan.add(sequence, tokens, self.facts.window_tokens);
                self.blocks.name(sequence, self.facts.block_size);
            }
            index += 1;
        }
        preempted
    }

    /// Blocks that `sequence` lacks to compute `tokens` more.
    fn blocks_missing(&self, sequence: &Sequence, tokens: u32) -> u32 {
        let whole = (sequence.computed + tokens).div_ceil(self.facts.block_size);
        whole.saturating_sub(sequence.blocks.len() as u32)
    }

    /// The newest running sequence loses its space and goes back to the head of the queue.
    fn preempt_newest(&mut self) -> bool {
        let Some(mut sequence) = self.running.pop() else { return false };
        self.blocks.release(&mut sequence.blocks);
        self.counters.preemptions += 1;
        self.waiting.push_front(sequence);
        true
    }

    /// Lets waiting prompts in, first come first served: one enters only when there is space
    /// for all of it, and none overtakes.
    fn admit_waiting(&mut self, plan: &mut StepPlan) {
        while plan.budget > 0 && self.running.len() < self.facts.max_sequences as usize {
            let Some(mut sequence) = self.waiting.pop_front() else { return };
            if !self.hold_prompt(&mut sequence) {
                self.waiting.push_front(sequence);
                return;
            }
            let tokens = sequence.remaining().min(plan.budget);
            plan.add(&mut sequence, tokens, self.facts.window_tokens);
            self.blocks.name(&sequence, self.facts.block_size);
            self.running.push(sequence);
        }
    }

    /// Takes the blocks of all that is known of a sequence, those found in the cache first.
    /// The last token is always computed: without it there is nothing to sample from.
    fn hold_prompt(&mut self, sequence: &mut Sequence) -> bool {
        let size = self.facts.block_size;
        let most = ((sequence.known() - 1) / size) as usize;
        let keys = &sequence.prompt.keys;
        let hits = self.blocks.find(&keys[..keys.len().min(most)]);
        let missing = sequence.known().div_ceil(size) - hits.blocks;
        if missing + hits.idle > self.blocks.free() {
            return false;
        }
        self.blocks.hold(&keys[..hits.blocks as usize], &mut sequence.blocks);
        self.blocks.take(missing, &mut sequence.blocks);
        sequence.computed = hits.blocks * size;
        if sequence.cached.is_none() {
            sequence.cached = Some(sequence.computed);
            if self.facts.prefix_caching {
                self.counters.prefix_query_tokens += u64::from(sequence.prompt.tokens);
                self.counters.prefix_hit_tokens += u64::from(sequence.computed);
            }
        }
        true
    }
}

/// A step in the making.
struct StepPlan {
    /// Tokens that it can still take.
    budget: u32,
    step: Step,
}

impl StepPlan {
    fn add(&mut self, sequence: &mut Sequence, tokens: u32, window: u32) {
        let past = u64::from(sequence.computed);
        if sequence.decodes() {
            self.step.add_decode(past, window);
        } else {
            self.step.add_chunk(tokens, past, window);
        }
        sequence.in_step = tokens;
        self.budget -= tokens;
    }
}
