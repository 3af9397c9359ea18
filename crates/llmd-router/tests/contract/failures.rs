//! What happens when engines fail: another endpoint while the client has got nothing, an error
//! event after that, and an engine's own word always.

use crate::support::{Setup, engine, error_code, one_model, told};
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

/// Four requests of each kind: whichever endpoint they are placed on first, all are answered.
async fn all_are_answered(setup: &Setup) {
    for _ in 0..4 {
        let reply = setup.ask().await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        let reply = setup.ask_stream().await;
        assert!(reply.status == 200 && reply.text().ends_with("data: [DONE]\n\n"));
    }
    for stream in ["false", "true"] {
        assert!(retries(setup, stream).await >= 1.0, "stream: {stream}");
    }
    setup.at_rest().await;
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
async fn a_connection_lost_before_the_head_is_mended_elsewhere() {
    let (setup, _bad, _good) = pair(Behaviour::CloseBeforeHead);
    all_are_answered(&setup).await;
}

#[tokio::test]
async fn a_stream_lost_before_its_first_chunk_is_mended_elsewhere() {
    let (setup, _bad, _good) = pair(Behaviour::DieAfter(0));
    all_are_answered(&setup).await;
}

#[tokio::test]
async fn answers_that_say_not_now_are_mended_elsewhere() {
    for status in [502, 503, 504] {
        let (setup, _bad, _good) = pair(Behaviour::Status(status));
        all_are_answered(&setup).await;
    }
}

#[tokio::test]
async fn a_first_byte_that_does_not_come_is_mended_elsewhere() {
    for bad in [Behaviour::Hang, Behaviour::HangAfterHead] {
        let (setup, _bad, _good) = pair(bad);
        let begun = Instant::now();
        let (one, other) = tokio::join!(setup.ask_stream(), setup.ask_stream());
        assert_eq!((one.status, other.status), (200, 200));
        assert!(begun.elapsed() < Duration::from_secs(6), "the limit is 1.5 s");
        setup.at_rest().await;
    }
}

#[tokio::test]
async fn where_no_first_byte_comes_from_anybody_the_answer_is_504() {
    let engine = engine(vec![Behaviour::Hang]);
    let setup = Setup::start(&one_model(&[&engine]));
    let reply = setup.ask().await;
    assert_eq!((reply.status, error_code(&reply).as_str()), (504, "first_byte_timeout"));
    told(&engine, Instant::now()).await;
    setup.at_rest().await;
}

#[tokio::test]
async fn an_answer_cut_off_in_its_middle_is_mended_elsewhere_when_it_is_no_stream() {
    let (setup, _bad, _good) = pair(Behaviour::DieAfter(1));
    for _ in 0..4 {
        let reply = setup.ask().await;
        assert_eq!(reply.status, 200);
        serde_json::from_slice::<serde_json::Value>(&reply.body).unwrap();
    }
}

#[tokio::test]
async fn the_engines_own_word_passes_through_and_is_not_repeated() {
    for status in [400, 404, 422, 429, 500] {
        let bad = engine(vec![Behaviour::Status(status)]);
        let setup = Setup::start(&one_model(&[&bad, &bad]));
        let reply = setup.ask().await;
        assert_eq!(reply.status, status);
        assert!(reply.text().contains("scripted"));
        assert_eq!(bad.received().len(), 1, "{status} was repeated");
    }
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
async fn a_switch_of_protocols_is_not_passed_on() {
    let switch = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n";
    let (setup, _bad, _good) = pair(Behaviour::Raw(switch.as_bytes().to_vec()));
    all_are_answered(&setup).await;
    let bad = engine(vec![Behaviour::Raw(switch.as_bytes().to_vec())]);
    let setup = Setup::start(&one_model(&[&bad]));
    let reply = setup.ask().await;
    assert_eq!((reply.status, error_code(&reply).as_str()), (502, "endpoint_no_answer"));
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
async fn a_stream_that_breaks_ends_with_an_error_event_and_no_done() {
    for bad in [Behaviour::DieAfter(2), Behaviour::HalfClose(2)] {
        let engine = engine(vec![bad]);
        let setup = Setup::start(&one_model(&[&engine]));
        let reply = setup.ask_stream().await;
        assert!(reply.text().starts_with("data: {\"choices\":[{\"text\":\"t0\"}]}\n\n"));
        assert_eq!(ends_with_an_error_event(&reply), "endpoint_lost");
        assert_eq!(engine.received().len(), 1, "a stream that was begun is not repeated");
        assert_eq!(setup.metric("llmd_router_stream_errors_total{model=\"chat\"}").await, 1.0);
        setup.at_rest().await;
    }
}

#[tokio::test]
async fn a_stream_that_ends_without_done_is_broken() {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
    let cut = format!("{head}data: {{\"a\":1}}\n\ndata: {{\"half");
    let engine = engine(vec![Behaviour::Raw(cut.into_bytes())]);
    let setup = Setup::start(&one_model(&[&engine]));
    let reply = setup.ask_stream().await;
    assert_eq!(ends_with_an_error_event(&reply), "endpoint_lost");
    assert!(!reply.text().contains("half"), "half an event was passed on");
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
async fn a_stream_that_stalls_ends_with_an_error_event() {
    let engine = engine(vec![Behaviour::StallAfter(2)]);
    let setup = Setup::start(&one_model(&[&engine]));
    assert_eq!(ends_with_an_error_event(&setup.ask_stream().await), "idle_timeout");
    setup.at_rest().await;
    told(&engine, Instant::now()).await;
}

#[tokio::test]
async fn a_slow_but_living_stream_is_not_cut() {
    // Longer in all than the idle limit, never as long between two chunks.
    let engine = engine(vec![Behaviour::Ok(5, Duration::from_millis(300))]);
    let setup = Setup::start(&one_model(&[&engine]));
    assert!(setup.ask_stream().await.text().ends_with("data: [DONE]\n\n"));
}

#[tokio::test]
async fn a_slow_first_byte_within_its_limit_is_waited_for() {
    let engine = engine(vec![Behaviour::SlowFirstByte(Duration::from_secs(1))]);
    let setup = Setup::start(&one_model(&[&engine]));
    assert_eq!(setup.ask_stream().await.status, 200);
    assert_eq!(setup.ask().await.status, 200);
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
async fn an_answer_of_another_type_passes_as_it_is() {
    let engine = engine(vec![Behaviour::WrongContentType]);
    let setup = Setup::start(&one_model(&[&engine]));
    let reply = setup.ask_stream().await;
    assert_eq!((reply.status, reply.text().as_str()), (200, "<html></html>"));
    assert_eq!(reply.header("content-type"), Some("text/html"));
}

#[tokio::test]
async fn an_answer_that_is_no_http_is_a_502_object() {
    let engine = engine(vec![Behaviour::Raw(b"what?\r\n\r\n".to_vec())]);
    let setup = Setup::start(&one_model(&[&engine]));
    let reply = setup.ask().await;
    assert_eq!((reply.status, error_code(&reply).as_str()), (502, "endpoint_lost"));
    setup.at_rest().await;
}
