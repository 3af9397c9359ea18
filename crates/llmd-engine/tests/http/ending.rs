//! However a request ends, its slot is free at once and it has one line in the access log.

use crate::fixture::{CHAT, Running, chat, events, facts};
use llmd_testkit::Client;
use llmd_types::ReplicaFacts;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

#[tokio::test]
async fn every_ending_has_one_line() {
    let engine = Running::start(facts()).await;
    engine.post(CHAT, &chat(60, &json!({"max_tokens": 3}))).await;
    let stopped = engine.post(CHAT, &chat(60, &json!({"stream": true}))).await;
    let stopped = events(&stopped).len();
    engine.post(CHAT, &chat(3, &json!({"max_tokens": 0}))).await;
    engine.post(CHAT, &chat(3, &json!({"model": "other", "stream": true}))).await;
    let lines = engine.lines(4).await;
    let told = |line: &Value| {
        let text = |key: &str| line[key].as_str().unwrap().to_owned();
        (line["status"].as_u64().unwrap(), text("finish"), line["completionTokens"].clone())
    };
    assert_eq!(told(&lines[0]), (200, "length".to_owned(), json!(3)));
    assert_eq!(told(&lines[1]), (200, "stop".to_owned(), json!(stopped)));
    assert_eq!(told(&lines[2]), (400, "error".to_owned(), json!(0)));
    assert_eq!(told(&lines[3]), (404, "error".to_owned(), json!(0)));
    for line in &lines {
        assert_eq!(line["endpoint"], "chat-0");
        assert!(line["endUs"].as_u64() >= line["arriveUs"].as_u64());
    }
    let streams: Vec<&Value> = lines.iter().map(|line| &line["stream"]).collect();
    assert_eq!(streams, [false, true, false, true]);
    assert_eq!(lines[3]["model"], "other");
    assert_eq!(lines[3]["firstTokenUs"], Value::Null);
    let (first, second) = (&lines[0], &lines[1]);
    assert_eq!(first["promptTokens"], second["promptTokens"]);
    assert_eq!((&first["cachedTokens"], &second["cachedTokens"]), (&json!(0), &json!(80)));
    let at = |key: &str| first[key].as_u64().unwrap();
    assert!(at("arriveUs") < at("firstTokenUs") && at("firstTokenUs") <= at("endUs"));
}

#[tokio::test]
async fn a_line_carries_the_clients_request_id() {
    let engine = Running::start(facts()).await;
    let body = chat(3, &json!({"max_tokens": 1})).to_string();
    let client = Client::post(engine.address, CHAT, &["x-request-id: mine"], body.as_bytes()).await;
    client.unwrap().reply().await.unwrap();
    assert_eq!(engine.lines(1).await[0]["requestId"], "mine");
}

#[tokio::test]
async fn a_client_that_leaves_frees_its_slot_and_is_logged_as_abort() {
    let engine = Running::start(ReplicaFacts { max_sequences: 1, ..facts() }).await;
    for stream in [true, false] {
        let more = json!({"max_tokens": 10_000, "stream": stream});
        let mut client = engine.open(CHAT, &chat(60, &more)).await;
        if stream {
            client.wait_for("data: ").await.unwrap();
        }
        engine.settles("vllm:num_requests_running", "", 1.0).await;
        let left = Instant::now();
        drop(client);
        engine.settles("vllm:num_requests_running", "", 0.0).await;
        assert!(left.elapsed() < Duration::from_secs(1), "a cancel arrives within a second");
    }
    let lines = engine.lines(2).await;
    assert_eq!((&lines[0]["finish"], &lines[0]["status"]), (&json!("abort"), &json!(200)));
    assert_eq!((&lines[1]["finish"], &lines[1]["status"]), (&json!("abort"), &json!(499)));
    assert!(lines[0]["completionTokens"].as_u64() > Some(0));
    assert!(lines[0]["completionTokens"].as_u64() < Some(10_000));
    assert_eq!(lines[1]["cachedTokens"], 80, "known of a request that never finished");
}

#[tokio::test]
async fn a_client_that_leaves_in_the_queue_or_before_its_body_leaves_nothing_behind() {
    let engine = Running::start(ReplicaFacts { max_sequences: 1, ..facts() }).await;
    let long = json!({"max_tokens": 10_000, "stream": true});
    let mut first = engine.open(CHAT, &chat(3, &long)).await;
    first.wait_for("data: ").await.unwrap();
    let second = engine.open(CHAT, &chat(3, &long)).await;
    engine.settles("vllm:num_requests_waiting", "", 1.0).await;
    drop(second);
    engine.settles("vllm:num_requests_waiting", "", 0.0).await;
    let head = format!("POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-length: 500\r\n\r\n{{");
    let third = Client::send(engine.address, head.as_bytes()).await.unwrap();
    drop(third);
    let lines = engine.lines(2).await;
    // Either way the client was gone before anything was said.
    assert!(lines.iter().all(
        |line| line["completionTokens"] == 0 && line["status"] != 200 || line["stream"] == true
    ));
    drop(first);
    engine.settles("vllm:num_requests_running", "", 0.0).await;
    engine.lines(3).await;
}

#[tokio::test]
async fn when_told_to_stop_it_ends_what_runs_and_takes_nothing_new() {
    let mut engine = Running::start(facts()).await;
    let more = json!({"max_tokens": 200, "stream": true});
    let mut running = engine.open(CHAT, &chat(3, &more)).await;
    running.wait_for("data: ").await.unwrap();
    let ended = tokio::spawn(running.reply());
    engine.stop().await;
    let reply = ended.await.unwrap();
    assert!(Client::ask(engine.address, "GET", "/health").await.is_err());
    assert_eq!(engine.lines(1).await[0]["completionTokens"], 200);
    drop(reply);
}
