//! The admin port.

use crate::support::{KEY, Setup, engine, one_model};
use llmd_testkit::{Behaviour, Client, Reply};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

async fn probe(setup: &Setup, key: Option<&str>, body: &str) -> Reply {
    let header = key.map(|key| format!("authorization: Bearer {key}"));
    let headers: Vec<&str> = header.iter().map(String::as_str).collect();
    let client = Client::post(setup.admin, "/probe", &headers, body.as_bytes()).await.unwrap();
    client.reply().await.unwrap()
}

fn json(reply: &Reply) -> serde_json::Value {
    serde_json::from_slice(&reply.body).unwrap()
}

#[tokio::test]
async fn a_probe_goes_to_the_endpoint_that_it_names_and_needs_the_key() {
    let (one, other) = (engine(vec![Behaviour::ok()]), engine(vec![Behaviour::ok()]));
    let setup = Setup::start(&one_model(&[&one, &other]));
    let body = "{\"model\": \"chat\", \"endpoint\": \"e1\"}";
    for key in [None, Some("wrong"), Some("a-key-for-test"), Some("a-key-for-testsx"), Some("")] {
        assert_eq!(probe(&setup, key, body).await.status, 401, "{key:?}");
    }
    for _ in 0..3 {
        let reply = probe(&setup, Some(KEY), body).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        let answer = json(&reply);
        assert_eq!((&answer["ok"], &answer["simulated"]), (&true.into(), &false.into()));
        assert!(answer["latencyMs"].as_f64().unwrap() > 0.0);
    }
    assert_eq!((one.received().len(), other.received().len()), (0, 3));
    let sent: serde_json::Value = serde_json::from_slice(&other.received()[0].body).unwrap();
    assert_eq!((&sent["model"], &sent["max_tokens"]), (&"chat".into(), &1.into()));
    setup.at_rest().await;
}

#[tokio::test]
async fn a_probe_asks_in_an_api_that_the_endpoint_speaks_and_reads_its_answer() {
    for (apis, target, member) in [
        ("[completions, chat]", "POST /v1/completions", "choices"),
        ("[tokenize, chat]", "POST /v1/chat/completions", "choices"),
        ("[tokenize, responses]", "POST /v1/responses", "output"),
        ("[messages]", "POST /v1/messages", "content"),
        ("[embeddings]", "POST /v1/embeddings", "data"),
        ("[pooling]", "POST /pooling", "data"),
        ("[classify]", "POST /classify", "data"),
        ("[rerank, score]", "POST /score", "data"),
        ("[rerank]", "POST /rerank", "results"),
        ("[tokenize]", "POST /tokenize", "tokens"),
        ("[images, speech]", "GET /v1/models", "data"),
    ] {
        let answer = |member: &str| {
            let body = format!("{{\"{member}\":[]}}");
            let head = "HTTP/1.1 200 OK\r\nx-llmd-ctl-simulated: true\r\ncontent-length: ";
            Behaviour::Raw(format!("{head}{}\r\n\r\n{body}", body.len()).into_bytes())
        };
        let engine = engine(vec![answer(member), answer("nothing")]);
        let config =
            one_model(&[&engine]).replace("{name: v,", &format!("{{name: v, apis: {apis},"));
        let setup = Setup::start(&config);
        let body = "{\"model\": \"chat\", \"endpoint\": \"e0\"}";
        let good = probe(&setup, Some(KEY), body).await;
        assert_eq!((good.status, &json(&good)["simulated"]), (200, &true.into()), "{apis}");
        let bad = probe(&setup, Some(KEY), body).await;
        let reason = format!("the answer has no {member}");
        assert_eq!((bad.status, &json(&bad)["reason"]), (502, &reason.into()), "{apis}");
        assert!(engine.received().iter().all(|received| received.target == target), "{apis}");
        setup.at_rest().await;
    }
}

#[tokio::test]
async fn a_probe_tells_why_it_failed() {
    let bad = engine(vec![Behaviour::Status(500), Behaviour::CloseBeforeHead]);
    let setup = Setup::start(&one_model(&[&bad]));
    let body = "{\"model\": \"chat\", \"endpoint\": \"e0\"}";
    let first = probe(&setup, Some(KEY), body).await;
    assert_eq!((first.status, &json(&first)["ok"]), (502, &false.into()));
    assert!(json(&first)["reason"].as_str().unwrap().contains("500"));
    let second = probe(&setup, Some(KEY), body).await;
    assert!(json(&second)["reason"].as_str().unwrap().contains("e0"));
    for (body, status) in [
        ("{\"model\": \"chat\", \"endpoint\": \"x\"}", 404),
        ("{\"model\": \"x\", \"endpoint\": \"e0\"}", 404),
        ("{", 400),
    ] {
        assert_eq!(probe(&setup, Some(KEY), body).await.status, status);
    }
    let list = probe(&setup, Some(KEY), "[\"chat\", \"e1\"]").await;
    assert_eq!(list.status, 400, "{}", list.text());
}

#[tokio::test]
async fn without_a_key_file_probes_are_refused() {
    let engine = engine(vec![Behaviour::ok()]);
    let setup = Setup::start(&one_model(&[&engine]).replace("adminKeyFile: key\n", ""));
    let body = "{\"model\": \"chat\", \"endpoint\": \"e0\"}";
    assert_eq!(probe(&setup, Some(KEY), body).await.status, 403);
}

#[tokio::test]
async fn a_simulated_engine_is_said_to_be() {
    let engine = engine(vec![Behaviour::ok()]);
    let config = one_model(&[&engine]).replace("{name: v,", "{name: v, simulated: true,");
    let setup = Setup::start(&config);
    let reply = probe(&setup, Some(KEY), "{\"model\": \"chat\", \"endpoint\": \"e0\"}").await;
    assert_eq!(json(&reply)["simulated"], true);
    assert_eq!(setup.status().await["models"][0]["endpoints"][0]["simulated"], true);
}

#[tokio::test]
async fn an_engine_whose_answers_say_that_they_are_simulated_is_shown_so() {
    let says = |head: &str| {
        let answer = format!("HTTP/1.1 {head}\r\ncontent-length: 2\r\n\r\n{{}}");
        Behaviour::Raw(answer.into_bytes())
    };
    let engine = engine(vec![
        says("200 OK"),
        says("200 OK\r\nx-llmd-ctl-simulated: true"),
        says("404 Not Found"),
        says("200 OK\r\nx-llmd-ctl-simulated: false"),
    ]);
    let quiet = "scrape: {intervalMs: 600000}\nresilience: {checks: {failures: 0}}\nmodels:";
    let setup = Setup::start(&one_model(&[&engine]).replace("models:", quiet));
    let gauge = "llmd_router_endpoint_simulated{model=\"chat\",endpoint=\"e0\",variant=\"v\"}";
    // What is no success may be of somebody who stands before the engine.
    for (status, simulated) in [(200, false), (200, true), (404, true), (200, false)] {
        assert_eq!(setup.ask().await.status, status);
        assert_eq!(setup.status().await["models"][0]["endpoints"][0]["simulated"], simulated);
        assert_eq!(setup.metric(gauge).await, f64::from(u8::from(simulated)));
    }
}

#[tokio::test]
async fn the_admin_port_knows_its_paths_and_their_methods() {
    let engine = engine(vec![Behaviour::ok()]);
    let setup = Setup::start(&one_model(&[&engine]));
    let (read, asked) = (Some("GET, HEAD"), Some("POST"));
    for (method, path, status, allow) in [
        ("GET", "/healthz", 200, None),
        ("HEAD", "/healthz", 200, None),
        ("HEAD", "/readyz", 200, None),
        ("HEAD", "/metrics", 200, None),
        ("HEAD", "/status", 200, None),
        ("POST", "/healthz", 405, read),
        ("DELETE", "/readyz", 405, read),
        ("POST", "/metrics", 405, read),
        ("PUT", "/status", 405, read),
        ("GET", "/probe", 405, asked),
        ("PUT", "/probe", 405, asked),
        ("GET", "/", 404, None),
        ("POST", "/v1/chat/completions", 404, None),
    ] {
        let reply = Client::ask(setup.admin, method, path).await.unwrap();
        assert_eq!((reply.status, reply.header("allow")), (status, allow), "{method} {path}");
    }
}

#[tokio::test]
async fn reported_load_is_shown_and_a_missing_signal_is_null() {
    let (told, silent) = (engine(vec![Behaviour::ok()]), engine(vec![Behaviour::ok()]));
    told.metrics(
        "vllm:num_requests_running{engine=\"0\"} 3\nvllm:num_requests_waiting{engine=\"0\"} 0\n",
    );
    // A share of the KV space alone is no load.
    silent.metrics("vllm:kv_cache_usage_perc 0.5\n");
    let setup = Setup::start(&one_model(&[&told, &silent]));
    setup.until(|status| status["models"][0]["endpoints"][0]["reportedRunning"] == 3).await;
    let status = setup.status().await;
    let endpoints = &status["models"][0]["endpoints"];
    assert_eq!(endpoints[0]["reportedWaiting"], 0);
    assert!(endpoints[0]["reportedKvUsage"].is_null());
    assert!(endpoints[0]["reportedAgeMs"].as_u64().unwrap() < 5_000);
    assert!(endpoints[1]["reportedRunning"].is_null());
    assert!(!endpoints[1]["degraded"].as_array().unwrap().is_empty());
    let page = setup.get_admin("/metrics").await.text();
    assert!(
        page.contains(
            "llmd_router_reported_running{model=\"chat\",endpoint=\"e0\",variant=\"v\"} 3"
        )
    );
    assert!(!page.contains("llmd_router_reported_running{model=\"chat\",endpoint=\"e1\""));
    let failures =
        "llmd_router_scrape_failures_total{model=\"chat\",endpoint=\"e1\",variant=\"v\"}";
    assert!(setup.metric(failures).await > 0.0);
}

#[tokio::test]
async fn status_has_every_field_that_is_promised() {
    let engine = engine(vec![Behaviour::ok()]);
    let setup = Setup::start(&one_model(&[&engine]));
    let status = setup.status().await;
    for field in ["version", "ready", "draining"] {
        assert!(!status[field].is_null(), "{field}");
    }
    assert!(status["config"]["loadedAt"].is_string() && status["config"]["error"].is_null());
    let model = &status["models"][0];
    for field in ["name", "scheduler", "bytesPerToken"] {
        assert!(!model[field].is_null(), "{field}");
    }
    let endpoint = model["endpoints"][0].as_object().unwrap();
    for field in [
        "name",
        "address",
        "variant",
        "accelerator",
        "simulated",
        "state",
        "profile",
        "inflightRequests",
        "inflightTokens",
        "reportedRunning",
        "reportedWaiting",
        "reportedKvUsage",
        "reportedAgeMs",
        "prefillCorrection",
        "stepCorrection",
        "degraded",
        "revision",
    ] {
        assert!(endpoint.contains_key(field), "{field}");
    }
    assert_eq!(endpoint["state"], "ready");
    assert_eq!(endpoint["profile"], "neutral");
}

#[tokio::test]
async fn what_was_learned_of_an_endpoint_is_shown() {
    let engine = engine(vec![Behaviour::Ok(1, Duration::ZERO)]);
    let setup = Setup::start(&one_model(&[&engine]));
    let prompt = "and so on ".repeat(2_000);
    let body = crate::support::body("chat", true).replace("hello there", &prompt);
    assert_eq!(setup.post(&[], &body).await.reply().await.unwrap().status, 200);
    // The middling accelerator, which it began with, takes a quarter of a second for that.
    setup
        .until(|status| {
            let endpoint = &status["models"][0]["endpoints"][0];
            endpoint["prefillCorrection"].as_f64().is_some_and(|share| share < 0.9)
        })
        .await;
}

#[tokio::test]
async fn inflight_requests_are_shown_while_they_run() {
    let engine = engine(vec![Behaviour::StallAfter(1)]);
    let setup = Setup::start(&one_model(&[&engine]));
    let mut client = setup.post(&[], &crate::support::body("chat", true)).await;
    client.wait_for("t0").await.unwrap();
    let gauge = "llmd_router_inflight_requests{model=\"chat\",endpoint=\"e0\",variant=\"v\"}";
    assert_eq!(setup.metric(gauge).await, 1.0);
    assert_eq!(setup.status().await["models"][0]["endpoints"][0]["inflightRequests"], 1);
    drop(client);
    setup.at_rest().await;
}

#[tokio::test]
async fn junk_names_make_no_series() {
    let engine = engine(vec![Behaviour::ok()]);
    let setup = Setup::start(&one_model(&[&engine]));
    let junk = |n: usize| crate::support::body(&format!("junk-{n}"), false);
    setup.post(&[], &junk(0)).await.reply().await.unwrap();
    setup.ask().await;
    Client::ask(setup.data, "GET", "/junk").await.unwrap();
    let series = |page: String| page.lines().filter(|line| !line.starts_with('#')).count();
    let before = series(setup.get_admin("/metrics").await.text());
    for n in 1..40 {
        setup.post(&[], &junk(n)).await.reply().await.unwrap();
        Client::ask(setup.data, "GET", &format!("/junk/{n}")).await.unwrap();
    }
    assert_eq!(series(setup.get_admin("/metrics").await.text()), before);
}

#[tokio::test]
async fn promtool_reads_a_live_page() {
    let engine = engine(vec![Behaviour::Status(500), Behaviour::Ok(3, Duration::ZERO)]);
    engine.metrics("vllm:num_requests_running 1\n");
    let setup = Setup::start(&one_model(&[&engine]));
    setup.ask().await;
    setup.ask_stream().await;
    let page = setup.get_admin("/metrics").await;
    assert!(page.header("content-type").unwrap().starts_with("text/plain; version=0.0.4"));
    let mut tool = Command::new("promtool");
    tool.args(["check", "metrics"]).stdin(Stdio::piped());
    let tool = tool.stderr(Stdio::piped()).stdout(Stdio::piped()).spawn();
    // Where Prometheus is not installed the end-to-end tests, which install it, check a page.
    let Ok(mut tool) = tool else { return };
    std::io::Write::write_all(&mut tool.stdin.take().unwrap(), &page.body).unwrap();
    let output = tool.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test]
async fn a_flood_of_the_admin_port_ends_by_itself_and_harms_no_client() {
    let engine = engine(vec![Behaviour::ok()]);
    let setup = Setup::start(&one_model(&[&engine]));
    let mut held = Vec::new();
    for begun in 0..1_000 {
        let bytes: &[u8] = if begun % 2 == 0 { b"" } else { b"GET /metrics HTTP/1.1\r\nx: " };
        // What is closed at once may be reset before the bytes are written.
        held.extend(Client::send(setup.admin, bytes).await.ok());
        if begun % 100 == 0 {
            assert_eq!(setup.ask().await.status, 200);
        }
    }
    let begun = Instant::now();
    while Client::ask(setup.admin, "GET", "/healthz").await.is_err() {
        assert!(begun.elapsed() < Duration::from_secs(5), "its room is not free again");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(setup.ask().await.status, 200);
    setup.at_rest().await;
}

/// Whether the other side closes a connection, and soon.
async fn is_closed(socket: &mut TcpStream, within: Duration) -> bool {
    let read = tokio::time::timeout(within, socket.read(&mut [0])).await;
    read.is_ok_and(|read| matches!(read, Ok(0) | Err(_)))
}

#[tokio::test]
async fn of_clients_that_ask_for_nothing_the_oldest_makes_room_on_the_admin_port() {
    let engine = engine(vec![Behaviour::ok()]);
    let setup = Setup::start(&one_model(&[&engine]).replace("headerMs: 1000", "headerMs: 60000"));
    let mut held = Vec::new();
    for number in 0..64 {
        let mut socket = TcpStream::connect(setup.admin).await.unwrap();
        let half: &[u8] = if number % 2 == 0 { b"" } else { b"GET /healthz HTTP/1.1\r\n" };
        socket.write_all(half).await.unwrap();
        held.push(socket);
    }
    for _ in 0..2 {
        assert_eq!(setup.get_admin("/healthz").await.status, 200);
    }
    // One made room, and that is free again for the second.
    assert!(is_closed(&mut held[0], Duration::from_secs(5)).await);
    assert!(!is_closed(&mut held[1], Duration::from_millis(50)).await);
}

#[tokio::test]
async fn requests_in_hand_on_the_admin_port_are_not_cut_for_new_clients() {
    let engine = engine(vec![Behaviour::Hang]);
    let limits = "firstByteMs: 60000";
    let setup = Setup::start(&one_model(&[&engine]).replace("firstByteMs: 1500", limits));
    let (key, asked) =
        (format!("authorization: Bearer {KEY}"), br#"{"model":"chat","endpoint":"e0"}"#);
    let mut held = Vec::new();
    for _ in 0..64 {
        held.push(Client::post(setup.admin, "/probe", &[&key], asked).await.unwrap());
    }
    let end = Instant::now() + Duration::from_secs(10);
    while engine.received().len() < 64 {
        assert!(Instant::now() < end);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut one_more = TcpStream::connect(setup.admin).await.unwrap();
    assert!(is_closed(&mut one_more, Duration::from_secs(5)).await);
    assert!(engine.received().iter().all(|request| request.cancelled.is_none()));
    held.pop();
    let end = Instant::now() + Duration::from_secs(5);
    while Client::ask(setup.admin, "GET", "/healthz").await.is_err() {
        assert!(Instant::now() < end, "the place is not free again");
    }
}

#[tokio::test]
async fn slow_clients_of_the_admin_port_are_cut() {
    let engine = engine(vec![Behaviour::ok()]);
    let setup = Setup::start(&one_model(&[&engine]));
    let begun = Instant::now();
    let key = format!("authorization: Bearer {KEY}");
    let head = format!("POST /probe HTTP/1.1\r\nhost: x\r\n{key}\r\ncontent-length: 9\r\n\r\n{{");
    let body = Client::send(setup.admin, head.as_bytes()).await.unwrap();
    // As many pages as fill what the system holds for a client that takes nothing in.
    let page = b"GET /status HTTP/1.1\r\nhost: x\r\n\r\n";
    let mut deaf = TcpStream::connect(setup.admin).await.unwrap();
    let many = page.repeat(20_000);
    let _ = tokio::time::timeout(Duration::from_millis(700), deaf.write_all(&many)).await;
    let mut slow = body;
    slow.wait_for("400 Bad Request").await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    let end = Instant::now() + Duration::from_secs(6);
    let pause = Duration::from_millis(50);
    while !matches!(tokio::time::timeout(pause, deaf.write_all(page)).await, Ok(Err(_))) {
        assert!(Instant::now() < end, "it is let be");
        tokio::time::sleep(pause).await;
    }
}
