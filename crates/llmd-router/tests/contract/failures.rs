//! What one row of the table (`rows`) cannot say of engines that fail: several of them, limits of
//! time, and connections that were used before.

use crate::support::{Setup, body, engine, error_code, one_model, told};
use llmd_testkit::{Behaviour, FakeEngine, Reply};
use std::time::{Duration, Instant};

/// A router over one engine that behaves so and one that is fine.
fn pair(bad: Behaviour) -> (Setup, FakeEngine, FakeEngine) {
    let (bad, good) = (engine(vec![bad]), engine(vec![Behaviour::ok()]));
    let setup = Setup::start(&one_model(&[&bad, &good]));
    (setup, bad, good)
}

fn ends_with_an_error_event(reply: &Reply) -> String {
    let text = reply.text();
    let (_, last) = text.rsplit_once("event: error\ndata: ").unwrap_or_else(|| panic!("{text}"));
    assert!(!text.contains("[DONE]"), "{text}");
    let object: serde_json::Value = serde_json::from_str(last.trim_end()).unwrap();
    object["error"]["code"].as_str().unwrap().to_owned()
}

async fn retries(setup: &Setup, stream: &str) -> f64 {
    setup.metric(&format!("llmd_router_retries_total{{model=\"chat\",stream=\"{stream}\"}}")).await
}

#[tokio::test]
async fn a_refused_connection_is_mended_elsewhere() {
    let (setup, bad, _good) = pair(Behaviour::ok());
    bad.kill();
    tokio::time::sleep(Duration::from_millis(100)).await;
    for _ in 0..4 {
        assert_eq!((setup.ask().await.status, setup.ask_stream().await.status), (200, 200));
    }
    let repeated = retries(&setup, "false").await + retries(&setup, "true").await;
    assert!((1.0..8.0).contains(&repeated), "found out {repeated} times in 8 requests");
    setup.at_rest().await;
    let status = setup.status().await;
    assert_eq!(status["models"][0]["endpoints"][0]["state"], "down");
}

#[tokio::test]
async fn when_all_say_not_now_the_last_of_them_is_heard() {
    let engines = [engine(vec![Behaviour::Status(503)]), engine(vec![Behaviour::Status(503)])];
    let setup = Setup::start(&one_model(&[&engines[0], &engines[1]]));
    let reply = setup.ask().await;
    assert_eq!(reply.status, 503);
    assert!(reply.text().contains("scripted"));
    assert_eq!(engines.each_ref().map(|engine| engine.received().len()), [1, 1]);
    setup.at_rest().await;
}

#[tokio::test]
async fn attempts_are_bounded_and_each_is_at_another_endpoint() {
    // Those whose connection was lost are bounded by the pool alone.
    for (bad, status, attempts) in
        [(Behaviour::Status(503), 503, 3), (Behaviour::CloseBeforeHead, 502, 5)]
    {
        let engines: Vec<FakeEngine> = (0..5).map(|_| engine(vec![bad.clone()])).collect();
        let setup = Setup::start(&one_model(&engines.iter().collect::<Vec<_>>()));
        assert_eq!(setup.ask().await.status, status);
        let counts: Vec<usize> = engines.iter().map(|engine| engine.received().len()).collect();
        assert_eq!(counts.iter().sum::<usize>(), attempts, "{counts:?}");
        assert!(counts.iter().all(|count| *count <= 1), "{counts:?}");
    }
}

#[tokio::test]
async fn an_idle_connection_that_the_engine_closed_costs_nothing() {
    let answer = "{\"choices\":[]}";
    let close = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{answer}", answer.len());
    // It says nothing of closing, and closes.
    let engine = engine(vec![Behaviour::Raw(close.into_bytes())]);
    let setup = Setup::start(&one_model(&[&engine]));
    for _ in 0..5 {
        assert_eq!(setup.ask().await.status, 200);
    }
    assert_eq!(retries(&setup, "false").await, 0.0);
}

#[tokio::test]
async fn the_connection_is_closed_behind_an_error_event() {
    let engine = engine(vec![Behaviour::DieAfter(1)]);
    let setup = Setup::start(&one_model(&[&engine]));
    let body = crate::support::body("chat", true);
    // Without `connection: close`: the reply ends only when the router closes.
    let head = format!(
        "POST {} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}",
        crate::support::CHAT,
        body.len()
    );
    let client = llmd_testkit::Client::send(setup.data, head.as_bytes()).await.unwrap();
    let begun = Instant::now();
    ends_with_an_error_event(&client.reply().await.unwrap());
    assert!(begun.elapsed() < Duration::from_millis(900), "closed by the header limit only");
}

#[tokio::test]
async fn a_slow_but_living_stream_is_not_cut() {
    // Longer in all than the idle limit, never as long between two chunks.
    let engine = engine(vec![Behaviour::Ok(5, Duration::from_millis(300))]);
    let setup = Setup::start(&one_model(&[&engine]));
    assert!(setup.ask_stream().await.text().ends_with("data: [DONE]\n\n"));
}

#[tokio::test]
async fn a_request_ends_when_its_time_is_used_up() {
    let engine = engine(vec![Behaviour::Ok(1_000, Duration::from_millis(100))]);
    let config = one_model(&[&engine]).replace("totalMs: 20000", "totalMs: 900");
    let setup = Setup::start(&config);
    let reply = setup.ask_stream().await;
    assert_eq!(ends_with_an_error_event(&reply), "request_timeout");
    let reply = setup.ask().await;
    assert_eq!((reply.status, error_code(&reply).as_str()), (504, "request_timeout"));
    setup.at_rest().await;
}

#[tokio::test]
async fn an_answer_that_drips_ends_when_its_time_is_used_up() {
    // One piece after the other well within the idle limit, for four seconds.
    let engine = engine(vec![Behaviour::Drip(40, Duration::from_millis(100))]);
    let config = one_model(&[&engine]).replace("totalMs: 20000", "totalMs: 900");
    let setup = Setup::start(&config);
    let begun = Instant::now();
    let reply = setup.ask().await;
    assert_eq!((reply.status, error_code(&reply).as_str()), (504, "request_timeout"));
    assert!(begun.elapsed() < Duration::from_millis(1_900), "{:?}", begun.elapsed());
    told(&engine, Instant::now()).await;
    setup.at_rest().await;
    engine.script(vec![Behaviour::Drip(4, Duration::from_millis(100))]);
    assert_eq!(setup.ask().await.text(), "{  }", "within its time it is waited for");
}

#[tokio::test]
async fn a_connection_that_breaks_when_it_is_used_again_costs_nothing() {
    // The engine read the request, which is the worst moment: it is sent once more.
    let engine = engine(vec![Behaviour::CloseOnReuse]);
    let setup = Setup::start(&one_model(&[&engine]));
    for _ in 0..4 {
        assert_eq!((setup.ask().await.status, setup.ask_stream().await.status), (200, 200));
    }
    // Two threads have idle connections of their own; every use but the first was in vain.
    let received = engine.received().len();
    assert!((9..=16).contains(&received), "{received} attempts for 8 requests");
    assert_eq!(retries(&setup, "false").await + retries(&setup, "true").await, 0.0);
    setup.at_rest().await;
}

#[tokio::test]
async fn an_answer_before_the_end_of_a_large_body_is_heard() {
    let refusal = b"HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\n{}";
    let engine = engine(vec![Behaviour::Early(refusal.to_vec()), Behaviour::ok()]);
    let setup = Setup::start(&one_model(&[&engine]));
    let large = body("chat", false).replace("hello", &"hello ".repeat(200_000));
    let reply = setup.post(&[], &large).await.reply().await.unwrap();
    assert_eq!((reply.status, reply.text().as_str()), (413, "{}"));
    assert_eq!(setup.ask().await.status, 200);
    setup.at_rest().await;
}
