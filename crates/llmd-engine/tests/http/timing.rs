//! The times that a client sees are the model's: exactly in the engine's own time, and never
//! shorter over the socket. How much longer depends on the machine, so only liveness bounds it.

use crate::fixture::{CHAT, Running, chat, facts};
use llmd_perf::{itl_us, prefill_us, request_us};
use serde_json::json;
use std::time::{Duration, Instant};

const PROMPT_WORDS: usize = 800;
const ANSWER_TOKENS: u32 = 40;

#[tokio::test]
async fn a_lone_request_takes_the_predicted_time() {
    let facts = facts();
    let engine = Running::start(facts.clone()).await;
    let more = json!({"max_tokens": ANSWER_TOKENS, "stream": true});
    let request = chat(PROMPT_WORDS, &more);
    let tokens = request["messages"].to_string().len().div_ceil(4) as u64;
    let itl = itl_us(&facts, 1, tokens);
    let ttft = request_us(&facts) + prefill_us(&facts, tokens, 0, 0, 0) + itl;
    let whole = ttft + f64::from(ANSWER_TOKENS - 1) * itl;

    let asked = Instant::now();
    let mut client = engine.open(CHAT, &request).await;
    client.wait_for("data: ").await.unwrap();
    let first = asked.elapsed();
    client.wait_for("[DONE]").await.unwrap();
    let last = asked.elapsed();
    for (found, predicted) in [(first, ttft), (last, whole)] {
        let predicted = Duration::from_micros(predicted as u64);
        assert!(found >= predicted, "{found:?} is less than {predicted:?}");
        assert!(found <= predicted + Duration::from_secs(5), "{found:?} against {predicted:?}");
    }
    for (name, sum, count) in [
        ("time_to_first_token", ttft, 1.0),
        ("inter_token_latency", whole - ttft, f64::from(ANSWER_TOKENS - 1)),
        ("e2e_request_latency", whole, 1.0),
    ] {
        let found = engine.metric(&format!("vllm:{name}_seconds_sum"), "").await * 1e6;
        assert!((found - sum).abs() <= 60.0, "{name}: {found} us against {sum} us");
        let found = engine.metric(&format!("vllm:{name}_seconds_count"), "").await;
        assert!((found - count).abs() < 1e-9);
    }
}

#[tokio::test]
async fn speed_slows_it_down() {
    let mut sums = Vec::new();
    for speed in [1.0, 0.25] {
        let engine = Running::start(llmd_types::ReplicaFacts { speed, ..facts() }).await;
        engine.post(CHAT, &chat(PROMPT_WORDS, &json!({"max_tokens": 3}))).await;
        sums.push(engine.metric("vllm:e2e_request_latency_seconds_sum", "").await);
    }
    assert!((sums[1] / sums[0] - 4.0).abs() < 0.01, "{sums:?}");
}
