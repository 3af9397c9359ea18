//! The router as a process: its log and its signals.

use crate::support::{CHAT, KEY, body, engine, one_model};
use llmd_testkit::{Behaviour, Client, FakeEngine, Session};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const ROUTER: &str = env!("CARGO_BIN_EXE_llmd-router");

pub(crate) struct Process {
    child: Child,
    lines: Mutex<Receiver<String>>,
    pub(crate) folder: tempfile::TempDir,
}

impl Process {
    pub(crate) fn start(config: &str, format: &str) -> Self {
        Self::start_with(config, format, |_| {})
    }

    /// With more files in its folder.
    pub(crate) fn start_with(config: &str, format: &str, files: impl Fn(&Path)) -> Self {
        Self::launch(config, format, files, Stdio::piped())
    }

    /// Under these limits, as `ulimit` takes them.
    pub(crate) fn start_under(limits: &str, config: &str) -> Self {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("ulimit {limits}; exec \"$0\" \"$@\""), ROUTER]);
        Self::launch_by(shell, config, "text", |_| {}, Stdio::piped())
    }

    fn launch(config: &str, format: &str, files: impl Fn(&Path), log: Stdio) -> Self {
        Self::launch_by(Command::new(ROUTER), config, format, files, log)
    }

    fn launch_by(
        mut router: Command,
        config: &str,
        format: &str,
        files: impl Fn(&Path),
        log: Stdio,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        files(folder.path());
        let file = folder.path().join("router.yaml");
        std::fs::write(&file, config).unwrap();
        std::fs::write(folder.path().join("key"), KEY).unwrap();
        let mut child = router
            .args(["--log", format, "--config"])
            .arg(&file)
            .env_remove("LLMD_LOG")
            .stderr(log)
            .spawn()
            .unwrap();
        let (sender, lines) = channel();
        if let Some(log) = child.stderr.take() {
            std::thread::spawn(move || {
                for line in BufReader::new(log).lines().map_while(Result::ok) {
                    let _ = sender.send(line);
                }
            });
        }
        Self { child, lines: Mutex::new(lines), folder }
    }

    /// The lines before the next one that holds `text`.
    pub(crate) fn lines_until(&self, text: &str) -> Vec<String> {
        let lines = self.lines.lock().unwrap();
        let next = || lines.recv_timeout(Duration::from_secs(20)).unwrap();
        std::iter::repeat_with(next).take_while(|line| !line.contains(text)).collect()
    }

    /// The next line that holds `text`.
    pub(crate) fn line(&self, text: &str) -> String {
        loop {
            let line = self.lines.lock().unwrap().recv_timeout(Duration::from_secs(20)).unwrap();
            if line.contains(text) {
                return line;
            }
        }
    }

    /// All lines that were not read yet, of a process that has ended.
    pub(crate) fn rest(&self) -> Vec<String> {
        let lines = self.lines.lock().unwrap();
        std::iter::from_fn(|| lines.recv_timeout(Duration::from_secs(20)).ok()).collect()
    }

    /// Whether a line that was not read yet holds `text`.
    pub(crate) fn has_logged(&self, text: &str) -> bool {
        self.lines.lock().unwrap().try_iter().any(|line| line.contains(text))
    }

    /// What the system says of it: `/proc/<pid>/` and this.
    pub(crate) fn proc(&self, name: &str) -> PathBuf {
        Path::new("/proc").join(self.child.id().to_string()).join(name)
    }

    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    }

    pub(crate) async fn ended(&mut self) -> Option<i32> {
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// So many files, and those that each of a router's threads has open.
pub(crate) fn few_files(more: usize) -> usize {
    more + 5 * std::thread::available_parallelism().map_or(1, usize::from)
}

fn data_address(line: &str) -> SocketAddr {
    address(line, "data=")
}

/// The address behind this word of a log line.
pub(crate) fn address(line: &str, word: &str) -> SocketAddr {
    let address = line.split(word).nth(1).unwrap();
    address.split_whitespace().next().unwrap().parse().unwrap()
}

#[tokio::test]
async fn sighup_reloads_and_sigterm_lets_streams_finish_and_ends_with_0() {
    let engine = engine(vec![Behaviour::Ok(10, Duration::from_millis(100))]);
    let mut process = Process::start(&one_model(&[&engine]), "text");
    let data = data_address(&process.line("listening"));
    process.signal("-HUP");
    process.line("configuration taken over");
    let body = body("chat", true);
    let mut running = Client::post(data, CHAT, &[], body.as_bytes()).await.unwrap();
    running.wait_for("t0").await.unwrap();
    process.signal("-TERM");
    assert!(running.reply().await.unwrap().text().ends_with("data: [DONE]\n\n"));
    assert_eq!(process.ended().await, Some(0));
}

#[tokio::test]
async fn a_second_sigterm_cuts_what_runs_and_the_log_says_so_as_json() {
    let engine = engine(vec![Behaviour::StallAfter(1)]);
    let config = one_model(&[&engine]).replace("idleMs: 700", "idleMs: 60000");
    let mut process = Process::start(&config, "json");
    let line: serde_json::Value = serde_json::from_str(&process.line("listening")).unwrap();
    let data = line["fields"]["data"].as_str().unwrap().parse().unwrap();
    let body = body("chat", true);
    let mut running = Client::post(data, CHAT, &[], body.as_bytes()).await.unwrap();
    running.wait_for("t0").await.unwrap();
    process.signal("-TERM");
    process.line("draining");
    process.signal("-TERM");
    let line: serde_json::Value = serde_json::from_str(&process.line("cut")).unwrap();
    assert_eq!(line["fields"]["requests"], 1);
    assert_eq!(process.ended().await, Some(1));
}

#[tokio::test]
async fn the_log_names_the_endpoint_that_failed_last() {
    let engine = engine(vec![Behaviour::ok()]);
    let config = one_model(&[&engine]);
    engine.kill();
    let process = Process::start(&config, "text");
    let data = data_address(&process.line("listening"));
    let client = Client::post(data, CHAT, &[], body("chat", false).as_bytes()).await.unwrap();
    assert_eq!(client.reply().await.unwrap().status, 502);
    let line = process.line("request failed");
    assert!(line.contains("endpoint=\"e0\""), "{line}");
}

#[tokio::test]
async fn each_change_is_a_line_of_the_log_and_a_clients_mistake_is_none() {
    let first = engine(vec![Behaviour::ok()]);
    let config = one_model(&[&first]);
    let mut process = Process::start(&config, "text");
    let data = data_address(&process.line("listening"));
    let ask = async |model: &str| {
        let id = ["x-request-id: mine"];
        let client = Client::post(data, CHAT, &id, body(model, false).as_bytes()).await.unwrap();
        client.reply().await.unwrap().status
    };
    assert_eq!(ask("nobody").await, 404);
    first.kill();
    assert_eq!(ask("chat").await, 502);
    let mut lines = process.lines_until("request failed");
    assert!(!lines.iter().any(|line| line.contains("mine")), "{lines:?}");
    // The scrape may see it before the request does, and the request be told before that is.
    let gone = "endpoint cannot be reached";
    if !lines.iter().any(|line| line.contains(gone)) {
        lines.push(process.line(gone));
    }
    let again = FakeEngine::start_at(first.address, vec![Behaviour::Status(500)]).unwrap();
    assert_eq!(ask("chat").await, 500);
    lines.extend(process.lines_until("endpoint can be reached again"));
    assert_eq!(lines.iter().filter(|line| line.contains(gone)).count(), 1, "{lines:?}");
    let line = process.line("request failed");
    for said in [
        "request=\"mine\"",
        "model=\"chat\"",
        "endpoint=\"e0\"",
        "status=500",
        "error=\"endpoint_error\"",
    ] {
        assert!(line.contains(said), "{said} in {line}");
    }
    drop(again);
    for (text, said) in [
        (one_model(&[]), "endpoint left model=chat endpoint=\"e0\""),
        ("version: 2\n".to_owned(), "configuration refused, the old one stays"),
        (config, "endpoint model=chat endpoint=\"e0\" lifecycle=Ready"),
    ] {
        std::fs::write(process.folder.path().join("next"), text).unwrap();
        let file = process.folder.path().join("router.yaml");
        std::fs::rename(process.folder.path().join("next"), file).unwrap();
        process.line(said);
    }
    process.line("configuration taken over");
    process.signal("-TERM");
    process.line("draining open=0");
    process.line("drained");
    assert_eq!(process.ended().await, Some(0));
}

/// For a process that should not wait for anything.
const PATIENCE: Duration = Duration::from_secs(10);
/// What a pipe holds, on Linux, before its writer has to wait.
const PIPE: usize = 64 << 10;

#[tokio::test]
async fn a_log_that_takes_no_line_stops_nothing() {
    let (unread, mut stuck) = std::io::pipe().unwrap();
    stuck.write_all(&vec![b'.'; PIPE]).unwrap();
    let (gone, broken) = std::io::pipe().unwrap();
    drop(gone);
    let full = File::options().write(true).open("/dev/full").unwrap();
    let logs = [
        ("nobody reads", Stdio::from(stuck)),
        ("the reader is gone", Stdio::from(broken)),
        ("the disk is full", Stdio::from(full)),
    ];
    for (what, log) in logs {
        let engine = engine(vec![Behaviour::Status(500)]);
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let config =
            one_model(&[&engine]).replace("data: \"127.0.0.1:0\"", &format!("data: \"{free}\""));
        assert!(config.contains(&free.to_string()), "{config}");
        let mut process = Process::launch(&config, "text", |_| {}, log);
        let body = body("chat", false);
        let begun = Instant::now();
        let client = loop {
            match Client::post(free, CHAT, &[], body.as_bytes()).await {
                Ok(client) => break client,
                Err(error) => assert!(begun.elapsed() < PATIENCE, "{what}: {error}"),
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        };
        let reply = tokio::time::timeout(PATIENCE, client.reply()).await.expect(what);
        assert_eq!(reply.unwrap().status, 500, "{what}");
        process.signal("-TERM");
        let ended = tokio::time::timeout(PATIENCE, process.ended()).await;
        assert_eq!(ended.expect(what), Some(0), "{what}");
    }
    drop(unread);
}

#[tokio::test]
async fn failures_of_a_kind_are_one_line_and_a_count() {
    let engine = engine(vec![Behaviour::Status(500)]);
    let mut process = Process::start(&one_model(&[&engine]), "text");
    let data = data_address(&process.line("listening"));
    let mut session = Session::new(data);
    for _ in 0..200 {
        assert_eq!(session.post(CHAT, &body("chat", false)).await.unwrap().status, 500);
    }
    process.signal("-TERM");
    let lines = process.lines_until("and 199 more in the last 10 s");
    let failed = lines.iter().filter(|line| line.contains("request failed")).count();
    assert_eq!(failed, 1, "{lines:?}");
    assert_eq!(process.ended().await, Some(0));
}

#[tokio::test]
async fn spans_that_a_collector_does_not_take_are_told_of_at_the_end() {
    let engine = engine(vec![Behaviour::ok()]);
    // Connections come about, and nobody answers.
    let collector = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = collector.local_addr().unwrap();
    let config = format!("{}traces: {{otlp: \"http://{address}\"}}\n", one_model(&[&engine]));
    let mut process = Process::start(&config, "text");
    let data = data_address(&process.line("listening"));
    for _ in 0..3 {
        assert_eq!(Session::new(data).post(CHAT, &body("chat", false)).await.unwrap().status, 200);
    }
    process.signal("-TERM");
    let line = process.line("spans were dropped at the end");
    assert!(line.contains("spans=30"), "{line}");
    assert_eq!(process.ended().await, Some(0));
}

#[tokio::test]
async fn an_endpoint_that_flaps_is_some_lines_and_their_counts() {
    let first = engine(vec![Behaviour::ok()]);
    let config = one_model(&[&first]).replace("models:", "scrape: {intervalMs: 20}\nmodels:");
    let mut process = Process::start(&config, "text");
    let admin = address(&process.line("listening"), "admin=");
    let until_gone = async |gone: bool| loop {
        let reply = Client::ask(admin, "GET", "/status").await.unwrap();
        let status: serde_json::Value = serde_json::from_slice(&reply.body).unwrap();
        if status["models"][0]["endpoints"][0]["unreachable"].is_null() != gone {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    let address = first.address;
    let mut engine = Some(first);
    for _ in 0..5 {
        engine.take();
        until_gone(true).await;
        while engine.is_none() {
            engine = FakeEngine::start_at(address, vec![Behaviour::ok()]).ok();
        }
        until_gone(false).await;
    }
    process.signal("-TERM");
    assert_eq!(process.ended().await, Some(0));
    let lines = process.rest();
    for line in ["endpoint cannot be reached", "endpoint can be reached again"] {
        let said: Vec<&String> = lines.iter().filter(|said| said.contains(line)).collect();
        assert_eq!(said.len(), 2, "{lines:#?}");
        assert!(said[1].contains("and 4 more in the last 10 s"), "{said:?}");
        assert!(said[1].contains("model=\"chat\" endpoint=\"e0\""), "{said:?}");
        assert!(!said[1].contains("error="), "it is about none: {said:?}");
    }
}

/// For the router to look at who is out, which it does twice a second.
const A_LOOK: Duration = Duration::from_millis(700);

#[tokio::test]
async fn an_endpoint_that_goes_out_again_and_again_is_some_lines_and_their_counts() {
    let engine = engine(vec![Behaviour::Status(500), Behaviour::ok()]);
    engine.go_round();
    let rules = "resilience: {breaker: {failures: 1, openMs: 1, openMaxMs: 1}, checks: \
                 {failures: 0}}\nmodels:";
    let mut process = Process::start(&one_model(&[&engine]).replace("models:", rules), "text");
    let data = data_address(&process.line("listening"));
    let mut session = Session::new(data);
    for status in [500, 200].repeat(3) {
        let reply = session.post(CHAT, &body("chat", false)).await.unwrap();
        assert_eq!(reply.status, status);
        tokio::time::sleep(A_LOOK).await;
    }
    process.signal("-TERM");
    assert_eq!(process.ended().await, Some(0));
    let lines = process.rest();
    for line in ["endpoint is out", "endpoint is back"] {
        let said: Vec<&String> = lines.iter().filter(|said| said.contains(line)).collect();
        assert_eq!(said.len(), 2, "{lines:#?}");
        assert!(said[1].contains("and 2 more in the last 10 s"), "{said:?}");
    }
}

#[tokio::test]
async fn the_limit_of_open_files_is_raised() {
    let process = Process::start_under("-Sn 512", &one_model(&[]));
    process.line("listening");
    let limits = std::fs::read_to_string(process.proc("limits")).unwrap();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    let values: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(values[0], values[1], "{line}");
}

#[tokio::test]
async fn nothing_is_said_of_connections_that_nobody_asked_for() {
    let process = Process::start_under("-n 64", &one_model(&[]));
    let lines = process.lines_until("listening");
    assert!(!lines.iter().any(|line| line.contains("connections")), "{lines:?}");
}

#[tokio::test]
async fn a_router_without_files_blames_no_endpoint_and_says_so() {
    let engine = engine(vec![Behaviour::ok()]);
    // Nothing of its own that it could close to have a file for a request.
    let quiet = "scrape: {intervalMs: 600000}\nresilience: {checks: {failures: 0}}\n";
    let limits = "headerMs: 20000, connections: 65536";
    let config = quiet.to_owned() + &one_model(&[&engine]).replace("headerMs: 1000", limits);
    let files = few_files(54);
    let process = Process::start_under(&format!("-n {files}"), &config);
    let few = process.line("limits.connections");
    let needed = "65536 connections need 140562 open files";
    let told = format!("{needed}, and the process may have {files}: room for 1");
    assert!(few.contains(&told) && few.contains("ulimit -Hn"), "{few}");
    let line = process.line("listening");
    let (data, admin) = (data_address(&line), address(&line, "admin="));
    let mut first = TcpStream::connect(data).await.unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    let mut others = Vec::new();
    for _ in 0..100 {
        others.push(TcpStream::connect(data).await.unwrap());
    }
    process.line("cannot accept a connection");
    // What rested is closed, and others have taken its place.
    tokio::time::sleep(Duration::from_millis(300)).await;
    for _ in 0..3 {
        let body = body("chat", false);
        let length = body.len();
        let head = format!("POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n");
        first.write_all((head + &body).as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"}}") {
            let read = tokio::time::timeout(PATIENCE, first.read_buf(&mut answer)).await;
            assert!(read.unwrap().unwrap() > 0);
        }
        let answer = String::from_utf8_lossy(&answer);
        assert!(
            answer.starts_with("HTTP/1.1 503") && answer.contains("router_out_of_files"),
            "{answer}"
        );
        assert!(
            answer.contains("retry-after: 1") && answer.contains("raise its limit"),
            "{answer}"
        );
    }
    let lines = process.lines_until("router_out_of_files");
    assert!(!lines.iter().any(|line| line.contains("cannot accept")), "it is one line: {lines:?}");
    drop(others);
    let begun = Instant::now();
    let status = loop {
        match Client::ask(admin, "GET", "/status").await {
            Ok(status) => break status,
            Err(error) => assert!(begun.elapsed() < PATIENCE, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let status: serde_json::Value = serde_json::from_slice(&status.body).unwrap();
    let endpoint = &status["models"][0]["endpoints"][0];
    assert_eq!((&endpoint["failures"], &endpoint["unreachable"]), (&0.into(), &().into()));
    assert_eq!(endpoint["state"], "ready", "{endpoint}");
    assert_eq!(endpoint["health"]["ejections"], 0, "{endpoint}");
    assert!(!process.has_logged("router_out_of_files"), "it is one line");
}
