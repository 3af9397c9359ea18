//! Which APIs the data port speaks, and what it makes of each.

use crate::support::{FACTS, Setup, base, body, engine, error_code, one_model};
use llmd_testkit::{Behaviour, Client, Reply};

/// Path and body.
const JSON_APIS: &[(&str, &str)] = &[
    ("/v1/chat/completions", r#"{"model":"chat","messages":[]}"#),
    ("/v1/completions", r#"{"model":"chat","prompt":"p"}"#),
    ("/v1/embeddings", r#"{"model":"chat","input":["a","b"]}"#),
    ("/rerank", r#"{"query":"q","documents":["d"]}"#),
    ("/v1/rerank", r#"{"model":"chat","query":"q","documents":["d"]}"#),
    ("/v2/rerank", r#"{"model":"assistant","query":"q","documents":["d"]}"#),
    ("/score", r#"{"text_1":"a","text_2":"b"}"#),
    ("/v1/score", r#"{"model":"chat","text_1":"a","text_2":"b"}"#),
    ("/pooling", r#"{"model":"chat","input":"a"}"#),
    ("/classify", r#"{"model":"chat","input":"a"}"#),
    ("/v1/responses", r#"{"model":"chat","input":"a"}"#),
    ("/v1/messages", r#"{"model":"chat","messages":[],"max_tokens":5}"#),
    ("/v1/messages/count_tokens", r#"{"model":"chat","messages":[]}"#),
    ("/tokenize", r#"{"model":null,"prompt":"a"}"#),
    ("/detokenize", r#"{"tokens":[1,2]}"#),
    ("/v1/audio/speech", r#"{"model":"chat","input":"say","voice":"v"}"#),
    ("/v1/images/generations", r#"{"prompt":"paint"}"#),
];

async fn post(setup: &Setup, path: &str, headers: &[&str], body: &[u8]) -> Reply {
    Client::post(setup.data, path, headers, body).await.unwrap().reply().await.unwrap()
}

#[tokio::test]
async fn every_api_reaches_the_engine_under_its_path_byte_for_byte() {
    let engine = engine(vec![Behaviour::ok()]);
    let setup = Setup::start(&one_model(&[&engine]));
    for (path, body) in JSON_APIS {
        let reply = post(&setup, &format!("{path}?a=b"), &[], body.as_bytes()).await;
        assert_eq!(reply.status, 200, "{path} {}", reply.text());
        let received = engine.received().pop().unwrap();
        assert_eq!(received.target, format!("POST {path}?a=b"));
        assert_eq!(received.body, body.as_bytes(), "{path}");
        let get = Client::ask(setup.data, "GET", path).await.unwrap();
        assert_eq!((get.status, get.header("allow")), (405, Some("POST, OPTIONS")), "{path}");
        let wrong = post(&setup, path, &[], b"{").await;
        let object: serde_json::Value = serde_json::from_slice(&wrong.body).unwrap();
        // The shape of errors that the clients of one API expect, and all others do not.
        let shaped = path.starts_with("/v1/messages");
        assert_eq!((wrong.status, object["type"] == "error"), (400, shaped), "{path} {object}");
    }
    setup.at_rest().await;
}

const FORM: &str = "--B\r\ncontent-disposition: form-data; name=\"file\"; filename=a\r\n\r\n\
                    \0\u{1}RIFF\r\n--B\r\ncontent-disposition: form-data; name=\"model\"\r\n\r\n\
                    chat\r\n--B--\r\n";

#[tokio::test]
async fn forms_with_files_reach_the_engine_and_the_name_in_them_is_rewritten() {
    let engine = engine(vec![Behaviour::ok()]);
    let config = one_model(&[&engine]).replace("{name: v,", "{name: v, servedName: \"org/real\",");
    let setup = Setup::start(&config);
    for path in ["/v1/audio/transcriptions", "/v1/audio/translations", "/v1/images/edits"] {
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\
             content-type: multipart/form-data; boundary=B\r\n\r\n{FORM}",
            FORM.len()
        );
        let client = Client::send(setup.data, head.as_bytes()).await.unwrap();
        let reply = client.reply().await.unwrap();
        assert_eq!(reply.status, 200, "{path} {}", reply.text());
        let received = engine.received().pop().unwrap();
        assert_eq!(received.target, format!("POST {path}"));
        assert_eq!(received.body, FORM.replace("\r\nchat\r\n", "\r\norg/real\r\n").as_bytes());
        let reply = post(&setup, path, &[], b"{\"model\":\"chat\"}").await;
        assert_eq!((reply.status, &*error_code(&reply)), (415, "unsupported_media_type"));
    }
}

#[tokio::test]
async fn what_an_engine_says_of_an_api_passes_as_it_is() {
    let engine = engine(vec![Behaviour::Status(404), Behaviour::Status(405)]);
    let setup = Setup::start(&one_model(&[&engine]));
    for status in [404, 405] {
        let reply = post(&setup, "/v1/rerank", &[], br#"{"model":"chat"}"#).await;
        assert_eq!(reply.status, status);
        assert_eq!(reply.text(), "{\"error\":{\"message\":\"scripted\",\"type\":\"engine\"}}");
    }
}

#[tokio::test]
async fn paths_that_are_no_api_reach_no_engine() {
    let engine = engine(vec![Behaviour::ok()]);
    let setup = Setup::start(&one_model(&[&engine]));
    for path in [
        "/v1/load_lora_adapter",
        "/reset_prefix_cache",
        "/collective_rpc",
        "/sleep",
        "/metrics",
        "/v1/chat/completions/",
        "/v1//chat/completions",
        "/V1/chat/completions",
        "/v1/chat/completions/batch",
        "/v1/responses/resp_1/cancel",
        "/invocations",
    ] {
        let reply = post(&setup, path, &[], body("chat", false).as_bytes()).await;
        assert_eq!((reply.status, &*error_code(&reply)), (404, "unknown_url"), "{path}");
    }
    assert!(engine.received().is_empty());
}

#[tokio::test]
async fn a_body_without_a_model_is_for_the_only_one_where_its_api_allows_that() {
    let engine = engine(vec![Behaviour::ok()]);
    let one = one_model(&[&engine]);
    let setup = Setup::start(&one);
    let rerank = br#"{"query":"q","documents":[]}"#;
    assert_eq!(post(&setup, "/rerank", &[], rerank).await.status, 200);
    assert_eq!(engine.received()[0].body, rerank);
    let reply = post(&setup, "/v1/embeddings", &[], br#"{"input":"a"}"#).await;
    assert_eq!((reply.status, &*error_code(&reply)), (400, "invalid_request"));

    let two = Setup::start(&format!("{one}- name: other\n"));
    let reply = post(&two, "/rerank", &[], rerank).await;
    assert_eq!((reply.status, &*error_code(&reply)), (404, "model_not_found"));
}

/// Two variants in one model; e0 is of the first, e1 of the second.
fn split(engines: [&llmd_testkit::FakeEngine; 2], first: &str, second: &str) -> String {
    let [one, other] = engines.map(|engine| engine.address.port());
    format!(
        "{}models:\n- name: chat\n  scheduler: round-robin\n  seed: 7\n  \
         variants: [{{name: v{first}}}, {{name: w{second}}}]\n  \
         sources: [{{kind: static, endpoints: [{{name: e0, address: 127.0.0.1, port: {one}, \
         variant: v}}, {{name: e1, address: 127.0.0.1, port: {other}, variant: w}}]}}]\n",
        base()
    )
}

#[tokio::test]
async fn requests_go_to_variants_that_speak_their_api() {
    let (one, other) = (engine(vec![Behaviour::ok()]), engine(vec![Behaviour::ok()]));
    let config = split([&one, &other], ", apis: [embeddings]", ", apis: [chat, messages]");
    let setup = Setup::start(&config);
    for _ in 0..6 {
        let reply = post(&setup, "/v1/embeddings", &[], br#"{"model":"chat","input":"a"}"#).await;
        assert_eq!(reply.status, 200);
        assert_eq!(setup.ask().await.status, 200);
    }
    assert_eq!((one.received().len(), other.received().len()), (6, 6));
    assert!(one.received().iter().all(|r| r.target.ends_with("embeddings")));
    let reply = post(&setup, "/v1/completions", &[], br#"{"model":"chat","prompt":""}"#).await;
    assert_eq!((reply.status, &*error_code(&reply)), (404, "api_not_served"));
    // The one that speaks it is gone: nobody else gets the request.
    other.kill();
    assert_eq!(setup.ask().await.status, 502);
    assert_eq!(one.received().len(), 6);
    setup.at_rest().await;
}

#[tokio::test]
async fn what_a_variant_speaks_can_change() {
    let (one, other) = (engine(vec![Behaviour::ok()]), engine(vec![Behaviour::ok()]));
    let setup = Setup::start(&split([&one, &other], ", apis: [embeddings]", ""));
    setup.replace("router.yaml", &split([&one, &other], "", ", apis: [embeddings]"));
    setup.tell(llmd_router::control::Command::Reload);
    let end = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while one.received().is_empty() {
        assert!(std::time::Instant::now() < end);
        assert_eq!(setup.ask().await.status, 200);
    }
    let before = other.received().len();
    for _ in 0..4 {
        setup.ask().await;
    }
    assert_eq!(other.received().len(), before);
}

#[tokio::test]
async fn anthropic_clients_get_errors_in_their_shape() {
    let engine = engine(vec![Behaviour::DieAfter(1)]);
    let setup = Setup::start(&one_model(&[&engine]));
    let path = "/v1/messages";
    for (body, status, kind) in [
        (r#"{"model":"nope","messages":[]}"#, 404, "not_found_error"),
        (r#"{"messages":[]}"#, 400, "invalid_request_error"),
        (r#"{"model":"chat","messages":[]}"#, 502, "api_error"),
    ] {
        let reply = post(&setup, path, &[], body.as_bytes()).await;
        let object: serde_json::Value = serde_json::from_slice(&reply.body).unwrap();
        assert_eq!((reply.status, &object["type"]), (status, &"error".into()), "{object}");
        assert_eq!(object["error"]["type"], kind);
        assert!(object["error"]["message"].is_string());
    }
    let reply = post(&setup, path, &[], br#"{"model":"chat","stream":true,"messages":[]}"#).await;
    let text = reply.text();
    let (_, last) = text.split_once("event: error\ndata: ").unwrap();
    let object: serde_json::Value = serde_json::from_str(last.trim()).unwrap();
    assert_eq!((&object["type"], &object["error"]["type"]), (&"error".into(), &"api_error".into()));
    let get = Client::ask(setup.data, "GET", path).await.unwrap();
    let object: serde_json::Value = serde_json::from_slice(&get.body).unwrap();
    assert_eq!((get.status, &object["type"]), (405, &"error".into()));
}

#[tokio::test]
async fn the_list_of_models_is_whole() {
    let engine = engine(vec![Behaviour::ok()]);
    let facts = format!("{{name: v, facts: {FACTS},");
    let shorter =
        format!("{{name: w, facts: {}}}, ", FACTS.replace("maxModelLen: 100", "maxModelLen: 50"));
    let config = one_model(&[&engine]).replace("{name: v,", &(shorter + &facts));
    let setup = Setup::start(&format!("{config}- name: org/other\n"));
    let list = Client::ask(setup.data, "GET", "/v1/models").await.unwrap();
    let object: serde_json::Value = serde_json::from_slice(&list.body).unwrap();
    let row = |entry: &serde_json::Value| {
        let text = |key: &str| entry[key].as_str().unwrap_or("-").to_owned();
        (text("id"), text("root"), entry["max_model_len"].as_u64())
    };
    let rows: Vec<_> = object["data"].as_array().unwrap().iter().map(row).collect();
    let expected = [
        ("chat", "chat", Some(100)),
        ("assistant", "chat", Some(100)),
        ("org/other", "org/other", None),
    ];
    assert_eq!(rows, expected.map(|(id, root, len)| (id.into(), root.into(), len)));
    assert!(object["data"][0]["created"].as_u64().unwrap() > 1_700_000_000, "{object}");
    for path in ["/v1/models", "/v1/models/assistant", "/v1/models/org%2Fother"] {
        let got = Client::ask(setup.data, "GET", path).await.unwrap();
        let head = Client::ask(setup.data, "HEAD", path).await.unwrap();
        assert_eq!((got.status, head.status, head.body.len()), (200, 200, 0), "{path}");
        assert_eq!(head.header("content-length"), got.header("content-length"), "{path}");
    }
    let one = Client::ask(setup.data, "GET", "/v1/models/assistant").await.unwrap();
    let one: serde_json::Value = serde_json::from_slice(&one.body).unwrap();
    assert_eq!(one, object["data"][1]);
    let none = Client::ask(setup.data, "GET", "/v1/models/nope").await.unwrap();
    assert_eq!((none.status, &*error_code(&none)), (404, "model_not_found"));
}

#[tokio::test]
async fn an_answer_is_continued_where_it_is_known() {
    let made = |id: &str| {
        let body = format!("{{\"id\":\"{id}\",\"usage\":{{\"input_tokens\":1}}}}");
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ";
        Behaviour::Raw(format!("{head}{}\r\n\r\n{body}", body.len()).into_bytes())
    };
    let streamed = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n\
        event: response.completed\n\
        data: {\"response\":{\"id\":\"resp_2\",\"usage\":{\"input_tokens\":1}}}\n\n";
    let one = engine(vec![made("resp_1")]);
    let other = engine(vec![Behaviour::Raw(streamed.into())]);
    let setup = Setup::start(&one_model(&[&one, &other]));
    let ask = |previous: &str| {
        format!("{{\"model\":\"chat\",\"input\":\"a\",\"previous_response_id\":{previous}}}")
    };
    for _ in 0..2 {
        assert_eq!(post(&setup, "/v1/responses", &[], ask("null").as_bytes()).await.status, 200);
    }
    assert_eq!((one.received().len(), other.received().len()), (1, 1));
    for (id, engine) in [("\"resp_1\"", &one), ("\"resp_2\"", &other)] {
        let before = engine.received().len();
        for _ in 0..3 {
            let reply = post(&setup, "/v1/responses", &[], ask(id).as_bytes()).await;
            assert_eq!(reply.status, 200, "{}", reply.text());
        }
        assert_eq!(engine.received().len(), before + 3);
    }
    let reply = post(&setup, "/v1/responses", &[], ask("\"resp_3\"").as_bytes()).await;
    assert_eq!((reply.status, &*error_code(&reply)), (400, "previous_response_not_found"));
    let reply = post(&setup, "/v1/responses", &[], ask("7").as_bytes()).await;
    assert_eq!((reply.status, &*error_code(&reply)), (400, "invalid_request"));
    setup.at_rest().await;

    // Neither another model nor an endpoint that left can continue it.
    let port = one.address.port();
    let other_model = format!(
        "{}- name: else\n  sources: [{{kind: static, endpoints: [{{name: e1, address: 127.0.0.1, \
         port: {port}}}]}}]\n",
        one_model(&[&one])
    );
    setup.replace("router.yaml", &other_model);
    setup.until(|status| status["models"][0]["endpoints"].as_array().unwrap().len() == 1).await;
    let elsewhere = ask("\"resp_2\"").replace("\"chat\"", "\"else\"");
    for body in [ask("\"resp_2\""), elsewhere] {
        let reply = post(&setup, "/v1/responses", &[], body.as_bytes()).await;
        assert_eq!((reply.status, &*error_code(&reply)), (400, "previous_response_not_found"));
    }
}

#[tokio::test]
async fn audio_is_heard_while_it_is_made() {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: audio/mpeg\r\ncontent-length: 100\r\n\r\nID3";
    let engine = engine(vec![Behaviour::Raw(head.into())]);
    let setup = Setup::start(&one_model(&[&engine]));
    let body = br#"{"model":"chat","input":"say"}"#;
    let mut client = Client::post(setup.data, "/v1/audio/speech", &[], body).await.unwrap();
    client.wait_for("ID3").await.unwrap();
    // It breaks: the client must not take it for whole.
    assert!(!client.reply().await.unwrap().whole);
}
