//! Bodies at the edges of what is taken, and what becomes of the others.

use crate::support::{CHAT, Setup, body, engine, error_code, one_model};
use llmd_testkit::{Behaviour, Client, Reply};
use std::collections::BTreeSet;

async fn post(setup: &Setup, headers: &[&str], body: &[u8]) -> Reply {
    let client = Client::post(setup.data, CHAT, headers, body).await.unwrap();
    client.reply().await.unwrap()
}

#[tokio::test]
async fn what_could_be_read_in_two_ways_or_not_at_all_is_refused_with_a_place() {
    let engine = engine(vec![Behaviour::ok()]);
    let setup = Setup::start(&one_model(&[&engine]));
    let deep = |open: &str, close: &str| {
        let (open, close) = (open.repeat(100_000), close.repeat(100_000));
        format!("{{\"model\":\"chat\",\"messages\":{open}0{close}}}").into_bytes()
    };
    let utf16 = body("chat", false).encode_utf16().flat_map(u16::to_le_bytes).collect();
    let rows: Vec<(Vec<u8>, &str)> = vec![
        (br#"{"model":"chat","model":"other"}"#.into(), "\"model\" is there twice"),
        (br#"{"model":"chat","mod\u0065l":"other"}"#.into(), "\"model\" is there twice"),
        (br#"{"model":"chat","stream":true,"stream":false}"#.into(), "\"stream\" is there twice"),
        (br#"{"messages":[],"model":"chat","messages":[]}"#.into(), "\"messages\" is there twice"),
        (br#"{"model":"chat","x":1,"x":1}"#.into(), "\"x\" is there twice"),
        (deep("[", "]"), "more than 128 lists and objects inside each other at byte 154"),
        (deep("{\"a\":", "}"), "more than 128 lists and objects inside each other at byte 662"),
        ("[".repeat(100_000).into(), "it is a list at byte 0"),
        (br#"{"model":"\ud800"}"#.into(), "`model` must be a string"),
        (br#"{"model":"chat","n":NaN}"#.into(), "expected a value at byte 20"),
        (br#"{"model":"chat","n":-Infinity}"#.into(), "expected a digit at byte 21"),
        (br#"{"model":"chat"} {}"#.into(), "something stands behind the object at byte 17"),
        (b"{\"model\":\"chat\"}\0".into(), "something stands behind the object at byte 16"),
        ("\u{feff}{\"model\":\"chat\"}".into(), "behind a byte order mark at byte 0"),
        (utf16, "expected a key in double quotes at byte 1"),
        (b"{\"model\":\"chat\",\"a\":\"\xed\xa0\x80\"}".into(), "not UTF-8 at byte 21"),
        (b"{\"model\":\"chat\",\"a\":\"x\xff\"}".into(), "not UTF-8 at byte 22"),
        (b"{\"model\":\"chat\",\"a\":\"\n\"}".into(), "a control character in a string at byte 21"),
    ];
    for (body, expected) in rows {
        let begun = std::time::Instant::now();
        let reply = post(&setup, &[], &body).await;
        assert_eq!((reply.status, &*error_code(&reply)), (400, "invalid_request"), "{expected}");
        assert!(reply.text().replace("\\\"", "\"").contains(expected), "{}", reply.text());
        assert!(begun.elapsed().as_secs() < 5, "{expected}");
    }
    assert!(engine.received().is_empty());
    setup.at_rest().await;
}

#[tokio::test]
async fn what_is_the_engines_to_judge_goes_on_byte_for_byte() {
    let engine = engine(vec![Behaviour::ok()]);
    let setup = Setup::start(&one_model(&[&engine]));
    let plain = body("chat", false);
    for (headers, body) in [
        // A lone surrogate in a message, and escapes that mean nothing.
        (vec![], r#"{"model":"chat","messages":[{"content":"\ud800 \uDFFF"}]}"#),
        (vec![], r#"{"model":"chat","messages":[{"content":"\x \u12g4"}]}"#),
        (vec![], r#"{"model":"chat","messages":{"a":1,"a":2},"stream":"maybe","n":1e999}"#),
        (vec![], "\r\n\t {\"model\":\"chat\"} \n"),
        (vec!["content-encoding: identity"], &*plain),
        (vec!["content-language: x"], &*plain),
    ] {
        let reply = post(&setup, &headers, body.as_bytes()).await;
        assert_eq!(reply.status, 200, "{body} {}", reply.text());
        assert_eq!(engine.received().pop().unwrap().body, body.as_bytes());
    }
    // Without a content type, and with another one: engines differ in what they take.
    for kind in
        ["", "content-type: text/plain\r\n", "content-type: application/x-www-form-urlencoded\r\n"]
    {
        let length = plain.len();
        let head = format!("POST {CHAT} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{kind}");
        let all = format!("{head}content-length: {length}\r\n\r\n{plain}");
        let reply = Client::send(setup.data, all.as_bytes()).await.unwrap().reply().await.unwrap();
        assert_eq!(reply.status, 200, "{kind}");
        let sent = engine.received().pop().unwrap();
        let expected = kind.trim_end().strip_prefix("content-type: ");
        assert_eq!(sent.header("content-type"), expected);
    }
}

#[tokio::test]
async fn compressed_bodies_are_refused_with_what_to_do() {
    let engine = engine(vec![Behaviour::ok()]);
    let setup = Setup::start(&one_model(&[&engine]));
    for encoding in ["gzip", "br", "zstd", "gzip, identity", ""] {
        let reply = post(&setup, &[&format!("content-encoding: {encoding}")], b"\x1f\x8b").await;
        assert_eq!((reply.status, &*error_code(&reply)), (415, "unsupported_media_type"));
        assert!(reply.text().contains("send it as it is"), "{}", reply.text());
    }
    assert!(engine.received().is_empty());
}

#[tokio::test]
async fn a_body_of_64_mib_passes_and_one_byte_more_does_not() {
    const MOST: usize = 64 << 20;
    let engine = engine(vec![Behaviour::ok()]);
    let setup = Setup::start(
        &one_model(&[&engine])
            .replace("bodyBytes: 2000000", "bodyBytes: 67108864")
            .replace("firstByteMs: 1500", "firstByteMs: 15000"),
    );
    let head = "{\"model\":\"chat\",\"messages\":[{\"content\":\"";
    let body = |length: usize| {
        let mut body = head.as_bytes().to_vec();
        // It comes in many pieces: text in which each would show that was lost or misplaced.
        body.extend((body.len()..length - 4).map(|at| b'a' + (at % 23) as u8));
        body.extend_from_slice(b"\"}]}");
        body
    };
    let most = body(MOST);
    assert_eq!(post(&setup, &[], &most).await.status, 200);
    assert!(engine.received()[0].body == most);
    let more = format!("POST {CHAT} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n");
    let announced = format!("{more}content-length: {}\r\n\r\n{{", MOST + 1);
    let reply =
        Client::send(setup.data, announced.as_bytes()).await.unwrap().reply().await.unwrap();
    assert_eq!((reply.status, &*error_code(&reply)), (413, "request_too_large"));
    let mut chunked =
        format!("{more}transfer-encoding: chunked\r\n\r\n{:x}\r\n", MOST + 1).into_bytes();
    chunked.extend(body(MOST + 1));
    // The router answers and closes before it has read all: the write may fail.
    if let Ok(client) = Client::send(setup.data, &chunked).await
        && let Ok(reply) = client.reply().await
    {
        assert_eq!(reply.status, 413);
    }
    assert_eq!(engine.received().len(), 1);
    setup.at_rest().await;
}

#[tokio::test]
async fn junk_models_and_paths_make_no_new_series() {
    let engine = engine(vec![Behaviour::ok()]);
    let setup = Setup::start(&one_model(&[&engine]));
    let series = || async {
        let page = setup.get_admin("/metrics").await.text();
        let names = page.lines().filter(|line| !line.starts_with('#'));
        names.map(|line| line.rsplit_once(' ').unwrap().0.to_owned()).collect::<BTreeSet<_>>()
    };
    let junk = |number: usize| {
        let (setup, number) = (&setup, number);
        async move {
            let name = body(&format!("junk-{number}"), number % 2 == 0);
            assert_eq!(setup.post(&[], &name).await.reply().await.unwrap().status, 404);
            let path = format!("/v1/junk-{number}");
            assert_eq!(Client::ask(setup.data, "GET", &path).await.unwrap().status, 404);
            let path = format!("/v1/models/junk-{number}");
            assert_eq!(Client::ask(setup.data, "GET", &path).await.unwrap().status, 404);
            let method = format!("JUNK{number}");
            assert_eq!(Client::ask(setup.data, &method, CHAT).await.unwrap().status, 405);
            let rerank = format!("{{\"model\":\"junk-{number}\"}}");
            let client = Client::post(setup.data, "/rerank", &[], rerank.as_bytes()).await;
            assert_eq!(client.unwrap().reply().await.unwrap().status, 404);
        }
    };
    junk(0).await;
    let before = series().await;
    for number in 1..=40 {
        junk(number).await;
    }
    assert_eq!(series().await, before);
}
