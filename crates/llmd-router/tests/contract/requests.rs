//! What clients and engines see of ordinary requests.

use crate::support::{
    CHAT, FACTS, Setup, base, body, engine, error_code, one_model, one_model_with,
};
use llmd_testkit::{Behaviour, Client, Then};
use std::time::Duration;

#[tokio::test]
async fn the_body_goes_on_byte_for_byte() {
    let engine = engine(vec![Behaviour::ok()]);
    let setup = Setup::start(&one_model(&[&engine]));
    let body = " {\"messages\" : [ {\"content\":\"\\u00e9 \\n é 🙂\"} ],\t\"zeta\":1e5,\
                \"model\":\"chat\",\
                \"alpha\":[1 , 2],\"stream\":false } ";
    let reply = setup.post(&[], body).await.reply().await.unwrap();
    assert_eq!(reply.status, 200);
    assert!(reply.whole);
    let received = engine.received();
    assert_eq!(received.len(), 1);
    assert_eq!(received[0].target, format!("POST {CHAT}"));
    assert_eq!(String::from_utf8_lossy(&received[0].body), body);
}

#[tokio::test]
async fn an_alias_goes_on_as_the_client_wrote_it() {
    let engine = engine(vec![Behaviour::ok()]);
    let setup = Setup::start(&one_model(&[&engine]));
    let body = body("assistant", false);
    assert_eq!(setup.post(&[], &body).await.reply().await.unwrap().status, 200);
    assert_eq!(engine.received()[0].body, body.as_bytes());
}

#[tokio::test]
async fn only_the_name_is_rewritten_for_engines_that_know_another() {
    let engine = engine(vec![Behaviour::ok()]);
    let config = one_model(&[&engine]).replace("{name: v,", "{name: v, servedName: \"org/real\",");
    let setup = Setup::start(&config);
    setup.ask().await;
    let expected = body("chat", false).replace("\"chat\"", "\"org/real\"");
    assert_eq!(engine.received()[0].body, expected.as_bytes());
}

#[tokio::test]
async fn a_stream_passes_byte_for_byte_with_the_engines_headers() {
    let engine = engine(vec![Behaviour::Ok(3, Duration::ZERO)]);
    let setup = Setup::start(&one_model(&[&engine]));
    let reply = setup.ask_stream().await;
    assert_eq!(reply.status, 200);
    assert!(reply.whole);
    assert_eq!(reply.header("content-type"), Some("text/event-stream"));
    assert_eq!(reply.header("x-engine"), Some("fake"));
    let event = |text| format!("data: {{\"choices\":[{{\"text\":\"{text}\"}}]}}\n\n");
    let expected = [event("t0"), event("t1"), event("t2")].concat();
    assert_eq!(reply.text(), format!("{expected}data: [DONE]\n\n"));
    setup.at_rest().await;
}

#[tokio::test]
async fn headers_between_engine_and_router_stay_there() {
    let head = "HTTP/1.1 200 OK\r\nconnection: x-hop\r\nx-hop: 1\r\nkeep-alive: timeout=5\r\n\
                x-request-id: theirs\r\nx-kept: 1\r\ncontent-length: 2\r\n\r\n{}";
    let engine = engine(vec![Behaviour::Raw(head.into())]);
    let setup = Setup::start(&one_model(&[&engine]));
    let reply = setup.post(&["x-request-id: mine"], &body("chat", false)).await.reply().await;
    let reply = reply.unwrap();
    let names = ["x-hop", "keep-alive", "x-request-id", "x-kept"];
    let found = names.map(|name| reply.header(name));
    assert_eq!((reply.status, found), (200, [None, None, Some("mine"), Some("1")]));
}

#[tokio::test]
async fn chunks_of_a_stream_come_as_they_are_made() {
    let engine = engine(vec![Behaviour::StallAfter(2)]);
    let setup = Setup::start(&one_model(&[&engine]));
    let mut client = setup.post(&[], &body("chat", true)).await;
    client.wait_for("\"t1\"").await.unwrap();
}

#[tokio::test]
async fn credentials_and_hop_by_hop_headers_do_not_reach_the_engine() {
    let engine = engine(vec![Behaviour::ok()]);
    let setup = Setup::start(&one_model(&[&engine]));
    let headers = [
        "authorization: Bearer secret",
        "cookie: a=b",
        "x-api-key: k",
        "te: trailers",
        "x-custom: kept",
        "proxy-authorization: p",
    ];
    setup.post(&headers, &body("chat", false)).await.reply().await.unwrap();
    let received = &engine.received()[0];
    for dropped in
        ["authorization", "cookie", "x-api-key", "te", "proxy-authorization", "connection"]
    {
        assert_eq!(received.header(dropped), None, "{dropped}");
    }
    assert_eq!(received.header("x-custom"), Some("kept"));
    assert_eq!(received.header("content-type"), Some("application/json"));
    assert_eq!(received.header("host"), Some(engine.address.to_string().as_str()));
}

#[tokio::test]
async fn a_model_that_says_so_passes_credentials_through() {
    let engine = engine(vec![Behaviour::ok()]);
    let setup = Setup::start(&one_model_with("  passthrough: true\n", &[&engine]));
    let headers = ["authorization: Bearer secret"];
    setup.post(&headers, &body("chat", false)).await.reply().await.unwrap();
    assert_eq!(engine.received()[0].header("authorization"), Some("Bearer secret"));
}

#[tokio::test]
async fn the_request_id_is_kept_or_made_echoed_and_sent_on() {
    let engine = engine(vec![Behaviour::ok()]);
    let setup = Setup::start(&one_model(&[&engine]));
    let given = setup.post(&["x-request-id: abc-1"], &body("chat", false)).await;
    assert_eq!(given.reply().await.unwrap().header("x-request-id"), Some("abc-1"));
    let made = setup.ask().await;
    let made = made.header("x-request-id").unwrap();
    assert!(made.starts_with("llmd-"), "{made}");
    let bad = setup.post(&["x-request-id: a b"], &body("chat", false)).await;
    assert_ne!(bad.reply().await.unwrap().header("x-request-id"), Some("a b"));
    let received = engine.received();
    assert_eq!(received[0].header("x-request-id"), Some("abc-1"));
    assert_eq!(received[1].header("x-request-id"), Some(made));
}

#[tokio::test]
async fn an_unknown_model_is_a_404_object() {
    let engine = engine(vec![Behaviour::ok()]);
    let setup = Setup::start(&one_model(&[&engine]));
    let reply = setup.post(&[], &body("nope", false)).await.reply().await.unwrap();
    assert_eq!((reply.status, error_code(&reply).as_str()), (404, "model_not_found"));
    assert!(reply.header("x-request-id").is_some());
    assert!(engine.received().is_empty());
    assert_eq!(setup.metric("llmd_router_requests_total{model=\"other\",code=\"404\"}").await, 1.0);
}

#[tokio::test]
async fn malformed_json_is_a_400_object() {
    let engine = engine(vec![Behaviour::ok()]);
    let setup = Setup::start(&one_model(&[&engine]));
    for body in ["{\"model\":", "", "[]", "{\"messages\":[]}"] {
        let reply = setup.post(&[], body).await.reply().await.unwrap();
        assert_eq!((reply.status, error_code(&reply).as_str()), (400, "invalid_request"), "{body}");
    }
    assert!(engine.received().is_empty());
}

#[tokio::test]
async fn a_body_over_the_limit_is_a_413_object_announced_or_not() {
    let engine = engine(vec![Behaviour::ok()]);
    let setup = Setup::start(&one_model(&[&engine]));
    let head = format!("POST {CHAT} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n");
    let announced = format!("{head}content-length: 2000001\r\n\r\n{{");
    let reply =
        Client::send(setup.data, announced.as_bytes()).await.unwrap().reply().await.unwrap();
    assert_eq!((reply.status, error_code(&reply).as_str()), (413, "request_too_large"));
    assert!(reply.text().contains("larger than 2000000 bytes"), "{}", reply.text());

    let piece = "x".repeat(1_000_000);
    let mut chunked = format!("{head}transfer-encoding: chunked\r\n\r\n");
    let chunk = format!("{:x}\r\n{piece}\r\n", piece.len());
    chunked.push_str(&chunk.repeat(3));
    // The router answers and closes before it has read all: the write may fail.
    if let Ok(client) = Client::send(setup.data, chunked.as_bytes()).await
        && let Ok(reply) = client.reply().await
    {
        assert_eq!(reply.status, 413);
    }
    setup.at_rest().await;
}

#[tokio::test]
async fn what_stands_behind_a_chunked_body_is_left_out() {
    let engine = engine(vec![Behaviour::ok()]);
    let setup = Setup::start(&one_model(&[&engine]));
    let (body, head) = (body("chat", false), "connection: close\r\ntransfer-encoding: chunked");
    let request = format!(
        "POST {CHAT} HTTP/1.1\r\nhost: x\r\n{head}\r\ntrailer: x-sum\r\n\r\n{:x}\r\n{body}\r\n0\r\n\
         x-sum: 1\r\n\r\n",
        body.len()
    );
    let reply = Client::send(setup.data, request.as_bytes()).await.unwrap().reply().await.unwrap();
    assert_eq!(reply.status, 200, "{}", reply.text());
    let received = engine.received().pop().unwrap();
    assert_eq!(
        (received.body, received.headers.iter().any(|(name, _)| name == "x-sum")),
        (body.into(), false)
    );
}

#[tokio::test]
async fn a_body_that_stops_coming_is_a_408_object() {
    let engine = engine(vec![Behaviour::ok()]);
    let setup = Setup::start(&one_model(&[&engine]));
    let head = format!("POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{{\"mo");
    let reply = Client::send(setup.data, head.as_bytes()).await.unwrap().reply().await.unwrap();
    assert_eq!((reply.status, error_code(&reply).as_str()), (408, "request_timeout"));
}

#[tokio::test]
async fn a_head_that_stops_coming_is_cut_off() {
    let engine = engine(vec![Behaviour::ok()]);
    let setup = Setup::start(&one_model(&[&engine]));
    let begun = std::time::Instant::now();
    let client = Client::send(setup.data, b"POST /v1/chat").await.unwrap();
    let reply = client.reply().await;
    assert!(begun.elapsed() < Duration::from_secs(5));
    assert!(reply.is_err() || reply.unwrap().status == 408);
}

#[tokio::test]
async fn a_prompt_that_no_endpoint_holds_is_told_so() {
    let engine = engine(vec![Behaviour::ok()]);
    let config = one_model(&[&engine]).replace("{name: v,", &format!("{{name: v, facts: {FACTS},"));
    let setup = Setup::start(&config);
    let ids: Vec<String> = (0..200).map(|id| id.to_string()).collect();
    let body = format!("{{\"model\":\"chat\",\"prompt\":[{}]}}", ids.join(","));
    let reply = Client::post(setup.data, "/v1/completions", &[], body.as_bytes()).await.unwrap();
    let reply = reply.reply().await.unwrap();
    assert_eq!((reply.status, error_code(&reply).as_str()), (400, "context_length_exceeded"));
    let object: serde_json::Value = serde_json::from_slice(&reply.body).unwrap();
    let said = "the prompt is too long: model \"chat\" takes at most 100 tokens";
    assert_eq!(
        (&object["error"]["message"], &object["error"]["param"]),
        (&said.into(), &"messages".into())
    );
    assert!(engine.received().is_empty());
    // What generates nothing needs no room for it, whatever it says.
    let body = br#"{"model":"chat","input":[1,2,3],"max_tokens":1000}"#;
    let reply = Client::post(setup.data, "/v1/embeddings", &[], body).await.unwrap();
    assert_eq!(reply.reply().await.unwrap().status, 200);
    setup.at_rest().await;
}

#[tokio::test]
async fn without_an_endpoint_the_answer_is_503_and_when_to_come_back() {
    let config = format!("{}models: [{{name: chat}}]\n", base());
    let setup = Setup::start(&config);
    let reply = setup.ask().await;
    assert_eq!((reply.status, error_code(&reply).as_str()), (503, "no_endpoint"));
    assert_eq!(reply.header("retry-after"), Some("1"));
    let ready = setup.get_admin("/readyz").await;
    assert_eq!((ready.status, ready.text().as_str()), (503, "no endpoint for: chat\n"));
}

#[tokio::test]
async fn a_model_is_listed_with_what_its_longest_engine_takes() {
    let short = FACTS.replace("maxModelLen: 100", "maxModelLen: 40");
    let config = format!(
        "{}models:\n- {{name: chat, aliases: [other], variants: [{{name: v, facts: {short}}}, \
         {{name: w, facts: {FACTS}}}, {{name: x}}]}}\n- {{name: bare}}\n",
        base()
    );
    let setup = Setup::start(&config);
    let read = async |path: &str| {
        let reply = Client::ask(setup.data, "GET", path).await.unwrap();
        serde_json::from_slice::<serde_json::Value>(&reply.body).unwrap()
    };
    let list = read("/v1/models").await;
    let created = list["data"][0]["created"].as_u64().unwrap();
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    assert!((now - 60..=now).contains(&created), "{created}");
    let entry = |id: &str, root: &str| {
        serde_json::json!({
            "id": id, "object": "model", "created": created, "owned_by": "llmd-ctl", "root": root,
        })
    };
    let long = |id: &str| {
        let mut entry = entry(id, "chat");
        entry["max_model_len"] = 100.into();
        entry
    };
    let entries = [long("chat"), long("other"), entry("bare", "bare")];
    assert_eq!(list, serde_json::json!({"object": "list", "data": entries}));
    assert_eq!(read("/v1/models/other").await, long("other"));
}

#[tokio::test]
async fn models_and_aliases_are_listed() {
    let engine = engine(vec![Behaviour::ok()]);
    let setup =
        Setup::start(&one_model(&[&engine]).replace("[assistant]", "[assistant, Org/Name]"));
    let reply = Client::ask(setup.data, "GET", "/v1/models").await.unwrap();
    let list: serde_json::Value = serde_json::from_slice(&reply.body).unwrap();
    let ids: Vec<_> = list["data"].as_array().unwrap().iter().map(|m| m["id"].clone()).collect();
    assert_eq!(ids, ["chat", "assistant", "Org/Name"]);
    let one = Client::ask(setup.data, "GET", "/v1/models/assistant").await.unwrap();
    assert_eq!(one.status, 200);
    for name in ["Org%2FName", "Org/Name"] {
        let one = Client::ask(setup.data, "GET", &format!("/v1/models/{name}")).await.unwrap();
        assert_eq!(one.status, 200, "{name}");
        assert!(one.text().contains("\"id\":\"Org/Name\""), "{}", one.text());
    }
    let none = Client::ask(setup.data, "GET", "/v1/models/x").await.unwrap();
    assert_eq!((none.status, error_code(&none).as_str()), (404, "model_not_found"));
}

#[tokio::test]
async fn paths_and_methods_are_an_allow_list() {
    let engine = engine(vec![Behaviour::ok()]);
    let setup = Setup::start(&one_model(&[&engine]));
    let ask = |method, path| Client::ask(setup.data, method, path);
    let reply = ask("GET", "/v1/chat/completions").await.unwrap();
    assert_eq!((reply.status, error_code(&reply).as_str()), (405, "method_not_allowed"));
    assert_eq!(reply.header("allow"), Some("POST, OPTIONS"));
    let reply = ask("DELETE", "/v1/models").await.unwrap();
    assert_eq!((reply.status, reply.header("allow")), (405, Some("GET, HEAD, OPTIONS")));
    for path in ["/", "/v1/", "/v1/models/", "/v1/chat/completions/", "/metrics", "/../admin"] {
        let reply = ask("GET", path).await.unwrap();
        assert_eq!((reply.status, error_code(&reply).as_str()), (404, "unknown_url"), "{path}");
    }
    let reply = ask("HEAD", "/v1/models").await.unwrap();
    assert_eq!((reply.status, reply.body.len()), (200, 0));
    let reply = ask("OPTIONS", "/v1/completions").await.unwrap();
    assert_eq!((reply.status, reply.header("allow")), (204, Some("POST, OPTIONS")));
    assert!(engine.received().is_empty());
}

#[tokio::test]
async fn usage_told_by_the_engine_is_counted_streamed_or_not() {
    let engine = engine(vec![Behaviour::Usage(2, [100, 64, 9])]);
    let setup = Setup::start(&one_model(&[&engine]));
    setup.ask().await;
    setup.ask_stream().await;
    let sample = |direction| {
        format!(
            "llmd_router_tokens_total{{model=\"chat\",variant=\"v\",direction=\"{direction}\"}}"
        )
    };
    assert_eq!(setup.metric(&sample("in")).await, 200.0);
    assert_eq!(setup.metric(&sample("out")).await, 18.0);
}

#[tokio::test]
async fn chunks_are_counted_where_the_engine_tells_no_usage() {
    let engine = engine(vec![Behaviour::Ok(5, Duration::ZERO)]);
    let setup = Setup::start(&one_model(&[&engine]));
    setup.ask_stream().await;
    let sample = "llmd_router_tokens_total{model=\"chat\",variant=\"v\",direction=\"out\"}";
    assert_eq!(setup.metric(sample).await, 5.0);
}

#[tokio::test]
async fn connections_to_engines_and_from_clients_are_used_again() {
    let nothing = b"HTTP/1.1 204 No Content\r\n\r\n".to_vec();
    for (behaviour, stream) in [
        (Behaviour::ok(), false),
        (Behaviour::ok(), true),
        (Behaviour::RawThen(nothing, Then::Keep), false),
    ] {
        let engine = engine(vec![behaviour]);
        let setup = Setup::start(&one_model(&[&engine]));
        let one = body("chat", stream);
        let length = one.len();
        let keep =
            format!("POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n{one}");
        let last = keep.replace("host: x", "host: x\r\nconnection: close");
        let all = format!("{}{last}", keep.repeat(9));
        let mut client = Client::send(setup.data, all.as_bytes()).await.unwrap();
        client.wait_for("connection: close").await.unwrap();
        assert_eq!(engine.received().len(), 10);
        // One for the requests; the others are of the scraper and of checks.
        assert!(engine.accepted() <= 4, "{stream} {}", engine.accepted());
    }
}
