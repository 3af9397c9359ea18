//! What is read as configuration, and what is said of it.

use crate::process::{Process, address};
use crate::support::{Setup, base, engine, one_model};
use llmd_router::control::{self, Command, Running};
use llmd_testkit::{Behaviour, Client};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

fn make_pipe(path: &Path) {
    assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// What `--check` says of a text, and its exit code.
fn check(text: &[u8]) -> (i32, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("router.yaml");
    std::fs::write(&file, text).unwrap();
    let router = std::process::Command::new(env!("CARGO_BIN_EXE_llmd-router"))
        .arg("--config")
        .arg(&file)
        .arg("--check")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    (router.status.code().unwrap(), String::from_utf8(router.stderr).unwrap())
}

#[test]
fn a_check_steers_no_terminal_and_tells_no_password() {
    let text = "version: 1\n\"a\\e[2J\\nb\": 1\n";
    let (code, told) = check(text.as_bytes());
    assert_eq!(code, 65);
    assert!(told.contains("\\u{1b}[2J\\nb"), "{told}");
    assert!(!told.trim_end().contains(char::is_control), "{told:?}");
    let (_, told) = check(b"version: 1\ntraces: {otlp: \"https://me:secret@collector:4318\"}\n");
    assert!(told.contains("traces.otlp") && !told.contains("secret"), "{told}");
}

#[test]
fn a_mark_of_byte_order_is_no_part_of_the_text() {
    let (code, told) = check("\u{feff}version: 1\n".as_bytes());
    assert_eq!(code, 0, "{told}");
}

fn keyless() -> String {
    base().replace("adminKeyFile: key\n", "")
}

/// A router that was started from a pipe, so that no watch of its own reads besides; and its file.
fn started_from_a_pipe(folder: &Path) -> (Running, PathBuf) {
    let file = folder.join("router.yaml");
    make_pipe(&file);
    let (text, path) = (keyless(), file.clone());
    let written = std::thread::spawn(move || {
        let mut pipe = std::fs::File::options().write(true).open(path).unwrap();
        pipe.write_all(text.as_bytes()).unwrap();
    });
    let running = control::start(&file).unwrap();
    written.join().unwrap();
    (running, file)
}

async fn end(running: Running) {
    running.tell(Command::Drain);
    assert_eq!(tokio::task::spawn_blocking(|| running.wait()).await.unwrap(), 0);
}

/// How many were applied, and how many refused.
async fn reloads(running: &Running) -> [f64; 2] {
    let page = Client::ask(running.admin, "GET", "/metrics").await.unwrap().text();
    ["applied", "refused"].map(|result| {
        let sample = format!("llmd_router_config_reloads_total{{result=\"{result}\"}} ");
        page.lines()
            .find_map(|line| line.strip_prefix(&*sample))
            .map_or(0.0, |value| value.parse().unwrap())
    })
}

async fn until_reloads(running: &Running, wanted: [f64; 2]) {
    let end = Instant::now() + Duration::from_secs(10);
    while reloads(running).await != wanted {
        assert!(Instant::now() < end, "{:?} are not {wanted:?}", reloads(running).await);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_change_that_was_taken_over_when_asked_is_not_taken_over_again() {
    let folder = tempfile::tempdir().unwrap();
    let (running, file) = started_from_a_pipe(folder.path());
    let replace = |text: &str| {
        std::fs::write(folder.path().join("next"), text).unwrap();
        std::fs::rename(folder.path().join("next"), &file).unwrap();
    };
    replace(&keyless().replace("fleet: test", "fleet: other"));
    // Asked for, and then told by the watch, which saw the same change later.
    running.tell(Command::Reload);
    running.tell(Command::Changed);
    until_reloads(&running, [1.0, 0.0]).await;
    running.tell(Command::Changed);
    // Seen by the watch alone, and behind those before.
    replace("version: 2\n");
    running.tell(Command::Changed);
    until_reloads(&running, [1.0, 1.0]).await;
    // Asked for, though nothing changed.
    running.tell(Command::Reload);
    until_reloads(&running, [1.0, 2.0]).await;
    end(running).await;
}

#[tokio::test]
async fn what_is_no_file_is_read_at_a_start_and_not_waited_for_later() {
    let folder = tempfile::tempdir().unwrap();
    let (running, _) = started_from_a_pipe(folder.path());
    let ask = async |path: &str| Client::ask(running.admin, "GET", path).await.unwrap().text();
    running.tell(Command::Reload);
    let until = Instant::now() + Duration::from_secs(10);
    while !ask("/status").await.contains("cannot be read: it is no regular file") {
        assert!(Instant::now() < until, "{}", ask("/status").await);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    end(running).await;
}

#[tokio::test]
async fn a_file_that_becomes_a_pipe_is_refused() {
    let setup = Setup::start(&one_model(&[]));
    make_pipe(&setup.path("next"));
    std::fs::rename(setup.path("next"), setup.path("router.yaml")).unwrap();
    setup
        .until(|status| {
            let error = status["config"]["error"].as_str();
            error.is_some_and(|error| error.ends_with("cannot be read: it is no regular file"))
        })
        .await;
}

#[tokio::test]
async fn ports_that_need_a_restart_are_told_in_words() {
    let engine = engine(vec![Behaviour::ok()]);
    let old = one_model(&[&engine]);
    let setup = Setup::start(&old);
    let new = old.replace(
        "listen: {data: \"127.0.0.1:0\"",
        "listen: {data: \"127.0.0.1:1\", adminTls: {certFile: c, keyFile: k}",
    );
    setup.replace("router.yaml", &new);
    setup.until(|status| !status["config"]["error"].is_null()).await;
    let status = setup.status().await;
    let error = status["config"]["error"].as_str().unwrap();
    let told = "listen.data: 127.0.0.1:1 needs a restart, until then it is 127.0.0.1:0\n  \
                listen.adminTls: TLS where there was none needs a restart, until then it stays \
                as it was";
    assert!(error.contains(told), "{error}");
    setup.replace("router.yaml", &old.replace("data: \"127.0.0.1:0\"", "data: \"127.0.0.1:1\""));
    setup.until(|status| status["config"]["needsRestart"] == true).await;
}

#[tokio::test]
async fn an_endpoints_file_with_bad_entries_only_leaves_the_pool_as_it_was() {
    let engine = engine(vec![Behaviour::ok()]);
    let good = format!(
        "endpoints: [{{name: e0, address: 127.0.0.1, port: \"{}\"}}]\n",
        engine.address.port()
    );
    let config = format!(
        "{}models:\n- name: chat\n  sources: [{{kind: file, path: endpoints.yaml}}]\n",
        base()
    );
    let process = Process::start_with(&config, "text", |folder| {
        std::fs::write(folder.join("endpoints.yaml"), &good).unwrap();
    });
    let data = address(&process.line("listening"), "data=");
    let bad = good.replace("127.0.0.1", "localhost");
    std::fs::write(process.folder.path().join("endpoints.yaml"), bad).unwrap();
    let line = process.line("has no entry that can be used");
    assert!(line.contains("endpoints[0]: e0: address \"localhost\""), "{line}");
    assert!(line.contains("the endpoints stay as they were"), "{line}");
    let body = crate::support::body("chat", false);
    let asked = Client::post(data, crate::support::CHAT, &[], body.as_bytes()).await.unwrap();
    assert_eq!(asked.reply().await.unwrap().status, 200);
}
