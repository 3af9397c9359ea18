//! Phase `receive`: a request's body is read whole, within its limits of size and time.

use crate::error::{Failure, Kind};
use crate::flight::Flight;
use bytes::{Bytes, BytesMut};
use http::{header, request};
use http_body::Body as _;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use std::time::Duration;

/// Reserved at once by what a client announces; more grows with what it really sends.
const RESERVE_MAX: u64 = 1 << 20;

/// Reads the body.
pub(crate) async fn body(
    flight: &Flight,
    head: &request::Parts,
    mut incoming: Incoming,
) -> Result<Bytes, Failure> {
    let limits = &flight.table.config.limits;
    let announced = head.headers.get(header::CONTENT_LENGTH);
    let announced = announced.and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|length| length > limits.body_bytes) {
        return Err(too_large(limits.body_bytes));
    }
    let reserve = announced.unwrap_or(0).min(RESERVE_MAX);
    let mut body = BytesMut::new();
    let pause = Duration::from_millis(limits.header_ms);
    loop {
        let wait = pause.min(flight.time_left());
        let frame = tokio::time::timeout(wait, incoming.frame()).await.map_err(|_| {
            let message = format!("no more of the body came within {} ms", wait.as_millis());
            Failure::new(Kind::SlowBody, message)
        })?;
        let Some(frame) = frame else { return Ok(body.freeze()) };
        let frame =
            frame.map_err(|error| Failure::bad_request(format!("the body broke off: {error}")))?;
        let Ok(piece) = frame.into_data() else { continue };
        if (body.len() + piece.len()) as u64 > limits.body_bytes {
            return Err(too_large(limits.body_bytes));
        }
        if body.is_empty() {
            if incoming.is_end_stream() {
                // It came in one piece, as short ones do: it is passed on as it is.
                return Ok(piece);
            }
            body.reserve(usize::try_from(reserve).unwrap_or(0));
        }
        body.extend_from_slice(&piece);
    }
}

fn too_large(most: u64) -> Failure {
    Failure::new(Kind::TooLarge, format!("the body is larger than {most} bytes"))
}
