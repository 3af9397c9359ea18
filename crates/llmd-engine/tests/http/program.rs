//! The program: its command line, its exit codes and its signals.

use crate::fixture::facts;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn document(port: u16) -> Value {
    json!({"version": 1, "name": "chat-0", "model": "chat", "accelerator": "test-chip",
        "listen": format!("127.0.0.1:{port}"), "facts": facts()})
}

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_llmd-engine"))
}

/// Checks a configuration and returns the exit code and what was said.
fn check(folder: &Path, text: &str) -> (i32, String) {
    let file = folder.join("engine.json");
    std::fs::write(&file, text).unwrap();
    let output = program().arg("--config").arg(&file).arg("--check").output().unwrap();
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_wrong_configuration_is_refused_with_its_key() {
    let folder = tempfile::tempdir().unwrap();
    let (code, told) = check(folder.path(), &document(0).to_string());
    assert!(code == 0 && told.ends_with("engine.json: ok\n"), "{told}");
    let wrong = |key: &str, value: Value| {
        let mut document = document(0);
        *document.pointer_mut(key).unwrap() = value;
        document.to_string()
    };
    let mut unknown = document(0);
    unknown["colour"] = json!("green");
    for (text, said) in [
        (wrong("/version", json!(2)), "version is 2, but this engine knows only 1"),
        (wrong("/listen", json!("localhost")), "listen: invalid socket address"),
        (wrong("/model", json!("")), "model must be a text"),
        (wrong("/facts/speed", json!("fast")), "facts.speed: invalid type"),
        (wrong("/facts/gemmFlops", json!(0.0)), "facts.gemmFlops is 0, but must be"),
        (unknown.to_string(), "colour: unknown field `colour`"),
        ("{".to_owned(), "EOF while parsing"),
    ] {
        let (code, told) = check(folder.path(), &text);
        assert_eq!(code, 65, "{told}");
        assert!(told.contains(said), "{told}");
    }
}

#[test]
fn a_wrong_command_line_is_64_and_help_is_0() {
    for (arguments, code) in
        [(&[][..], 64), (&["--config"], 64), (&["--nope"], 64), (&["--help"], 0)]
    {
        let output = program().args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}");
    }
    let absent = program().args(["--config", "absent.json"]).output().unwrap();
    assert_eq!(absent.status.code(), Some(65));
}

#[test]
fn a_taken_address_is_an_error_that_names_it() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("engine.json");
    std::fs::write(&file, document(port).to_string()).unwrap();
    let output = program().arg("--config").arg(&file).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains(&format!("cannot listen on 127.0.0.1:{port}")), "{told}");
}

#[test]
fn sigterm_lets_a_stream_end_and_exits_0() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("engine.json");
    std::fs::write(&file, document(port).to_string()).unwrap();
    let mut engine = program().arg("--config").arg(&file).stderr(Stdio::null()).spawn().unwrap();
    let end = Instant::now() + Duration::from_secs(20);
    let mut socket = loop {
        match TcpStream::connect(("127.0.0.1", port)) {
            Ok(socket) => break socket,
            Err(error) => assert!(Instant::now() < end, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    let body = r#"{"model":"chat","prompt":"hello","max_tokens":300,"stream":true}"#;
    let length = body.len();
    let head = format!("POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {length}");
    socket.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).unwrap();
    let mut seen = vec![0; 1_024];
    let read = socket.read(&mut seen).unwrap();
    assert!(read > 0);
    let told = Command::new("kill").arg(engine.id().to_string()).status().unwrap();
    assert!(told.success());
    let mut rest = String::new();
    socket.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("[DONE]"), "{rest}");
    assert_eq!(engine.wait().unwrap().code(), Some(0));
}
