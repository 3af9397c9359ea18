//! A client that leaves, in each phase: the engine is told within a second, and the load that
//! its request put on an endpoint is given back.

use crate::support::{CHAT, SOON, Setup, body, engine, one_model, told};
use llmd_testkit::{Behaviour, Client, FakeEngine};
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

/// The client leaves while the engine holds its request.
async fn leaves_while_it_waits(behaviour: Behaviour, stream: bool) {
    let engine = engine(vec![behaviour]);
    let setup = Setup::start(&one_model(&[&engine]));
    let client = setup.post(&[], &body("chat", stream)).await;
    until_received(&engine).await;
    let left = Instant::now();
    drop(client);
    told(&engine, left).await;
    setup.at_rest_within(SOON).await;
    assert_eq!(setup.metric("llmd_router_requests_total{model=\"chat\",code=\"499\"}").await, 1.0);
    assert_eq!(engine.received().len(), 1, "a cancelled request is not tried again");
}

#[tokio::test]
async fn before_the_head_of_an_answer() {
    leaves_while_it_waits(Behaviour::Hang, false).await;
    leaves_while_it_waits(Behaviour::Hang, true).await;
}

#[tokio::test]
async fn between_head_and_first_byte() {
    leaves_while_it_waits(Behaviour::HangAfterHead, true).await;
}

#[tokio::test]
async fn in_the_middle_of_a_stream_that_is_silent() {
    let engine = engine(vec![Behaviour::StallAfter(2)]);
    let setup = Setup::start(&one_model(&[&engine]));
    let mut client = setup.post(&[], &body("chat", true)).await;
    client.wait_for("\"t1\"").await.unwrap();
    let left = Instant::now();
    drop(client);
    told(&engine, left).await;
    setup.at_rest_within(SOON).await;
}

#[tokio::test]
async fn in_the_middle_of_a_stream_that_flows() {
    let engine = engine(vec![Behaviour::Ok(100_000, Duration::from_millis(2))]);
    let setup = Setup::start(&one_model(&[&engine]));
    let mut client = setup.post(&[], &body("chat", true)).await;
    client.wait_for("\"t5\"").await.unwrap();
    let left = Instant::now();
    drop(client);
    told(&engine, left).await;
    setup.at_rest_within(SOON).await;
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
