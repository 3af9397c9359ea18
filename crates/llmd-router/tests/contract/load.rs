//! Engines die under load.

use crate::support::{Setup, engine, one_model};
use llmd_testkit::Behaviour;
use std::sync::Arc;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_engine_loses_no_request_and_ends_no_stream_in_silence() {
    let script = vec![Behaviour::Ok(20, Duration::from_millis(3))];
    let engines = [engine(script.clone()), engine(script.clone()), engine(script)];
    let config = one_model(&[&engines[0], &engines[1], &engines[2]]);
    let setup = Arc::new(Setup::start(&config));
    let mut tasks = tokio::task::JoinSet::new();
    for client in 0..40 {
        let setup = Arc::clone(&setup);
        tasks.spawn(async move {
            let (mut done, mut broken) = (0, 0);
            for _ in 0..8 {
                if client % 5 == 0 {
                    let reply = setup.ask().await;
                    assert_eq!(reply.status, 200, "lost: {}", reply.text());
                    done += 1;
                    continue;
                }
                let reply = setup.ask_stream().await;
                assert_eq!(reply.status, 200, "lost: {}", reply.text());
                let text = reply.text();
                if text.ends_with("data: [DONE]\n\n") {
                    done += 1;
                } else {
                    assert!(text.contains("event: error\ndata: {"), "silent end: {text}");
                    broken += 1;
                }
            }
            (done, broken)
        });
    }
    tokio::time::sleep(Duration::from_millis(150)).await;
    engines[1].kill();
    let mut broken = 0;
    while let Some(counts) = tasks.join_next().await {
        broken += counts.unwrap().1;
    }
    assert!(broken > 0, "the engine died while nothing ran on it: the test shows nothing");
    let errors = setup.metric("llmd_router_stream_errors_total{model=\"chat\"}").await;
    assert_eq!(errors, f64::from(broken));
    setup.at_rest().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_engine_that_is_left_answers_all_that_was_not_begun() {
    let slow = Behaviour::SlowFirstByte(Duration::from_millis(40));
    let engines: Vec<_> = (0..4).map(|_| engine(vec![slow.clone()])).collect();
    let setup = Arc::new(Setup::start(&one_model(&engines.iter().collect::<Vec<_>>())));
    let mut tasks = tokio::task::JoinSet::new();
    for client in 0..100 {
        let setup = Arc::clone(&setup);
        tasks.spawn(async move {
            for _ in 0..6 {
                let reply =
                    if client % 2 == 0 { setup.ask().await } else { setup.ask_stream().await };
                assert_eq!(reply.status, 200, "lost: {}", reply.text());
            }
        });
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    engines[1..].iter().for_each(llmd_testkit::FakeEngine::kill);
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    setup.at_rest().await;
}
