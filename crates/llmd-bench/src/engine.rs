//! Stand-in engines: right answers at once, for the cost of a few system calls.
//!
//! One process is all engines of a bench, each with its own port. `GET /bench` tells how many
//! requests each had, and how many of them found their prompt among the last few there: whether
//! a router keeps prompts together. One more port takes in spans (OTLP over HTTP) and only
//! counts them.

use crate::tally::Kept;
use crate::wire::{Head, Reader};
use memchr::memmem::find;
use serde_json::json;
use std::cell::RefCell;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep_until};

/// What `engines` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The first engine's port; the others follow
    #[arg(long)]
    port: u16,
    /// How many there are
    #[arg(long, default_value_t = 4)]
    count: u16,
    /// Milliseconds between the tokens of a stream
    #[arg(long, default_value_t = 1)]
    gap_ms: u64,
    /// What `GET /metrics` answers
    #[arg(long)]
    metrics: Option<PathBuf>,
    /// The port for spans
    #[arg(long)]
    spans: Option<u16>,
}

/// What all engines share.
#[derive(Debug)]
struct Shared {
    metrics: Vec<u8>,
    gap: Duration,
    engines: RefCell<Vec<Kept>>,
    span_bytes: RefCell<usize>,
}

/// Serves until killed. Says so when all ports are open.
pub(crate) async fn run(options: Options) -> io::Result<()> {
    let shared = Rc::new(Shared {
        metrics: options.metrics.map(std::fs::read).transpose()?.unwrap_or_default(),
        gap: Duration::from_millis(options.gap_ms),
        engines: RefCell::new((0..options.count).map(|_| Kept::default()).collect()),
        span_bytes: RefCell::default(),
    });
    let tasks = tokio::task::LocalSet::new();
    let ports = (0..options.count).map(|number| (options.port + number, Some(number)));
    for (port, number) in ports.chain(options.spans.map(|port| (port, None))) {
        let listener = listen(port)?;
        tasks.spawn_local(accept(listener, number.map(usize::from), Rc::clone(&shared)));
    }
    writeln!(io::stdout(), "ready")?;
    tasks.run_until(std::future::pending()).await
}

/// With room for a burst of connections: thousands of streams are opened at once.
fn listen(port: u16) -> io::Result<TcpListener> {
    let socket = tokio::net::TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind((Ipv4Addr::LOCALHOST, port).into())?;
    socket.listen(4_096)
}

async fn accept(listener: TcpListener, engine: Option<usize>, shared: Rc<Shared>) {
    while let Ok((socket, _)) = listener.accept().await {
        let shared = Rc::clone(&shared);
        // A connection that breaks is the router's doing; the load sees what came of it.
        tokio::task::spawn_local(async move { drop(serve(socket, engine, &shared).await) });
    }
}

async fn serve(mut socket: TcpStream, engine: Option<usize>, shared: &Shared) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let mut reader = Reader::default();
    let mut body = Vec::new();
    while let Some(head) = reader.head(&mut socket).await? {
        body.clear();
        reader.body(&mut socket, &head, |piece| body.extend_from_slice(piece)).await?;
        match engine {
            Some(engine) if head.start.starts_with("POST /v1/") => {
                reader.shrink();
                completion(&mut socket, engine, &body, shared).await?;
            }
            Some(engine) => socket.write_all(&other(&head, engine, shared)).await?,
            None => {
                *shared.span_bytes.borrow_mut() += body.len();
                socket.write_all(&whole("application/x-protobuf", b"")).await?;
            }
        }
        if head.close {
            break;
        }
    }
    Ok(())
}

async fn completion(
    socket: &mut TcpStream,
    engine: usize,
    body: &[u8],
    shared: &Shared,
) -> io::Result<()> {
    shared.engines.borrow_mut()[engine].request(after(body, b"\"user\":\"").unwrap_or(b""));
    let number = |key: &[u8]| std::str::from_utf8(after(body, key)?).ok()?.parse::<u32>().ok();
    // Some routers write a request anew, with the newer of the two names.
    let tokens = number(b"\"max_tokens\":").or_else(|| number(b"\"max_completion_tokens\":"));
    let tokens = tokens.unwrap_or(1);
    let prompt = body.len() / 4;
    if after(body, b"\"stream\":") == Some(b"true") {
        let usage = find(body, b"\"include_usage\":true").is_some();
        return stream(socket, tokens, prompt, usage, shared.gap).await;
    }
    let text = format!(
        "{{\"id\":\"chatcmpl-0a1b2c3d4e5f\",\"object\":\"chat.completion\",\"created\":1790000000,\
         \"model\":\"bench\",\"choices\":[{{\"index\":0,\"message\":{{\"role\":\"assistant\",\
         \"content\":\"a short answer\"}},\"logprobs\":null,\"finish_reason\":\"stop\"}}],{}}}",
        usage_of(prompt, tokens)
    );
    socket.write_all(&whole("application/json", text.as_bytes())).await
}

fn usage_of(prompt: usize, tokens: u32) -> String {
    let total = prompt + tokens as usize;
    format!(
        "\"usage\":{{\"prompt_tokens\":{prompt},\"total_tokens\":{total},\
         \"completion_tokens\":{tokens},\"prompt_tokens_details\":null}}"
    )
}

/// Sends a token at a time, at even distances from the start.
async fn stream(
    socket: &mut TcpStream,
    tokens: u32,
    prompt: usize,
    usage: bool,
    gap: Duration,
) -> io::Result<()> {
    let chunk = |last: &str| {
        let text = format!(
            "data: {{\"id\":\"chatcmpl-0a1b2c3d4e5f\",\"object\":\"chat.completion.chunk\",\
             \"created\":1790000000,\"model\":\"bench\",{last}}}\n\n"
        );
        format!("{:x}\r\n{text}\r\n", text.len()).into_bytes()
    };
    let token = chunk(
        "\"choices\":[{\"index\":0,\"delta\":{\"content\":\" token\"},\"logprobs\":null,\
         \"finish_reason\":null}]",
    );
    let head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n\
                 transfer-encoding: chunked\r\n\r\n";
    socket.write_all(head).await?;
    let begun = Instant::now();
    for number in 0..tokens {
        sleep_until(begun + gap * number).await;
        socket.write_all(&token).await?;
    }
    let mut end = Vec::new();
    if usage {
        end.extend(chunk(&format!("\"choices\":[],{}", usage_of(prompt, tokens))));
    }
    end.extend_from_slice(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n");
    socket.write_all(&end).await
}

/// What routers ask engines besides: their health, their load, what they serve.
fn other(head: &Head, engine: usize, shared: &Shared) -> Vec<u8> {
    let path = head.start.split(' ').nth(1).unwrap_or("");
    match path {
        "/metrics" => whole("text/plain; version=0.0.4", &shared.metrics),
        "/bench" => {
            let engines = shared.engines.borrow();
            let all: Vec<_> = engines.iter().map(Kept::report).collect();
            let report = json!({"engines": all, "span_bytes": *shared.span_bytes.borrow()});
            whole("application/json", report.to_string().as_bytes())
        }
        "/bench/reset" => {
            shared.engines.borrow_mut().fill_with(Kept::default);
            *shared.span_bytes.borrow_mut() = 0;
            whole("application/json", b"{}")
        }
        _ => {
            let object = json!({
                "object": "list", "model_path": "bench", "served_model_name": "bench",
                "status": "ready", "version": "0", "max_model_len": 131_072, "engine": engine,
                "data": [{"id": "bench", "object": "model", "created": 0, "owned_by": "bench"}],
            });
            whole("application/json", object.to_string().as_bytes())
        }
    }
}

fn whole(kind: &str, body: &[u8]) -> Vec<u8> {
    let mut head = String::new();
    // Writing to a String cannot fail.
    let length = body.len();
    let _ =
        write!(head, "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n");
    [head.as_bytes(), body].concat()
}

/// The plain value behind `key`; routers that write a body anew may put a space before it.
fn after<'a>(body: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    let value = body[find(body, key)? + key.len()..].trim_ascii_start();
    let end = value.iter().position(|byte| !byte.is_ascii_alphanumeric())?;
    Some(&value[..end])
}

#[cfg(test)]
mod tests {
    use super::after;

    #[test]
    fn values_are_found_in_a_body() {
        let body = br#"{"user":"p12","stream": true,"max_tokens":16}"#;
        for (key, value) in [
            (&b"\"user\":\""[..], Some(&b"p12"[..])),
            (b"\"stream\":", Some(b"true")),
            (b"\"max_tokens\":", Some(b"16")),
            (b"\"n\":", None),
        ] {
            assert_eq!(after(body, key), value);
        }
    }
}
