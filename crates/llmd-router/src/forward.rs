//! Phase `forward`: one attempt at one endpoint, up to the first byte of the answer's body.
//!
//! The client gets nothing before that byte, so a failure until then can be mended elsewhere.
//! An answer that is no stream is read whole first, for the same reason; only a very large one
//! goes on before its end is there.

use crate::api::Api;
use crate::body::{self, Ask};
use crate::config::UsageMode;
use crate::endpoint::Endpoint;
use crate::error::{Failure, Kind};
use crate::flight::{Flight, out_of_time};
use crate::headers;
use crate::include;
use crate::responses;
use crate::upstream::Lease;
use crate::usage;
use crate::worker::Worker;
use bytes::{Bytes, BytesMut};
use http::{HeaderValue, Method, Request, StatusCode, Uri, header, request, response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use llmd_types::{Phase, Usage};
use std::time::Duration;

/// An answer without a stream is held up to this size.
const WHOLE_MAX: usize = 8 << 20;

/// An endpoint's answer.
#[derive(Debug)]
pub(crate) struct Answer {
    /// Status and headers.
    pub(crate) head: response::Parts,
    /// What was read of the body.
    pub(crate) begin: Bytes,
    /// Where the rest comes from; `None` when `begin` is all.
    pub(crate) rest: Option<Rest>,
    /// What it answers.
    pub(crate) api: &'static Api,
    /// Its usage was asked for by the router, not by the client.
    pub(crate) hide: bool,
}

/// The part of an answer that has still to come.
#[derive(Debug)]
pub(crate) struct Rest {
    /// The body.
    pub(crate) body: Incoming,
    /// Its connection.
    pub(crate) lease: Lease,
}

impl Answer {
    /// The endpoint (or a proxy before it) says that it cannot serve now.
    pub(crate) fn is_refusal(&self) -> bool {
        matches!(
            self.head.status,
            StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT
        )
    }
}

/// Makes one attempt at the endpoint where the request was placed.
pub(crate) async fn attempt(
    worker: &Worker,
    flight: &mut Flight,
    client: &request::Parts,
    body: &Bytes,
    ask: &Ask,
) -> Result<Answer, Failure> {
    flight.trace.phase(Phase::Forward);
    let placed = flight.placed().map(|placed| placed.endpoint.clone());
    let endpoint = placed.ok_or_else(|| Failure::new(Kind::NoEndpoint, "not placed"))?;
    let traceparent = flight.trace.attempt(&endpoint);
    let exact = flight.model.as_ref().is_some_and(|model| model.usage == UsageMode::Exact);
    let wish = if exact { include::wish(ask, body) } else { None };
    let hide = wish.is_some();
    let renamed = endpoint.variant.served_name.as_deref().and_then(|name| ask.rename(name));
    let body = body::edited(body, wish.into_iter().chain(renamed).collect());
    let passthrough = flight.model.as_ref().is_some_and(|model| model.passthrough);
    let ours = Ours { id: flight.name.clone(), traceparent, passthrough };
    let make = || request(client, &endpoint, &ours, body.clone());
    let outcome = first_byte(worker, flight, &endpoint, make, ask.api).await;
    let outcome = outcome.map(|answer| Answer { hide, ..answer });
    match &outcome {
        Ok(answer) => flight.trace.attempted(Some(answer.head.status.as_u16()), None),
        Err(failure) => flight.trace.attempted(None, Some(failure.code())),
    }
    if outcome.is_ok() {
        let ttft = flight.begun.elapsed().as_secs_f64();
        endpoint.variant.metrics.ttft.observe(ttft);
    }
    outcome
}

/// What an attempt's head has that is not the client's.
#[derive(Debug)]
struct Ours {
    id: HeaderValue,
    traceparent: Option<HeaderValue>,
    /// The client's credentials go on.
    passthrough: bool,
}

fn request(
    client: &request::Parts,
    endpoint: &Endpoint,
    ours: &Ours,
    body: Bytes,
) -> Request<Full<Bytes>> {
    let mut out = headers::upstream(&client.headers, &ours.id, ours.passthrough);
    out.insert(header::HOST, endpoint.authority.clone());
    if let Some(traceparent) = &ours.traceparent {
        out.insert(headers::TRACEPARENT, traceparent.clone());
    }
    let path = client.uri.path_and_query().cloned();
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = path.map_or_else(Uri::default, Uri::from);
    *request.headers_mut() = out;
    request
}

/// Sends, and waits for the first byte of the body within the limit for it.
async fn first_byte(
    worker: &Worker,
    flight: &mut Flight,
    endpoint: &Endpoint,
    make: impl Fn() -> Request<Full<Bytes>>,
    api: &'static Api,
) -> Result<Answer, Failure> {
    let limits = &flight.table.config.limits;
    let connect = limits.connect();
    let limit = Duration::from_millis(limits.first_byte_ms);
    let left = flight.time_left();
    let pool = flight.pool().cloned();
    let number = flight.number;
    let sent = || {
        if let Some(pool) = &pool {
            pool.sent(number);
        }
    };
    let sending = async {
        let answer = worker.upstream.send(endpoint, make, connect, sent).await?;
        let (head, mut body) = answer.response.into_parts();
        if head.status.is_informational() {
            // A switch of protocols, which nobody asked for: behind it comes no HTTP.
            return Err(no_answer(endpoint, head.status));
        }
        let first = piece(&mut body, endpoint).await?;
        Ok((head, first, Rest { body, lease: answer.lease }))
    };
    let sent = tokio::time::timeout(limit.min(left), sending).await;
    let (head, first, rest) = sent.unwrap_or_else(|_| Err(late(endpoint, limit, left)))?;
    let passes = headers::is_event_stream(&head.headers) || headers::is_audio(&head.headers);
    let stream = head.status.is_success() && passes;
    let answer = |begin, rest| Answer { head, begin, rest, api, hide: false };
    match first {
        Some(first) if stream => {
            if let Some(pool) = &pool {
                pool.first_byte(number);
            }
            Ok(answer(first, Some(rest)))
        }
        None if stream => Err(lost(endpoint, "the stream ended before it began")),
        None => {
            rest.lease.give_back();
            Ok(answer(Bytes::new(), None))
        }
        Some(first) => {
            let (begin, rest) = whole(flight, endpoint, first, rest).await?;
            if let Some(usage) = usage::of(&begin).usage {
                // What generates nothing says that it generated 0 tokens.
                let completion_tokens = usage.completion_tokens.filter(|_| api.generates());
                flight.usage = Usage { completion_tokens, ..usage };
            }
            if let Some(id) = api.keeps.then(|| responses::id_of(&begin)).flatten() {
                flight.made(&id);
            }
            Ok(answer(begin, rest))
        }
    }
}

/// Reads an answer to its end, or to the most that is held.
async fn whole(
    flight: &Flight,
    endpoint: &Endpoint,
    first: Bytes,
    mut rest: Rest,
) -> Result<(Bytes, Option<Rest>), Failure> {
    let mut all = BytesMut::from(first);
    let idle = Duration::from_millis(flight.table.config.limits.idle_ms);
    while all.len() < WHOLE_MAX {
        // Looked at anew with every piece: an answer that drips keeps the idle limit for ever.
        let left = flight.time_left();
        let next = tokio::time::timeout(idle.min(left), piece(&mut rest.body, endpoint)).await;
        let Ok(next) = next else {
            return Err(if left <= idle {
                out_of_time()
            } else {
                Failure::new(Kind::Stalled, stalled_text(endpoint, idle))
            });
        };
        let Some(next) = next? else {
            rest.lease.give_back();
            return Ok((all.freeze(), None));
        };
        if left.is_zero() {
            return Err(out_of_time());
        }
        all.extend_from_slice(&next);
    }
    Ok((all.freeze(), Some(rest)))
}

/// The next bytes of a body; `None` at its end. Trailers are left out.
async fn piece(body: &mut Incoming, endpoint: &Endpoint) -> Result<Option<Bytes>, Failure> {
    loop {
        match body.frame().await {
            None => return Ok(None),
            Some(Err(error)) => return Err(lost(endpoint, &error.to_string())),
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) if !data.is_empty() => return Ok(Some(data)),
                _ => {}
            },
        }
    }
}

/// The connection broke.
pub(crate) fn lost(endpoint: &Endpoint, why: &str) -> Failure {
    Failure::new(Kind::Lost, format!("endpoint {} was lost: {why}", endpoint.known.name))
}

/// What came answers nothing.
fn no_answer(endpoint: &Endpoint, status: StatusCode) -> Failure {
    let name = &endpoint.known.name;
    Failure::new(Kind::NoAnswer, format!("endpoint {name} gave no answer but {}", status.as_u16()))
}

/// The answer stopped coming.
pub(crate) fn stalled_text(endpoint: &Endpoint, idle: Duration) -> String {
    let name = &endpoint.known.name;
    format!("endpoint {name} sent nothing more for {} ms", idle.as_millis())
}

fn late(endpoint: &Endpoint, limit: Duration, left: Duration) -> Failure {
    let name = &endpoint.known.name;
    if left <= limit {
        return out_of_time();
    }
    let text = format!("endpoint {name} sent no byte within {} ms", limit.as_millis());
    Failure::new(Kind::NoFirstByte, text)
}
