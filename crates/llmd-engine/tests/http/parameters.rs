//! Nothing accepted is silently not done: each parameter works, is named, or is refused.

use crate::fixture::{CHAT, COMPLETIONS, Running, chat, events, facts, object, streamed_text};
use llmd_testkit::Client;
use llmd_types::ReplicaFacts;
use serde_json::{Value, json};

/// Posts a chat request with one more key and returns the error's param, code and message.
async fn refused(engine: &Running, more: Value) -> (String, String, String) {
    let reply = engine.post(CHAT, &chat(3, &more)).await;
    assert_eq!(reply.status, 400, "{more}: {}", reply.text());
    let error = &object(&reply)["error"];
    assert_eq!(error["type"], "invalid_request_error");
    let text = |key: &str| error[key].as_str().unwrap_or("").to_owned();
    (text("param"), text("code"), text("message"))
}

#[tokio::test]
async fn a_wrong_request_is_refused_with_its_parameter() {
    let engine = Running::start(facts()).await;
    for (more, param) in [
        (json!({"model": null}), "model"),
        (json!({"model": 7}), "model"),
        (json!({"messages": []}), "messages"),
        (json!({"messages": "hello"}), "messages"),
        (json!({"messages": [{"content": "no role"}]}), "messages"),
        (json!({"messages": [{"role": "user", "content": 7}]}), "messages"),
        (json!({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}), "messages"),
        (json!({"tools": {}}), "tools"),
        (json!({"max_tokens": 0}), "max_tokens"),
        (json!({"max_tokens": -1}), "max_tokens"),
        (json!({"max_tokens": "many"}), "max_tokens"),
        (json!({"max_tokens": 3, "min_tokens": 4}), "min_tokens"),
        (json!({"n": 0}), "n"),
        (json!({"n": 129}), "n"),
        (json!({"stop": ""}), "stop"),
        (json!({"stop": vec!["x"; 17]}), "stop"),
        (json!({"stop": 7}), "stop"),
        (json!({"stream": "yes"}), "stream"),
        (json!({"stream_options": {"include_usage": true}}), "stream_options"),
        (json!({"temperature": "hot"}), "temperature"),
    ] {
        assert_eq!(refused(&engine, more.clone()).await.0, param, "{more}");
    }
    let broken = engine.post_bytes(CHAT, b"{\"model\": ").await;
    assert_eq!(broken.status, 400);
    assert!(object(&broken)["error"]["message"].as_str().unwrap().contains("not a JSON object"));
    for body in [&b"[]"[..], b"", b"\xff\xfe", b"{} {}"] {
        assert_eq!(engine.post_bytes(CHAT, body).await.status, 400);
    }
}

#[tokio::test]
async fn what_would_change_the_answers_form_is_refused_unless_it_asks_for_nothing() {
    let engine = Running::start(facts()).await;
    for (name, value, harmless) in [
        ("logprobs", json!(true), json!(false)),
        ("response_format", json!({"type": "json_object"}), json!({"type": "text"})),
        ("tool_choice", json!("required"), json!("auto")),
        ("stop_token_ids", json!([7]), json!([])),
        ("best_of", json!(2), json!(1)),
        ("kv_transfer_params", json!({"do_remote_decode": true}), json!(null)),
        ("echo", json!(true), json!(false)),
    ] {
        let (param, code, _) = refused(&engine, json!({name: value})).await;
        assert_eq!((param.as_str(), code.as_str()), (name, "unsupported_parameter"));
        let reply = engine.post(CHAT, &chat(3, &json!({name: harmless, "max_tokens": 1}))).await;
        assert_eq!(reply.status, 200, "{name}");
        assert_eq!(reply.header("x-llmd-ctl-ignored"), None);
    }
}

#[tokio::test]
async fn what_has_no_effect_is_named() {
    let engine = Running::start(facts()).await;
    let more = json!({"max_tokens": 1, "temperature": 0.2, "seed": 7, "user": null, "new\n": 1});
    let reply = engine.post(CHAT, &chat(3, &more)).await;
    assert_eq!(reply.header("x-llmd-ctl-ignored"), Some("new, seed, temperature"));
    let more = json!({"max_tokens": 1, "stream": true, "top_p": 0.9});
    let reply = engine.post(CHAT, &chat(3, &more)).await;
    assert_eq!(reply.header("x-llmd-ctl-ignored"), Some("top_p"));
}

#[tokio::test]
async fn an_unknown_model_or_path_is_404_and_a_wrong_method_405() {
    let engine = Running::start(facts()).await;
    let reply = engine.post(CHAT, &chat(3, &json!({"model": "other"}))).await;
    assert_eq!(reply.status, 404);
    assert_eq!(object(&reply)["error"]["code"], "model_not_found");
    assert_eq!(engine.get("/v1/nothing").await.status, 404);
    let reply = engine.get(CHAT).await;
    assert_eq!((reply.status, reply.header("allow")), (405, Some("POST")));
    assert_eq!(engine.post("/v1/models", &json!({})).await.status, 405);
}

#[tokio::test]
async fn a_body_above_the_limit_is_413_before_it_is_read() {
    let engine = Running::start(facts()).await;
    let head = format!("POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-length: 70000000\r\n\r\n");
    let client = Client::send(engine.address, head.as_bytes()).await.unwrap();
    assert_eq!(client.reply().await.unwrap().status, 413);
}

#[tokio::test]
async fn what_does_not_fit_the_context_is_refused_with_the_limit() {
    let engine = Running::start(ReplicaFacts { max_model_len: 200, ..facts() }).await;
    let prompt = chat(100, &json!({}));
    let tokens = prompt["messages"].to_string().len().div_ceil(4) as u64;
    let (param, code, message) =
        refused(&engine, json!({"messages": prompt["messages"], "max_tokens": 201 - tokens})).await;
    assert_eq!((param.as_str(), code.as_str()), ("messages", "context_length_exceeded"));
    assert!(message.contains("maximum context length is 200 tokens"), "{message}");
    let fits = json!({"messages": prompt["messages"], "max_tokens": 200 - tokens});
    let whole = object(&engine.post(CHAT, &chat(3, &fits)).await);
    assert_eq!(whole["usage"]["total_tokens"], 200);
    let (_, code, _) = refused(&engine, chat(400, &json!({}))).await;
    assert_eq!(code, "context_length_exceeded");
}

#[tokio::test]
async fn an_answer_without_a_limit_has_a_length_of_its_own() {
    let engine = Running::start(ReplicaFacts { speed: 100.0, ..facts() }).await;
    let mut lengths = Vec::new();
    for words in 1..8 {
        let answer = object(&engine.post(CHAT, &chat(words, &json!({}))).await);
        assert_eq!(answer["choices"][0]["finish_reason"], "stop");
        lengths.push(answer["usage"]["completion_tokens"].as_u64().unwrap());
    }
    assert!(lengths.iter().all(|tokens| (16..=1_024).contains(tokens)), "{lengths:?}");
    assert!(lengths.iter().any(|tokens| *tokens != lengths[0]));
    let again = object(&engine.post(CHAT, &chat(1, &json!({}))).await);
    assert_eq!(again["usage"]["completion_tokens"], lengths[0], "the same prompt, the same answer");
    let more = json!({"min_tokens": 1_200});
    let longer = object(&engine.post(CHAT, &chat(1, &more)).await);
    assert_eq!(longer["usage"]["completion_tokens"], 1_200);
}

#[tokio::test]
async fn without_an_end_of_its_own_an_answer_fills_the_context() {
    let small = ReplicaFacts { max_model_len: 500, speed: 100.0, ..facts() };
    let engine = Running::start(small).await;
    let answer = object(&engine.post(CHAT, &chat(1, &json!({"ignore_eos": true}))).await);
    assert_eq!(answer["usage"]["total_tokens"], 500);
    assert_eq!(answer["choices"][0]["finish_reason"], "length");
}

#[tokio::test]
async fn a_stop_text_ends_the_answer_before_it() {
    let engine = Running::start(facts()).await;
    let full = object(&engine.post(CHAT, &chat(5, &json!({"max_tokens": 30}))).await);
    let text = full["choices"][0]["message"]["content"].as_str().unwrap().to_owned();
    // From the middle of a word on, and long enough to be there only once.
    let start = text.match_indices(' ').nth(4).unwrap().0 + 3;
    let stop = text[start..start + 14].to_owned();
    let cut = text.find(&stop).unwrap();
    assert_eq!(text.matches(&stop).count(), 1);
    let tokens = text[..cut + stop.len()].split(' ').count();
    for stream in [false, true] {
        let more = json!({"max_tokens": 30, "stop": ["never", stop], "stream": stream});
        let reply = engine.post(CHAT, &chat(5, &more)).await;
        if stream {
            let events = events(&reply);
            assert_eq!(events.len(), tokens);
            assert_eq!(streamed_text(&events, 0), text[..cut]);
            assert_eq!(events[tokens - 1]["choices"][0]["finish_reason"], "stop");
        } else {
            let answer = object(&reply);
            assert_eq!(answer["choices"][0]["message"]["content"], text[..cut]);
            assert_eq!(answer["choices"][0]["finish_reason"], "stop");
            assert_eq!(answer["usage"]["completion_tokens"], tokens);
        }
    }
    let more = json!({"max_tokens": 30, "stop": stop, "min_tokens": tokens + 1});
    let answer = object(&engine.post(CHAT, &chat(5, &more)).await);
    assert_eq!(answer["usage"]["completion_tokens"], 30, "not looked for before min_tokens");
}

#[tokio::test]
async fn a_completion_takes_one_prompt_in_any_of_its_forms() {
    let engine = Running::start(facts()).await;
    let ask = async |prompt: Value| {
        let body = json!({"model": "chat", "prompt": prompt, "max_tokens": 1});
        let reply = engine.post(COMPLETIONS, &body).await;
        (reply.status, object(&reply)["usage"]["prompt_tokens"].as_u64())
    };
    assert_eq!(ask(json!("abcdef")).await, (200, Some(2)));
    assert_eq!(ask(json!(["abcdef"])).await, (200, Some(2)));
    assert_eq!(ask(json!([5, 6, 7])).await, (200, Some(3)));
    assert_eq!(ask(json!([[5, 6, 7]])).await, (200, Some(3)));
    for wrong in [json!(""), json!([]), json!([[]]), json!(["a", "b"]), json!([-1]), json!(7)] {
        assert_eq!(ask(wrong.clone()).await.0, 400, "{wrong}");
    }
    let nested = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let body = format!("{{\"model\": \"chat\", \"prompt\": {nested}}}");
    assert_eq!(engine.post_bytes(COMPLETIONS, body.as_bytes()).await.status, 400);
}
