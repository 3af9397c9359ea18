//! Requests whose framing or host can be read in two ways: refused, the connection closed, and
//! nothing of them, nor of what is behind them, reaches an engine.

use crate::support::{CHAT, Setup, body, engine, one_model};
use llmd_testkit::{Behaviour, Client};

/// What stands between the request line and the body of a POST, the body, and who refuses: we
/// with an error object, or the HTTP library with a bare 400.
const REFUSED: &[(&str, &str)] = &[
    // Two framings.
    ("host: x\r\ncontent-length: @\r\ntransfer-encoding: chunked\r\n\r\n", "chunked"),
    ("host: x\r\ntransfer-encoding: chunked\r\ncontent-length: @\r\n\r\n", "chunked"),
    ("host: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n", "chunked"),
    ("host: x\r\ncontent-length: @\r\ncontent-length: 3\r\n\r\n", "plain"),
    ("host: x\r\ncontent-length: 3\r\ncontent-length: @\r\n\r\n", "plain"),
    ("host: x\r\ncontent-length: @\r\ncontent-length: @\r\n\r\n", "plain"),
    // A length that is none.
    ("host: x\r\ncontent-length: +@\r\n\r\n", "plain"),
    ("host: x\r\ncontent-length: -1\r\n\r\n", "plain"),
    ("host: x\r\ncontent-length: @ 1\r\n\r\n", "plain"),
    ("host: x\r\ncontent-length: @, @\r\n\r\n", "plain"),
    ("host: x\r\ncontent-length: 0x10\r\n\r\n", "plain"),
    ("host: x\r\ncontent-length: 18446744073709551616\r\n\r\n", "plain"),
    ("host: x\r\ncontent-length:\r\n\r\n", "plain"),
    // Another coding than chunked.
    ("host: x\r\ntransfer-encoding: gzip\r\n\r\n", "chunked"),
    ("host: x\r\ntransfer-encoding: gzip, chunked\r\n\r\n", "chunked"),
    ("host: x\r\ntransfer-encoding: chunked, chunked\r\n\r\n", "chunked"),
    ("host: x\r\ntransfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n", "chunked"),
    ("host: x\r\ntransfer-encoding: chunked\r\ntransfer-encoding: x\r\n\r\n", "chunked"),
    ("host: x\r\ntransfer-encoding: xchunked\r\n\r\n", "chunked"),
    ("host: x\r\ntransfer-encoding: \"chunked\"\r\n\r\n", "chunked"),
    ("host: x\r\ntransfer-encoding:\x0bchunked\r\n\r\n", "chunked"),
    // Lines that are read in two ways.
    ("host: x\r\ntransfer-encoding : chunked\r\n\r\n", "chunked"),
    ("host: x\r\ncontent-length : @\r\n\r\n", "plain"),
    ("host: x\r\n content-length: @\r\n\r\n", "plain"),
    ("host: x\r\nx: a\r\n b\r\ncontent-length: @\r\n\r\n", "plain"),
    ("host: x\ncontent-length: @\r\n\r\n", "plain"),
    ("host: x\r\ncontent-length: @\n\r\n", "plain"),
    ("host: x\r\ncontent-length: @\r\n\n", "plain"),
    ("host: x\r\nx: a\rb\r\ncontent-length: @\r\n\r\n", "plain"),
    ("host: x\r\nx: a\0b\r\ncontent-length: @\r\n\r\n", "plain"),
    ("host: x\r\nx\0: a\r\ncontent-length: @\r\n\r\n", "plain"),
    ("host: x\r\nno colon\r\ncontent-length: @\r\n\r\n", "plain"),
    ("host: x\r\n: no name\r\ncontent-length: @\r\n\r\n", "plain"),
    // No host, or two.
    ("content-length: @\r\n\r\n", "plain"),
    ("host: x\r\nhost: y\r\ncontent-length: @\r\n\r\n", "plain"),
    ("host: x\r\nhost: x\r\ncontent-length: @\r\n\r\n", "plain"),
];

/// Chunked bodies that are none.
const BAD_CHUNKS: &[&str] = &[
    "fffffffffffffffff\r\n@\r\n0\r\n\r\n",
    "-5\r\n@\r\n0\r\n\r\n",
    "+5\r\n@\r\n0\r\n\r\n",
    "0x5\r\n@\r\n0\r\n\r\n",
    "\r\n@\r\n0\r\n\r\n",
    "5\n@\n0\n\n",
    "2\r\n{}\n0\r\n\r\n",
    "2\r\n{}0\r\n\r\n",
    "2;a\nb\r\n{}\r\n0\r\n\r\n",
    "2\r\n{}\r\n0\r\nno trailer\r\n\r\n",
    "2\r\n{}\r\n0\r\na\0: b\r\n\r\n",
];

/// A whole request; `@` stands for the length of its body, or for the body.
fn request(line: &str, head: &str, framing: &str) -> Vec<u8> {
    let body = body("chat", false);
    let head = head.replace('@', &body.len().to_string());
    let framed = match framing {
        "chunked" => format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len()),
        "plain" => body,
        chunks => chunks.replace('@', &body),
    };
    format!("{line}\r\n{head}{framed}").into_bytes()
}

/// Sends it with a good request behind it; the answer must be the only one.
async fn refused(setup: &Setup, sent: &[u8], what: &str) {
    let good = request(
        &format!("POST {CHAT} HTTP/1.1"),
        "host: x\r\ncontent-length: @\r\nconnection: close\r\n\r\n",
        "plain",
    );
    let all = [sent, &good].concat();
    let reply = Client::send(setup.data, &all).await.unwrap().reply().await;
    let reply = reply.unwrap_or_else(|error| panic!("{what:?}: {error}"));
    assert_eq!(reply.status, 400, "{what:?}: {}", reply.text());
    assert!(!reply.text().contains("HTTP/1.1"), "{what:?}: a second answer: {}", reply.text());
}

#[tokio::test]
async fn what_can_be_read_in_two_ways_is_refused_and_ends_the_connection() {
    let engine = engine(vec![Behaviour::ok()]);
    let setup = Setup::start(&one_model(&[&engine]));
    for (head, framing) in REFUSED {
        let sent = request(&format!("POST {CHAT} HTTP/1.1"), head, framing);
        refused(&setup, &sent, head).await;
        // The same behind a good request that keeps its connection: its answer comes first.
        let first = b"GET /v1/models HTTP/1.1\r\nhost: x\r\n\r\n".to_vec();
        let client = Client::send(setup.data, &[first, sent].concat()).await.unwrap();
        let text = client.reply().await.unwrap().text();
        assert_eq!(text.matches("HTTP/1.1 ").count(), 1, "{head:?}: {text}");
        assert!(text.contains("HTTP/1.1 400"), "{head:?}: {text}");
    }
    assert!(engine.received().is_empty());
    setup.at_rest().await;
}

#[tokio::test]
async fn chunks_that_are_none_are_refused() {
    let engine = engine(vec![Behaviour::ok()]);
    let setup = Setup::start(&one_model(&[&engine]));
    let flood = format!("2;{}\r\n{{}}\r\n0\r\n\r\n", "x".repeat(20_000));
    let trailers = format!("2\r\n{{}}\r\n0\r\n{}\r\n", "a: b\r\n".repeat(20_000));
    for chunks in BAD_CHUNKS.iter().copied().chain([flood.as_str(), &trailers]) {
        let head = "host: x\r\ntransfer-encoding: chunked\r\n\r\n";
        let sent = request(&format!("POST {CHAT} HTTP/1.1"), head, chunks);
        refused(&setup, &sent, &chunks[..chunks.len().min(40)]).await;
    }
    assert!(engine.received().is_empty());
    setup.at_rest().await;
}

#[tokio::test]
async fn targets_and_versions() {
    let engine = engine(vec![Behaviour::ok()]);
    let setup = Setup::start(&one_model(&[&engine]));
    let length = "content-length: @\r\nconnection: close\r\n\r\n";
    for (line, head, status) in [
        ("POST http://x/v1/chat/completions HTTP/1.1", "host: x\r\n", 200),
        ("POST http://X:80/v1/chat/completions HTTP/1.1", "host: x:80\r\n", 200),
        ("POST http://y/v1/chat/completions HTTP/1.1", "host: x\r\n", 400),
        ("POST http://x@y/v1/chat/completions HTTP/1.1", "host: x\r\n", 400),
        ("CONNECT x:80 HTTP/1.1", "host: x:80\r\n", 404),
        ("POST /v1/chat/completions HTTP/1.0", "", 200),
        ("POST /v1/chat/completions HTTP/1.0", "host: x\r\nhost: x\r\n", 400),
        ("POST /v1/chat/completions HTTP/1.2", "host: x\r\n", 400),
        ("POST /v1/chat/completions HTTP/3.0", "host: x\r\n", 400),
        ("POST /v1/chat/completions", "host: x\r\n", 400),
        ("POST  /v1/chat/completions HTTP/1.1", "host: x\r\n", 400),
        ("POST /v1/chat/completions  HTTP/1.1", "host: x\r\n", 400),
        ("P(ST /v1/chat/completions HTTP/1.1", "host: x\r\n", 400),
        ("OPTIONS * HTTP/1.1", "host: x\r\n", 204),
        ("GET * HTTP/1.1", "host: x\r\n", 404),
    ] {
        let sent = request(line, &format!("{head}{length}"), "plain");
        let reply = Client::send(setup.data, &sent).await.unwrap().reply().await.unwrap();
        assert_eq!(reply.status, status, "{line} {head:?}: {}", reply.text());
    }
    assert_eq!(engine.received().len(), 3);
    let chunked = "host: x\r\ntransfer-encoding: chunked\r\n\r\n";
    let sent = request(&format!("POST {CHAT} HTTP/1.0"), chunked, "chunked");
    refused(&setup, &sent, "chunked under HTTP/1.0").await;
}
