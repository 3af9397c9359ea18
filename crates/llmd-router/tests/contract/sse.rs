//! Answers of engines that are legal, and unusual.

use crate::support::{CHAT, Setup, body, engine, error_code, one_model};
use llmd_testkit::{Behaviour, Client, Then};

fn raw(head: &str, body: &[u8]) -> Behaviour {
    let head = format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n");
    Behaviour::Raw([head.as_bytes(), body].concat())
}

const EVENTS: &str = "content-type: text/event-stream";

/// A stream, as it goes in and must come out.
const STREAMS: &[(&str, &str, &str)] = &[
    ("CR LF", CHAT, "data: {}\r\n\r\ndata: [DONE]\r\n\r\n"),
    ("CR", CHAT, "data: {}\r\rdata: [DONE]\r\r"),
    ("several lines of data", CHAT, "data: {\ndata: }\n\ndata: [DONE]\n\n"),
    (
        "comments, ids, retries",
        CHAT,
        ": hi\n\nid: 1\nretry: 5\ndata: {}\n\nevent: x\n\ndata: [DONE]\n\n",
    ),
    ("a byte order mark", CHAT, "\u{feff}data: {}\n\ndata: [DONE]\n\n"),
    ("spaces", CHAT, "data:{}\n\ndata:  [DONE]  \n\n"),
    ("no last blank line", CHAT, "data: {}\n\ndata: [DONE]"),
    ("events behind the end", CHAT, "data: [DONE]\n\ndata: {\"usage\":{}}\n\n: bye\n\n"),
    ("an error of the engine", CHAT, "data: {\"error\":{\"message\":\"x\"}}\n\ndata: [DONE]\n\n"),
    ("a response", "/v1/responses", "event: response.completed\ndata: {}\n\n"),
    ("a failed response", "/v1/responses", "event: response.failed\ndata: {}\n\n"),
    ("a cut response", "/v1/responses", "event: response.incomplete\ndata: {}\n\n"),
    ("a message", "/v1/messages", "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"),
    ("a message that failed", "/v1/messages", "event: error\ndata: {\"type\":\"error\"}\n\n"),
    ("speech", "/v1/audio/speech", "data: {\"type\":\"speech.audio.done\"}\n\n"),
    ("a picture", "/v1/images/generations", "event: image_generation.completed\ndata: {}\n\n"),
];

#[tokio::test]
async fn legal_streams_pass_unchanged_and_end_as_they_should() {
    for (what, path, events) in STREAMS {
        let engine = engine(vec![raw(EVENTS, events.as_bytes())]);
        let setup = Setup::start(&one_model(&[&engine]));
        let body = br#"{"model":"chat","messages":[],"input":"a","stream":true}"#;
        let client = Client::post(setup.data, path, &[], body).await.unwrap();
        let reply = client.reply().await.unwrap();
        assert_eq!((reply.status, reply.text()), (200, (*events).to_owned()), "{what}");
        assert_eq!(setup.metric("llmd_router_stream_errors_total{model=\"chat\"}").await, 0.0);
        setup.at_rest().await;
    }
}

#[tokio::test]
async fn a_stream_without_its_end_is_told_from_a_whole_one() {
    for (path, events) in [
        (CHAT, "data: {\"delta\":\"data: [DONE]\"}\n\n"),
        (CHAT, "event: message_stop\ndata: {}\n\n"),
        (
            "/v1/responses",
            "event: response.output_text.done\ndata: {\"a\":\"response.completed\"}\n\n",
        ),
        ("/v1/messages", "event: message_delta\ndata: {}\n\n"),
    ] {
        let engine = engine(vec![raw(EVENTS, events.as_bytes())]);
        let setup = Setup::start(&one_model(&[&engine]));
        let body = br#"{"model":"chat","messages":[],"input":"a","stream":true}"#;
        let client = Client::post(setup.data, path, &[], body).await.unwrap();
        let text = client.reply().await.unwrap().text();
        assert!(text.starts_with(&format!("{events}event: error\ndata: ")), "{path} {text}");
        setup.at_rest().await;
    }
}

#[tokio::test]
async fn a_very_large_event_passes() {
    let picture = "x".repeat(5 << 20);
    let events = format!("data: {{\"a\":\"{picture}\"}}\n\ndata: [DONE]\n\n");
    let engine = engine(vec![raw(EVENTS, events.as_bytes())]);
    let setup = Setup::start(&one_model(&[&engine]));
    let reply = setup.ask_stream().await;
    assert!(reply.whole && reply.body == events.as_bytes());
    setup.at_rest().await;
}

#[tokio::test]
async fn a_very_large_event_that_breaks_off_is_ended_before_the_error() {
    let events = format!("data: {{}}\n\ndata: {{\"a\":\"{}", "x".repeat(3 << 20));
    let engine = engine(vec![raw(EVENTS, events.as_bytes())]);
    let setup = Setup::start(&one_model(&[&engine]));
    let text = setup.ask_stream().await.text();
    let behind = text.strip_prefix(&events).expect("what came passes");
    assert!(behind.starts_with("\n\nevent: error\ndata: {\"error\""), "{behind}");
    setup.at_rest().await;
}

#[tokio::test]
async fn chunks_with_extensions_and_trailers_pass_without_them() {
    let chunked = "content-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\
                   trailer: x-checksum";
    let body = "a;name=value;other=\"q\"\r\ndata: {}\n\n\r\nE\r\ndata: [DONE]\n\n\r\n\
                0\r\nx-checksum: 5\r\n\r\n";
    let engine = engine(vec![raw(chunked, body.as_bytes())]);
    let setup = Setup::start(&one_model(&[&engine]));
    let reply = setup.ask_stream().await;
    assert!(reply.whole);
    assert_eq!(reply.text(), "data: {}\n\ndata: [DONE]\n\n");
    assert_eq!(reply.header("trailer"), None);
    setup.at_rest().await;
    assert_eq!(setup.metric("llmd_router_requests_total{model=\"chat\",code=\"200\"}").await, 1.0);
}

#[tokio::test]
async fn an_answer_that_is_compressed_unasked_passes_as_it_is() {
    for (kind, bytes) in [
        ("application/json", &b"\x1f\x8b\x08rest"[..]),
        ("text/event-stream", b"\x1f\x8b\x08\n\nx"),
    ] {
        let head = format!(
            "content-type: {kind}\r\ncontent-encoding: gzip\r\ncontent-length: {}",
            bytes.len()
        );
        let engine = engine(vec![raw(&head, bytes)]);
        let setup = Setup::start(&one_model(&[&engine]));
        let reply = setup
            .post(&["accept-encoding: gzip"], &body("chat", true))
            .await
            .reply()
            .await
            .unwrap();
        assert_eq!((reply.status, &reply.body[..]), (200, bytes), "{kind}");
        assert_eq!(reply.header("content-encoding"), Some("gzip"));
        assert_eq!(engine.received()[0].header("accept-encoding"), None);
        setup.at_rest().await;
    }
}

#[tokio::test]
async fn an_answer_of_another_kind_passes_as_it_is() {
    let engine = engine(vec![Behaviour::WrongContentType]);
    let setup = Setup::start(&one_model(&[&engine]));
    let reply = setup.ask_stream().await;
    assert_eq!((reply.status, reply.text()), (200, "<html></html>".into()));
    assert_eq!(reply.header("content-type"), Some("text/html"));
    setup.at_rest().await;
}

#[tokio::test]
async fn a_head_that_is_too_large_or_no_http_is_a_clear_502() {
    for answer in [
        format!("HTTP/1.1 200 OK\r\nx-huge: {}\r\n\r\n", "x".repeat(2 << 20)).into_bytes(),
        format!("HTTP/1.1 200 OK\r\n{}\r\n", "x-many: 1\r\n".repeat(5_000)).into_bytes(),
        b"SSH-2.0-OpenSSH_9.6\r\n".to_vec(),
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello".to_vec(),
    ] {
        let engine = engine(vec![Behaviour::Raw(answer)]);
        let setup = Setup::start(&one_model(&[&engine]));
        let reply = setup.ask().await;
        assert_eq!((reply.status, &*error_code(&reply)), (502, "endpoint_lost"));
        setup.at_rest().await;
    }
    // A large one within reason passes.
    let head = format!("content-length: 2\r\nx-large: {}", "x".repeat(30_000));
    let engine = engine(vec![raw(&head, b"{}")]);
    let setup = Setup::start(&one_model(&[&engine]));
    assert_eq!(setup.ask().await.header("x-large").map(str::len), Some(30_000));
}

#[tokio::test]
async fn a_stream_that_said_that_it_is_whole_is_whole_whatever_comes_then() {
    let events = "data: {\"choices\":[{\"text\":\"t\"}]}\n\ndata: [DONE]\n\n";
    let message = "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";
    for (path, events, then) in [
        (CHAT, events, Then::Reset),
        (CHAT, events, Then::Close),
        (CHAT, events, Then::Hang),
        ("/v1/messages", message, Then::Reset),
    ] {
        // Chunked, and the last chunk never comes.
        let head = format!("HTTP/1.1 200 OK\r\n{EVENTS}\r\ntransfer-encoding: chunked\r\n\r\n");
        let bytes = format!("{head}{:x}\r\n{events}\r\n", events.len());
        let engine = engine(vec![Behaviour::RawThen(bytes.into_bytes(), then)]);
        let setup = Setup::start(&one_model(&[&engine]));
        let body = br#"{"model":"chat","messages":[],"stream":true}"#;
        let client = Client::post(setup.data, path, &[], body).await.unwrap();
        let reply = client.reply().await.unwrap();
        assert_eq!((reply.whole, reply.text()), (true, events.to_owned()), "{then:?}");
        setup.at_rest().await;
        let ok = "llmd_router_requests_total{model=\"chat\",code=\"200\"}";
        assert_eq!(setup.metric(ok).await, 1.0, "{then:?}");
        assert_eq!(setup.metric("llmd_router_stream_errors_total{model=\"chat\"}").await, 0.0);
        let status = setup.status().await;
        assert_eq!(status["models"][0]["endpoints"][0]["failures"], 0, "{then:?}");
    }
}
