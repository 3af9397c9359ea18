//! What a router is left with after 20,000 requests of all kinds: nothing.
//!
//! The real program, so that its memory, descriptors and threads can be counted from outside.
//! Engines answer well and badly in turn, clients leave in every phase, endpoints go while
//! requests run there, and the configuration is changed all the time.

use crate::process::{Process, address};
use crate::support::{base, rest_within};
use llmd_testkit::{Client, FakeEngine, Session, mixture};
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

const REQUESTS: u64 = 20_000;
const CLIENTS: u64 = 24;
/// What memory may grow by between the middle and the end: histograms and allocator, no request.
const GROWTH_KIB: u64 = 4 << 10;
/// Most entries of a model's prefix index (about 120 bytes each: 32 MiB).
const INDEX_ENTRIES: u64 = 1 << 18;
/// Where the endpoints are, in turn.
const FILES: [&str; 2] = ["endpoints.yaml", "other.yaml"];
/// For idle connections to be swept, and for watchers of files to see that they are not needed.
const SWEPT: Duration = Duration::from_secs(8);

/// The endpoints but the one that is out.
fn endpoints(engines: &[FakeEngine], out: usize) -> String {
    let named = engines.iter().enumerate().filter(|(at, _)| *at != out);
    let entries = named.map(|(at, engine)| {
        format!("- {{name: e{at}, address: 127.0.0.1, port: \"{}\"}}\n", engine.address.port())
    });
    format!("endpoints:\n{}", entries.collect::<String>())
}

fn config(number: u64) -> String {
    let (head, limits) = (base(), base().find("limits:").unwrap());
    let scheduler = ["expected-finish", "round-robin", "least-request"][number as usize % 3];
    // Every other time the endpoints are learnt anew, and a second model comes or goes.
    let (file, other) =
        if number % 4 < 2 { (FILES[0], "") } else { (FILES[1], "- {name: other, sources: []}\n") };
    format!(
        "{}{}\nmodels:\n\
         - name: chat\n  aliases: [assistant, number-{number}]\n  scheduler: {scheduler}\n  \
         sources: [{{kind: file, path: {file}}}]\n{other}",
        &head[..limits],
        mixture::LIMITS
    )
}

struct World {
    process: Process,
    engines: Vec<FakeEngine>,
    data: SocketAddr,
    admin: SocketAddr,
    next: AtomicU64,
    answered: AtomicU64,
    ended: AtomicBool,
}

impl World {
    fn start() -> Self {
        let engines = mixture::engines(4).unwrap();
        let process = Process::start_with(&config(0), "text", |folder| {
            for file in FILES {
                std::fs::write(folder.join(file), endpoints(&engines, 0)).unwrap();
            }
        });
        let line = process.line("listening");
        let (data, admin) = (address(&line, "data="), address(&line, "admin="));
        let (next, answered) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { process, engines, data, admin, next, answered, ended: AtomicBool::new(false) }
    }

    fn replace(&self, name: &str, text: &str) {
        let folder = self.process.folder.path();
        std::fs::write(folder.join("next"), text).unwrap();
        std::fs::rename(folder.join("next"), folder.join(name)).unwrap();
    }

    fn count(&self, name: &str) -> usize {
        std::fs::read_dir(self.process.proc(name)).unwrap().count()
    }

    fn rss_kib(&self) -> u64 {
        let status = std::fs::read_to_string(self.process.proc("status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.split_whitespace().next().unwrap().parse().unwrap()
    }

    /// Requests until so many were made in all, by clients at the same time.
    async fn until(self: &Arc<Self>, most: u64) {
        let mut clients = JoinSet::new();
        for _ in 0..CLIENTS {
            let world = Arc::clone(self);
            clients.spawn(async move {
                let mut session = Session::new(world.data);
                loop {
                    let number = world.next.fetch_add(1, SeqCst);
                    if number >= most {
                        return;
                    }
                    world.one(&mut session, number).await;
                }
            });
        }
        while let Some(ended) = clients.join_next().await {
            ended.unwrap();
        }
        self.next.store(most, SeqCst);
    }

    async fn one(&self, session: &mut Session, number: u64) {
        let answer = mixture::ask(self.data, session, number).await;
        let reply = answer.unwrap_or_else(|error| panic!("request {number} was lost: {error}"));
        if let Some(reply) = reply {
            assert_eq!(mixture::complaint(&reply), None);
            self.answered.fetch_add(1, SeqCst);
        }
    }

    /// The files of this turn. Those of turn 0 are the first.
    fn disturb(&self, turn: u64) {
        for file in FILES {
            self.replace(file, &endpoints(&self.engines, turn as usize % 5));
        }
        if turn.is_multiple_of(3) {
            self.replace("router.yaml", &config(turn / 3));
        }
    }

    /// Changes files and looks at every gauge, until the end; how many times.
    async fn watch(self: Arc<Self>) -> u64 {
        let mut turn = 0;
        while !self.ended.load(SeqCst) {
            turn += 1;
            self.disturb(turn);
            for _ in 0..4 {
                tokio::time::sleep(Duration::from_millis(30)).await;
                self.look().await;
            }
        }
        self.disturb(0);
        turn
    }

    async fn look(&self) {
        let page = Client::ask(self.admin, "GET", "/metrics").await.unwrap().text();
        for line in page.lines().filter(|line| !line.starts_with('#')) {
            let value: f64 = line.rsplit_once(' ').unwrap().1.parse().unwrap();
            // A count that went below 0 without a sign is as large as its type.
            assert!((0.0..4e9).contains(&value), "{line}");
        }
        let status = Client::ask(self.admin, "GET", "/status").await.unwrap();
        let status: Value = serde_json::from_slice(&status.body).unwrap();
        for model in status["models"].as_array().unwrap() {
            let within = |value: &Value, most: u64| value.as_u64().is_some_and(|n| n <= most);
            assert!(within(&model["requests"], CLIENTS * 2), "{model:#}");
            assert!(within(&model["indexEntries"], INDEX_ENTRIES), "{model:#}");
            for endpoint in model["endpoints"].as_array().unwrap() {
                assert!(within(&endpoint["inflightRequests"], CLIENTS * 2), "{endpoint:#}");
            }
        }
    }

    /// Its descriptors and threads, when those that are not needed are gone.
    async fn rest(&self, [descriptors, threads]: [usize; 2]) -> [usize; 2] {
        rest_within(self.admin, Duration::from_secs(5)).await;
        let end = Instant::now() + SWEPT;
        loop {
            let now = ["fd", "task"].map(|name| self.count(name));
            if now[0] <= descriptors && now[1] <= threads || Instant::now() > end {
                return now;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// The sum of all samples that begin so.
    async fn sum(&self, begin: &str) -> u64 {
        let page = Client::ask(self.admin, "GET", "/metrics").await.unwrap().text();
        let ours = page.lines().filter(|line| line.starts_with(begin));
        ours.map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_20_000_mixed_requests_nothing_is_left() {
    let world = Arc::new(World::start());
    // With its first reading of each engine.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let before = ["fd", "task"].map(|name| world.count(name));
    let watching = tokio::spawn(Arc::clone(&world).watch());
    world.until(REQUESTS / 2).await;
    let middle = world.rss_kib();
    world.until(REQUESTS).await;
    world.ended.store(true, SeqCst);
    assert!(watching.await.unwrap() > 10, "it was hardly disturbed");
    let after = world.rest(before).await;

    let rss = world.rss_kib();
    assert!(rss <= middle + GROWTH_KIB, "from {middle} to {rss} KiB");
    assert!(
        after[0] <= before[0] && after[1] <= before[1],
        "descriptors, threads: {before:?} {after:?}"
    );
    // Whoever left at once may never have been seen; all others were counted, once.
    let (counted, answered) = (world.sum("llmd_router_requests_total").await, &world.answered);
    assert!((answered.load(SeqCst)..=REQUESTS).contains(&counted), "{counted} of {answered:?}");
    let chat = "llmd_router_requests_total{model=\"chat\",code=";
    for code in ["200", "400", "429", "499", "500", "504"] {
        let count = world.sum(&format!("{chat}\"{code}\"")).await;
        assert!(count > 50, "{code} was met only {count} times");
    }
    for name in ["retries_total", "stream_errors_total"] {
        assert!(world.sum(&format!("llmd_router_{name}")).await > 50, "{name}");
    }
    assert!(world.sum("llmd_router_config_reloads_total{result=\"applied\"}").await > 5);
    assert!(!world.process.has_logged("panicked"));
}
