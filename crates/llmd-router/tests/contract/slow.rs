//! Clients that are slow, many, or odd: bounded, and told why where they can be told.

use crate::support::{CHAT, SOON, Setup, body, engine, error_code, one_model, told};
use llmd_testkit::{Behaviour, Client};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A request that keeps its connection.
fn kept(stream: bool, more: &str) -> Vec<u8> {
    let body = body("chat", stream);
    let length = body.len();
    let head = format!("POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n{more}\r\n");
    (head + &body).into_bytes()
}

async fn connect(setup: &Setup, bytes: &[u8]) -> TcpStream {
    let mut socket = TcpStream::connect(setup.data).await.unwrap();
    socket.write_all(bytes).await.unwrap();
    socket
}

/// All that comes until the connection ends.
async fn rest(socket: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let reading = socket.read_to_end(&mut bytes);
    let _ = tokio::time::timeout(Duration::from_secs(10), reading).await.unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Reads until these words are there.
async fn until(socket: &mut TcpStream, words: &str) -> String {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if text.contains(words) {
            return text;
        }
        let read = socket.read_buf(&mut bytes);
        let count = tokio::time::timeout(Duration::from_secs(10), read).await.unwrap().unwrap();
        assert!(count > 0, "{text}");
    }
}

/// Sends a byte each 50 ms until the connection ends; the time it took.
async fn drip(mut socket: TcpStream, bytes: &[u8]) -> Duration {
    let (begun, mut seen) = (Instant::now(), [0; 100]);
    for byte in bytes.iter().cycle() {
        tokio::select! {
            // An answer or its end.
            _ = socket.read(&mut seen) => break,
            () = tokio::time::sleep(Duration::from_millis(50)) => {}
        }
        if socket.write_all(&[*byte]).await.is_err() {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(10), "it goes on");
    }
    begun.elapsed()
}

#[tokio::test]
async fn a_head_that_drips_is_cut_at_the_limit_however_it_drips() {
    let engine = engine(vec![Behaviour::ok()]);
    let setup = Setup::start(
        &one_model(&[&engine]).replace("headerMs: 1000", "headerMs: 700, keepAliveMs: 900"),
    );
    for (first, drips) in [
        ("", "a: b\r\n"),
        ("POST /v1/chat HTTP/1.1\r\n", "a: b\r\n"),
        ("", "\r\n"),
        ("", "PRI"),
        // Whoever broke the rules gets no more time.
        ("POST / HTTP/1.1\r\nhost: x\n", "a: b\r\n"),
    ] {
        let socket = connect(&setup, first.as_bytes()).await;
        let took = drip(socket, drips.as_bytes()).await;
        assert!(took < Duration::from_millis(2_500), "{first:?} {drips:?}: {took:?}");
        assert!(took > Duration::from_millis(600), "{first:?} {drips:?}: {took:?}");
    }
    // The second request of a connection, and one behind empty lines.
    for drips in ["GET /v1/models HTTP/1.1\r\na: b\r\n", "\r\n"] {
        let mut socket = connect(&setup, &kept(false, "")).await;
        until(&mut socket, "hello").await;
        let took = drip(socket, drips.as_bytes()).await;
        assert!(took < Duration::from_secs(5), "{drips:?}: {took:?}");
    }
}

#[tokio::test]
async fn connections_rest_for_the_keep_alive_limit_and_no_longer() {
    let engine = engine(vec![Behaviour::SlowFirstByte(Duration::from_millis(1_200))]);
    let limits = "headerMs: 500, keepAliveMs: 900";
    let setup = Setup::start(&one_model(&[&engine]).replace("headerMs: 1000", limits));
    let begun = Instant::now();
    assert_eq!(rest(&mut connect(&setup, b"").await).await, "");
    assert!(begun.elapsed() > Duration::from_millis(450));
    // Neither limit touches a request that runs longer.
    let mut socket = connect(&setup, &kept(false, "")).await;
    until(&mut socket, "cached_tokens\":0}}}").await;
    tokio::time::sleep(Duration::from_millis(650)).await;
    socket.write_all(&kept(false, "")).await.unwrap();
    until(&mut socket, "cached_tokens\":0}}}").await;
    let answered = Instant::now();
    assert_eq!(rest(&mut socket).await, "");
    let rested = answered.elapsed();
    assert!(rested > Duration::from_millis(800) && rested < Duration::from_secs(3), "{rested:?}");
}

#[tokio::test]
async fn a_head_that_is_too_large_is_a_431() {
    let engine = engine(vec![Behaviour::ok()]);
    let setup = Setup::start(&one_model(&[&engine]));
    let large = format!("x: {}\r\n", "y".repeat(70_000));
    let line = format!("/v1/models?{}", "y".repeat(70_000));
    for (what, target, headers) in [
        ("large", "/v1/models", large.as_str()),
        ("many", "/v1/models", &"x: y\r\n".repeat(200)),
        ("line", &line, ""),
    ] {
        let head = format!("GET {target} HTTP/1.1\r\nhost: x\r\n{headers}\r\n");
        let text = rest(&mut connect(&setup, head.as_bytes()).await).await;
        let refused = ["HTTP/1.1 431", "HTTP/1.1 414"].iter().any(|begin| text.starts_with(begin));
        assert!(refused, "{what}: {text}");
    }
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_their_order() {
    let slow = Behaviour::SlowFirstByte(Duration::from_millis(200));
    let engine = engine(vec![slow, Behaviour::ok()]);
    let setup = Setup::start(&one_model(&[&engine]));
    let mut all = kept(false, "x-request-id: one\r\n");
    all.extend(b"GET /v1/nothing HTTP/1.1\r\nhost: x\r\nx-request-id: two\r\n\r\n");
    all.extend(kept(true, "x-request-id: three\r\nconnection: close\r\n"));
    let text = rest(&mut connect(&setup, &all).await).await;
    let places: Vec<_> = ["id: one", "id: two", "id: three"].map(|id| text.find(id)).to_vec();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{text}");
    assert!(text.contains("[DONE]"), "{text}");
}

#[tokio::test]
async fn continue_is_said_only_when_the_body_will_be_read() {
    let engine = engine(vec![Behaviour::ok()]);
    let setup = Setup::start(&one_model(&[&engine]));
    let expect = "host: x\r\nexpect: 100-continue\r\n";
    for (line, length, answer) in [
        ("POST /v1/chat/completions HTTP/1.1", 2_000_001, "HTTP/1.1 413"),
        ("POST /v1/nothing HTTP/1.1", 10, "HTTP/1.1 404"),
        ("PUT /v1/chat/completions HTTP/1.1", 10, "HTTP/1.1 405"),
        ("POST http://y/v1/chat/completions HTTP/1.1", 10, "HTTP/1.1 400"),
    ] {
        let head = format!("{line}\r\n{expect}content-length: {length}\r\n\r\n");
        let mut socket = connect(&setup, head.as_bytes()).await;
        let text = until(&mut socket, "\r\n\r\n").await;
        assert!(text.starts_with(answer), "{line}: {text}");
    }
    let body = body("chat", false);
    let length = body.len();
    let head = format!("POST {CHAT} HTTP/1.1\r\n{expect}content-length: {length}\r\n\r\n");
    let mut socket = connect(&setup, head.as_bytes()).await;
    assert_eq!(until(&mut socket, "\r\n\r\n").await, "HTTP/1.1 100 Continue\r\n\r\n");
    socket.write_all(body.as_bytes()).await.unwrap();
    assert!(until(&mut socket, "hello").await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn an_answer_is_not_lost_behind_a_body_that_nobody_reads() {
    let engine = engine(vec![Behaviour::ok()]);
    let setup = Setup::start(&one_model(&[&engine]));
    let head = format!("POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-length: 30000000\r\n\r\n");
    let socket = connect(&setup, head.as_bytes()).await;
    let (mut reader, mut writer) = socket.into_split();
    let sending = tokio::spawn(async move {
        let piece = vec![b' '; 100_000];
        while writer.write_all(&piece).await.is_ok() {}
    });
    let mut bytes = Vec::new();
    let _ = reader.read_to_end(&mut bytes).await;
    let text = String::from_utf8_lossy(&bytes);
    assert!(text.starts_with("HTTP/1.1 413") && text.contains("request_too_large"), "{text}");
    sending.abort();
}

#[tokio::test]
async fn a_body_that_drips_is_cut_at_the_total_limit() {
    let engine = engine(vec![Behaviour::ok()]);
    let setup = Setup::start(&one_model(&[&engine]).replace("totalMs: 20000", "totalMs: 1500"));
    let head = format!("POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n{{");
    let took = drip(connect(&setup, head.as_bytes()).await, b" ").await;
    assert!(took > Duration::from_secs(1) && took < Duration::from_secs(4), "{took:?}");
    setup.at_rest().await;
}

#[tokio::test]
async fn a_stream_that_breaks_ends_its_connection() {
    let engine = engine(vec![Behaviour::DieAfter(2)]);
    let setup = Setup::start(&one_model(&[&engine]));
    let mut socket = connect(&setup, &kept(true, "")).await;
    let text = rest(&mut socket).await;
    assert!(text.contains("event: error"), "{text}");
}

#[tokio::test]
async fn of_connections_far_beyond_the_limit_nobody_is_told() {
    let engine = engine(vec![Behaviour::ok()]);
    let limits = "headerMs: 8000, connections: 1";
    let setup = Setup::start(&one_model(&[&engine]).replace("headerMs: 1000", limits));
    let mut held = Vec::new();
    for _ in 0..=256 {
        held.push(connect(&setup, b"").await);
    }
    let begun = Instant::now();
    assert_eq!(rest(&mut connect(&setup, b"").await).await, "");
    assert!(begun.elapsed() < Duration::from_secs(5), "it was let in");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_comes_as_another_leaves_finds_its_place() {
    let engine = engine(vec![Behaviour::ok()]);
    let limits = "headerMs: 1000, connections: 4";
    let setup = Arc::new(Setup::start(&one_model(&[&engine]).replace("headerMs: 1000", limits)));
    let clients: Vec<_> = (0..4)
        .map(|_| {
            let setup = Arc::clone(&setup);
            tokio::spawn(async move {
                for _ in 0..500 {
                    let reply = setup.ask().await;
                    assert_eq!(reply.status, 200, "{}", reply.text());
                }
            })
        })
        .collect();
    for client in clients {
        client.await.unwrap();
    }
    assert_eq!(setup.metric("llmd_router_connections_refused_total").await, 0.0);
}

#[tokio::test]
async fn a_client_that_shuts_its_sending_side_has_left() {
    let engine = engine(vec![Behaviour::Hang]);
    let setup = Setup::start(&one_model(&[&engine]));
    let mut socket = connect(&setup, &kept(false, "")).await;
    while engine.received().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let left = Instant::now();
    socket.shutdown().await.unwrap();
    told(&engine, left).await;
    setup.at_rest_within(SOON).await;
    assert_eq!(setup.metric("llmd_router_requests_total{model=\"chat\",code=\"499\"}").await, 1.0);
}

#[tokio::test]
async fn connections_beyond_the_limit_are_told_so() {
    let engine = engine(vec![Behaviour::ok()]);
    let limits = "headerMs: 5000, connections: 3";
    let setup = Setup::start(&one_model(&[&engine]).replace("headerMs: 1000", limits));
    let mut held = Vec::new();
    for _ in 0..3 {
        let mut socket = connect(&setup, &kept(false, "")).await;
        until(&mut socket, "hello").await;
        held.push(socket);
    }
    let reply = setup.ask().await;
    assert_eq!((reply.status, error_code(&reply).as_str()), (503, "too_many_connections"));
    assert_eq!(reply.header("retry-after"), Some("1"));
    assert!(reply.header("x-request-id").is_some());
    assert_eq!(engine.received().len(), 3);
    assert_eq!(setup.metric("llmd_router_connections_refused_total").await, 1.0);
    held.pop();
    let end = Instant::now() + SOON;
    while setup.ask().await.status != 200 {
        assert!(Instant::now() < end);
    }
    let other = Client::ask(setup.admin, "GET", "/healthz").await.unwrap();
    assert_eq!(other.status, 200);
}
