use super::*;
use crate::Discovery;
use std::process::{Child, Command};
use std::time::Instant;

struct Sleeper(Child);

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn replica(name: &str, model: &str, pid: u32, start_time: u64, state: &str) -> String {
    format!(
        "{{\"name\": \"{name}\", \"model\": \"{model}\", \"variant\": \"v\", \
         \"address\": \"127.0.0.1\", \"port\": 18000, \"pid\": {pid}, \
         \"startTime\": {start_time}, \"state\": \"{state}\", \"revision\": 3}}"
    )
}

fn document(replicas: &[String]) -> String {
    format!("{{\"version\": 1, \"replicas\": [{}]}}", replicas.join(","))
}

fn own() -> (u32, u64) {
    let pid = std::process::id();
    (pid, start_time_of(pid).unwrap())
}

#[test]
fn only_the_models_own_replicas_come_out() {
    let (pid, start) = own();
    let text = document(&[
        replica("a", "chat", pid, start, "ready"),
        replica("b", "other", pid, start, "ready"),
        replica("c", "chat", pid, start, "draining"),
    ]);
    let endpoints = alive(&parse(&text, "chat").unwrap());
    assert_eq!(endpoints.len(), 2);
    assert_eq!(endpoints[0].variant.as_deref(), Some("v"));
    assert_eq!(endpoints[0].revision, Some(3));
    assert_eq!(endpoints[1].state, State::Draining);
}

#[test]
fn a_process_with_another_start_time_is_not_ours() {
    let (pid, start) = own();
    let text = document(&[replica("a", "chat", pid, start + 1, "ready")]);
    assert!(alive(&parse(&text, "chat").unwrap()).is_empty());
}

#[test]
fn another_version_or_a_broken_file_is_refused() {
    assert!(parse("{\"version\": 2, \"replicas\": []}", "m").unwrap_err().contains("must be 1"));
    assert!(parse("{", "m").is_err());
}

#[test]
fn a_killed_process_is_dropped_before_anyone_rewrites_the_file() {
    let mut sleeper = Sleeper(Command::new("sleep").arg("60").spawn().unwrap());
    let pid = sleeper.0.id();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("replicas.json");
    let start = start_time_of(pid).unwrap();
    std::fs::write(&path, document(&[replica("a", "chat", pid, start, "ready")])).unwrap();
    let source = ProcessSource::new(&path, "chat");
    let receiver = Discovery::start(vec![Box::new(source)]).unwrap();
    assert_eq!(receiver.borrow().endpoints.len(), 1);

    sleeper.0.kill().unwrap(); // not yet reaped: it stays as a zombie, which is dead as well
    let end = Instant::now() + Duration::from_secs(5);
    while !receiver.borrow().endpoints.is_empty() {
        assert!(Instant::now() < end, "still there");
        std::thread::sleep(Duration::from_millis(10));
    }
}
