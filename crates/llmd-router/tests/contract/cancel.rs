//! A client that leaves, in each phase: the engine is told within a second, and the load that
//! its request put on an endpoint is given back.

use crate::support::{CHAT, SOON, Setup, body, engine, one_model, told};
use llmd_testkit::{Behaviour, Client, FakeEngine};
use std::time::{Duration, Instant};

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
    // An address that nobody answers from: TEST-NET-1.
    let config = format!(
        "{}models:\n- name: chat\n  sources: [{{kind: static, endpoints: \
         [{{name: e, address: 192.0.2.1, port: 9}}]}}]\n",
        crate::support::base().replace("connectMs: 500", "connectMs: 60000")
    );
    let setup = Setup::start(&config);
    let client = setup.post(&[], &body("chat", true)).await;
    setup.until(|status| status["models"][0]["requests"] == 1 || status["openRequests"] == 0).await;
    drop(client);
    setup.at_rest_within(SOON).await;
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
