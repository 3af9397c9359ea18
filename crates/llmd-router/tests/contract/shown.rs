//! All of what status and metrics show of one scripted run, against two files: every field and
//! every series with its type, its labels and its value.
//!
//! The run leaves no field at the value that it begins with, so that one which is left out,
//! renamed, or filled with a neighbour's number is seen. Where a value takes time or chance the
//! file has a rule: `~1..9` is a number in that span, and `~a*b` a text that begins and ends so.

use crate::support::{CHAT, FACTS, Setup, base, engine};
use llmd_testkit::{Behaviour, Client, FakeEngine};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

/// Out for long, back slowly, tried again for half of what is asked.
const RULES: &str = "scrape: {intervalMs: 50}\nretry: {budgetPercent: 50, \
    budgetMinPerSecond: 0}\nresilience: {breaker: {failures: 4, openMs: 600000, openMaxMs: \
    900000}, slowStartMs: 600000, checks: {intervalMs: 100, failures: 3}}\n";
const LIMITS: &str = "limits: {connectMs: 500, firstByteMs: 9000, idleMs: 60000}\n";
const METRICS: &str = "vllm:num_requests_running 3\nvllm:num_requests_waiting 1\n\
                       vllm:kv_cache_usage_perc 0.25\n";

/// For all of it to be as it stays.
const SETTLES: Duration = Duration::from_secs(10);

struct World {
    setup: Setup,
    chat: FakeEngine,
    /// All others': one that says 503, one without a check, one that is well, and one that says
    /// that it is simulated.
    busy: FakeEngine,
    bare: FakeEngine,
    well: FakeEngine,
    posed: FakeEngine,
}

impl World {
    fn start() -> Self {
        let ok = Behaviour::ok;
        let (chat, busy) = (engine(vec![ok()]), engine(vec![Behaviour::Status(503)]));
        let (bare, well, posed) = (engine(vec![ok()]), engine(vec![ok()]), engine(vec![ok()]));
        posed.says_simulated();
        chat.metrics(METRICS);
        bare.health(404);
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("key"), "k").unwrap();
        std::fs::write(folder.path().join("gone.json"), replicas(&well, &["left:ready"])).unwrap();
        let first = replicas(&well, &["t0:ready", "t1:starting", "t2:draining", "t3:closed"]);
        std::fs::write(folder.path().join("replicas.json"), first).unwrap();
        std::fs::write(folder.path().join("endpoints.yaml"), labelled(&posed)).unwrap();
        let setup = Setup::start_in(folder, &config(&chat, &busy, &bare));
        Self { setup, chat, busy, bare, well, posed }
    }

    async fn ask(&self, model: &str, stream: bool) -> u16 {
        self.begin(model, stream).await.reply().await.unwrap().status
    }

    async fn begin(&self, model: &str, stream: bool) -> Client {
        let prompt = "and so on ".repeat(20);
        let body = format!(
            "{{\"model\":\"{model}\",\"stream\":{stream},\"max_tokens\":30,\"messages\":\
             [{{\"role\":\"user\",\"content\":\"{prompt}\"}}]}}"
        );
        Client::post(self.setup.data, CHAT, &[], body.as_bytes()).await.unwrap()
    }

    /// Until an endpoint is in this state.
    async fn until(&self, model: usize, endpoint: usize, state: &str) {
        let shown = |status: &Value| {
            let endpoint = &status["models"][model]["endpoints"][endpoint];
            endpoint["state"] == state || endpoint["health"]["state"] == state
        };
        self.setup.until(shown).await;
    }

    /// Answers of every kind; the last one is still under way.
    async fn chat(&self) -> Client {
        self.chat.script(vec![
            Behaviour::Ok(40, Duration::ZERO),
            Behaviour::Usage(3, [60, 16, 5]),
            Behaviour::Status(404),
            Behaviour::DieAfter(1),
            Behaviour::StallAfter(2),
        ]);
        for (model, stream, status) in [
            ("chat", true, 200),
            ("assistant", false, 200),
            ("chat", false, 404),
            ("chat", true, 200),
            ("nobody", false, 404),
        ] {
            assert_eq!(self.ask(model, stream).await, status, "{model} {stream}");
        }
        let mut client = self.begin("chat", true).await;
        client.wait_for("t1").await.unwrap();
        client
    }

    /// The first is refused for want of budget, two are mended, and then the breaker opens.
    async fn pair(&self) {
        for (stream, status) in [(false, 503), (false, 200), (true, 200), (true, 200), (false, 503)]
        {
            assert_eq!(self.ask("pair", stream).await, status, "{stream}");
        }
    }

    /// Endpoints come, leave in the middle of a request, and are told wrongly.
    async fn members(&self) -> Client {
        assert_eq!(self.ask("replicas", false).await, 200);
        let more = ["t0:ready", "t1:starting", "t2:draining", "t3:closed", "t4:ready"];
        self.setup.replace("replicas.json", &replicas(&self.well, &more));
        self.until(2, 4, "slow start").await;
        self.setup.replace("replicas.json", "{");
        self.setup
            .until(|status| status["models"][2]["problems"].as_array().unwrap().len() == 1)
            .await;
        self.well.script(vec![Behaviour::StallAfter(2)]);
        let mut client = self.begin("gone", true).await;
        client.wait_for("t1").await.unwrap();
        self.setup.replace("gone.json", &replicas(&self.well, &[]));
        self.until(4, 0, "down").await;
        client
    }

    /// One configuration is taken over, one is not.
    async fn reloads(&self) {
        let config = config(&self.chat, &self.busy, &self.bare);
        self.setup.replace("router.yaml", &format!("{config}# again\n"));
        let applied = "llmd_router_config_reloads_total{result=\"applied\"}";
        let end = Instant::now() + SETTLES;
        while self.setup.metric(applied).await < 1.0 {
            assert!(Instant::now() < end, "the configuration was not taken over");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        self.setup.replace("router.yaml", &config.replace("version: 1", "version: 2"));
        self.setup.until(|status| !status["config"]["error"].is_null()).await;
    }
}

fn config(chat: &FakeEngine, busy: &FakeEngine, bare: &FakeEngine) -> String {
    let [chat, busy, bare] = [chat, busy, bare].map(|engine| engine.address.port());
    let old = base();
    let (head, _) = old.split_once("limits:").unwrap();
    format!(
        "{head}{LIMITS}{RULES}models:\n\
         - {{name: chat, aliases: [assistant], scheduler: round-robin, seed: 7, variants: [{{name: \
         v, accelerator: test-accelerator, simulated: true, facts: {FACTS}}}], sources: [{{kind: \
         static, endpoints: [{{name: e0, address: 127.0.0.1, port: {chat}, variant: v}}]}}]}}\n\
         - {{name: pair, scheduler: round-robin, seed: 7, variants: [{{name: w}}], sources: \
         [{{kind: static, endpoints: [{{name: b0, address: 127.0.0.1, port: {busy}, variant: w}}, \
         {{name: b1, address: 127.0.0.1, port: {bare}, variant: w}}]}}]}}\n\
         - {{name: replicas, scheduler: least-request, variants: [{{name: x, accelerator: \
         other-accelerator}}], sources: [{{kind: process, path: replicas.json}}]}}\n\
         - {{name: files, sources: [{{kind: file, path: endpoints.yaml}}]}}\n\
         - {{name: gone, sources: [{{kind: process, path: gone.json}}]}}\n"
    )
}

/// `name:state` of each; `closed` is one where nothing listens.
fn replicas(engine: &FakeEngine, named: &[&str]) -> String {
    let entries = named.iter().map(|entry| {
        let (name, state) = entry.split_once(':').unwrap();
        let (port, state) =
            if state == "closed" { (1, "ready") } else { (engine.address.port(), state) };
        let model = if name == "left" { "gone" } else { "replicas" };
        format!(
            "{{\"name\": \"{name}\", \"model\": \"{model}\", \"variant\": \"x\", \"address\": \
             \"127.0.0.1\", \"port\": {port}, \"state\": \"{state}\", \"revision\": 7}}"
        )
    });
    format!("{{\"version\": 1, \"replicas\": [{}]}}", entries.collect::<Vec<_>>().join(", "))
}

fn labelled(engine: &FakeEngine) -> String {
    format!(
        "endpoints:\n- name: f0\n  address: 127.0.0.1\n  port: \"{}\"\n  labels:\n    \
         llm-d.ai/role: decode\n    llmd-ctl.dev/profile: some-profile\n    \
         llm-d.ai/accelerator-variant: some-variant\n",
        engine.address.port()
    )
}

/// Whether a value is as the file has it.
fn fits(found: &Value, expected: &Value) -> bool {
    let Some(rule) = expected.as_str().and_then(|text| text.strip_prefix('~')) else {
        return found == expected;
    };
    if let Some(text) = found.as_str() {
        let (begin, end) = rule.split_once('*').unwrap();
        return text.starts_with(begin) && text.ends_with(end);
    }
    let (low, high) = rule.split_once("..").unwrap();
    let span = low.parse::<f64>().unwrap()..=high.parse().unwrap();
    found.as_f64().is_some_and(|number| span.contains(&number))
}

/// Where a document is not as the file has it.
fn compare(place: &str, found: &Value, expected: &Value, wrong: &mut Vec<String>) {
    match (found, expected) {
        (Value::Object(one), Value::Object(other)) => {
            let names: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
            for name in names {
                match (one.get(name), other.get(name)) {
                    (Some(one), Some(other)) => {
                        compare(&format!("{place}.{name}"), one, other, wrong);
                    }
                    (one, _) => wrong.push(format!("{place}.{name}: there is {one:?}")),
                }
            }
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (at, (one, other)) in one.iter().zip(other).enumerate() {
                compare(&format!("{place}[{at}]"), one, other, wrong);
            }
        }
        _ if fits(found, expected) => {}
        _ => wrong.push(format!("{place}: {found}, not {expected}")),
    }
}

/// A page as values by series, and types by family. Of histograms all buckets but the last are
/// left out.
fn series(page: &str) -> Value {
    let kept = |line: &&str| {
        let bucket = line.contains("_bucket{") && !line.contains("le=\"+Inf\"");
        !bucket && !line.starts_with("# HELP") && !line.is_empty()
    };
    let read = |line: &str| {
        let (name, value) = line.rsplit_once(' ').unwrap();
        let number = value.parse::<f64>().map(Value::from);
        (name.to_owned(), number.unwrap_or_else(|_| Value::from(value)))
    };
    let all: BTreeMap<String, Value> = page.lines().filter(kept).map(read).collect();
    serde_json::to_value(all).unwrap()
}

/// One of the two files, with the ports of this run.
fn fixture(name: &str, world: &World) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/shown");
    let mut text = std::fs::read_to_string(folder.join(name)).unwrap();
    text = text.replace("VERSION", env!("CARGO_PKG_VERSION"));
    let World { chat, busy, bare, well, posed, .. } = world;
    let places = [":CHAT", ":BUSY", ":BARE", ":WELL", ":POSED"];
    for (place, engine) in places.into_iter().zip([chat, busy, bare, well, posed]) {
        text = text.replace(place, &format!(":{}", engine.address.port()));
    }
    text
}

#[tokio::test]
async fn all_that_is_shown_of_a_run_is_as_the_files_have_it() {
    let world = World::start();
    world.reloads().await;
    world.setup.until(|s| s["models"][0]["endpoints"][0]["reportedRunning"] == 3).await;
    world.until(2, 3, "out").await;
    let open = world.chat().await;
    world.pair().await;
    let left = world.members().await;
    let status: Value = serde_json::from_str(&fixture("status.json", &world)).unwrap();
    let page = series(&fixture("metrics.prom", &world));
    // Checks and readings go on, and a connection that was closed is counted until that is seen.
    let end = Instant::now() + SETTLES;
    loop {
        let mut wrong = Vec::new();
        compare("status", &world.setup.status().await, &status, &mut wrong);
        let shown = world.setup.get_admin("/metrics").await.text();
        compare("metrics", &series(&shown), &page, &mut wrong);
        if wrong.is_empty() {
            break;
        }
        assert!(Instant::now() < end, "{wrong:#?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    drop((open, left));
    world.setup.at_rest().await;
}
