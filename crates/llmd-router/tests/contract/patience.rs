//! A client that takes nothing in, or little: the engine's place is free again in time.

use crate::support::{CHAT, Setup, body, engine, one_model, told};
use llmd_testkit::{Behaviour, FakeEngine};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

/// More than all buffers between engine and client hold.
const MUCH: usize = 64 << 20;

/// An engine that sends a stream as fast as it is taken, and a router before it.
fn flood(limits: &str) -> (FakeEngine, Setup) {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
    let event = format!("data: {}\n\n", "x".repeat(1_000));
    let mut answer = head.as_bytes().to_vec();
    answer.extend(event.repeat(MUCH / event.len()).as_bytes());
    let engine = engine(vec![Behaviour::Raw(answer)]);
    let config = one_model(&[&engine]).replace("idleMs: 700, totalMs: 20000", limits);
    let setup = Setup::start(&config);
    (engine, setup)
}

/// Asks for a stream and reads nothing of it yet; its buffer holds so many bytes.
async fn deaf(setup: &Setup, buffer: u32) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(buffer).unwrap();
    let mut socket = socket.connect(setup.data).await.unwrap();
    let body = body("chat", true);
    let head = format!("POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", body.len());
    socket.write_all((head + &body).as_bytes()).await.unwrap();
    socket
}

async fn until_received(engine: &FakeEngine) -> Instant {
    let end = Instant::now() + Duration::from_secs(5);
    while engine.received().is_empty() {
        assert!(Instant::now() < end);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Instant::now()
}

#[tokio::test]
async fn a_client_that_never_reads_holds_no_place_beyond_the_idle_limit() {
    let (engine, setup) = flood("idleMs: 700, totalMs: 20000");
    let socket = deaf(&setup, 4_096).await;
    let received = until_received(&engine).await;
    tokio::time::sleep(Duration::from_millis(700)).await;
    told(&engine, Instant::now()).await;
    assert!(received.elapsed() < Duration::from_millis(1_700));
    setup.at_rest_within(Duration::from_secs(1)).await;
    assert_eq!(setup.metric("llmd_router_requests_total{model=\"chat\",code=\"499\"}").await, 1.0);
    drop(socket);
}

#[tokio::test]
async fn nor_beyond_the_total_limit_where_that_is_shorter() {
    let (engine, setup) = flood("idleMs: 15000, totalMs: 800");
    let socket = deaf(&setup, 4_096).await;
    until_received(&engine).await;
    tokio::time::sleep(Duration::from_millis(800)).await;
    told(&engine, Instant::now()).await;
    setup.at_rest_within(Duration::from_secs(1)).await;
    assert_eq!(setup.metric("llmd_router_requests_total{model=\"chat\",code=\"504\"}").await, 1.0);
    // It is the client's fault, not the engine's.
    assert_eq!(setup.status().await["models"][0]["endpoints"][0]["failures"], 0);
    drop(socket);
}

#[tokio::test]
async fn a_client_that_always_reads_a_little_is_told_that_the_time_is_used_up() {
    let (engine, setup) = flood("idleMs: 700, totalMs: 1500");
    let mut socket = deaf(&setup, 200_000).await;
    let begun = Instant::now();
    let mut last = Vec::new();
    let mut piece = vec![0; 64 << 10];
    loop {
        tokio::time::sleep(Duration::from_millis(10)).await;
        let count = socket.read(&mut piece).await.unwrap_or(0);
        if count == 0 {
            break;
        }
        last.extend_from_slice(&piece[..count]);
        last.drain(..last.len().saturating_sub(1_000));
        if begun.elapsed() > Duration::from_millis(2_500) {
            assert!(engine.received()[0].cancelled.is_some(), "it goes on");
        }
        assert!(begun.elapsed() < Duration::from_secs(18), "it goes on");
    }
    let last = String::from_utf8_lossy(&last).into_owned();
    assert!(last.contains("event: error") && last.contains("request_timeout"), "{last}");
    assert!(engine.received()[0].cancelled.is_some());
    setup.at_rest().await;
    assert_eq!(setup.metric("llmd_router_requests_total{model=\"chat\",code=\"504\"}").await, 1.0);
}

#[tokio::test]
async fn a_client_that_reads_on_after_a_pause_gets_all() {
    let (engine, setup) = flood("idleMs: 3000, totalMs: 20000");
    let mut socket = deaf(&setup, 200_000).await;
    until_received(&engine).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (mut all, mut piece) = (0, vec![0; 1 << 20]);
    loop {
        let count = socket.read(&mut piece).await.unwrap();
        if count == 0 {
            break;
        }
        all += count;
    }
    assert!(all > MUCH - 2_000, "{all}");
}
