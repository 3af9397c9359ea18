use super::*;
use serde_json::Value;

const REQUEST: &str = "invalid_request_error";
const SERVER: &str = "server_error";

/// Status, type and code, and whether another endpoint may mend it.
const KINDS: [(Kind, u16, &str, &str, Option<RetryCause>); 19] = [
    (Kind::BadRequest, 400, REQUEST, "invalid_request", None),
    (Kind::TooLong, 400, REQUEST, "context_length_exceeded", None),
    (Kind::UnknownModel, 404, REQUEST, "model_not_found", None),
    (Kind::NotServed, 404, REQUEST, "api_not_served", None),
    (Kind::UnknownResponse, 400, REQUEST, "previous_response_not_found", None),
    (Kind::MediaType, 415, REQUEST, "unsupported_media_type", None),
    (Kind::UnknownPath, 404, REQUEST, "unknown_url", None),
    (Kind::WrongMethod, 405, REQUEST, "method_not_allowed", None),
    (Kind::SlowBody, 408, REQUEST, "request_timeout", None),
    (Kind::TooLarge, 413, REQUEST, "request_too_large", None),
    (Kind::TooManyConnections, 503, SERVER, "too_many_connections", None),
    (Kind::NoFiles, 503, SERVER, "router_out_of_files", None),
    (Kind::NoEndpoint, 503, SERVER, "no_endpoint", None),
    (Kind::Unreachable, 502, SERVER, "endpoint_unreachable", Some(RetryCause::Unreachable)),
    (Kind::Lost, 502, SERVER, "endpoint_lost", Some(RetryCause::Lost)),
    (Kind::NoAnswer, 502, SERVER, "endpoint_no_answer", Some(RetryCause::Unserved)),
    (Kind::NoFirstByte, 504, SERVER, "first_byte_timeout", Some(RetryCause::Unserved)),
    (Kind::Stalled, 504, SERVER, "idle_timeout", Some(RetryCause::Unserved)),
    (Kind::OutOfTime, 504, SERVER, "request_timeout", None),
];

#[test]
fn each_kind_of_failure_is_told_in_its_words() {
    for (kind, status, error_type, code, retry) in KINDS {
        let failure = Failure::new(kind, "words").param("field");
        assert_eq!((failure.status().as_u16(), failure.retry()), (status, retry), "{kind:?}");
        let object: Value = serde_json::from_str(&failure.object(Errors::OpenAi)).unwrap();
        let error = json!({"message": "words", "type": error_type, "param": "field", "code": code});
        assert_eq!(object, json!({ "error": error }), "{kind:?}");
    }
}

#[test]
fn clients_of_anthropic_are_told_in_theirs() {
    let names = [
        (400, REQUEST),
        (401, "authentication_error"),
        (403, "permission_error"),
        (404, "not_found_error"),
        (405, REQUEST),
        (408, "timeout_error"),
        (413, "request_too_large"),
        (415, REQUEST),
        (429, "rate_limit_error"),
        (502, "api_error"),
        (503, "overloaded_error"),
        (504, "timeout_error"),
    ];
    for (status, name) in names {
        assert_eq!(anthropic(status), name, "{status}");
    }
    for (kind, status, ..) in KINDS {
        let object = Failure::new(kind, "words").object(Errors::Anthropic);
        let object: Value = serde_json::from_str(&object).unwrap();
        let error = json!({"type": anthropic(status), "message": "words"});
        assert_eq!(object, json!({"type": "error", "error": error}), "{kind:?}");
    }
}
