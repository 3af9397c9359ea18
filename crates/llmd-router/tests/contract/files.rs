//! A router that may open few files: what it opens by itself leaves some to its clients.

use crate::process::{Process, address, few_files};
use crate::support::{CHAT, body, engine, one_model};
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use llmd_testkit::{Behaviour, Client, FakeEngine};
use serde_json::Value;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Connections that are open, and the most that were.
#[derive(Clone, Default)]
struct Held(Arc<(AtomicUsize, AtomicUsize)>);

impl Held {
    fn most(&self) -> usize {
        self.0.1.load(SeqCst)
    }
}

/// Something that lets everybody in, and answers each request after this time, if ever.
async fn listener(after: Option<Duration>) -> (SocketAddr, Held) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, held) = (listener.local_addr().unwrap(), Held::default());
    let counted = held.clone();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let Held(counts) = counted.clone();
            tokio::spawn(async move {
                counts.1.fetch_max(counts.0.fetch_add(1, SeqCst) + 1, SeqCst);
                serve(socket, after).await;
                counts.0.fetch_sub(1, SeqCst);
            });
        }
    });
    (address, held)
}

async fn serve(mut socket: TcpStream, after: Option<Duration>) {
    let mut bytes = [0; 4_096];
    while matches!(socket.read(&mut bytes).await, Ok(count) if count > 0) {
        let Some(after) = after else { continue };
        tokio::time::sleep(after).await;
        let _ = socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    }
}

/// One more model, with so many endpoints at one address.
fn and_model(name: &str, endpoints: usize, at: SocketAddr) -> String {
    let mut text = format!("- name: {name}\n  sources: [{{kind: static, endpoints: [");
    for number in 0..endpoints {
        let port = at.port();
        write!(text, "{{name: {name}-{number}, address: 127.0.0.1, port: {port}}}, ").unwrap();
    }
    text + "]}]\n"
}

#[tokio::test]
async fn a_router_that_cannot_serve_for_want_of_files_says_how_many_it_needs() {
    let mut process = Process::start_under("-n 20", &one_model(&[]));
    let line = process.line("open files: the process may have 20, and needs ");
    assert!(line.starts_with("error: ") && line.contains("ulimit -Hn"), "{line}");
    assert_eq!(process.ended().await, Some(1));
    // With as many it serves.
    let needed = line.split("needs ").nth(1).unwrap().split(' ').next().unwrap();
    let engine = engine(vec![Behaviour::ok()]);
    let process = Process::start_under(&format!("-n {needed}"), &one_model(&[&engine]));
    let line = process.line("listening");
    for _ in 0..3 {
        let body = body("chat", false);
        let asked = Client::post(address(&line, "data="), CHAT, &[], body.as_bytes()).await;
        assert_eq!(asked.unwrap().reply().await.unwrap().status, 200);
        let health = Client::ask(address(&line, "admin="), "GET", "/healthz").await;
        assert_eq!(health.unwrap().status, 200);
    }
}

#[tokio::test]
async fn endpoints_that_hang_take_no_file_of_the_clients() {
    let (silent, held) = listener(None).await;
    let engine = engine(vec![Behaviour::ok()]);
    let config = one_model(&[&engine]) + &and_model("silent", 1_000, silent);
    let process = Process::start_under("-n 1024", &config);
    let few = process.line("1001 endpoints need");
    assert!(few.contains("need 32032 open files, and the process may have 1024"), "{few}");
    assert!(few.contains("of 32 at a time") && few.contains("ulimit -Hn"), "{few}");
    let line = process.line("listening");
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(3) {
        let health = Client::ask(address(&line, "admin="), "GET", "/healthz").await;
        assert_eq!(health.unwrap().status, 200);
        let body = body("chat", false);
        let asked = Client::post(address(&line, "data="), CHAT, &[], body.as_bytes()).await;
        assert_eq!(asked.unwrap().reply().await.unwrap().status, 200);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!((1..=64).contains(&held.most()), "{} connections", held.most());
    assert!(!process.has_logged("cannot accept"), "a file was wanted in vain");
}

#[tokio::test]
async fn an_endpoint_that_waits_for_its_turn_is_not_late() {
    let (slow, _) = listener(Some(Duration::from_millis(150))).await;
    let config = one_model(&[]) + &and_model("slow", 60, slow);
    let process = Process::start_under(&format!("-n {}", few_files(86)), &config);
    let admin = address(&process.line("listening"), "admin=");
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        let status = Client::ask(admin, "GET", "/status").await.unwrap();
        let status: Value = serde_json::from_slice(&status.body).unwrap();
        let endpoints = status["models"][1]["endpoints"].as_array().unwrap();
        let healths = endpoints.iter().map(|endpoint| &endpoint["health"]);
        let checks: Vec<_> = healths.map(|health| health["check"].as_str()).collect();
        assert!(!checks.contains(&Some("failed")), "{status:#}");
        if checks.iter().all(|check| *check == Some("passed")) {
            return;
        }
        assert!(Instant::now() < end, "{checks:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// The answers to so many requests at once, on one connection of HTTP/2.
async fn streams(data: SocketAddr, model: &str, count: usize) -> Vec<(u16, String)> {
    let socket = TokioIo::new(TcpStream::connect(data).await.unwrap());
    let (sender, driver) = http2::handshake(TokioExecutor::new(), socket).await.unwrap();
    tokio::spawn(driver);
    let ask = |_| {
        let body = Full::new(Bytes::from(body(model, false)));
        let request = Request::post(format!("http://router{CHAT}")).body(body).unwrap();
        let mut sender = sender.clone();
        tokio::spawn(async move {
            let response = sender.send_request(request).await.unwrap();
            let status = response.status().as_u16();
            let bytes = response.into_body().collect().await.unwrap().to_bytes();
            (status, String::from_utf8_lossy(&bytes).into_owned())
        })
    };
    let asked: Vec<_> = (0..count).map(ask).collect();
    let mut answers = Vec::new();
    for asked in asked {
        answers.push(asked.await.unwrap());
    }
    answers
}

#[tokio::test]
async fn requests_of_one_connection_leave_files_to_all_others() {
    let slow = || FakeEngine::start(vec![Behaviour::SlowFirstByte(Duration::from_secs(1))]);
    let (first, second) = (slow().unwrap(), slow().unwrap());
    let config = one_model(&[&first]) + &and_model("second", 1, second.address);
    let config = config.replace("headerMs: 1000", "headerMs: 1000, connections: 65536");
    let process = Process::start_under("-n 800", &config);
    process.line("room for 23");
    let line = process.line("listening");
    let (data, admin) = (address(&line, "data="), address(&line, "admin="));
    let answers = streams(data, "chat", 30).await;
    let refused: Vec<_> = answers.iter().filter(|(status, _)| *status != 200).collect();
    assert_eq!(refused.len(), 7, "{answers:?}");
    assert!(refused.iter().all(|(status, text)| {
        *status == 503 && text.contains("router_out_of_files") && text.contains("raise its limit")
    }));
    assert_eq!(Client::ask(admin, "GET", "/healthz").await.unwrap().status, 200);
    // All places are held by connections that rest: they are closed for others.
    let answers = streams(data, "second", 23).await;
    assert!(answers.iter().all(|(status, _)| *status == 200), "{answers:?}");
}
