//! Reloads, endpoints that come and go, and the way out.

use crate::support::{CHAT, Setup, base, body, engine, one_model};
use llmd_router::control::Command;
use llmd_testkit::{Behaviour, Client, FakeEngine};
use std::time::{Duration, Instant};

fn names(status: &serde_json::Value) -> Vec<String> {
    let endpoints = status["models"][0]["endpoints"].as_array().unwrap();
    endpoints.iter().map(|e| e["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_changed_configuration_is_taken_over_and_what_runs_is_not_touched() {
    let (old, new) = (engine(vec![Behaviour::Ok(10, Duration::from_millis(100))]), engine(vec![]));
    let setup = Setup::start(&one_model(&[&old]));
    let mut running = setup.post(&[], &body("chat", true)).await;
    running.wait_for("t0").await.unwrap();

    let endpoints = one_model(&[&old]).replace("name: e0", "name: gone");
    let text = endpoints.replace(&old.address.port().to_string(), &new.address.port().to_string());
    setup.replace("router.yaml", &text.replace("round-robin", "random"));
    setup.until(|status| status["models"][0]["scheduler"] == "random").await;
    assert_eq!(setup.ask().await.status, 200);
    assert_eq!(new.received().len(), 1);
    assert!(running.reply().await.unwrap().text().ends_with("data: [DONE]\n\n"));
    setup.at_rest().await;
    assert_eq!(setup.metric("llmd_router_config_reloads_total{result=\"applied\"}").await, 1.0);
}

#[tokio::test]
async fn a_model_that_stays_keeps_its_load_and_what_was_learned() {
    let engine = engine(vec![Behaviour::StallAfter(1)]);
    let setup = Setup::start(&one_model(&[&engine]));
    let mut running = setup.post(&[], &body("chat", true)).await;
    running.wait_for("t0").await.unwrap();
    setup.replace("router.yaml", &one_model(&[&engine]).replace("round-robin", "least-request"));
    setup.until(|status| status["models"][0]["scheduler"] == "least-request").await;
    let endpoint = setup.status().await["models"][0]["endpoints"][0].clone();
    assert_eq!((&endpoint["inflightRequests"], &endpoint["picks"]), (&1.into(), &1.into()));
}

#[tokio::test]
async fn a_bad_configuration_is_refused_whole_and_the_old_one_serves_on() {
    let engine = engine(vec![]);
    let good = one_model(&[&engine]);
    let setup = Setup::start(&good);
    let bad = [
        "version: [",
        &good.replace("scheduler: round-robin", "scheduler: clever"),
        &good.replace("fleet: test", "fleet: test\nunknown: 1"),
        &good.replace("127.0.0.1:0", "127.0.0.1:1"),
        &good.replace("adminKeyFile: key", "adminKeyFile: missing"),
        &good.replace("sources: [", "sources: [{kind: file, path: missing.yaml}, "),
    ];
    for (at, text) in bad.into_iter().enumerate() {
        setup.replace("router.yaml", text);
        let refused = "llmd_router_config_reloads_total{result=\"refused\"}";
        let end = Instant::now() + Duration::from_secs(10);
        while setup.metric(refused).await < (at + 1) as f64 {
            assert!(Instant::now() < end, "not refused: {text}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(setup.status().await["config"]["error"].is_string());
        assert_eq!(setup.ask().await.status, 200);
    }
    setup.replace("router.yaml", &good.replace("round-robin", "random"));
    setup.until(|status| status["config"]["error"].is_null()).await;
}

#[tokio::test]
async fn a_reload_can_be_asked_for() {
    let engine = engine(vec![]);
    let setup = Setup::start(&one_model(&[&engine]));
    setup.tell(Command::Reload);
    let sample = "llmd_router_config_reloads_total{result=\"applied\"}";
    let end = Instant::now() + Duration::from_secs(5);
    while setup.metric(sample).await < 1.0 {
        assert!(Instant::now() < end);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn file_config() -> String {
    format!("{}models:\n- name: chat\n  sources: [{{kind: file, path: endpoints.yaml}}]\n", base())
}

fn endpoints(engines: &[(&str, &FakeEngine)]) -> String {
    let entries = engines.iter().map(|(name, engine)| {
        format!("- {{name: {name}, address: 127.0.0.1, port: \"{}\"}}\n", engine.address.port())
    });
    format!("endpoints:\n{}", entries.collect::<String>())
}

#[tokio::test]
async fn endpoints_come_and_go_with_their_file() {
    let (a, b) = (engine(vec![]), engine(vec![]));
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("key"), "k").unwrap();
    std::fs::write(folder.path().join("endpoints.yaml"), endpoints(&[("a", &a)])).unwrap();
    let setup = Setup::start_in(folder, &file_config());
    assert_eq!(setup.ask().await.status, 200);

    setup.replace("endpoints.yaml", &endpoints(&[("b", &b)]));
    setup.until(|status| names(status) == ["b"]).await;
    assert_eq!(setup.ask().await.status, 200);
    assert_eq!((a.received().len(), b.received().len()), (1, 1));

    setup.replace("endpoints.yaml", "endpoints: [");
    setup.until(|status| !status["models"][0]["problems"].as_array().unwrap().is_empty()).await;
    assert_eq!(setup.ask().await.status, 200);

    setup.replace("endpoints.yaml", "endpoints: []\n");
    setup.until(|status| names(status).is_empty()).await;
    assert_eq!(setup.ask().await.status, 503);
}

#[tokio::test]
async fn an_endpoint_that_moves_keeps_its_name_and_gets_requests_at_its_new_address() {
    let (a, b) = (engine(vec![]), engine(vec![]));
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("key"), "k").unwrap();
    std::fs::write(folder.path().join("endpoints.yaml"), endpoints(&[("x", &a)])).unwrap();
    let setup = Setup::start_in(folder, &file_config());
    setup.ask().await;
    setup.replace("endpoints.yaml", &endpoints(&[("x", &b)]));
    let address = b.address.to_string();
    setup.until(|status| status["models"][0]["endpoints"][0]["address"] == *address).await;
    setup.ask().await;
    assert_eq!((a.received().len(), b.received().len()), (1, 1));
    setup.at_rest().await;
}

#[tokio::test]
async fn a_replica_gets_requests_only_while_it_is_ready() {
    let (a, b) = (engine(vec![]), engine(vec![]));
    let replicas = |states: [&str; 2]| {
        let entries: Vec<String> = [&a, &b]
            .iter()
            .zip(["a", "b"])
            .zip(states)
            .map(|((engine, name), state)| {
                format!(
                    "{{\"name\":\"{name}\",\"model\":\"chat\",\"variant\":\"v\",\
                     \"address\":\"127.0.0.1\",\"port\":{},\"state\":\"{state}\",\"revision\":4}}",
                    engine.address.port()
                )
            })
            .collect();
        format!("{{\"version\":1,\"replicas\":[{}]}}", entries.join(","))
    };
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("key"), crate::support::KEY).unwrap();
    std::fs::write(folder.path().join("replicas.json"), replicas(["ready", "starting"])).unwrap();
    let config = format!(
        "{}models:\n- name: chat\n  variants: [{{name: v}}]\n  \
         sources: [{{kind: process, path: replicas.json}}]\n",
        base()
    );
    let setup = Setup::start_in(folder, &config);
    let states = |status: &serde_json::Value| {
        let endpoints = status["models"][0]["endpoints"].as_array().unwrap();
        endpoints.iter().map(|e| e["state"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    setup.until(|status| states(status) == ["ready", "starting"]).await;
    for _ in 0..4 {
        assert_eq!(setup.ask().await.status, 200);
    }
    assert_eq!((a.received().len(), b.received().len()), (4, 0));
    // A probe reaches what is still starting.
    let header = format!("authorization: Bearer {}", crate::support::KEY);
    let wanted = b"{\"model\":\"chat\",\"endpoint\":\"b\"}";
    let probe = Client::post(setup.admin, "/probe", &[&header], wanted).await.unwrap();
    assert_eq!(probe.reply().await.unwrap().status, 200);
    assert_eq!(b.received().len(), 1);

    setup.replace("replicas.json", &replicas(["draining", "ready"]));
    setup.until(|status| states(status) == ["draining", "ready"]).await;
    for _ in 0..4 {
        assert_eq!(setup.ask().await.status, 200);
    }
    assert_eq!((a.received().len(), b.received().len()), (4, 5));
    assert_eq!(setup.status().await["models"][0]["endpoints"][0]["revision"], 4);
}

#[tokio::test]
async fn a_drain_loses_nothing() {
    let engine = engine(vec![Behaviour::Ok(10, Duration::from_millis(100))]);
    let mut setup = Setup::start(&one_model(&[&engine]));
    assert_eq!(setup.get_admin("/readyz").await.text(), "ready\n");
    let mut running = setup.post(&[], &body("chat", true)).await;
    running.wait_for("t0").await.unwrap();
    setup.tell(Command::Drain);
    setup.until(|status| status["draining"] == true && status["ready"] == false).await;
    let ready = setup.get_admin("/readyz").await;
    assert_eq!((ready.status, ready.text().as_str()), (503, "draining\n"));
    assert_eq!(setup.get_admin("/healthz").await.text(), "ok\n");
    // Who has not noticed yet is still served, and told to go.
    let one = body("chat", false);
    let head = format!("POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", one.len());
    let late = Client::send(setup.data, format!("{head}{one}").as_bytes()).await.unwrap();
    let late = late.reply().await.unwrap();
    assert_eq!((late.status, late.header("connection")), (200, Some("close")));
    assert!(running.reply().await.unwrap().text().ends_with("data: [DONE]\n\n"));
    assert_eq!(setup.ended().await, 0);
    assert!(Client::ask(setup.data, "GET", "/v1/models").await.is_err(), "it still listens");
}

#[tokio::test]
async fn a_drain_at_rest_is_quick_and_closes_idle_connections() {
    let engine = engine(vec![]);
    let mut setup = Setup::start(&one_model(&[&engine]));
    let ask = "GET /v1/models HTTP/1.1\r\nhost: x\r\n\r\n";
    let mut idle = Client::send(setup.data, ask.as_bytes()).await.unwrap();
    idle.wait_for("assistant").await.unwrap();
    let begun = Instant::now();
    setup.tell(Command::Drain);
    assert_eq!(setup.ended().await, 0);
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_drain_waits_for_no_head_that_is_not_whole() {
    let whole = "GET /v1/models HTTP/1.1\r\nhost: x\r\n\r\n";
    let next = format!("{whole}GET /v1/mod");
    for (begun, answer) in [
        ("", ""),
        ("P", ""),
        ("PRI * HTTP/2.0\r\n", ""),
        ("POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n", ""),
        (&next, "assistant"),
    ] {
        let engine = engine(vec![]);
        let mut setup =
            Setup::start(&one_model(&[&engine]).replace("headerMs: 1000", "headerMs: 60000"));
        let mut half = Client::send(setup.data, begun.as_bytes()).await.unwrap();
        if !answer.is_empty() {
            half.wait_for(answer).await.unwrap();
        }
        let asked = Instant::now();
        setup.tell(Command::Drain);
        assert_eq!(setup.ended().await, 0);
        assert!(asked.elapsed() < Duration::from_secs(3), "{begun:?}: {:?}", asked.elapsed());
    }
}

#[tokio::test]
async fn a_drain_lets_a_client_take_its_answer_in_whatever_it_has_begun_to_ask() {
    let long = "x".repeat(6 << 20);
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", long.len());
    let engine = engine(vec![Behaviour::Raw((head + &long).into_bytes())]);
    let mut setup = Setup::start(&one_model(&[&engine]).replace("idleMs: 700", "idleMs: 5000"));
    let body = body("chat", false);
    let head = format!("POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n", body.len());
    let asked = format!("{head}\r\n{body}{head}");
    let client = Client::send(setup.data, asked.as_bytes()).await.unwrap();
    setup.until(|status| status["models"][0]["endpoints"][0]["picks"] == 1).await;
    setup.tell(Command::Drain);
    let end = Instant::now() + Duration::from_secs(4);
    while Client::send(setup.data, b"").await.is_ok() {
        assert!(Instant::now() < end, "it still listens");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // It reads only now, when the router waits for nothing else.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let reply = client.reply().await.unwrap();
    assert!(reply.whole && reply.body.len() == long.len(), "{} bytes", reply.body.len());
    assert_eq!(setup.ended().await, 0);
}

#[tokio::test]
async fn a_second_signal_cuts_what_still_runs() {
    let engine = engine(vec![Behaviour::Hang]);
    let mut setup = Setup::start(&one_model(&[&engine]));
    let _running = setup.post(&[], &body("chat", true)).await;
    setup.until(|status| status["models"][0]["requests"] == 1).await;
    setup.tell(Command::Drain);
    setup.until(|status| status["draining"] == true).await;
    setup.tell(Command::Cut);
    assert_eq!(setup.ended().await, 1);
}

#[tokio::test]
async fn the_drain_limit_cuts_what_still_runs() {
    let engine = engine(vec![Behaviour::Hang]);
    let mut setup = Setup::start(&one_model(&[&engine]).replace("drainMs: 5000", "drainMs: 300"));
    let _running = setup.post(&[], &body("chat", true)).await;
    setup.until(|status| status["models"][0]["requests"] == 1).await;
    let begun = Instant::now();
    setup.tell(Command::Drain);
    assert_eq!(setup.ended().await, 1);
    assert!(begun.elapsed() < Duration::from_millis(1_400));
}

#[test]
fn a_wrong_configuration_or_usage_ends_with_its_own_code() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("router.yaml");
    std::fs::write(&file, "version: 2\n").unwrap();
    let run = |arguments: &[&std::ffi::OsStr]| {
        // As a process, whose complaints do not mix with the tests' own lines.
        let router = std::process::Command::new(env!("CARGO_BIN_EXE_llmd-router"))
            .args(arguments)
            .output()
            .unwrap();
        router.status.code().unwrap()
    };
    assert_eq!(run(&["--config".as_ref(), file.as_ref()]), 65);
    assert_eq!(run(&["--config".as_ref(), file.as_ref(), "--check".as_ref()]), 65);
    assert_eq!(run(&["--nonsense".as_ref()]), 64);
    std::fs::write(&file, "version: 1\n").unwrap();
    assert_eq!(run(&["--config".as_ref(), file.as_ref(), "--check".as_ref()]), 0);
}

#[test]
fn a_check_opens_all_files_that_are_named_and_binds_no_port() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("router.yaml");
    let check = || {
        let router = std::process::Command::new(env!("CARGO_BIN_EXE_llmd-router"))
            .arg("--config")
            .arg(&file)
            .arg("--check")
            .output()
            .unwrap();
        (router.status.code().unwrap(), String::from_utf8(router.stderr).unwrap())
    };
    let text = format!(
        "version: 1\nlisten: {{data: \"127.0.0.1:{port}\", tls: {{certFile: a.crt, \
         keyFile: a.key}}}}\nadminKeyFile: key\nmodels:\n- name: chat\n  variants: [{{name: v, \
         tls: {{caFile: ca.crt}}}}]\n  \
         sources: [{{kind: file, path: endpoints.yaml}}, {{kind: process, path: replicas.json}}]\n"
    );
    std::fs::write(&file, &text).unwrap();
    let (code, told) = check();
    assert_eq!(code, 65, "{told}");
    let wrong = [
        "adminKeyFile: ",
        "listen.tls: certFile: ",
        "models[0].variants[0].tls: caFile: ",
        "models[0].sources: ",
    ];
    for place in wrong {
        assert!(told.contains(place), "{place}: {told}");
    }
    let plain =
        format!("version: 1\nlisten: {{data: \"127.0.0.1:{port}\"}}\nmodels: [{{name: a}}]\n");
    std::fs::write(&file, &plain).unwrap();
    let (code, told) = check();
    assert!(code == 0 && told.ends_with("router.yaml: ok, 1 model\n"), "{told}");
    std::fs::write(&file, plain.replace("{name: a}", "{name: a}, {name: b}")).unwrap();
    assert!(check().1.ends_with("ok, 2 models\n"));
}
