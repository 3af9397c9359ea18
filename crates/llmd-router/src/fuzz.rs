//! The router's parsers as a fuzzer reaches them: bytes in, nothing out. What must hold of every
//! input is asserted, so that a fuzzer finds more than panics.
//!
//! Called by the targets in `fuzz/` and by the test that replays their corpora; never by the
//! router.

#![allow(clippy::missing_panics_doc, reason = "to panic is how these report")]

use crate::api::{APIS, Api};
use crate::body::{self, Ask};
use crate::config::{Config, Multimodal};
use crate::headers;
use crate::include;
use crate::prompt;
use crate::routes;
use crate::scrape;
use crate::sse::Events;
use crate::trace::Parent;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, header};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use llmd_types::{Micros, Usage};
use std::convert::Infallible;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

pub use llmd_discovery::fuzz::endpoints;

/// The body of a request, as each API reads it: the places in it are places in it, and edits of
/// it (another model's name, a wish for usage) leave all else that is read as it was.
pub fn body(bytes: &[u8]) {
    let mut headers = HeaderMap::new();
    let form = HeaderValue::from_static("multipart/form-data; boundary=B");
    headers.insert(header::CONTENT_TYPE, form);
    for api in APIS {
        if let Ok(ask) = body::parse(api, &headers, bytes) {
            edited(&ask, &headers, bytes);
        }
    }
}

fn edited(ask: &Ask, headers: &HeaderMap, bytes: &[u8]) {
    let parts = |ask: &Ask, bytes: &[u8]| -> Vec<Vec<u8>> {
        ask.prompt.iter().map(|part| bytes[part.span.clone()].to_vec()).collect()
    };
    let seen = |ask: &Ask, bytes: &[u8]| {
        (ask.stream, ask.max_tokens, ask.prompt_tokens, parts(ask, bytes))
    };
    let keys = prompt::keys(1, bytes, &ask.prompt, &Multimodal::default());
    assert!(keys.len() <= bytes.len() + ask.prompt.len() * Multimodal::MAX as usize);
    let (name, wish) = (ask.rename("a \"new\" name"), include::wish(ask, bytes));
    let named = name.is_some();
    let edits = name.into_iter().chain(wish).collect();
    let again = body::edited(&Bytes::copy_from_slice(bytes), edits);
    let read = body::parse(ask.api, headers, &again);
    assert!(read.is_ok(), "{read:?}");
    let Ok(read) = read else { return };
    assert_eq!(seen(ask, bytes), seen(&read, &again));
    assert_eq!(read.model, if named { "a \"new\" name" } else { &*ask.model });
}

/// An event stream, cut into pieces as its first byte says: however it is cut, no byte is lost
/// or changed, and the same is read of it.
pub fn sse(bytes: &[u8]) {
    let Some((cut, stream)) = bytes.split_first() else { return };
    for api in APIS {
        let read = |most| read_stream(api, false, stream, most);
        let (bytes, rest) = read(usize::from(*cut) + 1);
        assert_eq!(bytes, stream, "bytes were lost or changed");
        assert_eq!(rest, read(usize::MAX).1);
        let hidden = |most| read_stream(api, true, stream, most);
        assert_eq!(hidden(usize::from(*cut) + 1), hidden(usize::MAX));
    }
}

type Read = (Vec<u8>, (u32, bool, Usage));

fn read_stream(api: &'static Api, hide: bool, stream: &[u8], most: usize) -> Read {
    let (mut events, mut passed, mut count) = (Events::new(api, hide), Vec::new(), 0);
    for piece in stream.chunks(most) {
        let one = events.push(Bytes::copy_from_slice(piece));
        passed.extend_from_slice(&one.bytes);
        count += one.count;
    }
    let last = events.rest();
    passed.extend_from_slice(&last.bytes);
    (passed, (count + last.count, events.done, events.usage))
}

/// `router.yaml`: what is refused is refused with a reason.
pub fn config(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes)
        && let Err(problems) = Config::parse(text)
    {
        assert!(!problems.is_empty() && problems.iter().all(|problem| !problem.is_empty()));
    }
}

/// A page of an engine's metrics: no nonsense becomes a load.
pub fn metrics(bytes: &[u8]) {
    let usage = scrape::load_on(bytes, Micros(0)).and_then(|load| load.kv_usage);
    assert!(usage.is_none_or(|usage| (0.0..=1.0).contains(&usage)), "{usage:?}");
}

/// Bytes on a client's connection: whatever passes as a request is routed, and what would go to
/// an endpoint holds nothing that is for one connection or proves who the client is.
pub fn head(bytes: &[u8]) {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let Ok(runtime) = runtime else { return };
    runtime.block_on(async {
        let (mut client, server) = tokio::io::duplex(64 << 10);
        let serving =
            http1::Builder::new().serve_connection(TokioIo::new(server), service_fn(answer));
        let asking = async {
            // It may have closed already: what it read was not HTTP.
            let _ = client.write_all(bytes).await;
            let _ = client.shutdown().await;
            let _ = client.read_to_end(&mut Vec::new()).await;
        };
        let _ = tokio::join!(serving, asking);
    });
}

async fn answer(request: Request<Incoming>) -> Result<Response<Empty<Bytes>>, Infallible> {
    let (head, incoming) = request.into_parts();
    let _ = routes::find(&head.method, head.uri.path());
    let _ = head.headers.get(headers::TRACEPARENT).and_then(Parent::parse);
    let name = headers::request_id(&head.headers).cloned();
    let name = name.unwrap_or_else(|| HeaderValue::from_static("made"));
    let out = headers::upstream(&head.headers, &name, false);
    for own in [header::CONNECTION, header::TRANSFER_ENCODING, header::HOST, header::COOKIE] {
        assert!(!out.contains_key(&own), "{own} went on");
    }
    assert_eq!(out.get_all(headers::REQUEST_ID).iter().count(), 1);
    let _ = incoming.collect().await;
    Ok(Response::new(Empty::new()))
}
