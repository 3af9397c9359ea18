//! A client that leaves, in each phase: the engine is told within a second, and the load that
//! its request put on an endpoint is given back.

use crate::support::{CHAT, SOON, Setup, body, engine, one_model, told};
use llmd_testkit::{Behaviour, Client, FakeEngine, Then};
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

/// A listener that takes no connection any more: its queue is full, so nobody is answered.
struct Full {
    port: u16,
    _listener: TcpListener,
    _queued: Vec<TcpStream>,
}

impl Full {
    async fn listen() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = socket.listen(1).unwrap();
        let address = listener.local_addr().unwrap();
        let mut queued = Vec::new();
        let patience = Duration::from_millis(300);
        while let Ok(socket) = tokio::time::timeout(patience, TcpStream::connect(address)).await {
            queued.push(socket.unwrap());
            assert!(queued.len() < 100, "the queue is never full");
        }
        Self { port: address.port(), _listener: listener, _queued: queued }
    }
}

async fn until_received(engine: &FakeEngine) {
    let begun = Instant::now();
    while engine.received().is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(5));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The engine, whether a stream is asked for, and what the client has seen when it leaves;
/// nothing: it leaves as soon as the engine has the request.
fn leaves() -> Vec<(Behaviour, bool, &'static str)> {
    let slow = Duration::from_secs(1);
    vec![
        (Behaviour::Hang, false, ""),
        (Behaviour::Hang, true, ""),
        (Behaviour::HangAfterHead, false, ""),
        (Behaviour::HangAfterHead, true, ""),
        (Behaviour::SlowFirstByte(slow), false, ""),
        (Behaviour::SlowFirstByte(slow), true, ""),
        (Behaviour::Drip(1_000, Duration::from_millis(50)), false, ""),
        (Behaviour::RawThen(large(), Then::Hang), false, "yyy"),
        (Behaviour::StallAfter(1), true, "\"t0\""),
        (Behaviour::StallAfter(2), true, "\"t1\""),
        (Behaviour::Ok(100_000, Duration::from_millis(2)), true, "\"t5\""),
    ]
}

/// More than is held back of an answer that is no stream.
fn large() -> Vec<u8> {
    let head = "HTTP/1.1 200 OK\r\ncontent-length: 10000000\r\n\r\n";
    [head.as_bytes(), "y".repeat(9_000_000).as_bytes()].concat()
}

#[tokio::test]
async fn whenever_a_client_leaves_the_engine_is_told() {
    for (row, (behaviour, stream, seen)) in leaves().into_iter().enumerate() {
        let (engine, other) = (engine(vec![behaviour]), engine(vec![Behaviour::ok()]));
        let setup = Setup::start(&one_model(&[&engine, &other]));
        let mut client = setup.post(&[], &body("chat", stream)).await;
        until_received(&engine).await;
        if !seen.is_empty() {
            client.wait_for(seen).await.unwrap();
        }
        let left = Instant::now();
        drop(client);
        told(&engine, left).await;
        setup.at_rest_within(SOON).await;
        let counted = setup.metric("llmd_router_requests_total{model=\"chat\",code=\"499\"}").await;
        assert_eq!(counted, 1.0, "row {row}");
        let attempts = (engine.received().len(), other.received().len());
        assert_eq!(attempts, (1, 0), "a cancelled request is not tried again: row {row}");
    }
}

#[tokio::test]
async fn while_its_body_is_read() {
    let engine = engine(vec![Behaviour::ok()]);
    let setup = Setup::start(&one_model(&[&engine]));
    let head = format!("POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{{\"mo");
    let client = Client::send(setup.data, head.as_bytes()).await.unwrap();
    setup.until(|status| status["openRequests"] == 1).await;
    drop(client);
    setup.at_rest_within(SOON).await;
    assert!(engine.received().is_empty());
}

#[tokio::test]
async fn while_a_connection_is_being_made() {
    let full = Full::listen().await;
    let config = format!(
        "{}models:\n- name: chat\n  sources: [{{kind: static, endpoints: \
         [{{name: e, address: 127.0.0.1, port: {}}}]}}]\n",
        crate::support::base().replace("connectMs: 500", "connectMs: 60000"),
        full.port
    );
    let setup = Setup::start(&config);
    let client = setup.post(&[], &body("chat", true)).await;
    setup.until(|status| status["models"][0]["requests"] == 1).await;
    drop(client);
    setup.at_rest_within(SOON).await;
    // Had the connection failed, or come about, it would not have been the client's leaving.
    assert_eq!(setup.metric("llmd_router_requests_total{model=\"chat\",code=\"499\"}").await, 1.0);
    assert_eq!(
        setup.metric("llmd_router_retries_total{model=\"chat\",stream=\"true\"}").await,
        0.0
    );
}

#[tokio::test]
async fn while_the_second_attempt_is_under_way() {
    let (first, second) = (engine(vec![Behaviour::CloseBeforeHead]), engine(vec![Behaviour::Hang]));
    let setup = Setup::start(&one_model(&[&first, &second]));
    let client = setup.post(&[], &body("chat", false)).await;
    until_received(&second).await;
    let left = Instant::now();
    drop(client);
    told(&second, left).await;
    setup.at_rest_within(SOON).await;
}
