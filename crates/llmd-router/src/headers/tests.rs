use super::*;

fn map(pairs: &[(&str, &str)]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in pairs {
        map.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap());
    }
    map
}

#[test]
fn credentials_and_hop_by_hop_headers_end_at_the_router() {
    let client = map(&[
        ("authorization", "Bearer secret"),
        ("cookie", "a=b"),
        ("x-api-key", "k"),
        ("connection", "close, X-Mine"),
        ("x-mine", "1"),
        ("te", "trailers"),
        ("trailer", "x-sum"),
        ("transfer-encoding", "chunked"),
        ("keep-alive", "timeout=5"),
        ("proxy-authenticate", "Basic"),
        ("proxy-authorization", "p"),
        ("proxy-connection", "keep-alive"),
        ("upgrade", "h2c"),
        ("host", "router"),
        ("content-length", "7"),
        ("expect", "100-continue"),
        ("accept-encoding", "gzip"),
        ("traceparent", "00-1-2-00"),
        ("x-other", "goes"),
        ("x-other", "twice"),
    ]);
    let out = upstream(&client, &HeaderValue::from_static("id"), false);
    let left: Vec<_> = out.iter().map(|(k, v)| (k.as_str(), v.to_str().unwrap())).collect();
    assert_eq!(left, [("x-other", "goes"), ("x-other", "twice"), ("x-request-id", "id")]);
}

#[test]
fn credentials_are_told_by_their_names() {
    let secret = [
        "x-amz-security-token",
        "x-amz-date",
        "x-csrf-token",
        "x-xsrf-token",
        "x-access-token",
        "x-goog-api-key",
        "x-goog-iap-jwt-assertion",
        "cf-access-jwt-assertion",
        "cf-access-client-id",
        "x-jwt-assertion",
        "x-amzn-oidc-identity",
        "x-ms-token-aad-id",
        "x-forwarded-authorization",
        "api-key",
        "apikey",
        "x-apikey",
        "x-access-key",
        "x-client-secret",
        "x-password",
        "x-credential",
        "x-credentials",
        "cookie",
        "cookie2",
        "x-functions-key",
        "x-auth-request-email",
        "ocp-apim-subscription-key",
    ];
    let open =
        ["content-type", "x-tokens", "x-session-id", "user-agent", "x-tokenizer", "tracestate"];
    let pairs: Vec<_> = secret.iter().chain(&open).map(|name| (*name, "1")).collect();
    let out = upstream(&map(&pairs), &HeaderValue::from_static("id"), false);
    let left: Vec<_> =
        out.keys().map(HeaderName::as_str).filter(|n| *n != "x-request-id").collect();
    assert_eq!(left, open);
    let all = upstream(&map(&pairs), &HeaderValue::from_static("id"), true);
    assert_eq!(all.len(), secret.len() + open.len() + 1);
}

#[test]
fn passthrough_lets_credentials_pass_and_nothing_else() {
    let client = map(&[("authorization", "Bearer secret"), ("te", "trailers")]);
    let out = upstream(&client, &HeaderValue::from_static("id"), true);
    assert_eq!(out.get("authorization").unwrap(), "Bearer secret");
    assert!(out.get("te").is_none());
}

#[test]
fn only_a_usable_request_id_is_taken_over() {
    let long = "x".repeat(129);
    for (text, usable) in [("abc-1", true), ("", false), ("a b", false), (long.as_str(), false)] {
        let headers = map(&[("x-request-id", text)]);
        assert_eq!(request_id(&headers).is_some(), usable, "{text:?}");
    }
}

#[test]
fn hop_by_hop_headers_of_an_answer_are_dropped() {
    let mut answer = map(&[
        ("connection", "x-a"),
        ("x-a", "1"),
        ("keep-alive", "timeout=5"),
        ("proxy-authenticate", "Basic"),
        ("proxy-authorization", "p"),
        ("proxy-connection", "close"),
        ("te", "trailers"),
        ("trailer", "x-sum"),
        ("transfer-encoding", "chunked"),
        ("upgrade", "h2c"),
        ("x-request-id", "the engine's own"),
        ("content-type", "application/json"),
    ]);
    downstream(&mut answer);
    assert_eq!(answer.len(), 1);
}

#[test]
fn event_streams_are_told_by_type_with_parameters_and_in_any_case() {
    assert!(is_event_stream(&map(&[("content-type", "Text/Event-Stream; charset=utf-8")])));
    assert!(!is_event_stream(&map(&[("content-type", "application/json")])));
    assert!(!is_event_stream(&map(&[])));
}
