//! `POST /probe`: one question of a token or so through the data path to one endpoint.
//!
//! The controller's proof that an endpoint really answers, in an API that it speaks. An endpoint
//! that is still starting gets it too: it is not the scheduler's yet, so the request goes there
//! past it.

use crate::api::{self, Api};
use crate::body;
use crate::endpoint::Endpoint;
use crate::error::echo;
use crate::flight::Flight;
use crate::headers;
use crate::phases;
use crate::pool::Pool;
use crate::stream::{self, Reply};
use crate::worker::Worker;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Body, Incoming};
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// For one probe; an engine's first request, after a cold start, can be slow.
const TIMEOUT: Duration = Duration::from_secs(110);
/// Longest body of a probe's request and answer that is read.
const BODY_MAX: usize = 1 << 20;
/// What an endpoint is asked, and what its answer has: the first that is of an API it speaks.
const QUESTIONS: &[(&str, &str, &str)] = &[
    ("completions", r#"{"prompt": "ping", "max_tokens": 1, "stream": false}"#, "choices"),
    ("chat", r#"{"messages": [{"role": "user", "content": "ping"}], "max_tokens": 1}"#, "choices"),
    ("responses", r#"{"input": "ping", "max_output_tokens": 16}"#, "output"),
    (
        "messages",
        r#"{"messages": [{"role": "user", "content": "ping"}], "max_tokens": 1}"#,
        "content",
    ),
    ("embeddings", r#"{"input": "ping"}"#, "data"),
    ("pooling", r#"{"input": "ping"}"#, "data"),
    ("classify", r#"{"input": "ping"}"#, "data"),
    ("score", r#"{"text_1": "ping", "text_2": "ping"}"#, "data"),
    ("rerank", r#"{"query": "ping", "documents": ["ping"]}"#, "results"),
    ("tokenize", r#"{"prompt": "ping"}"#, "tokens"),
];
/// What is asked of an endpoint that speaks none of them: recordings and pictures are no ping.
const LIST: &str = "/v1/models";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    model: String,
    endpoint: String,
}

/// Answers a request for a probe.
pub(super) async fn answer(worker: &Worker, request: Request<Incoming>) -> Response<Reply> {
    let table = worker.router.table();
    let Some(key) = &table.admin_key else {
        return refuse(StatusCode::FORBIDDEN, "no adminKeyFile is configured");
    };
    if !authorized(request.headers(), key) {
        return refuse(StatusCode::UNAUTHORIZED, "the key is missing or wrong");
    }
    let reading = Limited::new(request.into_body(), BODY_MAX).collect();
    let limit = Duration::from_millis(table.config.limits.header_ms);
    let Ok(Ok(read)) = tokio::time::timeout(limit, reading).await else {
        return refuse(StatusCode::BAD_REQUEST, "the body cannot be read");
    };
    let read = read.to_bytes();
    if let Some(found) = body::instead_of_object(&read) {
        let reason = format!("the body must be a JSON object, it is {found}");
        return refuse(StatusCode::BAD_REQUEST, &reason);
    }
    let wanted: Wanted = match serde_json::from_slice(&read) {
        Ok(wanted) => wanted,
        Err(error) => return refuse(StatusCode::BAD_REQUEST, &echo(&error.to_string())),
    };
    let Some(pool) = table.pool(&wanted.model) else {
        return refuse(StatusCode::NOT_FOUND, &format!("no model {:?}", echo(&wanted.model)));
    };
    let Some((endpoint, joined)) = pool.endpoint(&wanted.endpoint) else {
        return refuse(StatusCode::NOT_FOUND, &format!("no endpoint {:?}", echo(&wanted.endpoint)));
    };
    let begun = Instant::now();
    let probing = async {
        if joined {
            placed(worker, pool, &endpoint).await
        } else {
            direct(worker, pool, &endpoint).await
        }
    };
    let outcome = tokio::time::timeout(TIMEOUT, probing).await;
    let outcome = outcome.unwrap_or_else(|_| Err("no answer in time".into()));
    match outcome {
        Ok(simulated) => {
            let latency = begun.elapsed().as_secs_f64() * 1e3;
            let body = json!({"ok": true, "latencyMs": latency, "simulated": simulated});
            stream::json(StatusCode::OK, body.to_string())
        }
        Err(reason) => refuse(StatusCode::BAD_GATEWAY, &reason),
    }
}

fn refuse(status: StatusCode, reason: &str) -> Response<Reply> {
    stream::json(status, json!({"ok": false, "reason": reason}).to_string())
}

/// Compares in a time that does not tell how much of the key was right.
fn authorized(headers: &HeaderMap, key: &str) -> bool {
    let value = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let Some(given) = value.and_then(|value| value.strip_prefix("Bearer ")) else { return false };
    let mut different = given.len() ^ key.len();
    for (at, byte) in key.bytes().enumerate() {
        let other = given.as_bytes().get(at).copied().unwrap_or(!byte);
        different |= usize::from(byte ^ other);
    }
    std::hint::black_box(different) == 0
}

/// One question: its API, its body, and the member that its answer has.
struct Question {
    api: &'static Api,
    body: Bytes,
    answer: &'static str,
}

impl Question {
    /// The first of an API that the endpoint speaks.
    fn to(endpoint: &Endpoint, pool: &Pool) -> Option<Self> {
        let offers = endpoint.variant.offers;
        QUESTIONS.iter().find_map(|(name, body, answer)| {
            let api = api::named(name).filter(|api| offers & api.bit() != 0)?;
            let mut body: Value = serde_json::from_str(body).ok()?;
            body["model"] = json!(&*pool.name);
            Some(Self { api, body: Bytes::from(body.to_string()), answer })
        })
    }

    fn path(&self) -> &'static str {
        self.api.paths[0]
    }
}

/// Through all phases, placed on that endpoint.
async fn placed(worker: &Worker, pool: &Pool, endpoint: &Endpoint) -> Result<bool, String> {
    let Some(question) = Question::to(endpoint, pool) else {
        return listed(worker, endpoint).await;
    };
    let (head, ()) = post(question.path(), ()).into_parts();
    let flight = Flight::begin(&worker.router, &head.headers);
    let name = Some(endpoint.known.name.as_str());
    let asked = (question.api, question.body.clone());
    let response = phases::complete(worker, flight, &head, asked, name)
        .await
        .map_err(|(_, failure)| failure.message)?;
    judge(response, endpoint, question.answer).await
}

/// Past the scheduler.
async fn direct(worker: &Worker, pool: &Pool, endpoint: &Endpoint) -> Result<bool, String> {
    let Some(question) = Question::to(endpoint, pool) else {
        return listed(worker, endpoint).await;
    };
    let mut sent = question.body.clone();
    if let Some(name) = &endpoint.variant.served_name {
        let read = body::parse(question.api, &HeaderMap::new(), &sent);
        let read = read.map_err(|failure| failure.message)?;
        sent = body::edited(&sent, read.rename(name).into_iter().collect());
    }
    send(worker, endpoint, post(question.path(), Full::new(sent)), question.answer).await
}

/// Past the scheduler, without a question: the models that it serves.
async fn listed(worker: &Worker, endpoint: &Endpoint) -> Result<bool, String> {
    let mut request = Request::new(Full::new(Bytes::new()));
    *request.uri_mut() = Uri::from_static(LIST);
    send(worker, endpoint, request, "data").await
}

fn post<B>(path: &'static str, body: B) -> Request<B> {
    let mut request = Request::new(body);
    *request.method_mut() = Method::POST;
    *request.uri_mut() = Uri::from_static(path);
    let json = HeaderValue::from_static("application/json");
    request.headers_mut().insert(header::CONTENT_TYPE, json);
    request
}

async fn send(
    worker: &Worker,
    endpoint: &Endpoint,
    mut request: Request<Full<Bytes>>,
    answer: &str,
) -> Result<bool, String> {
    request.headers_mut().insert(header::HOST, endpoint.authority.clone());
    let connect = worker.router.table().config.limits.connect();
    let sent = worker.upstream.send(endpoint, || request.clone(), connect, || {}).await;
    let sent = sent.map_err(|failure| failure.message)?;
    let _until_read = sent.lease;
    judge(sent.response, endpoint, answer).await
}

/// Whether an answer is one, and whether it says that it is simulated.
async fn judge<B>(response: Response<B>, endpoint: &Endpoint, member: &str) -> Result<bool, String>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (head, body) = response.into_parts();
    let body = Limited::new(body, BODY_MAX).collect().await.map_err(|error| error.to_string())?;
    if !head.status.is_success() {
        let text = String::from_utf8_lossy(&body.to_bytes()).into_owned();
        let text: String = text.chars().take(200).collect();
        return Err(format!("status {}: {text}", head.status.as_u16()));
    }
    let answer: Value = serde_json::from_slice(&body.to_bytes())
        .map_err(|error| format!("the answer is not JSON: {error}"))?;
    if answer.get(member).is_none() {
        return Err(format!("the answer has no {member}"));
    }
    let said = head.headers.get(headers::SIMULATED).is_some_and(|value| value == "true");
    Ok(said || endpoint.variant.simulated)
}
