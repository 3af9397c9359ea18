//! Starting a router on free ports, changing its files, waiting for what it shows.

use llmd_router::control::{self, Command, Running};
use llmd_testkit::{Client, FakeEngine, Reply};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

pub(crate) const CHAT: &str = "/v1/chat/completions";
pub(crate) const KEY: &str = "a-key-for-tests";

/// Short limits, so that a test of a limit does not take long.
const LIMITS: &str = "limits: {connectMs: 500, firstByteMs: 1500, idleMs: 700, totalMs: 20000, \
                      drainMs: 5000, headerMs: 1000, bodyBytes: 2000000}\n";

/// A replica that holds prompts of 100 tokens.
pub(crate) const FACTS: &str = "{speed: 1, weightBytes: 1, expertBytes: 0, experts: 0, \
    expertsPerToken: 0, flopsPerToken: 1, attentionFlopsPerPair: 1, \
    windowAttentionFlopsPerPair: 0, windowTokens: 0, kvBytesPerToken: 1, \
    windowKvBytesPerToken: 0, weightBandwidth: 1, kvBandwidth: 1, gemmFlops: 1, \
    gemmHalfTokens: 1, attentionFlops: 1, stepUs: 1, sequenceUs: 1, tokenUs: 0, requestUs: 1, \
    maxBatchedTokens: 100, maxSequences: 1, kvTokens: 1000, blockSize: 16, maxModelLen: 100, \
    prefixCaching: true, confidence: high}";

/// A running router, its folder, and the file that configures it.
pub(crate) struct Setup {
    pub(crate) folder: tempfile::TempDir,
    running: Option<Running>,
    pub(crate) data: SocketAddr,
    pub(crate) admin: SocketAddr,
}

/// The head of every configuration here.
pub(crate) fn base() -> String {
    format!(
        "version: 1\nfleet: test\nlisten: {{data: \"127.0.0.1:0\", admin: \"127.0.0.1:0\"}}\n\
         adminKeyFile: key\n{LIMITS}"
    )
}

/// One model, `chat`, with these engines as static endpoints e0, e1, … in turn.
pub(crate) fn one_model(engines: &[&FakeEngine]) -> String {
    one_model_with("", engines)
}

/// The same with more settings of the model.
pub(crate) fn one_model_with(settings: &str, engines: &[&FakeEngine]) -> String {
    let endpoints: Vec<String> = engines
        .iter()
        .enumerate()
        .map(|(at, engine)| {
            let port = engine.address.port();
            format!("{{name: e{at}, address: 127.0.0.1, port: {port}, variant: v}}")
        })
        .collect();
    format!(
        "{}models:\n- name: chat\n  aliases: [assistant]\n  scheduler: round-robin\n  seed: 7\n\
         {settings}  \
         variants: [{{name: v, accelerator: test-accelerator}}]\n  \
         sources: [{{kind: static, endpoints: [{}]}}]\n",
        base(),
        endpoints.join(", ")
    )
}

impl Setup {
    pub(crate) fn start(config: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("key"), format!("{KEY}\n")).unwrap();
        Self::start_in(folder, config)
    }

    pub(crate) fn start_in(folder: tempfile::TempDir, config: &str) -> Self {
        let file = folder.path().join("router.yaml");
        std::fs::write(&file, config).unwrap();
        let running = control::start(&file).unwrap();
        let (data, admin) = (running.data, running.admin);
        Self { folder, running: Some(running), data, admin }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Replaces a file as careful writers do.
    pub(crate) fn replace(&self, name: &str, text: &str) {
        let next = self.path("next");
        std::fs::write(&next, text).unwrap();
        std::fs::rename(next, self.path(name)).unwrap();
    }

    pub(crate) fn tell(&self, command: Command) {
        self.running.as_ref().unwrap().tell(command);
    }

    /// Waits for the router's end, in a thread, lest the test's runtime stands still.
    pub(crate) async fn ended(&mut self) -> u64 {
        let running = self.running.take().unwrap();
        tokio::task::spawn_blocking(|| running.wait()).await.unwrap()
    }

    /// A completion that is not streamed.
    pub(crate) async fn ask(&self) -> Reply {
        self.post(&[], &body("chat", false)).await.reply().await.unwrap()
    }

    /// A streamed one, read to its end.
    pub(crate) async fn ask_stream(&self) -> Reply {
        self.post(&[], &body("chat", true)).await.reply().await.unwrap()
    }

    pub(crate) async fn post(&self, headers: &[&str], body: &str) -> Client {
        Client::post(self.data, CHAT, headers, body.as_bytes()).await.unwrap()
    }

    pub(crate) async fn get_admin(&self, path: &str) -> Reply {
        Client::ask(self.admin, "GET", path).await.unwrap()
    }

    pub(crate) async fn status(&self) -> serde_json::Value {
        serde_json::from_slice(&self.get_admin("/status").await.body).unwrap()
    }

    /// Until status shows it; the last one is shown when it never does.
    pub(crate) async fn until(&self, what: impl Fn(&serde_json::Value) -> bool) {
        let end = Instant::now() + Duration::from_secs(10);
        loop {
            let status = self.status().await;
            if what(&status) {
                return;
            }
            assert!(Instant::now() < end, "{status:#}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// All that the router counts as running is 0, and soon.
    pub(crate) async fn at_rest_within(&self, limit: Duration) {
        rest_within(self.admin, limit).await;
    }

    pub(crate) async fn at_rest(&self) {
        self.at_rest_within(Duration::from_secs(5)).await;
    }

    /// The value of one sample on the metrics page; 0 when it is not there.
    pub(crate) async fn metric(&self, sample: &str) -> f64 {
        let page = self.get_admin("/metrics").await.text();
        let line = page.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
        line.map_or(0.0, |value| value.parse().unwrap())
    }
}

impl Drop for Setup {
    fn drop(&mut self) {
        if let Some(running) = &self.running {
            running.tell(Command::Cut);
        }
    }
}

/// The router with this admin port counts nothing as running, and soon.
pub(crate) async fn rest_within(admin: SocketAddr, limit: Duration) {
    let end = Instant::now() + limit;
    loop {
        let page = Client::ask(admin, "GET", "/metrics").await.unwrap().text();
        let busy: Vec<&str> = page
            .lines()
            .filter(|line| {
                line.starts_with("llmd_router_open_requests")
                    || line.starts_with("llmd_router_inflight_")
            })
            .filter(|line| !line.ends_with(" 0"))
            .collect();
        let status = Client::ask(admin, "GET", "/status").await.unwrap();
        let remembered: serde_json::Value = serde_json::from_slice(&status.body).unwrap();
        let models = remembered["models"].as_array().unwrap();
        let forgotten = models.iter().all(|model| model["requests"] == 0);
        if busy.is_empty() && forgotten {
            return;
        }
        assert!(Instant::now() < end, "{busy:?} {remembered:#}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A cancel reaches the engine within this.
pub(crate) const SOON: Duration = Duration::from_secs(1);

/// The engine's first request was cancelled, soon after `left`.
pub(crate) async fn told(engine: &FakeEngine, left: Instant) {
    loop {
        if let Some(cancelled) = engine.received().first().and_then(|received| received.cancelled) {
            assert!(cancelled.duration_since(left) < SOON);
            return;
        }
        assert!(left.elapsed() < SOON, "the engine was not told");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub(crate) fn engine(script: Vec<llmd_testkit::Behaviour>) -> FakeEngine {
    FakeEngine::start(script).unwrap()
}

pub(crate) fn body(model: &str, stream: bool) -> String {
    format!(
        "{{\"model\":\"{model}\",\"stream\":{stream},\"max_tokens\":8,\
         \"messages\":[{{\"role\":\"user\",\"content\":\"hello there\"}}]}}"
    )
}

/// The code in an error object, which must be a whole one.
pub(crate) fn error_code(reply: &Reply) -> String {
    assert_eq!(reply.header("content-type"), Some("application/json"));
    let object: serde_json::Value = serde_json::from_slice(&reply.body).unwrap();
    let error = &object["error"];
    assert!(error["message"].is_string() && error["type"].is_string(), "{object}");
    assert!(error.get("param").is_some(), "{object}");
    error["code"].as_str().unwrap().to_owned()
}
