//! What a client of the API sees.

use crate::fixture::{CHAT, COMPLETIONS, Running, chat, events, facts, object, streamed_text};
use llmd_testkit::Client;
use llmd_types::ReplicaFacts;
use serde_json::{Value, json};

#[tokio::test]
async fn models_are_listed_with_aliases_and_said_to_be_simulated() {
    let engine = Running::start(facts()).await;
    let reply = engine.get("/v1/models").await;
    assert_eq!(reply.header("x-llmd-ctl-simulated"), Some("true"));
    let models = object(&reply);
    let ids: Vec<&Value> = models["data"].as_array().unwrap().iter().map(|m| &m["id"]).collect();
    assert_eq!(ids, ["chat", "assistant"]);
    assert_eq!(models["data"][0]["max_model_len"], 16_000);
    assert_eq!(engine.get("/health").await.status, 200);
}

#[tokio::test]
async fn a_whole_answer_has_a_word_a_token_and_tells_its_usage() {
    let engine = Running::start(facts()).await;
    let mut request = chat(100, &json!({"max_tokens": 12}));
    request["model"] = json!("assistant");
    let reply = engine.post(CHAT, &request).await;
    assert_eq!(reply.status, 200);
    let answer = object(&reply);
    assert_eq!(answer["object"], "chat.completion");
    assert_eq!(answer["model"], "assistant");
    assert_eq!(answer["system_fingerprint"], "simulated-test-chip");
    let choice = &answer["choices"][0];
    assert_eq!((&choice["finish_reason"], &choice["index"]), (&json!("length"), &json!(0)));
    assert_eq!(choice["message"]["content"].as_str().unwrap().split(' ').count(), 12);
    // [{"content":"…","role":"user"}] is 499 bytes of content and 29 around them.
    let bytes = request["messages"].to_string().len();
    let prompt = bytes.div_ceil(4);
    let usage = json!({"prompt_tokens": prompt, "completion_tokens": 12,
        "total_tokens": prompt + 12, "prompt_tokens_details": {"cached_tokens": 0}});
    assert_eq!(answer["usage"], usage);
}

#[tokio::test]
async fn a_stream_brings_the_same_text_with_one_event_a_token() {
    let engine = Running::start(facts()).await;
    let whole = object(&engine.post(CHAT, &chat(10, &json!({"max_tokens": 9}))).await);
    let more = json!({"max_tokens": 9, "stream": true, "stream_options": {"include_usage": true}});
    let reply = engine.post(CHAT, &chat(10, &more)).await;
    assert!(reply.header("content-type").unwrap().starts_with("text/event-stream"));
    assert_eq!(reply.header("x-llmd-ctl-simulated"), Some("true"));
    let mut events = events(&reply);
    let usage = events.pop().unwrap();
    assert_eq!((&usage["choices"], &usage["usage"]["completion_tokens"]), (&json!([]), &json!(9)));
    assert_eq!(events.len(), 9);
    assert_eq!(json!(streamed_text(&events, 0)), whole["choices"][0]["message"]["content"]);
    assert_eq!(events[0]["choices"][0]["delta"]["role"], "assistant");
    let reasons: Vec<&Value> = events.iter().map(|e| &e["choices"][0]["finish_reason"]).collect();
    assert!(reasons[..8].iter().all(|reason| reason.is_null()));
    assert_eq!(reasons[8], "length");
    assert!(
        events.iter().all(|e| e["object"] == "chat.completion.chunk" && e["id"] == usage["id"])
    );
}

#[tokio::test]
async fn completions_answer_in_their_own_form() {
    let engine = Running::start(facts()).await;
    let request = json!({"model": "chat", "prompt": "one two three", "max_tokens": 4});
    let whole = object(&engine.post(COMPLETIONS, &request).await);
    assert_eq!(whole["object"], "text_completion");
    let mut request = request;
    request["stream"] = json!(true);
    let events = events(&engine.post(COMPLETIONS, &request).await);
    assert_eq!(events.len(), 4, "no usage where nobody asks for it");
    assert_eq!(json!(streamed_text(&events, 0)), whole["choices"][0]["text"]);
    request["stream"] = json!(false);
    request.as_object_mut().unwrap().remove("max_tokens");
    let whole = object(&engine.post(COMPLETIONS, &request).await);
    assert_eq!(whole["usage"]["completion_tokens"], 16, "the API's own default");
}

#[tokio::test]
async fn several_choices_have_texts_of_their_own() {
    let engine = Running::start(facts()).await;
    let more = json!({"max_tokens": 6, "n": 3});
    let whole = object(&engine.post(CHAT, &chat(80, &more)).await);
    let texts: Vec<&str> = (0..3)
        .map(|choice| whole["choices"][choice]["message"]["content"].as_str().unwrap())
        .collect();
    assert!(texts[0] != texts[1] && texts[1] != texts[2], "{texts:?}");
    assert_eq!(whole["usage"]["completion_tokens"], 18);
    let more = json!({"max_tokens": 6, "n": 3, "stream": true});
    let events = events(&engine.post(CHAT, &chat(80, &more)).await);
    assert_eq!(events.len(), 18);
    for (choice, text) in texts.into_iter().enumerate() {
        assert_eq!(streamed_text(&events, choice), text);
    }
}

#[tokio::test]
async fn a_known_prefix_is_found_by_its_bytes_in_whole_blocks() {
    let engine = Running::start(facts()).await;
    let cached = async |request: Value| {
        let answer = object(&engine.post(CHAT, &request).await);
        answer["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap()
    };
    let one = json!({"max_tokens": 1});
    assert_eq!(cached(chat(100, &one)).await, 0);
    // 496 of the common 499 bytes of words, with those before them, fill 8 blocks of 64 bytes.
    assert_eq!(cached(chat(200, &one)).await, 8 * 16);
    assert_eq!(cached(chat(200, &json!({"max_tokens": 1, "cache_salt": "mine"}))).await, 0);
    let tools = json!({"max_tokens": 1, "tools": [{"type": "function"}]});
    assert_eq!(cached(chat(200, &tools)).await, 0, "tools come first");
    let hits = engine.metric("vllm:prefix_cache_hits_total", "").await;
    assert_eq!(hits as u64, 128);
}

#[tokio::test]
async fn token_ids_are_prompts_too_and_mean_the_bytes_that_tokenize_tells() {
    let engine = Running::start(facts()).await;
    let text = json!({"model": "chat", "prompt": "x".repeat(254), "max_tokens": 1});
    let told = object(&engine.post("/tokenize", &text).await);
    assert_eq!(told["count"], 64, "254 letters and two quotes");
    let whole = object(&engine.post(COMPLETIONS, &text).await);
    assert_eq!(whole["usage"]["prompt_tokens"], 64);
    let mut ids = text.clone();
    ids["prompt"] = told["tokens"].clone();
    let whole = object(&engine.post(COMPLETIONS, &ids).await);
    assert_eq!(whole["usage"]["prompt_tokens"], 64);
    assert_eq!(whole["usage"]["prompt_tokens_details"]["cached_tokens"], 48);
    let chat = object(&engine.post("/tokenize", &chat(3, &json!({}))).await);
    assert!(chat["count"].as_u64().unwrap() > 3);
}

#[tokio::test]
async fn a_request_id_is_echoed_and_made_where_it_is_absent_or_odd() {
    let engine = Running::start(facts()).await;
    let body = chat(3, &json!({"max_tokens": 1})).to_string();
    for (given, kept) in [("a-plain-one", true), ("with space", false)] {
        let header = format!("x-request-id: {given}");
        let client = Client::post(engine.address, CHAT, &[&header], body.as_bytes()).await;
        let reply = client.unwrap().reply().await.unwrap();
        let echoed = reply.header("x-request-id").unwrap();
        assert_eq!(echoed == given, kept, "{echoed}");
        assert_eq!(object(&reply)["id"], format!("chatcmpl-{echoed}"));
    }
    let one = engine.post(CHAT, &chat(3, &json!({"max_tokens": 1}))).await;
    let two = engine.post(CHAT, &chat(3, &json!({"max_tokens": 1}))).await;
    assert_ne!(one.header("x-request-id"), two.header("x-request-id"));
}

#[tokio::test]
async fn a_connection_serves_one_request_after_another() {
    let engine = Running::start(facts()).await;
    let body = chat(3, &json!({"max_tokens": 1})).to_string();
    let one =
        format!("POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let last = "GET /health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let client = Client::send(engine.address, format!("{one}{one}{last}").as_bytes()).await;
    let all = client.unwrap().reply().await.unwrap();
    assert_eq!(all.status, 200);
    assert_eq!(all.text().matches("HTTP/1.1 200 OK").count(), 2, "{}", all.text());
}

#[tokio::test]
async fn metrics_carry_vllms_names_and_are_at_rest_when_nothing_runs() {
    let engine = Running::start(ReplicaFacts { max_sequences: 2, ..facts() }).await;
    let long = chat(3, &json!({"max_tokens": 10_000, "stream": true}));
    let mut held = Vec::new();
    for _ in 0..3 {
        let mut client = engine.open(CHAT, &long).await;
        if held.len() < 2 {
            client.wait_for("data: ").await.unwrap();
        }
        held.push(client);
    }
    engine.settles("vllm:num_requests_running", "model_name=\"chat\"", 2.0).await;
    engine.settles("vllm:num_requests_waiting", "engine=\"0\"", 1.0).await;
    assert!(engine.metric("vllm:kv_cache_usage_perc", "").await > 0.0);
    drop(held);
    engine.settles("vllm:num_requests_running", "", 0.0).await;
    engine.settles("vllm:num_requests_waiting", "", 0.0).await;
    engine.settles("vllm:kv_cache_usage_perc", "", 0.0).await;
    engine.settles("vllm:request_success_total", "finished_reason=\"abort\"", 3.0).await;
    engine.post(CHAT, &chat(30, &json!({"max_tokens": 5}))).await;
    engine.settles("vllm:request_success_total", "finished_reason=\"length\"", 1.0).await;
    assert_eq!(engine.metric("vllm:cache_config_info", "block_size=\"16\"").await as u32, 1);
    assert_eq!(engine.metric("vllm:e2e_request_latency_seconds_count", "").await as u32, 1);
    let page = engine.get("/metrics").await.text();
    for name in ["prompt_tokens_total", "generation_tokens_total", "num_preemptions_total"] {
        assert!(page.contains(&format!("# TYPE vllm:{name} counter\nvllm:{name}{{")), "{name}");
    }
}
