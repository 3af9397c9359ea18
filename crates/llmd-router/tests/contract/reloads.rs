//! Files that change while hundreds of requests run: nothing is lost, and what was begun on an
//! old table ends on it.

use crate::process::{Process, address};
use crate::support::{CHAT, Setup, base, body, engine, one_model};
use llmd_testkit::{Behaviour, Client, FakeEngine, Session};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

const CLIENTS: usize = 100;
const SWAPS: usize = 50;

fn chat(engines: &[FakeEngine], aliases: &str) -> String {
    let config = one_model(&engines.iter().collect::<Vec<_>>());
    config.replace("aliases: [assistant]", &format!("aliases: [{aliases}]"))
}

/// The configuration's turns: a model more, another name for it, none of it, and broken files.
fn turn(engines: &[FakeEngine], number: usize) -> (String, bool) {
    let one = chat(engines, "assistant");
    let more = |name: &str| {
        let port = engines[0].address.port();
        let endpoint = format!("{{name: x, address: 127.0.0.1, port: {port}}}");
        format!("{one}- name: {name}\n  sources: [{{kind: static, endpoints: [{endpoint}]}}]\n")
    };
    match number % 6 {
        0 => (more("extra"), true),
        1 => (one[..one.len() - 20].to_owned(), false),
        2 => (more("renamed"), true),
        3 => (one.replace("round-robin", "clever"), false),
        4 => (chat(&engines[1..], "assistant, other"), true),
        _ => (String::new(), false),
    }
}

/// Clients that ask without a pause until told; the answers they got.
struct Clients {
    tasks: JoinSet<usize>,
    ended: Arc<AtomicBool>,
}

impl Clients {
    fn start(setup: &Setup, names: [&'static str; 2]) -> Self {
        let (mut tasks, ended) = (JoinSet::new(), Arc::new(AtomicBool::new(false)));
        for client in 0..CLIENTS {
            let (data, ended) = (setup.data, Arc::clone(&ended));
            let body = body(names[usize::from(client % 10 == 0)], client % 2 == 0);
            tasks.spawn(async move {
                let (mut session, mut answers) = (Session::new(data), 0);
                while !ended.load(SeqCst) {
                    let reply = session.post(CHAT, &body).await.unwrap();
                    assert!(reply.status == 200 && reply.whole, "lost: {}", reply.text());
                    assert!(!reply.text().contains("event: error"), "{}", reply.text());
                    answers += 1;
                }
                answers
            });
        }
        Self { tasks, ended }
    }

    async fn end(mut self) -> usize {
        self.ended.store(true, SeqCst);
        let mut answers = 0;
        while let Some(ended) = self.tasks.join_next().await {
            answers += ended.unwrap();
        }
        answers
    }
}

fn some_engines() -> Vec<FakeEngine> {
    (0..3).map(|_| engine(vec![Behaviour::Ok(4, Duration::from_millis(20))])).collect()
}

async fn reloads(setup: &Setup, result: &str) -> f64 {
    setup.metric(&format!("llmd_router_config_reloads_total{{result=\"{result}\"}}")).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_configurations_under_load_lose_nothing() {
    let engines = some_engines();
    let setup = Setup::start(&turn(&engines, 0).0);
    let clients = Clients::start(&setup, ["chat", "assistant"]);
    // Begun on the first table, whose model is renamed and removed under it.
    let slow = engine(vec![Behaviour::Ok(200, Duration::from_millis(20))]);
    let port = |engine: &FakeEngine| engine.address.port().to_string();
    let text = turn(&engines, 0).0;
    let (before, behind) = text.rsplit_once(&port(&engines[0])).unwrap();
    setup.replace("router.yaml", &format!("{before}{}{behind}", port(&slow)));
    while reloads(&setup, "applied").await < 1.0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let mut begun = setup.post(&[], &body("extra", true)).await;
    begun.wait_for("t0").await.unwrap();
    let (mut applied, mut refused) = (1.0, 0.0);
    for number in 1..=SWAPS {
        let (text, good) = turn(&engines, number);
        setup.replace("router.yaml", &text);
        if good {
            applied += 1.0;
        } else {
            refused += 1.0;
        }
        let end = Instant::now() + Duration::from_secs(10);
        while (reloads(&setup, "applied").await, reloads(&setup, "refused").await)
            != (applied, refused)
        {
            assert!(Instant::now() < end, "swap {number} was not seen: {text}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    let answers = clients.end().await;
    assert!(answers > SWAPS * 10, "the load was none: {answers}");
    assert!(begun.reply().await.unwrap().text().ends_with("data: [DONE]\n\n"));
    assert_eq!(slow.received().len(), 1);
    setup.at_rest().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_of_endpoints_that_is_no_good_changes_nothing_under_load() {
    let engines = some_engines();
    let entries = engines.iter().enumerate().map(|(at, engine)| {
        format!("- {{name: e{at}, address: 127.0.0.1, port: \"{}\"}}\n", engine.address.port())
    });
    let good = format!("endpoints:\n{}", entries.collect::<String>());
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("key"), "k").unwrap();
    std::fs::write(folder.path().join("endpoints.yaml"), &good).unwrap();
    let config = format!(
        "{}models:\n- name: chat\n  aliases: [assistant]\n  \
         sources: [{{kind: file, path: endpoints.yaml}}]\n",
        base()
    );
    let setup = Setup::start_in(folder, &config);
    let clients = Clients::start(&setup, ["chat", "assistant"]);
    let problems =
        |status: &serde_json::Value| status["models"][0]["problems"].as_array().unwrap().len();
    let path = setup.path("endpoints.yaml");
    for _ in 0..3 {
        // In place, as careless writers do: emptied, then half there.
        for text in ["", &good[..good.len() / 2 - 3], "endpoints: ["] {
            std::fs::write(&path, text).unwrap();
            setup.until(|status| problems(status) == 1).await;
            assert_eq!(setup.status().await["models"][0]["endpoints"].as_array().unwrap().len(), 3);
        }
        std::fs::rename(&path, setup.path("away")).unwrap();
        setup.until(|status| problems(status) == 1).await;
        setup.replace("endpoints.yaml", &good);
        setup.until(|status| problems(status) == 0).await;
    }
    assert!(clients.end().await > CLIENTS, "the load was none");
    setup.at_rest().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_routers_over_the_same_engines_keep_accounts_of_their_own() {
    let engines = some_engines();
    let config = chat(&engines, "assistant");
    let routers = [Setup::start(&config), Setup::start(&config)];
    let clients: Vec<Clients> =
        routers.iter().map(|setup| Clients::start(setup, ["chat", "assistant"])).collect();
    tokio::time::sleep(Duration::from_millis(500)).await;
    for (setup, clients) in routers.iter().zip(clients) {
        let answers = clients.end().await;
        setup.at_rest().await;
        let counted = setup.metric("llmd_router_requests_total{model=\"chat\",code=\"200\"}").await;
        assert_eq!(counted, answers as f64);
    }
}

/// Models whose names nobody else has, each with a file of its endpoints.
fn strangers(turn: usize, port: u16) -> String {
    let model = |number: usize| {
        format!(
            "- name: m{turn}-{number}\n  variants: [{{name: v}}]\n  sources: [{{kind: file, path: \
             endpoints.yaml}}, {{kind: static, endpoints: [{{name: e, address: 127.0.0.1, port: \
             {port}, variant: v}}]}}]\n"
        )
    };
    format!("{}models:\n{}", base(), (0..3).map(model).collect::<String>())
}

#[tokio::test]
async fn models_that_come_and_go_leave_nothing() {
    let engine = engine(vec![Behaviour::ok(), Behaviour::Status(418)]);
    let port = engine.address.port();
    let process = Process::start_with(&strangers(0, port), "text", |folder| {
        std::fs::write(folder.join("endpoints.yaml"), "endpoints: []\n").unwrap();
    });
    let line = process.line("listening");
    let (data, admin) = (address(&line, "data="), address(&line, "admin="));
    let series = async || {
        let page = Client::ask(admin, "GET", "/metrics").await.unwrap().text();
        page.lines().filter(|line| !line.starts_with('#')).count()
    };
    let threads = || std::fs::read_dir(process.proc("task")).unwrap().count();
    let ask = async |turn: usize| {
        for number in 0..3 {
            let body = body(&format!("m{turn}-{number}"), number == 0);
            let client = Client::post(data, CHAT, &[], body.as_bytes()).await.unwrap();
            assert!(client.reply().await.unwrap().whole);
        }
    };
    ask(0).await;
    let (at_first, threads_at_first) = (series().await, threads());
    for turn in 1..=20 {
        let next = process.folder.path().join("next");
        std::fs::write(&next, strangers(turn, port)).unwrap();
        std::fs::rename(next, process.folder.path().join("router.yaml")).unwrap();
        process.line("configuration taken over");
        ask(turn).await;
    }
    let begun = Instant::now();
    loop {
        let (now, threads) = (series().await, threads());
        // A status more or less, as the turns of the engine come.
        if now <= at_first + 3 && threads <= threads_at_first {
            return;
        }
        let grown = format!("{at_first} to {now} series, {threads_at_first} to {threads} threads");
        assert!(begun.elapsed() < Duration::from_secs(10), "{grown}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
