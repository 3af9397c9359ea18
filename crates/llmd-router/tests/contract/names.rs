//! Endpoints that are found by a name, while a real name server changes its mind.

use crate::support::{KEY, Setup, base, engine};
use llmd_router::control::Command;
use llmd_testkit::{Behaviour, FakeEngine, NameServer, Says};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

fn config(server: &NameServer, port: u16) -> String {
    format!(
        "{}models:\n- name: chat\n  scheduler: round-robin\n  variants: [{{name: v}}]\n  sources: \
         [{{kind: dns, name: chat.llm.svc., port: {port}, variant: v, intervalMs: 100, \
         resolver: \"{}\"}}]\n",
        base(),
        server.address
    )
}

fn at(addresses: &[&str]) -> Says {
    Says::Addresses(addresses.iter().map(|ip| ip.parse::<IpAddr>().unwrap()).collect(), 0)
}

fn names(status: &serde_json::Value) -> Vec<&str> {
    let endpoints = status["models"][0]["endpoints"].as_array().unwrap();
    let here = endpoints.iter().filter(|one| one["state"] != "down");
    here.map(|one| one["address"].as_str().unwrap()).collect()
}

/// Three engines with one port and an address each.
fn three() -> [FakeEngine; 3] {
    let slow = vec![Behaviour::Ok(3, Duration::from_millis(10))];
    let first = engine(slow.clone());
    let port = first.address.port();
    let at = |ip: &str| format!("{ip}:{port}").parse().unwrap();
    let other = |ip: &str| FakeEngine::start_at(at(ip), slow.clone()).unwrap();
    [first, other("127.0.0.2"), other("127.0.0.3")]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_of_a_name_come_and_go_without_a_lost_request() {
    let [first, second, third] = three();
    let port = first.address.port();
    let server = NameServer::start().unwrap();
    server.say("chat.llm.svc.", &at(&["127.0.0.1", "127.0.0.2"]));
    let setup = Arc::new(Setup::start(&config(&server, port)));
    // It is ready when it has started.
    assert_eq!(setup.ask().await.status, 200);
    let over = Arc::new(AtomicBool::new(false));
    let mut tasks = tokio::task::JoinSet::new();
    for client in 0..8 {
        let (setup, over) = (Arc::clone(&setup), Arc::clone(&over));
        tasks.spawn(async move {
            let mut whole = 0;
            while !over.load(Relaxed) {
                let stream = client % 2 == 0;
                let reply = if stream { setup.ask_stream().await } else { setup.ask().await };
                assert_eq!(reply.status, 200, "lost: {}", reply.text());
                assert!(!stream || reply.text().ends_with("data: [DONE]\n\n"), "broken");
                whole += 1;
            }
            whole
        });
    }
    let addresses = |last: [u8; 2]| last.map(|last| format!("127.0.0.{last}:{port}"));
    setup.until(|status| names(status) == addresses([1, 2])).await;
    server.say("chat.llm.svc.", &at(&["127.0.0.2", "127.0.0.3"]));
    setup.until(|status| names(status) == addresses([2, 3])).await;
    let (gone, come) = (first.received().len(), third.received().len());
    let end = Instant::now() + Duration::from_secs(10);
    while third.received().len() < come + 20 {
        assert!(Instant::now() < end, "no requests for the one that came");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(first.received().len() <= gone + 8, "requests for the one that is gone");
    assert!(!second.received().is_empty());
    over.store(true, Relaxed);
    let mut whole = 0;
    while let Some(one) = tasks.join_next().await {
        whole += one.unwrap();
    }
    assert!(whole > 20, "{whole}");
    setup.at_rest().await;
}

#[tokio::test]
async fn a_name_server_that_fails_changes_nothing_and_is_told() {
    let [first, _second, _third] = three();
    let server = NameServer::start().unwrap();
    server.say("chat.llm.svc.", &at(&["127.0.0.1"]));
    let setup = Setup::start(&config(&server, first.address.port()));
    let problems = |status: &serde_json::Value| {
        let problems = status["models"][0]["problems"].as_array().unwrap();
        problems.iter().map(|one| one.as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    setup.until(|status| names(status).len() == 1 && problems(status).is_empty()).await;
    server.say("chat.llm.svc.", &Says::Code(2));
    setup.until(|status| problems(status).len() == 2).await;
    assert_eq!(setup.metric("llmd_router_discovery_problems{model=\"chat\"}").await, 2.0);
    assert_eq!(setup.ask().await.status, 200);
    // A change of the source, which begins anew, takes nothing away either.
    let other = config(&server, first.address.port()).replace("intervalMs: 100", "intervalMs: 101");
    setup.replace("router.yaml", &other);
    let applied = "llmd_router_config_reloads_total{result=\"applied\"}";
    let end = Instant::now() + Duration::from_secs(10);
    while setup.metric(applied).await < 1.0 {
        assert!(Instant::now() < end, "not taken over");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(setup.ask().await.status, 200);
    // That there is none is an answer.
    server.say("chat.llm.svc.", &Says::NoSuchName);
    setup.until(|status| names(status).is_empty() && problems(status).is_empty()).await;
    assert_eq!(setup.ask().await.status, 503);
    assert_eq!(setup.metric("llmd_router_discovery_problems{model=\"chat\"}").await, 0.0);
}

#[tokio::test]
async fn a_start_does_not_wait_for_a_name_server_that_hangs() {
    let [first, _second, _third] = three();
    let server = NameServer::start().unwrap();
    server.say("chat.llm.svc.", &Says::Silence);
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("key"), KEY).unwrap();
    let begun = Instant::now();
    let config = config(&server, first.address.port());
    let mut setup = Setup::start_in(folder, &config);
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    assert_eq!(setup.get_admin("/readyz").await.status, 503);
    server.say("chat.llm.svc.", &at(&["127.0.0.1"]));
    setup.until(|status| status["ready"] == true).await;
    assert_eq!(setup.ask().await.status, 200);
    setup.tell(Command::Drain);
    assert_eq!(setup.ended().await, 0);
}
