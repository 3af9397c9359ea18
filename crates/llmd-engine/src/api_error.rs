//! What a client did wrong, as the `OpenAI` API tells it.

use bytes::Bytes;
use http::StatusCode;
use serde_json::json;

/// An error object and its status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ApiError {
    pub(crate) status: StatusCode,
    message: String,
    param: Option<String>,
    code: Option<&'static str>,
}

impl ApiError {
    fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), param: None, code: None }
    }

    /// 400: the body or one of its parameters is wrong.
    pub(crate) fn invalid(param: Option<&str>, message: impl Into<String>) -> Self {
        let param = param.map(str::to_owned);
        Self { param, ..Self::new(StatusCode::BAD_REQUEST, message) }
    }

    /// 400: a parameter that this engine does not carry out.
    pub(crate) fn unsupported(param: &str) -> Self {
        let message = format!("the simulated engine does not carry out `{param}`; leave it out");
        Self { code: Some("unsupported_parameter"), ..Self::invalid(Some(param), message) }
    }

    /// 400: prompt and answer do not fit into the context.
    pub(crate) fn too_long(param: &str, limit: u32, prompt: u32, answer: Option<u32>) -> Self {
        let asked = answer.map_or(String::new(), |tokens| format!(" and {tokens} of the answer"));
        let message = format!(
            "This model's maximum context length is {limit} tokens, but the request has {prompt} \
             tokens of the prompt{asked}. Shorten one of them."
        );
        Self { code: Some("context_length_exceeded"), ..Self::invalid(Some(param), message) }
    }

    /// 404: another model's name.
    pub(crate) fn unknown_model(model: &str) -> Self {
        let message = format!("The model `{model}` does not exist.");
        Self {
            param: Some("model".to_owned()),
            code: Some("model_not_found"),
            ..Self::new(StatusCode::NOT_FOUND, message)
        }
    }

    /// 404: a path that is not there.
    pub(crate) fn unknown_path(path: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, format!("There is no {path} here."))
    }

    /// 405: a path that is there for another method.
    pub(crate) fn wrong_method(path: &str, allowed: &str) -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, format!("{path} takes only {allowed}."))
    }

    /// 413: a body above the limit.
    pub(crate) fn too_large(limit: usize) -> Self {
        let message = format!("The body is larger than {limit} bytes.");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, message)
    }

    /// 408: the body did not come.
    pub(crate) fn too_slow() -> Self {
        Self::new(StatusCode::REQUEST_TIMEOUT, "The body did not arrive in time.")
    }

    /// The JSON object.
    pub(crate) fn body(&self) -> Bytes {
        let error = json!({"error": {
            "message": self.message,
            "type": "invalid_request_error",
            "param": self.param,
            "code": self.code,
        }});
        error.to_string().into()
    }
}
