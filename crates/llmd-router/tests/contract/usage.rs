//! What is counted of answers, and that counting changes nothing that a client sees.

use crate::support::{CHAT, Setup, body, engine, one_model, one_model_with};
use llmd_testkit::{Behaviour, Client};

const EXACT: &str = "  usage: exact\n";

/// An answer of these bytes as an event stream.
fn stream(events: &str) -> Behaviour {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked";
    let chunk = format!("{:x}\r\n{events}\r\n0\r\n\r\n", events.len());
    Behaviour::Raw(format!("{head}\r\nconnection: close\r\n\r\n{chunk}").into_bytes())
}

fn token(text: &str, more: &str) -> String {
    format!("data: {{\"choices\":[{{\"index\":0,\"text\":\"{text}\",{more}}}]}}\n\n")
}

const OPEN: &str = "\"finish_reason\":null";
const LAST: &str = "\"finish_reason\":\"stop\"";
const DONE: &str = "data: [DONE]\n\n";
const TOLD: &str = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":70,\
                    \"completion_tokens\":20},\"system_fingerprint\":\"f\"}\n\n";

async fn tokens(setup: &Setup, direction: &str) -> f64 {
    let labels = format!("model=\"chat\",variant=\"v\",direction=\"{direction}\"");
    setup.metric(&format!("llmd_router_tokens_total{{{labels}}}")).await
}

#[tokio::test]
async fn exact_usage_is_asked_for_counted_and_not_seen() {
    let events = [token("a", OPEN), token("b", LAST), TOLD.into(), DONE.into()].concat();
    let engine = engine(vec![stream(&events)]);
    let setup = Setup::start(&one_model_with(EXACT, &[&engine]));
    let reply = setup.ask_stream().await;
    let marked = token("b", LAST).replace("]}\n", "],\"system_fingerprint\":\"f\"}\n");
    assert_eq!(reply.text(), [token("a", OPEN), marked, DONE.into()].concat());
    let sent = String::from_utf8(engine.received()[0].body.clone()).unwrap();
    let asked = body("chat", true);
    let added = ",\"stream_options\":{\"include_usage\":true}}";
    assert_eq!(sent, format!("{}{added}", asked.strip_suffix('}').unwrap()));
    setup.at_rest().await;
    assert_eq!((tokens(&setup, "in").await, tokens(&setup, "out").await), (70.0, 20.0));
}

#[tokio::test]
async fn a_client_that_asks_for_usage_gets_it_and_nothing_is_changed() {
    let events = [token("a", LAST), TOLD.into(), DONE.into()].concat();
    let engine = engine(vec![stream(&events)]);
    let asked = body("chat", true).replace("}]}", "}],\"stream_options\":{\"include_usage\":1}}");
    for settings in [EXACT, ""] {
        let setup = Setup::start(&one_model_with(settings, &[&engine]));
        let reply = setup.post(&[], &asked).await.reply().await.unwrap();
        assert_eq!(reply.text(), events);
        assert_eq!(engine.received().pop().unwrap().body, asked.as_bytes());
        setup.at_rest().await;
        assert_eq!(tokens(&setup, "in").await, 70.0);
    }
}

#[tokio::test]
async fn without_it_nothing_is_asked_and_tokens_are_counted_as_they_pass() {
    let events = [token("a", OPEN), token("b", LAST), DONE.into()].concat();
    let engine = engine(vec![stream(&events)]);
    for settings in ["", "  usage: as-told\n"] {
        let setup = Setup::start(&one_model_with(settings, &[&engine]));
        assert_eq!(setup.ask_stream().await.text(), events);
        assert_eq!(engine.received().pop().unwrap().body, body("chat", true).as_bytes());
        setup.at_rest().await;
        assert_eq!(tokens(&setup, "out").await, 2.0);
    }
}

#[tokio::test]
async fn what_tells_usage_anyway_is_not_asked() {
    let engine = engine(vec![Behaviour::Usage(2, [70, 0, 20])]);
    let setup = Setup::start(&one_model_with(EXACT, &[&engine]));
    for (path, body) in [
        (CHAT, body("chat", false)),
        ("/v1/responses", r#"{"model":"chat","input":"a","stream":true}"#.into()),
        ("/v1/messages", r#"{"model":"chat","messages":[],"stream":true}"#.into()),
        ("/v1/embeddings", r#"{"model":"chat","input":"a","stream":true}"#.into()),
    ] {
        let client = Client::post(setup.data, path, &[], body.as_bytes()).await.unwrap();
        client.reply().await.unwrap();
        assert_eq!(engine.received().pop().unwrap().body, body.as_bytes(), "{path}");
    }
}

#[tokio::test]
async fn the_last_token_is_not_lost_when_a_stream_breaks_behind_it() {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 9999\r\n\r\n";
    let last = token("b", LAST);
    let engine = engine(vec![Behaviour::Raw(format!("{head}{last}").into_bytes())]);
    let setup = Setup::start(&one_model_with(EXACT, &[&engine]));
    let text = setup.ask_stream().await.text();
    assert!(text.starts_with(&format!("{last}event: error\ndata: ")), "{text}");
    setup.at_rest().await;
}

#[tokio::test]
async fn what_was_told_before_a_stream_broke_is_counted() {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 9999\r\n\r\n";
    let engine = engine(vec![Behaviour::Raw(format!("{head}{TOLD}").into_bytes())]);
    let setup = Setup::start(&one_model(&[&engine]));
    assert!(setup.ask_stream().await.text().contains("event: error"));
    setup.at_rest().await;
    assert_eq!((tokens(&setup, "in").await, tokens(&setup, "out").await), (70.0, 20.0));
}

#[tokio::test]
async fn the_usage_of_every_api_is_counted() {
    let json = |object: &str| {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length";
        Behaviour::Raw(format!("{head}: {}\r\n\r\n{object}", object.len()).into_bytes())
    };
    let events = |events: &[&str]| stream(&events.concat());
    for (path, answer, expected) in [
        (
            "/v1/embeddings",
            json(r#"{"usage":{"prompt_tokens":9,"completion_tokens":3}}"#),
            (9.0, 0.0),
        ),
        ("/v1/responses", json(r#"{"usage":{"input_tokens":9,"output_tokens":4}}"#), (9.0, 4.0)),
        (
            "/v1/messages",
            json(r#"{"usage":{"input_tokens":2,"cache_read_input_tokens":7,"output_tokens":4}}"#),
            (9.0, 4.0),
        ),
        (
            "/v1/messages",
            events(&[
                "event: message_start\ndata: {\"message\":{\"usage\":{\"input_tokens\":9}}}\n\n",
                "event: message_delta\ndata: {\"usage\":{\"output_tokens\":4}}\n\n",
                "event: message_stop\ndata: {}\n\n",
            ]),
            (9.0, 4.0),
        ),
        (
            "/v1/responses",
            events(&[
                "event: response.output_text.delta\ndata: {}\n\n",
                "event: response.incomplete\ndata: {\"response\":{\"usage\":{\"input_tokens\":9,\
                 \"output_tokens\":4}}}\n\n",
            ]),
            (9.0, 4.0),
        ),
    ] {
        let engine = engine(vec![answer]);
        let setup = Setup::start(&one_model(&[&engine]));
        let body = br#"{"model":"chat","input":"a","messages":[],"stream":true}"#;
        let reply = Client::post(setup.data, path, &[], body).await.unwrap().reply().await.unwrap();
        assert!(reply.whole && reply.status == 200, "{path} {}", reply.text());
        assert!(!reply.text().contains("event: error"), "{path} {}", reply.text());
        setup.at_rest().await;
        let counted = (tokens(&setup, "in").await, tokens(&setup, "out").await);
        assert_eq!(counted, expected, "{path}");
    }
}
