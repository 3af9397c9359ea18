//! Phase `stream`: the answer passes to the client, byte for byte.
//!
//! A stream that breaks before its `[DONE]` ends with an SSE error event and a closed connection,
//! never with a clean `[DONE]`; an answer of another kind that breaks is cut off, so that no
//! client takes it for whole. Dropping the body (the client left) drops the lease, which reaches
//! the engine, and the flight, which gives the load back. Limits are looked at as pieces are
//! asked for; of a client that asks for none, in `patience`.

use crate::api::Errors;
use crate::error::{Failure, Kind};
use crate::flight::{Flight, out_of_time};
use crate::forward::{self, Answer, Rest};
use crate::headers;
use crate::sse::Events;
use crate::worker::{Closer, Worker};
use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body::{Body, Frame};
use http_body_util::Full;
use llmd_types::Outcome;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::time::Sleep;

/// How long after its time is used up an answer may wait for its client. One that reads, though
/// slowly, asks for a piece in that span and is told by an error event; else it is cut.
const GRACE: Duration = Duration::from_millis(500);

/// The body of an answer.
#[derive(Debug)]
pub(crate) enum Reply {
    /// All there.
    Whole(Full<Bytes>),
    /// Passing by.
    Passing(Box<Passing>),
}

impl Reply {
    /// Nothing.
    pub(crate) fn empty() -> Self {
        Self::Whole(Full::default())
    }
}

/// An answer of JSON.
pub(crate) fn json(status: StatusCode, object: String) -> Response<Reply> {
    let mut response = Response::new(Reply::Whole(Full::new(Bytes::from(object))));
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

/// The answer that tells of a failure.
pub(crate) fn error(failure: &Failure, errors: Errors) -> Response<Reply> {
    let mut response = json(failure.status(), failure.object(errors));
    let headers = response.headers_mut();
    if failure.status() == StatusCode::SERVICE_UNAVAILABLE {
        headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    if let Some(allowed) = failure.allow {
        headers.insert(header::ALLOW, HeaderValue::from_static(allowed));
    }
    response
}

/// What an endpoint's whole answer of this status says of it.
fn answered(status: u16) -> Outcome {
    match status {
        200..300 => Outcome::Done,
        // It does not speak this API: no fault of its own.
        501 => Outcome::Refused,
        500.. => Outcome::Failed,
        _ => Outcome::Refused,
    }
}

/// Passes an endpoint's answer on.
pub(crate) fn pass_on(worker: &Worker, mut flight: Flight, answer: Answer) -> Response<Reply> {
    let Answer { mut head, begin, rest, api, hide } = answer;
    headers::downstream(&mut head.headers);
    let Some(rest) = rest else {
        let status = head.status;
        let outcome = answered(status.as_u16());
        let error = (outcome != Outcome::Done).then_some("endpoint_error");
        flight.end(status.as_u16(), outcome, error);
        head.headers.remove(header::CONTENT_LENGTH);
        return Response::from_parts(head, Reply::Whole(Full::new(begin)));
    };
    let limits = &flight.table.config.limits;
    let idle = Duration::from_millis(limits.idle_ms);
    let events = headers::is_plain_event_stream(&head.headers).then(|| Events::new(api, hide));
    if events.is_some() {
        head.headers.remove(header::CONTENT_LENGTH);
    }
    let timer = Box::pin(tokio::time::sleep(idle.min(flight.time_left())));
    worker.closer.cut_at(flight.deadline().and_then(|end| end.checked_add(GRACE)));
    let passing = Passing {
        begin: Some(begin),
        rest: Some(rest),
        events,
        status: head.status.as_u16(),
        idle,
        last: Instant::now(),
        timer,
        closer: worker.closer.clone(),
        flight,
    };
    Response::from_parts(head, Reply::Passing(Box::new(passing)))
}

/// An answer on its way.
#[derive(Debug)]
pub(crate) struct Passing {
    begin: Option<Bytes>,
    /// Gone once the answer ended or broke.
    rest: Option<Rest>,
    /// What is read of an event stream; `None` for other answers.
    events: Option<Events>,
    status: u16,
    idle: Duration,
    last: Instant,
    timer: Pin<Box<Sleep>>,
    closer: Closer,
    flight: Flight,
}

type Piece = Option<Result<Frame<Bytes>, io::Error>>;

impl Passing {
    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Piece> {
        loop {
            let Some(rest) = &mut self.rest else { return Poll::Ready(None) };
            let next = match self.begin.take() {
                Some(begin) => Some(Ok(Frame::data(begin))),
                None => match Pin::new(&mut rest.body).poll_frame(context) {
                    Poll::Ready(next) => next,
                    Poll::Pending => {
                        let failure = ready!(self.poll_limits(context));
                        return Poll::Ready(self.broken_off(&failure));
                    }
                },
            };
            match next {
                Some(Ok(frame)) => {
                    let Ok(data) = frame.into_data() else { continue };
                    let data = self.passed(data);
                    if !data.is_empty() {
                        return Poll::Ready(Some(Ok(Frame::data(data))));
                    }
                }
                Some(Err(error)) => {
                    let failure = self.lost(&error.to_string());
                    return Poll::Ready(self.broken_off(&failure));
                }
                None => return Poll::Ready(self.ended()),
            }
        }
    }

    /// A piece came: what of it may go on.
    fn passed(&mut self, data: Bytes) -> Bytes {
        let now = Instant::now();
        let Some(events) = &mut self.events else {
            self.last = now;
            return data;
        };
        let passed = events.push(data);
        let since = now.duration_since(self.last).as_secs_f64();
        self.last = now;
        self.count(passed.count, since);
        passed.bytes
    }

    /// So many tokens came, after so many seconds.
    fn count(&mut self, tokens: u32, since: f64) {
        if tokens == 0 {
            return;
        }
        let first = self.flight.counted == 0;
        self.flight.counted = self.flight.counted.saturating_add(tokens);
        if let Some(pool) = self.flight.pool() {
            pool.progress(self.flight.number, tokens);
        }
        if let Some(placed) = self.flight.placed().filter(|_| !first) {
            let itl = &placed.endpoint.variant.metrics.itl;
            itl.observe(since / f64::from(tokens));
        }
    }

    /// Pending until a limit of time is passed.
    fn poll_limits(&mut self, context: &mut Context<'_>) -> Poll<Failure> {
        loop {
            ready!(self.timer.as_mut().poll(context));
            let left = self.flight.time_left();
            if left.is_zero() {
                return Poll::Ready(out_of_time());
            }
            let quiet = self.last.elapsed();
            if quiet >= self.idle {
                let text = match self.flight.placed() {
                    Some(placed) => forward::stalled_text(&placed.endpoint, self.idle),
                    None => "the answer stopped".to_owned(),
                };
                return Poll::Ready(Failure::new(Kind::Stalled, text));
            }
            // Something came since the timer was set: set it from then.
            let wait = self.idle.saturating_sub(quiet).min(left);
            self.timer.as_mut().reset(tokio::time::Instant::now() + wait);
        }
    }

    fn lost(&self, why: &str) -> Failure {
        match self.flight.placed() {
            Some(placed) => forward::lost(&placed.endpoint, why),
            None => Failure::new(Kind::Lost, why.to_owned()),
        }
    }

    /// Nothing more comes. A stream that has said that it is whole is whole: what the engine does
    /// with its connection then is not the client's business.
    fn broken_off(&mut self, failure: &Failure) -> Piece {
        if self.events.as_ref().is_some_and(|events| events.done) {
            self.rest = None;
            return self.ended();
        }
        Some(self.broken(failure))
    }

    /// The endpoint's answer came to its end.
    fn ended(&mut self) -> Piece {
        let mut left = Bytes::new();
        if let Some(events) = &mut self.events {
            let passed = events.rest();
            let (done, usage, made) = (events.done, events.usage, events.made.take());
            left = passed.bytes;
            self.count(passed.count, self.last.elapsed().as_secs_f64());
            if !done {
                // Without a length the end of a connection looks like the end of an answer.
                let failure = self.lost("the stream ended too soon");
                return Some(self.broken(&failure));
            }
            self.flight.usage = usage;
            if let Some(id) = made {
                self.flight.made(&id);
            }
        }
        self.closer.cut_at(None);
        if let Some(rest) = self.rest.take() {
            rest.lease.give_back();
        }
        let outcome = answered(self.status);
        let error = (outcome != Outcome::Done).then_some("endpoint_error");
        self.flight.end(self.status, outcome, error);
        (!left.is_empty()).then(|| Ok(Frame::data(left)))
    }

    /// The answer cannot be completed.
    fn broken(&mut self, failure: &Failure) -> Result<Frame<Bytes>, io::Error> {
        self.rest = None;
        self.flight.trace.attempted(None, Some(failure.code()));
        let mut last = Bytes::new();
        if let Some(events) = &mut self.events {
            self.flight.usage = events.usage;
            last = events.cut();
        }
        let status = failure.status().as_u16();
        // An answer that is not at its end when its time is over is no fault of the engine.
        let in_time = failure.kind != Kind::OutOfTime;
        let outcome = if in_time { Outcome::Lost } else { Outcome::Cancelled };
        self.flight.end(status, outcome, Some(failure.code()));
        self.closer.cut_at(None);
        self.closer.close();
        if self.events.is_none() {
            return Err(io::Error::other(failure.clone()));
        }
        if let Some(pool) = self.flight.pool() {
            pool.metrics.stream_errors.inc();
        }
        let event = failure.event(self.flight.errors);
        Ok(Frame::data(Bytes::from([&last, event.as_bytes()].concat())))
    }
}

impl Body for Reply {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Piece> {
        match self.get_mut() {
            Self::Whole(whole) => {
                let frame = ready!(Pin::new(whole).poll_frame(context));
                Poll::Ready(frame.map(|frame| frame.map_err(|never| match never {})))
            }
            Self::Passing(passing) => passing.poll_piece(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(whole) => whole.is_end_stream(),
            Self::Passing(passing) => passing.rest.is_none(),
        }
    }

    fn size_hint(&self) -> http_body::SizeHint {
        match self {
            Self::Whole(whole) => whole.size_hint(),
            Self::Passing(_) => http_body::SizeHint::default(),
        }
    }
}
