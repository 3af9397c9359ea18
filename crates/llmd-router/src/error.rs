//! What can go wrong, and what the client is told. The only place where either is decided.
//!
//! A [`Failure`] belongs to one request: its kind fixes status, code, and whether another
//! endpoint may be tried. Behaviour branches on these, never on text.

pub(crate) use llmd_discovery::{echo, printable};

use crate::api::Errors;
use http::StatusCode;
use llmd_sched::RetryCause;
use llmd_types::Outcome;
use serde_json::json;
use std::path::Path;
use thiserror::Error;

/// A configuration that cannot be used.
#[derive(Debug, Error)]
#[error("{}: {}", .file, .problems.join("\n  "))]
pub struct ConfigError {
    /// The file.
    pub file: String,
    /// All that is wrong, each with its path.
    pub problems: Vec<String>,
    /// Nothing is wrong but that a running router does not take it over: the next one will.
    pub needs_restart: bool,
}

impl ConfigError {
    /// Of a file with these problems.
    pub(crate) fn new(file: &Path, problems: &[String]) -> Self {
        let problems = problems.iter().map(|problem| printable(problem)).collect();
        Self { file: printable(&file.display().to_string()), problems, needs_restart: false }
    }
}

/// The router cannot start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The system gives no socket or thread.
    #[error("{what}: {cause}")]
    System {
        /// What was tried.
        what: String,
        /// What the system said.
        cause: std::io::Error,
    },
}

/// The kinds of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The request cannot be understood.
    BadRequest,
    /// The prompt is longer than any endpoint can hold.
    TooLong,
    /// No such model.
    UnknownModel,
    /// No engine of the model speaks this API.
    NotServed,
    /// The answer that a request continues is not known here.
    UnknownResponse,
    /// The body is written in a way that is not read.
    MediaType,
    /// No such path.
    UnknownPath,
    /// The path knows other methods.
    WrongMethod,
    /// The client sent its body too slowly.
    SlowBody,
    /// The body is too large.
    TooLarge,
    /// More connections than the router takes.
    TooManyConnections,
    /// The router may open no more files, so it cannot connect to an endpoint.
    NoFiles,
    /// No endpoint is ready.
    NoEndpoint,
    /// The endpoint could not be connected to.
    Unreachable,
    /// The connection broke.
    Lost,
    /// What came is not an answer to the request.
    NoAnswer,
    /// No byte of an answer came in time.
    NoFirstByte,
    /// The answer stopped coming.
    Stalled,
    /// The request used up its time.
    OutOfTime,
}

struct Row {
    status: u16,
    error_type: &'static str,
    code: &'static str,
    retry: Option<RetryCause>,
}

const fn row(status: u16, error_type: &'static str, code: &'static str) -> Row {
    Row { status, error_type, code, retry: None }
}

/// A failure of one endpoint, which another may mend.
const fn mendable(status: u16, code: &'static str, cause: RetryCause) -> Row {
    Row { status, error_type: "server_error", code, retry: Some(cause) }
}

impl Kind {
    const fn row(self) -> Row {
        let request = "invalid_request_error";
        match self {
            Self::BadRequest => row(400, request, "invalid_request"),
            Self::TooLong => row(400, request, "context_length_exceeded"),
            Self::UnknownModel => row(404, request, "model_not_found"),
            Self::NotServed => row(404, request, "api_not_served"),
            Self::UnknownResponse => row(400, request, "previous_response_not_found"),
            Self::MediaType => row(415, request, "unsupported_media_type"),
            Self::UnknownPath => row(404, request, "unknown_url"),
            Self::WrongMethod => row(405, request, "method_not_allowed"),
            Self::SlowBody => row(408, request, "request_timeout"),
            Self::TooLarge => row(413, request, "request_too_large"),
            Self::TooManyConnections => row(503, "server_error", "too_many_connections"),
            Self::NoFiles => row(503, "server_error", "router_out_of_files"),
            Self::NoEndpoint => row(503, "server_error", "no_endpoint"),
            Self::Unreachable => mendable(502, "endpoint_unreachable", RetryCause::Unreachable),
            Self::Lost => mendable(502, "endpoint_lost", RetryCause::Lost),
            Self::NoAnswer => mendable(502, "endpoint_no_answer", RetryCause::Unserved),
            Self::NoFirstByte => mendable(504, "first_byte_timeout", RetryCause::Unserved),
            Self::Stalled => mendable(504, "idle_timeout", RetryCause::Unserved),
            Self::OutOfTime => row(504, "server_error", "request_timeout"),
        }
    }
}

/// One request's failure.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub(crate) struct Failure {
    /// Which kind.
    pub(crate) kind: Kind,
    /// For people. Never holds a prompt.
    pub(crate) message: String,
    /// The field of the request that it is about.
    pub(crate) param: Option<&'static str>,
    /// The methods that are allowed, where another was used.
    pub(crate) allow: Option<&'static str>,
}

impl Failure {
    /// Of a kind, in words.
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), param: None, allow: None }
    }

    /// The client's request cannot be understood.
    pub(crate) fn bad_request(message: String) -> Self {
        Self::new(Kind::BadRequest, message)
    }

    /// About this field.
    #[must_use]
    pub(crate) fn param(mut self, name: &'static str) -> Self {
        self.param = Some(name);
        self
    }

    /// Why another endpoint may be tried, as long as the client has got nothing.
    pub(crate) const fn retry(&self) -> Option<RetryCause> {
        self.kind.row().retry
    }

    /// What it says of the endpoint where the request was placed.
    pub(crate) const fn outcome(&self) -> Outcome {
        // The router's own want is nobody else's fault.
        if matches!(self.kind, Kind::NoFiles) { Outcome::Cancelled } else { Outcome::Lost }
    }

    /// The HTTP status.
    pub(crate) fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.kind.row().status).unwrap_or(StatusCode::BAD_GATEWAY)
    }

    /// The failure's short name.
    pub(crate) const fn code(&self) -> &'static str {
        self.kind.row().code
    }

    /// The error object of an API.
    pub(crate) fn object(&self, errors: Errors) -> String {
        let row = self.kind.row();
        if errors == Errors::Anthropic {
            let kind = anthropic(row.status);
            let error = json!({"type": kind, "message": self.message});
            return json!({"type": "error", "error": error}).to_string();
        }
        json!({"error": {
            "message": self.message,
            "type": row.error_type,
            "param": self.param,
            "code": row.code,
        }})
        .to_string()
    }

    /// The event that ends a broken stream.
    pub(crate) fn event(&self, errors: Errors) -> String {
        format!("event: error\ndata: {}\n\n", self.object(errors))
    }
}

/// Anthropic's name for errors of a status.
const fn anthropic(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        503 => "overloaded_error",
        408 | 504 => "timeout_error",
        400..=499 => "invalid_request_error",
        _ => "api_error",
    }
}

#[cfg(test)]
mod tests;
