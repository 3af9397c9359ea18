//! HTTP/1.0 and HTTP/2: what holds for HTTP/1.1 holds for them.

use crate::support::{CHAT, SOON, Setup, body, engine, one_model, told};
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use llmd_router::control::Command;
use llmd_testkit::{Behaviour, Client};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

type Sender = SendRequest<Full<Bytes>>;

async fn connect(setup: &Setup) -> Sender {
    let socket = TcpStream::connect(setup.data).await.unwrap();
    let (sender, driver) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(socket)).await.unwrap();
    tokio::spawn(driver);
    sender
}

fn request(stream: bool) -> Request<Full<Bytes>> {
    let body = Full::new(Bytes::from(body("chat", stream)));
    Request::post(format!("http://router{CHAT}")).body(body).unwrap()
}

async fn ask(sender: &mut Sender, stream: bool) -> Response<Incoming> {
    sender.send_request(request(stream)).await.unwrap()
}

async fn text(response: Response<Incoming>) -> String {
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Waits until an engine has this many requests.
async fn received(engine: &llmd_testkit::FakeEngine, count: usize) {
    let end = Instant::now() + Duration::from_secs(5);
    while engine.received().len() < count {
        assert!(Instant::now() < end);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn http2_is_spoken_to_who_begins_with_it() {
    let engine = engine(vec![Behaviour::ok()]);
    let setup = Setup::start(&one_model(&[&engine]));
    let mut sender = connect(&setup).await;
    let response = ask(&mut sender, false).await;
    assert_eq!((response.status(), response.version()), (StatusCode::OK, http::Version::HTTP_2));
    assert!(text(response).await.contains("hello"));
    let streamed = text(ask(&mut sender, true).await).await;
    assert!(streamed.ends_with("data: [DONE]\n\n"), "{streamed}");
    let large = " ".repeat(1_900_000) + &body("chat", false);
    let large = request(false).map(|_| Full::new(Bytes::from(large)));
    assert_eq!(sender.send_request(large).await.unwrap().status(), StatusCode::OK);
    for (method, path, status) in
        [("GET", "/v1/models", 200), ("HEAD", "/v1/models", 200), ("GET", "/x", 404)]
    {
        let asked = Request::builder().method(method).uri(format!("http://router{path}"));
        let response = sender.send_request(asked.body(Full::default()).unwrap()).await.unwrap();
        assert_eq!(response.status(), status, "{method} {path}");
    }
    let other = Request::get("http://router/v1/models").header("host", "another");
    let response = sender.send_request(other.body(Full::default()).unwrap()).await.unwrap();
    assert_eq!(response.status(), StatusCode::BAD_REQUEST);
    assert_eq!(engine.received()[0].header("host"), Some(&*engine.address.to_string()));
    setup.at_rest().await;
}

#[tokio::test]
async fn many_streams_share_a_connection() {
    let engine = engine(vec![Behaviour::Ok(50, Duration::from_millis(2))]);
    let setup = Setup::start(&one_model(&[&engine]));
    let sender = connect(&setup).await;
    let asks = (0..100).map(|number| {
        let mut sender = sender.clone();
        async move { text(ask(&mut sender, number % 2 == 0).await).await }
    });
    for (number, text) in futures(asks).await.into_iter().enumerate() {
        assert!(text.contains(if number % 2 == 0 { "[DONE]" } else { "hello" }), "{text}");
    }
    setup.at_rest().await;
}

/// Runs them beside each other.
async fn futures<F>(all: impl Iterator<Item = F>) -> Vec<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    let tasks: Vec<_> = all.map(tokio::spawn).collect();
    let mut out = Vec::new();
    for task in tasks {
        out.push(task.await.unwrap());
    }
    out
}

#[tokio::test]
async fn a_stream_that_is_cancelled_reaches_its_engine_and_no_other() {
    let ok = Behaviour::Ok(100, Duration::from_millis(10));
    let engine = engine(vec![Behaviour::StallAfter(2), Behaviour::Hang, ok]);
    let setup = Setup::start(&one_model(&[&engine]));
    let mut sender = connect(&setup).await;
    let mut stalled = ask(&mut sender, true).await;
    stalled.frame().await.unwrap().unwrap();
    let hanging = tokio::spawn({
        let mut sender = sender.clone();
        async move { ask(&mut sender, false).await }
    });
    received(&engine, 2).await;
    let good = ask(&mut sender, true).await;
    let left = Instant::now();
    drop(stalled);
    told(&engine, left).await;
    hanging.abort();
    let left = Instant::now();
    while engine.received()[1].cancelled.is_none() {
        assert!(left.elapsed() < SOON, "the engine was not told");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(text(good).await.ends_with("data: [DONE]\n\n"));
    assert!(engine.received()[2].cancelled.is_none());
    setup.at_rest().await;
}

#[tokio::test]
async fn a_stream_that_breaks_says_so_and_its_connection_goes_on() {
    let ok = Behaviour::Ok(50, Duration::from_millis(10));
    let engine = engine(vec![ok.clone(), Behaviour::DieAfter(2), ok]);
    let setup = Setup::start(&one_model(&[&engine]));
    let mut sender = connect(&setup).await;
    let beside = ask(&mut sender, true).await;
    let broken = text(ask(&mut sender, true).await).await;
    assert!(broken.contains("event: error") && broken.contains("endpoint_lost"), "{broken}");
    assert!(text(beside).await.ends_with("data: [DONE]\n\n"));
    assert!(text(ask(&mut sender, true).await).await.ends_with("data: [DONE]\n\n"));
    setup.at_rest().await;
}

#[tokio::test]
async fn a_stream_whose_client_takes_nothing_in_ends_alone() {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
    let flood = format!("{head}{}", "data: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n\n".repeat(1_000_000));
    let ok = Behaviour::Ok(200, Duration::from_millis(10));
    let engine = engine(vec![Behaviour::Raw(flood.into_bytes()), ok]);
    let setup = Setup::start(&one_model(&[&engine]));
    let mut sender = connect(&setup).await;
    let mut deaf = ask(&mut sender, true).await;
    deaf.frame().await.unwrap().unwrap();
    let begun = Instant::now();
    let beside = ask(&mut sender, true).await;
    // An idle limit of 700 ms.
    while engine.received()[0].cancelled.is_none() {
        assert!(begun.elapsed() < Duration::from_secs(8), "it goes on");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let beside = text(beside).await;
    assert!(beside.ends_with("data: [DONE]\n\n"), "{beside}");
    setup.at_rest().await;
    assert_eq!(setup.metric("llmd_router_requests_total{model=\"chat\",code=\"499\"}").await, 1.0);
}

#[tokio::test]
async fn the_total_limit_of_a_stream_is_its_own() {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
    let flood = format!("{head}{}", "data: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n\n".repeat(1_000_000));
    let engine = engine(vec![Behaviour::Raw(flood.into_bytes()), Behaviour::ok()]);
    let limits = "idleMs: 15000, totalMs: 1500";
    let setup = Setup::start(&one_model(&[&engine]).replace("idleMs: 700, totalMs: 20000", limits));
    let mut sender = connect(&setup).await;
    let mut deaf = ask(&mut sender, true).await;
    deaf.frame().await.unwrap().unwrap();
    let begun = Instant::now();
    while engine.received()[0].cancelled.is_none() {
        assert!(begun.elapsed() < Duration::from_secs(6), "it goes on");
        // Others end beside it, and theirs is not its.
        assert!(text(ask(&mut sender, true).await).await.ends_with("data: [DONE]\n\n"));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    setup.at_rest().await;
}

#[tokio::test]
async fn a_drain_tells_the_client_to_go_and_finishes_what_runs() {
    let engine = engine(vec![Behaviour::Ok(100, Duration::from_millis(20)), Behaviour::ok()]);
    let mut setup = Setup::start(&one_model(&[&engine]));
    let mut sender = connect(&setup).await;
    let running = ask(&mut sender, true).await;
    setup.tell(Command::Drain);
    let end = Instant::now() + SOON;
    while sender.send_request(request(false)).await.is_ok() {
        assert!(Instant::now() < end, "the client is not told");
    }
    assert!(text(running).await.ends_with("data: [DONE]\n\n"));
    assert_eq!(setup.ended().await, 0);
}

#[tokio::test]
async fn an_http2_connection_without_requests_is_closed_in_time() {
    let engine = engine(vec![Behaviour::SlowFirstByte(Duration::from_millis(900))]);
    let limits = "headerMs: 500, keepAliveMs: 1500";
    let setup = Setup::start(&one_model(&[&engine]).replace("headerMs: 1000", limits));
    let mut sender = connect(&setup).await;
    assert!(text(ask(&mut sender, false).await).await.contains("hello"));
    let begun = Instant::now();
    while !sender.is_closed() {
        assert!(begun.elapsed() < Duration::from_secs(5), "it stays");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(begun.elapsed() > Duration::from_millis(1_200));
}

/// A request of HTTP/1.0.
async fn old(setup: &Setup, stream: bool, more: &str) -> Client {
    let body = body("chat", stream);
    let length = body.len();
    let head = format!("POST {CHAT} HTTP/1.0\r\n{more}content-length: {length}\r\n\r\n{body}");
    Client::send(setup.data, head.as_bytes()).await.unwrap()
}

#[tokio::test]
async fn http_1_0_gets_streams_that_end_with_the_connection() {
    let engine = engine(vec![Behaviour::ok(), Behaviour::DieAfter(2), Behaviour::ok()]);
    let setup = Setup::start(&one_model(&[&engine]));
    for (stream, more, ends) in [
        (true, "", "data: [DONE]\n\n"),
        (true, "connection: keep-alive\r\n", "\n\n"),
        (false, "", "}"),
    ] {
        let reply = old(&setup, stream, more).await.reply().await.unwrap();
        assert_eq!((reply.status, reply.header("transfer-encoding")), (200, None));
        assert!(reply.text().ends_with(ends), "{}", reply.text());
        if more.is_empty() {
            continue;
        }
        assert!(reply.text().contains("event: error"), "a broken stream: {}", reply.text());
    }
    let mut kept = old(&setup, false, "connection: keep-alive\r\n").await;
    kept.wait_for("connection: keep-alive").await.unwrap();
    kept.wait_for("hello").await.unwrap();
}

/// A client of HTTP/2 that answers nothing, not even whether it is there: its preface, its
/// settings, and what more it sends.
async fn mute(setup: &Setup, more: &[u8]) -> TcpStream {
    let mut socket = TcpStream::connect(setup.data).await.unwrap();
    let begin = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    socket.write_all(&[begin, more].concat()).await.unwrap();
    let mut first = [0; 9];
    socket.read_exact(&mut first).await.unwrap();
    socket
}

/// A frame on stream 1.
fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(payload.len()).unwrap().to_be_bytes();
    [&[0, length[0], length[1], kind, flags, 0, 0, 0, 1], payload].concat()
}

/// A request in frames.
fn framed(stream: bool) -> Vec<u8> {
    // POST, http, and in letters as they are the path and the authority.
    let path = [&[0x04, u8::try_from(CHAT.len()).unwrap()], CHAT.as_bytes()].concat();
    let head = [&[0x83, 0x86][..], &path, &[0x01, 1, b'x']].concat();
    [frame(1, 4, &head), frame(0, 1, body("chat", stream).as_bytes())].concat()
}

#[tokio::test]
async fn a_drain_does_not_wait_for_idle_clients_that_answer_nothing() {
    let engine = engine(vec![Behaviour::Ok(100, Duration::from_millis(35))]);
    let config = one_model(&[&engine]).replace("drainMs: 5000", "drainMs: 20000");
    let mut setup = Setup::start(&config);
    let mut idle = mute(&setup, b"").await;
    setup.tell(Command::Drain);
    let begun = Instant::now();
    assert_eq!(setup.ended().await, 0);
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    let mut told = Vec::new();
    idle.read_to_end(&mut told).await.unwrap();
    assert!(told.windows(5).any(|bytes| bytes[3] == 7 && bytes[4] == 0), "no GOAWAY: {told:?}");
    // One whose answer runs is waited for, whatever else it does not say.
    let mut setup = Setup::start(&config);
    let mut busy = mute(&setup, &framed(true)).await;
    received(&engine, 1).await;
    setup.tell(Command::Drain);
    let mut answer = Vec::new();
    busy.read_to_end(&mut answer).await.unwrap();
    assert!(String::from_utf8_lossy(&answer).contains("data: [DONE]"), "it was cut");
    assert_eq!(setup.ended().await, 0);
}
