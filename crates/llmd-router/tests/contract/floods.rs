//! Clients of HTTP/2 that keep the router busy with frames that ask for nothing: their
//! connections end, others are served meanwhile, and no memory is held for them.

use crate::process::{Process, address};
use crate::support::{CHAT, Setup, body, engine, one_model, rest_within};
use llmd_testkit::{Behaviour, Client};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy, sink};
use tokio::net::TcpStream;

/// The preface, and the client's settings: none.
const BEGIN: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// A flood must be over by then: the limit for heads is 1 s, a goodbye takes 5 s at most, and
/// other tests want the processors too.
const OVER: Duration = Duration::from_secs(45);
/// What the router may hold more than before, all floods together.
const MEMORY: u64 = 48 << 20;
/// Between two hundred frames: a flood, and one that leaves the processors to other tests.
const PACE: Duration = Duration::from_millis(20);

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW: u8 = 8;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    let head = [&length[1..], &[kind, flags], &stream.to_be_bytes()].concat();
    [head, payload.to_vec()].concat()
}

/// The head of a request, nothing of it remembered.
fn head(method: u8, path: &str, stream: u32, flags: u8) -> Vec<u8> {
    // Indexed `:method` and `:scheme`; literal `:path` and `:authority`.
    let path = [&[0x04, path.len() as u8], path.as_bytes()].concat();
    let block = [&[method, 0x86], &path[..], &[0x01, 1, b'x']].concat();
    frame(HEADERS, flags, stream, &block)
}

const GET: u8 = 0x82;
const POST: u8 = 0x83;
const CANCEL: [u8; 4] = [0, 0, 0, 8];

/// What a flood sends in its turn `number`; the first turn is 0.
type Turn = fn(number: u32) -> Vec<u8>;

const FLOODS: &[(&str, Turn)] = &[
    ("requests that are reset at once", |number| {
        let stream = 2 * number + 1;
        let asked = head(GET, "/v1/models", stream, END_STREAM | END_HEADERS);
        [asked, frame(RESET, 0, stream, &CANCEL)].concat()
    }),
    ("requests of an engine that are reset", |number| {
        let stream = 2 * number + 1;
        let asked = head(POST, CHAT, stream, END_HEADERS);
        let body = frame(DATA, END_STREAM, stream, body("chat", true).as_bytes());
        [asked, body, frame(RESET, 0, stream, &CANCEL)].concat()
    }),
    ("requests that ask too much of themselves", |number| {
        // A window that overflows: the router resets the stream.
        let stream = 2 * number + 1;
        let asked = head(POST, CHAT, stream, END_HEADERS);
        [asked, frame(WINDOW, 0, stream, &[0x7f, 0xff, 0xff, 0xff])].concat()
    }),
    ("requests whose bodies never come", |number| head(POST, CHAT, 2 * number + 1, END_HEADERS)),
    ("pings", |_| frame(PING, 0, 0, b"12345678")),
    ("settings", |_| frame(SETTINGS, 0, 0, &[0, 4, 0, 1, 0, 0])),
    ("priorities", |number| frame(PRIORITY, 0, 2 * number + 1, &[0, 0, 0, 0, 1])),
    ("windows", |_| frame(WINDOW, 0, 0, &[0, 0, 0, 1])),
    ("empty pieces of a body", |number| match number {
        0 => head(POST, CHAT, 1, END_HEADERS),
        _ => frame(DATA, 0, 1, b""),
    }),
    ("a head without an end", |number| match number {
        0 => head(GET, "/v1/models", 1, END_STREAM),
        _ => frame(CONTINUATION, 0, 1, &[b"\0\x01a\x01".as_slice(), b"b"].concat()),
    }),
    ("a head of empty pieces", |number| match number {
        0 => head(GET, "/v1/models", 1, END_STREAM),
        _ => frame(CONTINUATION, 0, 1, b""),
    }),
];

/// Sends it until the connection ends; a deaf client reads nothing.
async fn flood(data: SocketAddr, turn: Turn, deaf: bool) {
    let mut socket = TcpStream::connect(data).await.unwrap();
    socket.write_all(BEGIN).await.unwrap();
    let (mut reader, mut writer) = socket.into_split();
    let reading = tokio::spawn(async move {
        if !deaf {
            let _ = copy(&mut reader, &mut sink()).await;
        }
        reader
    });
    let mut number = 0;
    loop {
        let turns: Vec<u8> = (number..number + 200).flat_map(turn).collect();
        number += 200;
        if writer.write_all(&turns).await.is_err() {
            break;
        }
        tokio::time::sleep(PACE).await;
    }
    let _ = reading.await.unwrap().read(&mut [0]).await;
}

#[tokio::test]
async fn a_client_is_told_its_bounds_at_the_begin() {
    let engine = engine(vec![Behaviour::ok()]);
    let setup = Setup::start(&one_model(&[&engine]));
    let mut socket = TcpStream::connect(setup.data).await.unwrap();
    socket.write_all(BEGIN).await.unwrap();
    let (mut settings, mut window) = (Vec::new(), 65_535);
    while settings.is_empty() || window == 65_535 {
        let mut head = [0; 9];
        socket.read_exact(&mut head).await.unwrap();
        let length = usize::from(head[1]) << 8 | usize::from(head[2]);
        let mut payload = vec![0; length];
        socket.read_exact(&mut payload).await.unwrap();
        let number = |bytes: &[u8]| bytes.iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte));
        match (head[3], head[4]) {
            (SETTINGS, 0) => settings
                .extend(payload.chunks(6).map(|pair| (number(&pair[..2]), number(&pair[2..])))),
            (WINDOW, _) => window += number(&payload),
            _ => {}
        }
    }
    let (most_streams, stream_window, head_bytes) = (3, 4, 6);
    for bound in [(most_streams, 256), (stream_window, 256 << 10), (head_bytes, 64 << 10)] {
        assert!(settings.contains(&bound), "{bound:?} in {settings:?}");
    }
    assert_eq!(window, 1 << 20);
}

/// Bytes that the process holds in memory.
fn resident(process: &Process) -> u64 {
    let status = std::fs::read_to_string(process.proc("status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() << 10
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn floods_of_frames_end_and_others_are_served() {
    let engine = engine(vec![Behaviour::ok()]);
    let process = Process::start(&one_model(&[&engine]), "text");
    let line = process.line("listening");
    let (data, admin) = (address(&line, "data="), address(&line, "admin="));
    let ask = || async {
        let asked = Client::post(data, CHAT, &[], body("chat", true).as_bytes()).await;
        let reply = asked.unwrap().reply().await.unwrap();
        assert!(reply.text().ends_with("data: [DONE]\n\n"), "{}", reply.text());
    };
    ask().await;
    let before = resident(&process);
    let floods: Vec<_> = FLOODS
        .iter()
        .flat_map(|(what, turn)| [(what, turn, false), (what, turn, true)])
        .map(|(what, turn, deaf)| (what, deaf, tokio::spawn(flood(data, *turn, deaf))))
        .collect();
    let begun = Instant::now();
    let mut most = 0;
    while floods.iter().any(|(_, _, flood)| !flood.is_finished()) {
        ask().await;
        most = most.max(resident(&process));
        let open: Vec<_> =
            floods.iter().filter(|flood| !flood.2.is_finished()).map(|f| (f.0, f.1)).collect();
        assert!(begun.elapsed() < OVER, "they go on (the second is deaf): {open:?}");
        assert!(most < before + MEMORY, "{} MiB held for {open:?}", (most - before) >> 20);
    }
    for (what, deaf, flood) in floods {
        flood.await.unwrap_or_else(|error| panic!("{what} {deaf}: {error}"));
    }
    ask().await;
    rest_within(admin, Duration::from_secs(5)).await;
}
