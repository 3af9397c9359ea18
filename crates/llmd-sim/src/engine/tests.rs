//! The engine's rules one by one in virtual time, and its laws under random traffic.

use super::{Engine, EngineEvent, Prompt};
use llmd_perf::{itl_us, prefill_us, request_us};
use llmd_types::{Micros, ReplicaFacts, RequestId};
use std::sync::Arc;

/// A small engine in round numbers: 1,000 us for a step's weights, 100 us a token.
pub(super) fn facts() -> ReplicaFacts {
    ReplicaFacts {
        weight_bytes: 1e9,
        weight_bandwidth: 1e12,
        flops_per_token: 1e9,
        gemm_flops: 1e13,
        gemm_half_tokens: 5.0,
        kv_bytes_per_token: 1e5,
        kv_bandwidth: 1e12,
        attention_flops_per_pair: 1e5,
        attention_flops: 1e14,
        step_us: 100.0,
        sequence_us: 2.0,
        request_us: 700.0,
        max_batched_tokens: 64,
        max_sequences: 4,
        kv_tokens: 1_024,
        block_size: 16,
        max_model_len: 4_096,
        ..ReplicaFacts::neutral()
    }
}

pub(super) fn engine(facts: ReplicaFacts) -> Engine {
    Engine::new(Arc::new(facts))
}

/// A prompt whose blocks are those of `text`, one letter a block; the rest is its own.
fn prompt(tokens: u32, text: &str) -> Prompt {
    let mut chain = 0u64;
    let keys = text.bytes().map(|letter| {
        chain = chain.wrapping_mul(31).wrapping_add(u64::from(letter));
        chain
    });
    Prompt { tokens, keys: keys.collect() }
}

/// Runs until nothing is left to do.
pub(super) fn run(engine: &mut Engine) -> Vec<EngineEvent> {
    let mut events = Vec::new();
    while let Some(at) = engine.next_event_at() {
        engine.advance(at, &mut events);
    }
    events
}

fn submit(engine: &mut Engine, at: u64, id: u64, prompt: Prompt, max_tokens: u32) {
    engine.submit(Micros(at), RequestId(id), prompt, max_tokens).unwrap();
}

fn token_times(events: &[EngineEvent], wanted: u64) -> Vec<u64> {
    let times = events.iter().filter_map(|event| match *event {
        EngineEvent::Token { id, at, .. } if id.0 == wanted => Some(at.0),
        _ => None,
    });
    times.collect()
}

fn cached(events: &[EngineEvent], wanted: u64) -> u32 {
    let found = events.iter().find_map(|event| match *event {
        EngineEvent::Finished { id, cached, .. } if id.0 == wanted => Some(cached),
        _ => None,
    });
    found.unwrap()
}

fn near(found: u64, expected: f64, tolerance: f64) {
    assert!((found as f64 - expected).abs() <= tolerance, "{found} != {expected}");
}

#[test]
fn a_lone_request_takes_what_the_formulas_say_and_one_step_of_lag() {
    for (tokens, speed) in [(10, 1.0), (64, 1.0), (200, 1.0), (200, 0.1)] {
        let facts = ReplicaFacts { speed, ..facts() };
        let mut engine = engine(facts.clone());
        submit(&mut engine, 5_000, 1, Prompt::unique(tokens), 4);
        let times = token_times(&run(&mut engine), 1);
        let itl = |context: u32| itl_us(&facts, 1, u64::from(context));
        let ttft = request_us(&facts) + prefill_us(&facts, u64::from(tokens), 0, 0, 0);
        near(times[0], 5_000.0 + ttft + itl(tokens), 5.0);
        for k in 1..4 {
            // Token k was computed behind `tokens + k - 1` others, and is seen a step later.
            near(times[k] - times[k - 1], itl(tokens + k as u32), 2.0);
        }
    }
}

#[test]
fn speed_scales_all_times() {
    let times = |speed| {
        let mut engine = engine(ReplicaFacts { speed, ..facts() });
        for id in 0..6 {
            submit(&mut engine, 0, id, Prompt::unique(50), 5);
        }
        let events = run(&mut engine);
        (0..6).flat_map(|id| token_times(&events, id)).collect::<Vec<_>>()
    };
    for (slow, fast) in times(0.25).into_iter().zip(times(1.0)) {
        near(slow, 4.0 * fast as f64, 4.0 * 20.0);
    }
}

#[test]
fn a_step_takes_running_decodes_first_and_fills_up_with_the_next_prompts() {
    let facts = facts();
    let mut engine = engine(facts.clone());
    submit(&mut engine, 0, 1, Prompt::unique(10), 100);
    let mut events = Vec::new();
    engine.advance(Micros(20_000), &mut events);
    submit(&mut engine, 20_000, 2, Prompt::unique(100), 2);
    events.extend(run(&mut engine));
    let first = token_times(&events, 1);
    let gaps: Vec<u64> = first.windows(2).map(|pair| pair[1] - pair[0]).collect();
    // Two steps carry the other prompt: 63 tokens beside the decode, then 37 beside it.
    let slow: Vec<u64> = gaps.iter().copied().filter(|gap| *gap > 2_000).collect();
    assert_eq!(slow.len(), 2, "{gaps:?}");
    near(slow[0], 100.0 + 4.0 + 100.0 * (64.0 + 5.0), 25.0);
    near(slow[1], 100.0 + 4.0 + 100.0 * (38.0 + 5.0), 25.0);
}

#[test]
fn waiting_prompts_enter_first_come_first_served_and_never_above_the_limit() {
    let mut engine = engine(facts());
    for id in 0..8 {
        submit(&mut engine, 0, id, Prompt::unique(16), 10);
    }
    let mut events = Vec::new();
    engine.advance(Micros(5_000), &mut events);
    let load = engine.reported(Micros(5_000));
    assert_eq!((load.running, load.waiting), (Some(4), Some(4)));
    events.extend(run(&mut engine));
    let firsts: Vec<u64> = (0..8).map(|id| token_times(&events, id)[0]).collect();
    assert!(firsts.is_sorted(), "{firsts:?}");
    assert!(firsts[4] > firsts[3]);
}

#[test]
fn a_request_in_the_front_end_is_not_reported_until_it_is_ready() {
    let mut engine = engine(facts());
    submit(&mut engine, 0, 1, Prompt::unique(16), 1);
    assert_eq!(engine.reported(Micros(699)).waiting, Some(0));
    assert_eq!(engine.reported(Micros(700)).waiting, Some(1));
}

#[test]
fn whole_blocks_of_a_known_prefix_are_not_computed_again() {
    let facts = facts();
    let mut engine = engine(facts.clone());
    submit(&mut engine, 0, 1, prompt(60, "abc"), 1);
    submit(&mut engine, 100_000, 2, prompt(60, "abd"), 1);
    let events = run(&mut engine);
    assert_eq!(cached(&events, 1), 0);
    assert_eq!(cached(&events, 2), 32, "two of its three whole blocks");
    let lag = itl_us(&facts, 1, 60);
    let expected = request_us(&facts) + prefill_us(&facts, 28, 32, 0, 0) + lag;
    near(token_times(&events, 2)[0], 100_000.0 + expected, 3.0);
    let counters = engine.counters();
    assert_eq!((counters.prefix_query_tokens, counters.prefix_hit_tokens), (120, 32));
    assert_eq!((counters.prompt_tokens, counters.generation_tokens), (120, 2));
}

#[test]
fn the_last_token_of_a_known_prompt_is_computed_all_the_same() {
    let mut engine = engine(facts());
    submit(&mut engine, 0, 1, prompt(48, "abc"), 1);
    submit(&mut engine, 100_000, 2, prompt(48, "abc"), 1);
    assert_eq!(cached(&run(&mut engine), 2), 32, "the third block holds the last token");
}

#[test]
fn without_prefix_caching_nothing_is_found() {
    let mut engine = engine(ReplicaFacts { prefix_caching: false, ..facts() });
    submit(&mut engine, 0, 1, prompt(60, "abc"), 1);
    submit(&mut engine, 100_000, 2, prompt(60, "abc"), 1);
    assert_eq!(cached(&run(&mut engine), 2), 0);
    assert_eq!(engine.counters().prefix_query_tokens, 0);
}

#[test]
fn the_prefix_that_was_idle_longest_is_evicted_first_and_from_its_end() {
    // Eight blocks. Each request holds three (the last one not whole).
    let mut engine = engine(ReplicaFacts { kv_tokens: 128, ..facts() });
    submit(&mut engine, 0, 1, prompt(40, "ab"), 1);
    submit(&mut engine, 100_000, 2, prompt(40, "xy"), 1);
    submit(&mut engine, 200_000, 3, prompt(40, "pq"), 1); // the two unused and b's tail block
    submit(&mut engine, 300_000, 4, prompt(40, "ab"), 1);
    let events = run(&mut engine);
    assert_eq!(cached(&events, 4), 32, "only the block without a key was taken");
    submit(&mut engine, 400_000, 5, Prompt::unique(16), 1);
    submit(&mut engine, 500_000, 6, prompt(40, "xy"), 1);
    submit(&mut engine, 600_000, 7, prompt(40, "ab"), 1);
    let events = run(&mut engine);
    assert_eq!(cached(&events, 6), 16, "x outlives y");
    assert_eq!(cached(&events, 7), 32, "used later than x and y");
}

#[test]
fn when_space_runs_out_the_newest_is_thrown_back_and_still_answers_in_full() {
    // Four blocks: two sequences of 24 tokens fit, but not with 20 more each.
    let mut engine = engine(ReplicaFacts { kv_tokens: 64, ..facts() });
    submit(&mut engine, 0, 1, Prompt::unique(24), 20);
    submit(&mut engine, 0, 2, Prompt::unique(24), 20);
    let events = run(&mut engine);
    assert_eq!(token_times(&events, 1).len(), 20);
    assert_eq!(token_times(&events, 2).len(), 20);
    assert!(engine.counters().preemptions >= 1);
    assert!(token_times(&events, 1).last() < token_times(&events, 2).last());
    let longest = |id| token_times(&events, id).windows(2).map(|p| p[1] - p[0]).max().unwrap();
    assert!(longest(2) > 3 * longest(1), "the older one goes on undisturbed");
}

#[test]
fn what_was_thrown_back_goes_on_before_those_that_wait() {
    let two = ReplicaFacts { kv_tokens: 64, max_sequences: 2, ..facts() };
    let mut engine = engine(two);
    submit(&mut engine, 0, 1, Prompt::unique(24), 20);
    submit(&mut engine, 0, 2, Prompt::unique(24), 20);
    submit(&mut engine, 0, 3, Prompt::unique(8), 1);
    let events = run(&mut engine);
    assert!(engine.counters().preemptions >= 1);
    let ends = token_times(&events, 1).last().copied();
    assert!(token_times(&events, 3).first().copied() > ends, "one block was free for it before");
}

#[test]
fn a_prompt_enters_only_when_there_is_space_for_all_of_it() {
    let mut engine = engine(ReplicaFacts { kv_tokens: 128, ..facts() });
    submit(&mut engine, 0, 1, Prompt::unique(60), 4);
    submit(&mut engine, 0, 2, Prompt::unique(70), 4);
    submit(&mut engine, 0, 3, Prompt::unique(8), 4);
    let events = run(&mut engine);
    let (one, two, three) =
        (token_times(&events, 1), token_times(&events, 2), token_times(&events, 3));
    assert!(two[0] > *one.last().unwrap(), "five blocks do not fit beside four in eight");
    assert!(three[0] >= two[0], "a short prompt does not overtake");
}

#[test]
fn a_cancelled_request_frees_its_slot_at_once_and_is_silent() {
    let mut engine = engine(ReplicaFacts { max_sequences: 1, ..facts() });
    submit(&mut engine, 0, 1, Prompt::unique(32), 1_000);
    submit(&mut engine, 0, 2, Prompt::unique(32), 1);
    let mut events = Vec::new();
    engine.advance(Micros(50_000), &mut events);
    assert!(engine.cancel(RequestId(1)));
    assert!(!engine.cancel(RequestId(1)));
    let after = run(&mut engine);
    assert!(after.iter().all(|event| event.id() == RequestId(2)));
    let started_by = 50_000.0 + itl_us(&facts(), 1, 1_000);
    near(token_times(&after, 2)[0], started_by + prefill_us(&facts(), 32, 0, 0, 0), 1_500.0);
    assert_eq!(engine.reported(Micros(0)).kv_usage, Some(0.0));
}

#[test]
fn a_request_can_be_cancelled_wherever_it_is() {
    let mut engine = engine(ReplicaFacts { max_sequences: 1, ..facts() });
    submit(&mut engine, 0, 1, Prompt::unique(32), 1_000);
    submit(&mut engine, 0, 2, Prompt::unique(32), 1_000);
    engine.advance(Micros(50_000), &mut Vec::new());
    submit(&mut engine, 50_000, 3, Prompt::unique(32), 1_000);
    for id in 1..=3 {
        assert!(engine.cancel(RequestId(id)), "{id}");
    }
    assert_eq!(run(&mut engine), []);
    // And when all its tokens are computed but the last is not seen yet.
    submit(&mut engine, 1_000_000, 4, Prompt::unique(10), 1);
    let seen = engine.next_event_at().unwrap() + Micros(2_500);
    engine.advance(seen, &mut Vec::new());
    assert!(engine.is_empty());
    assert!(engine.cancel(RequestId(4)));
    assert_eq!(run(&mut engine), []);
}

#[test]
fn what_cannot_fit_is_refused_and_an_answer_stops_at_the_limit() {
    let facts = ReplicaFacts { kv_tokens: 130, max_model_len: 1_000, ..facts() };
    let mut engine = engine(facts);
    assert_eq!(engine.context_limit(), 128, "whole blocks of KV space");
    let refused = engine.submit(Micros(0), RequestId(1), Prompt::unique(128), 1);
    assert_eq!(refused.unwrap_err().limit, 128);
    submit(&mut engine, 0, 2, Prompt::unique(120), 1_000);
    assert_eq!(token_times(&run(&mut engine), 2).len(), 8);
}

#[test]
fn a_late_caller_sees_each_thing_at_its_own_time() {
    let trace = |late: bool| {
        let mut engine = engine(facts());
        for id in 0..6 {
            submit(&mut engine, 0, id, Prompt::unique(50), 5);
        }
        let mut events = Vec::new();
        if late {
            engine.advance(Micros(1_000_000), &mut events);
        }
        events.extend(run(&mut engine));
        events
    };
    assert_eq!(trace(true), trace(false));
}

#[test]
fn keys_of_a_chain_over_smaller_blocks_are_taken_at_the_ends_of_own_blocks() {
    let chain: Vec<u64> = (1..=9).collect();
    let prompt = Prompt::from_chain(9 * 16 + 3, &chain, 16, 64);
    assert_eq!(prompt.keys[..], [4, 8]);
    assert_eq!(Prompt::from_chain(147, &chain, 16, 16).keys.len(), 9);
    assert_eq!(Prompt::from_chain(147, &chain, 16, 24).keys.len(), 0);
}
