//! Endpoints that fail, hang, come back, or tell nonsense of themselves.

use crate::process::Process;
use crate::support::{Setup, base, engine, one_model};
use llmd_testkit::{Behaviour, Client, FakeEngine};
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// No slow start and no checks: only what the test is about.
const BREAKER: &str = "{breaker: {failures: 3, openMs: 400, openMaxMs: 400}, slowStartMs: 0, \
                       checks: {failures: 0}}";
const CHECKS: &str = "{breaker: {failures: 0}, ejection: {failurePercent: 0}, slowStartMs: 0, \
                      checks: {intervalMs: 100, timeoutMs: 100, failures: 2}}";

/// The same with these settings for the whole router.
fn resilient(resilience: &str, config: &str) -> String {
    config.replacen("limits:", &format!("resilience: {resilience}\nlimits:"), 1)
}

fn healths(status: &Value, part: &str) -> Vec<Value> {
    let endpoints = status["models"][0]["endpoints"].as_array().unwrap();
    endpoints.iter().map(|endpoint| endpoint["health"][part].clone()).collect()
}

fn states(status: &Value) -> Vec<Value> {
    healths(status, "state")
}

async fn ask(setup: &Setup, count: usize) {
    for _ in 0..count {
        assert_eq!(setup.ask().await.status, 200);
    }
}

#[tokio::test]
async fn a_breaker_opens_after_failures_in_a_row_and_closes_after_one_answer() {
    let (bad, good) = (engine(vec![Behaviour::Status(503)]), engine(vec![Behaviour::ok()]));
    let setup = Setup::start(&resilient(BREAKER, &one_model(&[&bad, &good])));
    ask(&setup, 8).await;
    let status = setup.status().await;
    assert_eq!(states(&status), ["out", "in"], "{status:#}");
    assert_eq!(status["models"][0]["endpoints"][0]["state"], "out");
    assert_eq!(healths(&status, "why")[0], "failures-in-a-row");
    assert!(healths(&status, "outAtLeastMs")[0].as_u64().unwrap() <= 400);
    assert_eq!(bad.received().len(), 3);

    bad.script(vec![Behaviour::ok()]);
    setup.until(|status| healths(status, "breaker")[0] == "half-open").await;
    assert_eq!(states(&setup.status().await)[0], "on trial");
    let breaker = "llmd_router_breaker_state{model=\"chat\",endpoint=\"e0\",variant=\"v\"}";
    assert_eq!(setup.metric(breaker).await, 1.0);
    ask(&setup, 4).await;
    let status = setup.status().await;
    assert_eq!(states(&status), ["in", "in"], "{status:#}");
    assert_eq!((&healths(&status, "outForMs")[0], bad.received().len() > 3), (&Value::Null, true));
    let ejections = "llmd_router_ejections_total{model=\"chat\",endpoint=\"e0\",variant=\"v\",\
                     reason=\"failures-in-a-row\"}";
    assert_eq!(setup.metric(ejections).await, 1.0);
    setup.at_rest().await;
}

#[tokio::test]
async fn answers_of_4xx_never_count() {
    for status in [400, 401, 404, 422, 429] {
        let engine = engine(vec![Behaviour::Status(status)]);
        let setup = Setup::start(&resilient(BREAKER, &one_model(&[&engine])));
        for _ in 0..25 {
            assert_eq!(setup.ask().await.status, status);
        }
        let shown = setup.status().await;
        assert_eq!(
            (&states(&shown)[0], &healths(&shown, "ejections")[0]),
            (&"in".into(), &0.into())
        );
    }
}

#[tokio::test]
async fn too_large_a_share_of_failures_takes_an_endpoint_out_though_none_are_in_a_row() {
    let script = (0..50).flat_map(|_| [Behaviour::Status(500), Behaviour::ok()]).collect();
    let (bad, good) = (engine(script), engine(vec![Behaviour::ok()]));
    let rules = "{breaker: {failures: 10}, ejection: {minRequests: 10}, checks: {failures: 0}}";
    let setup = Setup::start(&resilient(rules, &one_model(&[&bad, &good])));
    for _ in 0..24 {
        setup.ask().await;
    }
    let status = setup.status().await;
    assert_eq!(
        (&states(&status)[0], &healths(&status, "why")[0]),
        (&"out".into(), &"failure-share".into())
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hung_engine_of_three_makes_nobody_else_wait_and_is_out() {
    let quick = vec![Behaviour::Ok(3, Duration::from_millis(5))];
    let engines = [engine(quick.clone()), engine(quick.clone()), engine(quick)];
    let config = one_model(&engines.iter().collect::<Vec<_>>());
    let config = resilient(CHECKS, &config).replace("firstByteMs: 1500", "firstByteMs: 700");
    let setup = Arc::new(Setup::start(&config));
    engines[1].freeze(true);
    let mut tasks = JoinSet::new();
    for client in 0..200 {
        let setup = Arc::clone(&setup);
        tasks.spawn(async move {
            let reply = if client % 2 == 0 { setup.ask().await } else { setup.ask_stream().await };
            reply.status
        });
    }
    // Those of the other two are done while the hung one's still wait for their first byte.
    setup.until(|status| status["openRequests"].as_u64().unwrap() <= 70).await;
    assert_eq!(setup.get_admin("/healthz").await.status, 200);
    setup.until(|status| states(status)[1] == "out").await;
    let status = setup.status().await;
    assert_eq!(healths(&status, "why")[1], "checks");
    let endpoint = &status["models"][0]["endpoints"][1];
    assert_eq!(endpoint["state"], "out");
    let said = endpoint["degraded"].to_string();
    assert!(said.contains("no answer came within 100 ms"), "{said}");

    let (begun, picks) = (Instant::now(), endpoint["picks"].clone());
    ask(&setup, 20).await;
    assert!(begun.elapsed() < Duration::from_millis(700), "one of them waited for the hung engine");
    assert_eq!(setup.status().await["models"][0]["endpoints"][1]["picks"], picks);
    let (mut served, mut late) = (0, 0);
    while let Some(status) = tasks.join_next().await {
        match status.unwrap() {
            200 => served += 1,
            504 => late += 1,
            other => panic!("{other}"),
        }
    }
    // The budget pays for ten a second and a fifth of two hundred.
    assert_eq!(served + late, 200);
    assert!(late <= 200 / 3 + 1 - 30, "{late} were not tried again");
    engines[1].freeze(false);
    setup.until(|status| states(status)[1] == "in").await;
    setup.at_rest().await;
}

#[tokio::test]
async fn checks_take_out_what_is_not_ready_and_touch_no_load() {
    let (loading, ready) = (engine(vec![Behaviour::ok()]), engine(vec![Behaviour::ok()]));
    loading.health(503);
    let setup = Setup::start(&resilient(CHECKS, &one_model(&[&loading, &ready])));
    setup.until(|status| states(status)[0] == "out").await;
    let status = setup.status().await;
    assert_eq!(healths(&status, "check"), ["failed", "passed"]);
    assert!(healths(&status, "checkAnswer")[0].as_str().unwrap().contains("503"));
    ask(&setup, 6).await;
    assert_eq!((loading.received().len(), ready.received().len()), (0, 6));

    loading.freeze(true);
    let end = Instant::now() + Duration::from_millis(500);
    while Instant::now() < end {
        let endpoint = &setup.status().await["models"][0]["endpoints"][0];
        assert_eq!((&endpoint["inflightRequests"], &endpoint["picks"]), (&0.into(), &0.into()));
    }
    loading.freeze(false);
    loading.health(200);
    setup.until(|status| states(status)[0] == "in").await;
    ask(&setup, 2).await;
    assert_eq!(loading.received().len(), 1);
}

#[tokio::test]
async fn the_only_endpoint_is_used_though_it_is_out() {
    let only = engine(vec![Behaviour::ok()]);
    only.health(500);
    let setup = Setup::start(&resilient(CHECKS, &one_model(&[&only])));
    setup.until(|status| states(status)[0] == "out").await;
    ask(&setup, 3).await;
}

#[tokio::test]
async fn an_engine_without_the_path_is_not_checked_and_status_says_so() {
    let engine = engine(vec![Behaviour::ok()]);
    engine.health(404);
    let setup = Setup::start(&resilient(CHECKS, &one_model(&[&engine])));
    setup.until(|status| healths(status, "check")[0] == "no check").await;
    tokio::time::sleep(Duration::from_millis(600)).await;
    let status = setup.status().await;
    assert_eq!((&states(&status)[0], engine.checks()), (&"in".into(), 1));
    let said = status["models"][0]["endpoints"][0]["degraded"].to_string();
    assert!(said.contains("404: not checked"), "{said}");
}

#[tokio::test]
async fn what_a_check_found_is_said_in_its_words() {
    let closing = Behaviour::CloseBeforeHead;
    let engines: Vec<_> = (0..5).map(|_| engine(vec![closing.clone()])).collect();
    let broken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = broken.local_addr().unwrap().port();
    let closes = tokio::spawn(async move { while broken.accept().await.is_ok() {} });
    let config = one_model(&engines.iter().collect::<Vec<_>>()).replace(
        "endpoints: [",
        &format!("endpoints: [{{name: a, address: 127.0.0.1, port: {port}, variant: v}}, "),
    );
    engines[1].health(503);
    engines[2].health(404);
    engines[3].kill();
    engines[4].freeze(true);
    let setup = Setup::start(&resilient(&CHECKS.replace("failures: 2", "failures: 1"), &config));
    let expected = [
        ("out", "failed", "the answer broke off"),
        ("in", "passed", ""),
        ("out", "failed", "the answer was 503"),
        ("in", "no check", "the answer to checks is 404: not checked"),
        ("out", "failed", "no connection came about"),
        ("out", "failed", "no answer came within 100 ms"),
    ];
    let said = |status: &Value| {
        let text =
            |part| healths(status, part).into_iter().map(|v| v.as_str().unwrap_or("").to_owned());
        text("state").zip(text("check")).zip(text("checkAnswer")).collect::<Vec<_>>()
    };
    let expected = expected
        .map(|(state, check, answer)| ((state.to_owned(), check.to_owned()), answer.to_owned()));
    setup.until(|status| said(status) == expected).await;
    while engines[0].checks() < 10 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // One for checks and one for readings, whose page is not there.
    assert!(engines[0].connections() <= 3, "{}", engines[0].connections());
    closes.abort();
}

#[tokio::test]
async fn a_reload_turns_checks_off_and_on() {
    let engine = engine(vec![Behaviour::ok()]);
    engine.health(500);
    let config = one_model(&[&engine]);
    let setup = Setup::start(&resilient(CHECKS, &config));
    setup.until(|status| states(status)[0] == "out").await;
    setup
        .replace("router.yaml", &resilient(&CHECKS.replace("failures: 2", "failures: 0"), &config));
    setup.until(|status| states(status)[0] == "in").await;
    assert_eq!(healths(&setup.status().await, "check")[0], "off");
    let asked = engine.checks();
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert!(engine.checks() <= asked + 1, "one may have been under way");
    setup.replace("router.yaml", &resilient(CHECKS, &config));
    setup.until(|status| states(status)[0] == "out").await;
}

#[tokio::test]
async fn an_endpoint_that_joins_others_starts_slowly() {
    let (old, new) = (engine(vec![Behaviour::ok()]), engine(vec![Behaviour::ok()]));
    let rules = "{slowStartMs: 1500, checks: {failures: 0}}";
    let setup = Setup::start(&resilient(rules, &one_model(&[&old])));
    ask(&setup, 2).await;
    setup.replace("router.yaml", &resilient(rules, &one_model(&[&old, &new])));
    setup.until(|status| states(status) == ["in", "slow start"]).await;
    let status = setup.status().await;
    assert!(healths(&status, "slowStartShare")[1].as_f64().unwrap() < 1.0);
    assert_eq!(status["models"][0]["endpoints"][1]["state"], "ready");
    setup.until(|status| states(status)[1] == "in").await;
}

#[tokio::test]
async fn the_retry_budget_keeps_an_outage_from_being_multiplied() {
    let bad = || engine(vec![Behaviour::Status(503)]);
    let engines = [bad(), bad(), bad()];
    let config = one_model(&engines.iter().collect::<Vec<_>>());
    let config =
        config.replace("limits:", "retry: {budgetPercent: 10, budgetMinPerSecond: 0}\nlimits:");
    let off = "{breaker: {failures: 0}, ejection: {failurePercent: 0}, checks: {failures: 0}}";
    let setup = Setup::start(&resilient(off, &config));
    for _ in 0..100 {
        assert_eq!(setup.ask().await.status, 503);
    }
    let attempts: usize = engines.iter().map(|engine| engine.received().len()).sum();
    assert_eq!(attempts, 110);
    assert!(setup.metric("llmd_router_retries_refused_total{model=\"chat\"}").await >= 90.0);
    assert_eq!(setup.status().await["models"][0]["retryBudget"]["used"], 10);
}

fn file_config(resilience: &str) -> String {
    let models = "models:\n- name: chat\n  sources: [{kind: process, path: replicas.json}]\n";
    resilient(resilience, &format!("{}{models}", base()))
}

fn replicas(engines: &[(&str, &FakeEngine, &str)]) -> String {
    let entries = engines.iter().map(|(name, engine, state)| {
        format!(
            "{{\"name\": \"{name}\", \"model\": \"chat\", \"variant\": \"v\", \"address\": \
             \"127.0.0.1\", \"port\": {}, \"state\": \"{state}\"}}",
            engine.address.port()
        )
    });
    format!("{{\"version\": 1, \"replicas\": [{}]}}", entries.collect::<Vec<_>>().join(", "))
}

fn with_replicas(engines: &[(&str, &FakeEngine, &str)]) -> Setup {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("key"), "k").unwrap();
    std::fs::write(folder.path().join("replicas.json"), replicas(engines)).unwrap();
    Setup::start_in(folder, &file_config(CHECKS))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_that_flaps_under_load_leaves_no_load_behind() {
    let quick = || engine(vec![Behaviour::Ok(4, Duration::from_millis(2))]);
    let (stays, flaps) = (quick(), quick());
    let setup = Arc::new(with_replicas(&[("a", &stays, "ready"), ("b", &flaps, "ready")]));
    let stop = Arc::new(AtomicBool::new(false));
    let mut tasks = JoinSet::new();
    for client in 0..16 {
        let (setup, stop) = (Arc::clone(&setup), Arc::clone(&stop));
        tasks.spawn(async move {
            while !stop.load(Relaxed) {
                let reply =
                    if client % 2 == 0 { setup.ask().await } else { setup.ask_stream().await };
                assert_eq!(reply.status, 200, "lost: {}", reply.text());
            }
        });
    }
    let states = ["starting", "ready", "draining", "ready", ""];
    for state in states.iter().cycle().take(50) {
        let mut named = vec![("a", &stays, "ready")];
        named.extend(Some(("b", &flaps, *state)).filter(|_| !state.is_empty()));
        let before = flaps.received().len();
        setup.replace("replicas.json", &replicas(&named));
        if *state == "ready" {
            setup.until(|_| flaps.received().len() > before).await;
        } else {
            tokio::time::sleep(Duration::from_millis(15)).await;
        }
        let page = setup.get_admin("/metrics").await.text();
        let negative = page.lines().find(|line| !line.starts_with('#') && line.contains(" -"));
        assert_eq!(negative, None);
    }
    stop.store(true, Relaxed);
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    setup.at_rest().await;
}

#[tokio::test]
async fn what_is_starting_or_on_its_way_out_gets_nothing() {
    let (ready, other) = (engine(vec![Behaviour::ok()]), engine(vec![Behaviour::ok()]));
    let setup = with_replicas(&[("a", &ready, "ready"), ("b", &other, "starting")]);
    ask(&setup, 4).await;
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert_eq!((other.received().len(), other.checks()), (0, 0));
    let named = |state| replicas(&[("a", &ready, "ready"), ("b", &other, state)]);
    setup.replace("replicas.json", &named("ready"));
    setup.until(|_| other.checks() > 0).await;
    setup.replace("replicas.json", &named("draining"));
    setup.until(|status| status["models"][0]["endpoints"][1]["state"] == "draining").await;
    tokio::time::sleep(Duration::from_millis(150)).await;
    let before = (other.received().len(), other.checks());
    ask(&setup, 4).await;
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert_eq!((other.received().len(), other.checks()), before);
}

#[tokio::test]
async fn metrics_that_cannot_be_used_are_said_and_never_read_as_zero() {
    let engine = engine(vec![Behaviour::ok()]);
    let setup = Setup::start(&resilient(BREAKER, &one_model(&[&engine])));
    let good = "vllm:num_requests_running 3\nvllm:num_requests_waiting 1\n";
    let long = b"a 1\n".repeat((4 << 20) / 4 + 1);
    let bad: [(&[u8], &str); 6] = [
        (&long, "the page is too long"),
        (b"", "the answer was 404"),
        (b"<html></html>\n", "no engine's load is on the page"),
        (b"\x00\xff\xfe\n\x80", "no engine's load is on the page"),
        (b"vllm:num_requests_running NaN\n", "`vllm:num_requests_running` has a value"),
        (b"vllm:num_requests_running -5\nvllm:num_requests_waiting 1e99\n", "has a value"),
    ];
    for (page, why) in bad {
        engine.metrics(good);
        let well = |status: &Value| {
            let endpoint = &status["models"][0]["endpoints"][0];
            endpoint["reportedRunning"] == 3
                && !endpoint["degraded"].to_string().contains("cannot be used")
        };
        setup.until(well).await;
        engine.metrics(page);
        setup
            .until(|status| {
                status["models"][0]["endpoints"][0]["degraded"].to_string().contains(why)
            })
            .await;
        let endpoint = &setup.status().await["models"][0]["endpoints"][0];
        assert_ne!(endpoint["reportedRunning"], 0, "{why}");
        ask(&setup, 1).await;
    }
}

#[tokio::test]
async fn a_change_is_one_line_of_the_log_and_not_one_a_check_or_a_reading() {
    let engine = engine(vec![Behaviour::ok()]);
    let good = "vllm:num_requests_running 3\nvllm:num_requests_waiting 1\n";
    engine.metrics(good);
    let scrape = "scrape: {intervalMs: 20}\nlimits:";
    let config = resilient(CHECKS, &one_model(&[&engine]).replace("limits:", scrape));
    let process = Process::start(&config, "text");
    process.line("listening");
    engine.metrics("nonsense 1\n");
    let lines = process.lines_until("metrics cannot be used");
    assert!(!lines.iter().any(|line| line.contains("WARN")), "{lines:?}");
    engine.health(500);
    let mut lines = process.lines_until(
        "endpoint is out model=\"chat\" endpoint=\"e0\" why=\"checks\" \
         check=\"the answer was 500\"",
    );
    // Dozens of readings and checks later nothing more was said.
    tokio::time::sleep(Duration::from_millis(700)).await;
    engine.metrics(good);
    lines.extend(process.lines_until("metrics can be used again"));
    engine.health(200);
    lines.extend(process.lines_until("endpoint is back"));
    assert_eq!(lines, Vec::<String>::new());
}

#[tokio::test]
async fn a_slow_metrics_page_costs_nothing_but_its_own_freshness() {
    let (slow, quick) = (engine(vec![Behaviour::ok()]), engine(vec![Behaviour::ok()]));
    quick.metrics("vllm:num_requests_running 3\nvllm:num_requests_waiting 1\n");
    slow.freeze(true);
    let config =
        one_model(&[&slow, &quick]).replace("limits:", "scrape: {timeoutMs: 300}\nlimits:");
    let setup = Setup::start(&resilient(BREAKER, &config));
    setup.until(|status| status["models"][0]["endpoints"][1]["reportedRunning"] == 3).await;
    setup
        .until(|status| {
            let said = status["models"][0]["endpoints"][0]["degraded"].to_string();
            said.contains("no whole page came within 300 ms")
        })
        .await;
    assert_eq!(Client::ask(setup.admin, "GET", "/healthz").await.unwrap().status, 200);
    let age = &setup.status().await["models"][0]["endpoints"][1]["reportedAgeMs"];
    assert!(age.as_u64().unwrap() < 1_000);
}

#[tokio::test]
async fn a_reading_that_ends_after_its_endpoint_left_is_no_failure_of_anyone() {
    let silent = engine(vec![Behaviour::ok()]);
    silent.freeze(true);
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("key"), "k").unwrap();
    std::fs::write(folder.path().join("replicas.json"), replicas(&[("a", &silent, "ready")]))
        .unwrap();
    let config = file_config(CHECKS).replace("limits:", "scrape: {timeoutMs: 700}\nlimits:");
    let setup = Setup::start_in(folder, &config);
    setup.until(|_| silent.connections() > 0).await;
    setup.replace("replicas.json", &replicas(&[]));
    setup.until(|status| status["models"][0]["endpoints"].as_array().unwrap().is_empty()).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let page = setup.get_admin("/metrics").await.text();
    let left = page.lines().find(|line| line.contains("endpoint=\"a\""));
    assert_eq!(left, None, "its series ended with it");
}
