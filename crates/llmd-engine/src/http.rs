//! Paths and methods: which request is answered by what.

use crate::access_log::AccessLog;
use crate::answer::{self, AnswerBody, TokenStream};
use crate::api_error::ApiError;
use crate::clockwork::Clockwork;
use crate::config::Config;
use crate::fields::Fields;
use crate::job::Job;
use crate::prompt;
use crate::request::{self, Api, Ask, Seen};
use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, HeaderName, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Body, Incoming};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

/// Largest request body: that of the router.
const BODY_BYTES_MAX: usize = 64 << 20;
/// For a body to arrive.
const BODY_TIMEOUT: Duration = Duration::from_mins(1);

const SIMULATED: HeaderName = HeaderName::from_static("x-llmd-ctl-simulated");
const IGNORED: HeaderName = HeaderName::from_static("x-llmd-ctl-ignored");
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// What all requests share.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) config: Config,
    pub(crate) clockwork: Arc<Clockwork>,
    pub(crate) log: Arc<AccessLog>,
    pub(crate) started_at_seconds: u64,
}

type Answer = Response<AnswerBody>;

impl Service {
    /// Answers one request.
    pub(crate) async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Answer {
        let path = request.uri().path().to_owned();
        let (get, post) = (Method::GET, Method::POST);
        let mut answer = match path.as_str() {
            "/v1/chat/completions" => on(&post, request, |r| self.generate(Api::Chat, r)).await,
            "/v1/completions" => on(&post, request, |r| self.generate(Api::Completions, r)).await,
            "/tokenize" => on(&post, request, |r| self.tokenize(r)).await,
            "/v1/models" => on(&get, request, async |_| json(&self.models())).await,
            "/metrics" => on(&get, request, async |_| self.metrics()).await,
            "/health" => on(&get, request, async |_| body(StatusCode::OK, "")).await,
            _ => error(&ApiError::unknown_path(&path)),
        };
        answer.headers_mut().insert(SIMULATED, HeaderValue::from_static("true"));
        answer
    }

    /// A chat completion or a completion.
    async fn generate(&self, api: Api, request: Request<Incoming>) -> Answer {
        let request_id = self.request_id(request.headers());
        let echoed = HeaderValue::from_str(&request_id);
        let mut job = Job::new(self.clockwork.clone(), self.log.clone(), request_id);
        let mut answer = match self.begin(&mut job, api, request).await {
            Ok(ask) => self.deliver(job, ask).await,
            Err(problem) => {
                job.refuse(problem.status);
                error(&problem)
            }
        };
        if let Ok(echoed) = echoed {
            answer.headers_mut().insert(REQUEST_ID, echoed);
        }
        answer
    }

    /// Reads the body and gives its work to the engine.
    async fn begin(
        &self,
        job: &mut Job,
        api: Api,
        request: Request<Incoming>,
    ) -> Result<Ask, ApiError> {
        let body = read(request).await?;
        let limit = self.clockwork.context_limit();
        let mut seen = Seen::default();
        let parsed = request::parse(api, &body, &self.config, limit, &mut seen);
        job.note(seen);
        let ask = parsed?;
        job.start(&ask)
            .map_err(|long| ApiError::too_long(api.prompt_key(), long.limit, long.tokens, None))?;
        Ok(ask)
    }

    async fn deliver(&self, job: Job, mut ask: Ask) -> Answer {
        let ignored = HeaderValue::from_str(&std::mem::take(&mut ask.ignored).join(", "));
        let accelerator = &self.config.accelerator;
        let mut answer = if ask.stream {
            let stream = TokenStream::new(job, ask, accelerator);
            let mut answer = Response::new(AnswerBody::Stream(Box::new(stream)));
            let events = HeaderValue::from_static("text/event-stream; charset=utf-8");
            answer.headers_mut().insert(CONTENT_TYPE, events);
            answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
            answer
        } else {
            json_body(StatusCode::OK, answer::whole(job, &ask, accelerator).await)
        };
        if let Some(ignored) = ignored.ok().filter(|names| !names.is_empty()) {
            answer.headers_mut().insert(IGNORED, ignored);
        }
        answer
    }

    /// Counts a prompt by the stated rule.
    async fn tokenize(&self, request: Request<Incoming>) -> Answer {
        let count = async {
            let body = read(request).await?;
            let mut fields = Fields::parse(&body)?;
            let chat = fields.take_raw("prompt").is_none();
            let mut fields = Fields::parse(&body)?;
            let api = if chat { Api::Chat } else { Api::Completions };
            request::prompt_bytes(api, &mut fields)
        };
        match count.await {
            Err(problem) => error(&problem),
            Ok(bytes) => {
                let tokens = prompt::token_ids(&bytes);
                let limit = self.clockwork.context_limit();
                json(&json!({"count": tokens.len(), "max_model_len": limit, "tokens": tokens}))
            }
        }
    }

    fn models(&self) -> serde_json::Value {
        let Config { model, aliases, .. } = &self.config;
        let limit = self.clockwork.context_limit();
        let names = std::iter::once(model).chain(aliases);
        let entry = |name: &String| {
            json!({"id": name, "object": "model", "created": self.started_at_seconds,
                "owned_by": "llmd-ctl-simulated", "root": model, "parent": null,
                "max_model_len": limit})
        };
        json!({"object": "list", "data": names.map(entry).collect::<Vec<_>>()})
    }

    fn metrics(&self) -> Answer {
        let mut answer = body(StatusCode::OK, self.clockwork.metrics(&self.config.model));
        let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
        answer.headers_mut().insert(CONTENT_TYPE, kind);
        answer
    }

    /// The client's id where it is a plain one, else one of our own.
    fn request_id(&self, headers: &HeaderMap) -> String {
        let given = headers.get(REQUEST_ID).and_then(|value| value.to_str().ok());
        let plain = |id: &&str| {
            (1..=128).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic())
        };
        match given.filter(plain) {
            Some(id) => id.to_owned(),
            None => format!("{}-{}", self.config.name, self.clockwork.unique()),
        }
    }
}

/// Runs `handler` for requests of `method`; HEAD goes where GET goes.
async fn on<F: Future<Output = Answer>>(
    method: &Method,
    request: Request<Incoming>,
    handler: impl FnOnce(Request<Incoming>) -> F,
) -> Answer {
    let asked = request.method();
    if asked == method || (asked == Method::HEAD && method == Method::GET) {
        return handler(request).await;
    }
    let mut answer = error(&ApiError::wrong_method(request.uri().path(), method.as_str()));
    if let Ok(allowed) = HeaderValue::from_str(method.as_str()) {
        answer.headers_mut().insert(ALLOW, allowed);
    }
    answer
}

/// The whole body, within limits of size and time.
async fn read(request: Request<Incoming>) -> Result<Bytes, ApiError> {
    if request.body().size_hint().lower() > BODY_BYTES_MAX as u64 {
        return Err(ApiError::too_large(BODY_BYTES_MAX));
    }
    let collected = Limited::new(request.into_body(), BODY_BYTES_MAX).collect();
    match tokio::time::timeout(BODY_TIMEOUT, collected).await {
        Err(_) => Err(ApiError::too_slow()),
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(problem)) if problem.is::<LengthLimitError>() => {
            Err(ApiError::too_large(BODY_BYTES_MAX))
        }
        Ok(Err(problem)) => Err(ApiError::invalid(None, format!("the body broke off: {problem}"))),
    }
}

fn body(status: StatusCode, bytes: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(AnswerBody::whole(bytes));
    *answer.status_mut() = status;
    answer
}

fn json_body(status: StatusCode, bytes: impl Into<Bytes>) -> Answer {
    let mut answer = body(status, bytes);
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}

fn json(value: &serde_json::Value) -> Answer {
    json_body(StatusCode::OK, value.to_string())
}

fn error(problem: &ApiError) -> Answer {
    json_body(problem.status, problem.body())
}
