//! A running engine and short words for asking it.

use llmd_engine::{Config, Server};
use llmd_testkit::{Client, Reply};
use llmd_types::ReplicaFacts;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub(crate) const CHAT: &str = "/v1/chat/completions";
pub(crate) const COMPLETIONS: &str = "/v1/completions";

/// A quick engine in round numbers: 1,100 us a step, 10 us a prompt token, blocks of 16 tokens.
pub(crate) fn facts() -> ReplicaFacts {
    ReplicaFacts {
        weight_bytes: 1e9,
        weight_bandwidth: 1e12,
        flops_per_token: 1e9,
        gemm_flops: 1e14,
        gemm_half_tokens: 5.0,
        kv_bytes_per_token: 0.0,
        attention_flops_per_pair: 0.0,
        step_us: 100.0,
        sequence_us: 0.0,
        request_us: 1_000.0,
        max_batched_tokens: 2_048,
        max_sequences: 8,
        kv_tokens: 32_000,
        block_size: 16,
        max_model_len: 16_000,
        ..ReplicaFacts::neutral()
    }
}

/// An engine in this process; it stops when it is dropped.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    log: PathBuf,
    stop: Option<oneshot::Sender<()>>,
    serving: Option<JoinHandle<()>>,
    _folder: tempfile::TempDir,
}

impl Running {
    pub(crate) async fn start(facts: ReplicaFacts) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("access.jsonl");
        let config = Config {
            version: 1,
            name: "chat-0".to_owned(),
            model: "chat".to_owned(),
            aliases: vec!["assistant".to_owned()],
            accelerator: "test-chip".to_owned(),
            listen: "127.0.0.1:0".parse().unwrap(),
            facts,
            access_log: Some(log.clone()),
            seed: 7,
        };
        let server = Server::bind(config).await.unwrap();
        let address = server.address().unwrap();
        let (stop, stopped) = oneshot::channel();
        let stopped = async { drop(stopped.await) };
        let serving = tokio::spawn(server.serve(stopped, std::future::pending()));
        Self { address, log, stop: Some(stop), serving: Some(serving), _folder: folder }
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Reply {
        self.post_bytes(path, body.to_string().as_bytes()).await
    }

    pub(crate) async fn post_bytes(&self, path: &str, body: &[u8]) -> Reply {
        Client::post(self.address, path, &[], body).await.unwrap().reply().await.unwrap()
    }

    /// Sends a request and leaves its answer on the way.
    pub(crate) async fn open(&self, path: &str, body: &Value) -> Client {
        Client::post(self.address, path, &[], body.to_string().as_bytes()).await.unwrap()
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        Client::ask(self.address, "GET", path).await.unwrap()
    }

    /// One sample of `/metrics`, by its name and a label.
    pub(crate) async fn metric(&self, name: &str, label: &str) -> f64 {
        let page = self.get("/metrics").await.text();
        let mut lines = page.lines().filter(|line| {
            line.strip_prefix(name).is_some_and(|rest| rest.starts_with('{'))
                && line.contains(label)
        });
        let line = lines.next().unwrap_or_else(|| panic!("no {name} in {page}"));
        line.rsplit(' ').next().unwrap().parse().unwrap()
    }

    /// Waits until a metric has that value; a second is enough for anything but a fault.
    pub(crate) async fn settles(&self, name: &str, label: &str, wanted: f64) {
        let end = Instant::now() + Duration::from_secs(10);
        loop {
            let found = self.metric(name, label).await;
            if (found - wanted).abs() < 1e-9 {
                return;
            }
            assert!(Instant::now() < end, "{name} is {found}, not {wanted}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Lines of the access log, once there are `count`.
    pub(crate) async fn lines(&self, count: usize) -> Vec<Value> {
        let end = Instant::now() + Duration::from_secs(10);
        loop {
            let text = std::fs::read_to_string(&self.log).unwrap();
            let lines: Vec<Value> =
                text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            if lines.len() >= count || Instant::now() > end {
                assert_eq!(lines.len(), count, "{text}");
                return lines;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Tells it to stop, and returns when all is served.
    pub(crate) async fn stop(&mut self) {
        drop(self.stop.take());
        self.serving.take().unwrap().await.unwrap();
    }
}

/// A chat request with `words` words of content and more keys.
pub(crate) fn chat(words: usize, more: &Value) -> Value {
    let content = vec!["word"; words].join(" ");
    let mut body = json!({"model": "chat", "messages": [{"role": "user", "content": content}]});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

pub(crate) fn object(reply: &Reply) -> Value {
    serde_json::from_slice(&reply.body).unwrap_or_else(|error| panic!("{error}: {}", reply.text()))
}

/// The events of a stream, without the closing `[DONE]`.
pub(crate) fn events(reply: &Reply) -> Vec<Value> {
    let text = reply.text();
    let mut data: Vec<&str> =
        text.split_terminator("\n\n").map(|event| event.strip_prefix("data: ").unwrap()).collect();
    assert_eq!(data.pop(), Some("[DONE]"), "{text}");
    data.into_iter().map(|event| serde_json::from_str(event).unwrap()).collect()
}

/// The text that a stream's events add up to, for one choice.
pub(crate) fn streamed_text(events: &[Value], choice: usize) -> String {
    let choices = events.iter().flat_map(|event| event["choices"].as_array().unwrap());
    let own = choices.filter(|c| c["index"] == choice);
    own.map(|c| c["delta"]["content"].as_str().or(c["text"].as_str()).unwrap_or("")).collect()
}
