//! The table of what an engine can do wrong, and what its client sees of it: one line each.
//!
//! Every row is run twice: on a model whose only endpoint behaves so, and on one where a second
//! endpoint is well. In both the client's view, the attempts that engines saw and every counter
//! are compared; afterwards all gauges are 0, and the next request on the same router, to the
//! engine that is well again, is answered: nothing of the bad answer is left on a connection.

use crate::support::{Setup, base, body, engine, error_code};
use llmd_testkit::{Behaviour, FakeEngine, Reply, Then};
use std::time::Duration;
use tokio::task::JoinSet;

/// Rows that run at once: most of them wait.
const AT_ONCE: usize = 12;
/// The limits of these routers.
const LIMITS: &str = "limits: {connectMs: 500, firstByteMs: 2000, idleMs: 1000, totalMs: 20000}\n";
/// Within the limit for the first byte, and beyond it.
const WITHIN: Duration = Duration::from_secs(1);
const BEYOND: Duration = Duration::from_millis(3_500);

/// What a client sees of an answer.
#[derive(Clone, Copy, Debug)]
enum Sees {
    /// The engine's own word: a whole answer with this status that holds this text.
    Word(u16, &'static str),
    /// The same; the text is all of it.
    Is(u16, &'static str),
    /// The same, with this header.
    Header(u16, &'static str, &'static str),
    /// A whole stream with `[DONE]`, which holds this text.
    Stream(&'static str),
    /// The router's error object, with this code.
    Error(u16, &'static str),
    /// A stream that ends with the router's error event, with this code.
    Event(&'static str),
    /// The begin of an answer that nobody can take for whole; what it is counted as.
    Cut(u16),
}
use Sees::{Cut, Error, Event, Header, Is, Stream, Word};

/// Which requests a row is about.
const PLAIN: &[bool] = &[false];
const STREAM: &[bool] = &[true];
const BOTH: &[bool] = &[false, true];

/// Where the engine's answer stays: it is passed on, and no other endpoint is asked.
const STAYS: bool = false;
/// Another endpoint mends it.
const MENDED: bool = true;

/// What it is, which requests, the engine, what the client sees where there is no other engine,
/// and whether another one mends it.
type Row = (&'static str, &'static [bool], Behaviour, Sees, bool);

/// The engine says no.
fn words() -> Vec<Row> {
    let status = Behaviour::Status;
    vec![
        ("400", BOTH, status(400), Word(400, "scripted"), STAYS),
        ("404", BOTH, status(404), Word(404, "scripted"), STAYS),
        ("422", BOTH, status(422), Word(422, "scripted"), STAYS),
        ("429", BOTH, status(429), Word(429, "scripted"), STAYS),
        ("429 with a time", BOTH, patience(429), Header(429, "retry-after", "7"), STAYS),
        ("500", BOTH, status(500), Word(500, "scripted"), STAYS),
        ("501", BOTH, status(501), Word(501, "scripted"), STAYS),
        ("502", BOTH, status(502), Word(502, "scripted"), MENDED),
        ("503", BOTH, status(503), Word(503, "scripted"), MENDED),
        ("503 with a time", BOTH, patience(503), Header(503, "retry-after", "7"), MENDED),
        ("504", BOTH, status(504), Word(504, "scripted"), MENDED),
        ("a status of its own", BOTH, status(799), Word(799, "scripted"), STAYS),
        ("error as events", STREAM, events("400 No", &[REFUSED]), Word(400, "slow down"), STAYS),
        ("429 in mid-stream", STREAM, events(OK, &[T0, REFUSED, DONE]), Stream("slow down"), STAYS),
        ("429 as the end", STREAM, events(OK, &[T0, REFUSED]), Event("endpoint_lost"), STAYS),
    ]
}

/// The engine says nothing, or too late.
fn silences() -> Vec<Row> {
    let (late, stalled) = ("first_byte_timeout", "idle_timeout");
    let begun = sends("200 OK\r\ncontent-length: 100", "{\"a\"", Then::Hang);
    let no_body = sends("200 OK\r\ncontent-length: 100", "", Then::Hang);
    vec![
        ("hangs", BOTH, Behaviour::Hang, Error(504, late), MENDED),
        ("hangs after its head", BOTH, Behaviour::HangAfterHead, Error(504, late), MENDED),
        ("announces, sends nothing", BOTH, no_body, Error(504, late), MENDED),
        ("begins, then hangs", BOTH, begun, Error(504, stalled), MENDED),
        ("just in time", PLAIN, Behaviour::SlowFirstByte(WITHIN), Word(200, "hello"), STAYS),
        ("just in time", STREAM, Behaviour::SlowFirstByte(WITHIN), Stream("t0"), STAYS),
        ("too late", BOTH, Behaviour::SlowFirstByte(BEYOND), Error(504, late), MENDED),
        ("stalls after 1", STREAM, Behaviour::StallAfter(1), Event(stalled), STAYS),
        ("stalls after 2", STREAM, Behaviour::StallAfter(2), Event(stalled), STAYS),
        ("half an event", STREAM, partly("data: {\"a\"", Then::Hang), Event(stalled), STAYS),
    ]
}

/// The engine dies, or a connection does.
fn deaths() -> Vec<Row> {
    let (lost, gone) = ("endpoint_lost", Error(502, "endpoint_lost"));
    let reset = Behaviour::RawThen(Vec::new(), Then::Reset);
    let cut_head = Behaviour::Raw(b"HTTP/1.1 200 OK\r\ncontent-le".to_vec());
    let reset_head = sends("200 OK\r\ncontent-length: 9", "{\"a\"", Then::Reset);
    vec![
        ("closes before its head", BOTH, Behaviour::CloseBeforeHead, gone, MENDED),
        ("resets before its head", BOTH, reset, gone, MENDED),
        ("closes in its head", BOTH, cut_head, gone, MENDED),
        ("resets behind its head", BOTH, reset_head, gone, MENDED),
        ("dies in its answer", PLAIN, Behaviour::DieAfter(1), gone, MENDED),
        ("dies after 0 chunks", STREAM, Behaviour::DieAfter(0), gone, MENDED),
        ("dies after 1 chunk", STREAM, Behaviour::DieAfter(1), Event(lost), STAYS),
        ("dies after 2 chunks", STREAM, Behaviour::DieAfter(2), Event(lost), STAYS),
        ("dies after 200 chunks", STREAM, Behaviour::DieAfter(200), Event(lost), STAYS),
        ("half closes after 0", STREAM, Behaviour::HalfClose(0), gone, MENDED),
        ("half closes after 2", STREAM, Behaviour::HalfClose(2), Event(lost), STAYS),
        ("resets after a chunk", STREAM, partly(T0, Then::Reset), Event(lost), STAYS),
        ("dies in an event", STREAM, partly("data: {\"half", Then::Close), Event(lost), STAYS),
        ("no end", STREAM, events(OK, &[T0]), Event(lost), STAYS),
        ("no event", STREAM, events(OK, &[]), gone, MENDED),
        ("dies in a large one", PLAIN, large(Some(10 << 20), Then::Close), Cut(502), STAYS),
        ("stalls in a large one", PLAIN, large(Some(10 << 20), Then::Hang), Cut(504), STAYS),
        ("half closes a large one", PLAIN, large(None, Then::Close), Word(200, "yyy"), STAYS),
    ]
}

/// What is framed in an uncommon way, and is an answer all the same.
fn framings() -> Vec<Row> {
    let keep = |head, body| sends(head, body, Then::Keep);
    let two = "200 OK\r\ncontent-length: 2";
    let chunked = "200 OK\r\ntransfer-encoding: chunked";
    let hinted = "103 Early Hints\r\nlink: </x>\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2";
    let twice = "100 Continue\r\n\r\nHTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\
                 content-length: 2";
    let both = "200 OK\r\ncontent-length: 3\r\ntransfer-encoding: chunked";
    let closes = "200 OK\r\nconnection: close\r\ncontent-length: 2";
    let html = Behaviour::WrongContentType;
    let gzip = "200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 2";
    let found = "307 Temporary Redirect\r\nlocation: /elsewhere\r\ncontent-length: 0";
    let trailed = "2\r\n{}\r\n0\r\nx-checksum: 1\r\n\r\n";
    let odd = "2;a=\"b\";c\r\n{}\r\n0;d\r\n\r\n";
    vec![
        ("another type", BOTH, html, Header(200, "content-type", "text/html"), STAYS),
        ("100 before it", BOTH, keep(twice, "{}"), Is(200, "{}"), STAYS),
        ("103 before it", BOTH, keep(hinted, "{}"), Is(200, "{}"), STAYS),
        ("chunk extensions", BOTH, keep(chunked, odd), Is(200, "{}"), STAYS),
        ("trailers", BOTH, keep(chunked, trailed), Is(200, "{}"), STAYS),
        ("two framings", PLAIN, sends(both, trailed, Then::Close), Is(200, "{}"), STAYS),
        ("no framing", BOTH, sends("200 OK", "{}", Then::Close), Is(200, "{}"), STAYS),
        ("longer than told", BOTH, keep(two, "{}{}{}{}"), Is(200, "{}"), STAYS),
        ("an answer too many", BOTH, keep(two, TOO_MANY), Is(200, "{}"), STAYS),
        ("connection: close", BOTH, sends(closes, "{}", Then::Close), Is(200, "{}"), STAYS),
        ("close, and open", BOTH, sends(closes, "{}", Then::Hang), Is(200, "{}"), STAYS),
        ("empty 200", BOTH, keep("200 OK\r\ncontent-length: 0", ""), Is(200, ""), STAYS),
        ("empty 200, closed", BOTH, sends("200 OK", "", Then::Close), Is(200, ""), STAYS),
        ("204", BOTH, keep("204 No Content", ""), Is(204, ""), STAYS),
        ("304", BOTH, keep("304 Not Modified", ""), Is(304, ""), STAYS),
        ("a redirect", BOTH, keep(found, ""), Header(307, "location", "/elsewhere"), STAYS),
        ("gzip", BOTH, keep(gzip, "\x1f_"), Header(200, "content-encoding", "gzip"), STAYS),
        ("before the body", BOTH, Behaviour::Early(early()), Is(413, "{}"), STAYS),
        ("a large header", BOTH, long_header(20_000), Is(200, "{}"), STAYS),
        ("events with a length", STREAM, told(0), Stream("t0"), STAYS),
        ("events nobody asked for", PLAIN, events(OK, &[T0, DONE]), Stream("t0"), STAYS),
        ("JSON instead", STREAM, keep(two, "{}"), Is(200, "{}"), STAYS),
    ]
}

/// What is no answer.
fn nonsense() -> Vec<Row> {
    let lost = Error(502, "endpoint_lost");
    let raw = |bytes: &[u8]| Behaviour::Raw(bytes.to_vec());
    let switch = "101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: h2c";
    let nobody = Error(502, "endpoint_no_answer");
    let no_size = sends("200 OK\r\ntransfer-encoding: chunked", "zz\r\n{}\r\n", Then::Keep);
    let huge = "ffffffffffffffffff\r\n{}";
    let huge = sends("200 OK\r\ntransfer-encoding: chunked", huge, Then::Keep);
    let two = sends("200 OK\r\ncontent-length: 2\r\ncontent-length: 3", "{}", Then::Keep);
    let minus = sends("200 OK\r\ncontent-length: -2", "{}", Then::Keep);
    let short = sends("200 OK\r\ncontent-length: 9", "{\"a\"", Then::Close);
    vec![
        ("garbage", BOTH, raw(b"\x00\xff\x16\x03\x01\x02\x00\x01"), lost, MENDED),
        ("no HTTP", BOTH, raw(b"what?\r\n\r\n"), lost, MENDED),
        ("HTTP of the future", BOTH, raw(b"HTTP/7.0 200 OK\r\n\r\n"), lost, MENDED),
        ("no status", BOTH, sends("20 OK", "", Then::Close), lost, MENDED),
        ("a switch of protocols", BOTH, sends(switch, "", Then::Keep), nobody, MENDED),
        ("no header", BOTH, sends("200 OK\r\nwhat", "{}", Then::Keep), lost, MENDED),
        ("a zero in a header", BOTH, sends("200 OK\r\na: \0", "{}", Then::Keep), lost, MENDED),
        ("a huge header", BOTH, long_header(4 << 20), lost, MENDED),
        ("too many headers", BOTH, many_headers(), lost, MENDED),
        ("two lengths", BOTH, two, lost, MENDED),
        ("no length", BOTH, minus, lost, MENDED),
        ("no chunk size", BOTH, no_size, lost, MENDED),
        ("a huge chunk size", BOTH, huge, lost, MENDED),
        ("shorter than told", BOTH, short, lost, MENDED),
        ("events, fewer than told", STREAM, told(9), Event("endpoint_lost"), STAYS),
    ]
}

const OK: &str = "200 OK";
const T0: &str = "data: {\"choices\":[{\"text\":\"t0\"}]}\n\n";
const DONE: &str = "data: [DONE]\n\n";
const REFUSED: &str = "data: {\"error\":{\"message\":\"slow down\",\"code\":429}}\n\n";
const TOO_MANY: &str = "{}HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nwrong";

fn sends(head: &str, body: &str, then: Then) -> Behaviour {
    Behaviour::RawThen(format!("HTTP/1.1 {head}\r\n\r\n{body}").into_bytes(), then)
}

fn patience(status: u16) -> Behaviour {
    let head = format!("{status} Wait\r\nretry-after: 7\r\ncontent-length: 2");
    sends(&head, "{}", Then::Keep)
}

/// An event stream that ends with its connection.
fn events(status: &str, events: &[&str]) -> Behaviour {
    let head = format!("{status}\r\ncontent-type: text/event-stream");
    sends(&head, &events.concat(), Then::Close)
}

/// One event, then the begin of a chunk.
fn partly(begun: &str, then: Then) -> Behaviour {
    let head = "200 OK\r\ncontent-type: Text/Event-Stream; charset=utf-8\r\n\
                transfer-encoding: chunked";
    sends(head, &format!("{:x}\r\n{T0}\r\nfff\r\n{begun}", T0.len()), then)
}

/// A stream with a length, which is larger than it by so much.
fn told(more: usize) -> Behaviour {
    let length = T0.len() + DONE.len() + more;
    let head = format!("200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {length}");
    let done = if more == 0 { DONE } else { "" };
    sends(&head, &format!("{T0}{done}"), Then::Close)
}

/// More than is held back, of so many bytes as it says.
fn large(length: Option<usize>, then: Then) -> Behaviour {
    let length = length.map_or(String::new(), |length| format!("\r\ncontent-length: {length}"));
    sends(&format!("200 OK{length}"), &"y".repeat(9 << 20), then)
}

fn long_header(length: usize) -> Behaviour {
    let head = format!("200 OK\r\nx-long: {}\r\ncontent-length: 2", "x".repeat(length));
    sends(&head, "{}", Then::Keep)
}

fn many_headers() -> Behaviour {
    let headers = "x-one: more\r\n".repeat(2_000);
    sends(&format!("200 OK\r\n{headers}content-length: 2"), "{}", Then::Keep)
}

fn early() -> Vec<u8> {
    b"HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\n{}".to_vec()
}

/// One router over a model with the bad engine alone, and one where a good one is beside it.
struct World {
    bad: FakeEngine,
    good: FakeEngine,
    setup: Setup,
}

impl World {
    fn new(behaviour: &Behaviour) -> Self {
        let (bad, good) = (engine(vec![behaviour.clone()]), engine(vec![Behaviour::ok()]));
        let endpoint = |name: &str, engine: &FakeEngine| {
            format!("{{name: {name}, address: 127.0.0.1, port: {}}}", engine.address.port())
        };
        let model = |name: &str, endpoints: &[String]| {
            let endpoints = endpoints.join(", ");
            format!(
                "- {{name: {name}, scheduler: round-robin, \
                 sources: [{{kind: static, endpoints: [{endpoints}]}}]}}\n"
            )
        };
        let pair = [endpoint("bad", &bad), endpoint("good", &good)];
        let models = model("alone", &pair[..1]) + &model("pair", &pair);
        let (head, limits) = (base(), base().find("limits:").unwrap());
        let config = format!("{}{LIMITS}models:\n{models}", &head[..limits]);
        Self { setup: Setup::start(&config), bad, good }
    }

    async fn ask(&self, model: &str, stream: bool) -> Reply {
        self.setup.post(&[], &body(model, stream)).await.reply().await.unwrap()
    }

    fn attempts(&self) -> (usize, usize) {
        (self.bad.received().len(), self.good.received().len())
    }

    /// The sum of a metric's samples of a model, those with this label.
    async fn sum(&self, name: &str, model: &str, label: &str) -> u64 {
        let page = self.setup.get_admin("/metrics").await.text();
        let model = format!("model=\"{model}\"");
        let ours = page
            .lines()
            .filter(|line| line.starts_with(name) && line.contains(&model) && line.contains(label));
        ours.map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum()
    }

    /// One request ended, with this status; what else is counted of it.
    async fn counted(&self, model: &str, status: u16, [retries, stream_errors]: [u64; 2]) {
        let requests = "llmd_router_requests_total{";
        let code = format!("code=\"{status}\"");
        assert_eq!(self.sum(requests, model, &code).await, 1, "requests of {model} with {code}");
        assert_eq!(self.sum(requests, model, "").await, 1, "requests of {model}");
        let counted = self.sum("llmd_router_request_duration_seconds_count", model, "").await;
        assert_eq!(counted, 1, "durations of {model}");
        assert_eq!(self.sum("llmd_router_retries_total", model, "").await, retries, "retries");
        assert_eq!(self.sum("llmd_router_picks_total", model, "").await, retries + 1, "picks");
        let errors = self.sum("llmd_router_stream_errors_total", model, "").await;
        assert_eq!(errors, stream_errors, "stream errors of {model}");
    }
}

/// Compares; the status under which the request is counted.
fn compare(reply: &Reply, sees: Sees) -> u16 {
    let text = reply.text();
    let begin = &text[..text.len().min(500)];
    assert_eq!(reply.whole, !matches!(sees, Cut(_)), "whole: {begin}");
    match sees {
        Word(status, part) => {
            assert!(reply.status == status && text.contains(part), "{} {begin}", reply.status);
            status
        }
        Is(status, all) => {
            assert_eq!((reply.status, text.as_str()), (status, all));
            status
        }
        Header(status, name, value) => {
            assert_eq!((reply.status, reply.header(name)), (status, Some(value)), "{begin}");
            status
        }
        Stream(part) => {
            let whole = text.contains(part) && text.ends_with(DONE) && !text.contains("event:");
            assert!(reply.status == 200 && whole, "{} {text}", reply.status);
            200
        }
        Error(status, code) => {
            assert_eq!((reply.status, error_code(reply).as_str()), (status, code), "{text}");
            status
        }
        Event(code) => {
            assert!(reply.status == 200 && text.starts_with(T0), "{} {text}", reply.status);
            assert!(!text.contains("[DONE]") && !text.contains("half"), "{text}");
            let (_, last) = text.rsplit_once("event: error\ndata: ").unwrap();
            let object: serde_json::Value = serde_json::from_str(last).unwrap();
            assert_eq!(object["error"]["code"], code, "{text}");
            if code == "idle_timeout" { 504 } else { 502 }
        }
        Cut(status) => status,
    }
}

async fn holds(stream: bool, behaviour: Behaviour, sees: Sees, mended: bool) {
    let world = World::new(&behaviour);
    let stream_errors = u64::from(matches!(sees, Event(_)));
    let status = compare(&world.ask("alone", stream).await, sees);
    assert_eq!(world.attempts(), (1, 0), "attempts where it is alone");
    world.counted("alone", status, [0, stream_errors]).await;

    let good = if stream { Stream("t0") } else { Word(200, "hello") };
    let (sees, stream_errors) = if mended { (good, 0) } else { (sees, stream_errors) };
    let status = compare(&world.ask("pair", stream).await, sees);
    assert_eq!(world.attempts(), (2, usize::from(mended)), "attempts where another is");
    world.counted("pair", status, [u64::from(mended), stream_errors]).await;
    world.setup.at_rest_within(Duration::from_secs(1)).await;

    world.bad.script(vec![Behaviour::ok()]);
    compare(&world.ask("alone", false).await, Word(200, "hello"));
    compare(&world.ask("alone", true).await, Stream("t0"));
    world.setup.at_rest_within(Duration::from_secs(1)).await;
}

/// Runs all rows, a few at once; all that fail are named.
async fn all(rows: Vec<Row>) {
    let mut runs = rows.into_iter().flat_map(|(what, asks, behaviour, sees, mended)| {
        asks.iter().map(move |stream| (what, *stream, behaviour.clone(), sees, mended))
    });
    let (mut tasks, mut failed) = (JoinSet::new(), Vec::new());
    loop {
        while tasks.len() < AT_ONCE
            && let Some((what, stream, behaviour, sees, mended)) = runs.next()
        {
            tasks.spawn(async move {
                let run = tokio::spawn(holds(stream, behaviour, sees, mended));
                run.await.err().map(|panic| format!("{what} (stream: {stream}): {panic}"))
            });
        }
        let Some(ended) = tasks.join_next().await else { break };
        failed.extend(ended.unwrap());
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

#[tokio::test]
async fn an_engine_that_says_no() {
    all(words()).await;
}

#[tokio::test]
async fn an_engine_that_says_nothing() {
    all(silences()).await;
}

#[tokio::test]
async fn an_engine_that_dies() {
    all(deaths()).await;
}

#[tokio::test]
async fn an_answer_in_an_uncommon_frame() {
    all(framings()).await;
}

#[tokio::test]
async fn what_is_no_answer() {
    all(nonsense()).await;
}
