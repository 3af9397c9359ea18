//! The life of a request, phase by phase; the rest is called from here.
//!
//! `receive → parse → admit → tokenize → pick → forward → stream → account`: the same names as
//! in metrics, spans and docs. An attempt that fails before the client got a byte goes back to
//! `pick`: after a connection that failed or broke, a missing first byte, and an endpoint's
//! answer of 502, 503 or 504. Every other answer of an endpoint (4xx, 429, 500) is its word and
//! passes through. Where the connection failed or broke, every endpoint may be tried once; of
//! the other attempts `retry.attempts` may be made.

use crate::api::{self, Api, Errors};
use crate::body::{self, Ask};
use crate::error::{Failure, Kind, echo};
use crate::flight::Flight;
use crate::forward::{self, Answer};
use crate::prompt;
use crate::receive;
use crate::routes::{self, Route};
use crate::stream::{self, Reply};
use crate::worker::Worker;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, header, request};
use hyper::body::Incoming;
use llmd_sched::{Arrival, RetryCause};
use llmd_types::Phase;

/// Answers one request of a client.
pub(crate) async fn respond(worker: &Worker, request: Request<Incoming>) -> Response<Reply> {
    let mut flight = Flight::begin(&worker.router, request.headers());
    let name = flight.name.clone();
    let path = request.uri().path();
    flight.errors = api::at(path).map_or(Errors::OpenAi, |api| api.errors);
    let outcome = match routes::find(request.method(), path) {
        Ok(Route::Ask(api)) => {
            let (head, incoming) = request.into_parts();
            match receive::body(&flight, &head, incoming).await {
                Ok(body) => complete(worker, flight, &head, (api, body), None).await,
                Err(failure) => Err((flight, failure)),
            }
        }
        Ok(Route::Models) => Ok(routes::models(&mut flight)),
        Ok(Route::Model(name)) => match routes::model(&mut flight, &name) {
            Ok(response) => Ok(response),
            Err(failure) => Err((flight, failure)),
        },
        Ok(Route::Options(allowed)) => Ok(routes::options(&mut flight, allowed)),
        Err(failure) => Err((flight, failure)),
    };
    let mut response = outcome.unwrap_or_else(|(flight, failure)| fail(flight, &failure));
    response.headers_mut().insert(crate::headers::REQUEST_ID, name);
    if worker.router.draining() {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Answers a request that the connection it came on, or its head, makes impossible. That
/// connection ends with the answer.
pub(crate) fn refuse(worker: &Worker, client: &HeaderMap, failure: &Failure) -> Response<Reply> {
    worker.closer.close();
    let flight = Flight::begin(&worker.router, client);
    let name = flight.name.clone();
    let mut response = fail(flight, failure);
    response.headers_mut().insert(crate::headers::REQUEST_ID, name);
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

/// A request of an API with its body read; `only` names the one endpoint that it may go to.
pub(crate) async fn complete(
    worker: &Worker,
    mut flight: Flight,
    head: &request::Parts,
    (api, body): (&'static Api, Bytes),
    only: Option<&str>,
) -> Result<Response<Reply>, (Flight, Failure)> {
    let placed = parse(&mut flight, head, api, &body)
        .and_then(|ask| admit(&mut flight, &ask).map(|()| ask))
        .and_then(|ask| tokenize_and_pick(&mut flight, &ask, &body, only).map(|()| ask));
    let ask = match placed {
        Ok(ask) => ask,
        Err(failure) => return Err((flight, failure)),
    };
    loop {
        let outcome = forward::attempt(worker, &mut flight, head, &body, &ask).await;
        let cause = match &outcome {
            Ok(answer) => answer.is_refusal().then_some(RetryCause::Unserved),
            Err(failure) => failure.retry(),
        };
        if cause.is_some_and(|cause| flight.place_again(ask.stream, cause)) {
            continue;
        }
        return match outcome {
            Ok(answer) => Ok(pass_on(worker, flight, answer)),
            Err(failure) => Err((flight, failure)),
        };
    }
}

fn parse(
    flight: &mut Flight,
    head: &request::Parts,
    api: &'static Api,
    body: &[u8],
) -> Result<Ask, Failure> {
    flight.trace.phase(Phase::Parse);
    let ask = body::parse(api, &head.headers, body)?;
    if flight.trace.is_live() {
        flight.trace.set("gen_ai.operation.name", api.operation);
        flight.trace.set("gen_ai.request.model", echo(&ask.model).into_owned());
        flight.trace.set("llmd.stream", ask.stream);
        flight.trace.set("url.path", head.uri.path().to_owned());
        flight.trace.set("http.request.method", head.method.to_string());
        flight.trace.set("llmd.request.id", flight.name.to_str().unwrap_or("").to_owned());
        if let Some(most) = ask.max_tokens {
            flight.trace.set("gen_ai.request.max_tokens", i64::from(most));
        }
    }
    Ok(ask)
}

fn admit(flight: &mut Flight, ask: &Ask) -> Result<(), Failure> {
    flight.trace.phase(Phase::Admit);
    let pool = match flight.table.pools.as_slice() {
        [only] if ask.model_span.is_empty() => Some(only),
        _ => flight.table.pool(&ask.model),
    };
    let pool = pool.cloned().ok_or_else(|| {
        let message = match ask.model.as_str() {
            "" => "`model` is missing: name one of /v1/models".to_owned(),
            name => format!("the model {:?} does not exist", echo(name)),
        };
        Failure::new(Kind::UnknownModel, message).param("model")
    })?;
    let model = pool.model();
    if !model.speaks(ask.api) {
        let message = format!("no engine of the model {:?} speaks this API", model.name);
        return Err(Failure::new(Kind::NotServed, message));
    }
    flight.admit(pool, model);
    Ok(())
}

fn tokenize_and_pick(
    flight: &mut Flight,
    ask: &Ask,
    body: &[u8],
    only: Option<&str>,
) -> Result<(), Failure> {
    flight.trace.phase(Phase::Tokenize);
    let maker = ask.previous.as_deref().map(|id| flight.maker(id)).transpose()?;
    let seed = flight.pool().map_or(0, |pool| pool.prefix_seed);
    let counts = flight.model.as_ref().map(|model| model.multimodal).unwrap_or_default();
    let keys = prompt::keys(seed, body, &ask.prompt, &counts);
    let arrival = Arrival {
        request: flight.number,
        prompt_bytes: prompt::bytes(&ask.prompt, &counts),
        prompt_tokens: ask.prompt_tokens,
        keys: &keys,
        max_tokens: if ask.api.generates() { ask.max_tokens } else { Some(1) },
        stream: ask.stream,
        flow: 0,
        needs: ask.api.bit(),
    };
    flight.place(arrival, maker.as_deref().or(only))
}

fn pass_on(worker: &Worker, mut flight: Flight, answer: Answer) -> Response<Reply> {
    flight.trace.phase(Phase::Stream);
    stream::pass_on(worker, flight, answer)
}

/// The client is told of a failure; nothing was sent to it before.
fn fail(mut flight: Flight, failure: &Failure) -> Response<Reply> {
    let status = failure.status();
    flight.end(status.as_u16(), failure.outcome(), Some(failure.code()));
    stream::error(failure, flight.errors)
}
