//! The terms of the step formula one by one, each against arithmetic done by hand.

use crate::{Step, Workload, capacity, itl_us, prefill_tokens_per_second, prefill_us, step_us};
use llmd_types::ReplicaFacts;

/// Facts in round numbers, so that each term can be worked out by hand.
fn round() -> ReplicaFacts {
    ReplicaFacts {
        weight_bytes: 1e9,
        weight_bandwidth: 1e12, // 1,000 us to read the weights
        flops_per_token: 1e9,
        gemm_flops: 1e14, // 10 us a token
        gemm_half_tokens: 50.0,
        kv_bytes_per_token: 1e5,
        kv_bandwidth: 1e12, // 0.1 us a token of context
        attention_flops_per_pair: 1e5,
        attention_flops: 1e14, // 0.001 us a pair
        step_us: 100.0,
        sequence_us: 2.0,
        token_us: 0.5,
        max_batched_tokens: 1_000,
        max_sequences: 64,
        kv_tokens: 100_000,
        ..ReplicaFacts::neutral()
    }
}

fn close(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-6 * expected.abs().max(1.0), "{found} != {expected}");
}

#[test]
fn a_small_step_costs_the_weight_read_and_a_large_one_the_multiplication() {
    let facts = round();
    // 10 tokens: multiplication is 10 us x (10 + 50) = 600, less than the read of 1,000.
    close(itl_us(&facts, 10, 0), 100.0 + 10.0 * 2.5 + 1_000.0);
    // 100 tokens: 10 us x (100 + 50) = 1,500.
    close(itl_us(&facts, 100, 0), 100.0 + 100.0 * 2.5 + 1_500.0);
}

#[test]
fn decode_pays_for_context_and_for_the_window_only_up_to_its_size() {
    let facts = round();
    close(itl_us(&facts, 10, 5_000) - itl_us(&facts, 10, 0), 500.0);
    let windowed = ReplicaFacts {
        kv_bytes_per_token: 0.0,
        window_kv_bytes_per_token: 1e5,
        window_tokens: 128,
        ..round()
    };
    close(itl_us(&windowed, 10, 50_000) - itl_us(&windowed, 10, 0), 128.0);
}

#[test]
fn prefill_is_cut_into_chunks_and_pays_for_pairs_behind_cached_tokens() {
    let facts = round();
    let base = 100.0 + 2.0;
    // 1,500 tokens: a full chunk of 1,000 and one of 500.
    let full = base + 1_000.0 * 0.5 + 10.0 * 1_050.0;
    let last = base + 500.0 * 0.5 + 10.0 * 550.0;
    let pairs = 1_500.0 * (700.0 + 750.0) * 0.001;
    close(prefill_us(&facts, 1_500, 700, 0, 0), full + last + pairs);
    close(prefill_us(&facts, 0, 700, 0, 0), 0.0);
}

#[test]
fn a_prompt_beside_a_batch_gets_what_is_left_of_the_token_budget() {
    let facts = round();
    let alone = prefill_tokens_per_second(&facts, 0, 0);
    let beside = prefill_tokens_per_second(&facts, 60, 60 * 1_000);
    assert!(beside < alone * 0.8, "{beside} against {alone}");
}

#[test]
fn experts_are_read_in_the_share_that_tokens_visit() {
    let facts = ReplicaFacts { expert_bytes: 8e9, experts: 8, experts_per_token: 2, ..round() };
    let dense = itl_us(&round(), 1, 0);
    close(itl_us(&facts, 1, 0) - dense, 2_000.0);
    close(itl_us(&facts, 2, 0) - itl_us(&round(), 2, 0), 8_000.0 * (1.0 - 0.75 * 0.75));
}

#[test]
fn speed_divides_every_time() {
    let slow = ReplicaFacts { speed: 0.1, ..round() };
    let step = Step { decode_sequences: 7, context_tokens: 900, ..Step::default() };
    close(step_us(&slow, &step), 10.0 * step_us(&round(), &step));
}

#[test]
fn capacity_is_bound_by_kv_space_sequences_and_the_promised_itl() {
    let facts = round();
    let long = Workload { prompt_tokens: 9_000, output_tokens: 1_000 };
    assert_eq!(capacity(&facts, long, None).batch, 10, "100,000 KV tokens hold ten of 10,000");
    let short = Workload { prompt_tokens: 100, output_tokens: 100 };
    assert_eq!(capacity(&facts, short, None).batch, 64, "the engine's own limit");
    let promised = itl_us(&facts, 20, 20 * 150);
    assert_eq!(capacity(&facts, short, Some(promised)).batch, 20);
    assert_eq!(capacity(&facts, short, Some(1.0)).batch, 1, "a promise too tight still serves one");
    let too_long = Workload { prompt_tokens: 200_000, output_tokens: 1 };
    assert_eq!(capacity(&facts, too_long, None).requests_per_second.to_bits(), 0.0f64.to_bits());
}

#[test]
fn capacity_never_promises_more_than_prefill_or_decode_alone_could_do() {
    let facts = round();
    for (prompt_tokens, output_tokens) in [(2_000, 16), (16, 500), (500, 500), (1, 1), (1_000, 0)] {
        let workload = Workload { prompt_tokens, output_tokens };
        let found = capacity(&facts, workload, None);
        let prefill = found.prefill_tokens_per_second / f64::from(prompt_tokens);
        let decode = found.decode_tokens_per_second / f64::from(output_tokens.max(1));
        assert!(found.requests_per_second > 0.0);
        assert!(found.requests_per_second <= prefill * 1.01, "{workload:?} {found:?}");
        if output_tokens > 0 {
            assert!(found.requests_per_second <= decode * 1.01, "{workload:?} {found:?}");
        }
    }
}

#[test]
fn a_budget_no_larger_than_the_batch_is_shared_by_prompts_and_decode() {
    // 64 sequences fill the budget of 64 tokens, and yet 48 prompt tokens ride in each step: work
    // comes in as 3 prompt tokens to 1 generated, so 16 sequences decode at once.
    let facts = ReplicaFacts { max_batched_tokens: 64, kv_tokens: 1_000_000, ..round() };
    let found = capacity(&facts, Workload { prompt_tokens: 300, output_tokens: 100 }, None);
    let step = Step {
        decode_sequences: 16,
        context_tokens: 16 * 350,
        prefill_tokens: 48,
        prefill_sequences: 1,
        prefill_pairs: 300.0 * 300.0 / 2.0 * 48.0 / 300.0,
        ..Step::default()
    };
    close(found.requests_per_second, 1e6 / step_us(&facts, &step) / (300.0 / 48.0));
}
