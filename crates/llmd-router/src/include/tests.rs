use super::*;
use crate::api;
use crate::body::{edited, parse};
use http::HeaderMap;

fn wished(body: &str) -> Option<String> {
    let chat = api::named("chat").unwrap();
    let body = Bytes::from(body.to_owned());
    let ask = parse(chat, &HeaderMap::new(), &body).unwrap();
    let edit = wish(&ask, &body)?;
    Some(String::from_utf8(edited(&body, vec![edit]).to_vec()).unwrap())
}

#[test]
fn the_option_is_added_where_the_client_did_not_ask() {
    let head = r#"{"model":"m","stream":true"#;
    let rows = [
        ("}", Some(r#","stream_options":{"include_usage":true}}"#)),
        (" } ", Some(r#" ,"stream_options":{"include_usage":true}} "#)),
        (r#","stream_options":null}"#, Some(r#","stream_options":{"include_usage":true}}"#)),
        (r#","stream_options": {} }"#, Some(r#","stream_options": {"include_usage":true} }"#)),
        (
            r#","stream_options":{"other":1},"n":1}"#,
            Some(r#","stream_options":{"include_usage":true,"other":1},"n":1}"#),
        ),
        (
            r#","stream_options":{"other":1,"include_usage": false}}"#,
            Some(r#","stream_options":{"other":1,"include_usage": true}}"#),
        ),
        (r#","stream_options":{"include_usage":true}}"#, None),
        (r#","stream_options":{"include_usage":"on"}}"#, None),
        (r#","stream_options":{"include_usage":1,"include_usage":0}}"#, None),
        (r#","stream_options":{"include_usage":0,"include_usage":0}}"#, None),
        (r#","stream_options":{"continuous_usage_stats":true}}"#, None),
        (r#","stream_options":5}"#, None),
    ];
    for (tail, expected) in rows {
        let expected = expected.map(|tail| format!("{head}{tail}"));
        assert_eq!(wished(&format!("{head}{tail}")), expected, "{tail}");
    }
    assert_eq!(wished(r#"{"model":"m"}"#), None);
    assert_eq!(wished(r#"{"model":"m","stream":"no"}"#), None);
}

/// What a client sees of events that come in one piece, in single bytes, and event by event.
fn seen(events: &[&str]) -> String {
    let api = api::named("chat").unwrap();
    let all = events.concat();
    let pass = |pieces: Vec<&[u8]>| {
        let mut stream = sse::Events::new(api, true);
        let mut out = Vec::new();
        for piece in pieces {
            out.extend_from_slice(&stream.push(Bytes::copy_from_slice(piece)).bytes);
        }
        out.extend_from_slice(&stream.rest().bytes);
        String::from_utf8(out).unwrap()
    };
    let whole = pass(vec![all.as_bytes()]);
    assert_eq!(pass(all.as_bytes().chunks(1).collect()), whole);
    assert_eq!(pass(events.iter().map(|event| event.as_bytes()).collect()), whole);
    whole
}

const TOKEN: &str = "data: {\"choices\":[{\"text\":\"a\",\"finish_reason\":null}]}\n\n";
const DONE: &str = "data: [DONE]\n\n";

#[test]
fn the_usage_chunk_is_taken_out_and_the_fingerprint_put_back() {
    let last = |fingerprint: &str| {
        format!("data: {{\"choices\":[{{\"finish_reason\":\"stop\"}}]{fingerprint}}}\n\n")
    };
    let usage = |fingerprint: &str| {
        format!("data: {{\"choices\": [],\"usage\":{{\"prompt_tokens\":1}}{fingerprint}}}\n\n")
    };
    let timings = ",\"timings\":{\"a\":1}";
    let mark = ",\"system_fingerprint\":\"f-1\"";
    for (ends, told, expected) in [
        ("", "", ""),
        ("", mark, mark),
        (mark, mark, mark),
        (mark, "", mark),
        ("", timings, timings),
        ("", ",\"metrics\":{}", ""),
    ] {
        let out = seen(&[TOKEN, &last(ends), &usage(told), DONE]);
        assert_eq!(out, [TOKEN, &last(expected), DONE].concat());
    }
}

#[test]
fn everything_else_stays() {
    let last =
        "data: {\"choices\":[{\"index\":0,\"finish_reason\": \"length\"}],\"usage\":null}\n\n";
    let extension = "data: {\"choices\":[],\"usage\":null,\"extension\":{}}\n\n";
    let both = "data: {\"choices\":[{}],\"usage\":{\"prompt_tokens\":1}}\n\n";
    for events in [
        vec![TOKEN, last, DONE],
        vec![TOKEN, last, extension, DONE],
        vec![last, last, both, ": a comment\n\n", DONE],
        vec![TOKEN, last],
        vec!["data: {\"error\":{\"message\":\"\\\"usage\\\"\"}}\n\n", DONE],
    ] {
        assert_eq!(seen(&events), events.concat());
    }
}

#[test]
fn blank_lines_without_end_are_not_held_back() {
    let mut hidden = Hidden::default();
    let last = "data: {\"choices\":[{\"finish_reason\":\"stop\"}]}\n\n";
    assert!(hidden.pass(last.into()).is_empty());
    let blank = Bytes::from("\n".repeat(1_000));
    let passed = (0..100).map(|_| hidden.pass(blank.clone()).len()).sum::<usize>();
    assert_eq!(passed, last.len() + 100_000);
}
