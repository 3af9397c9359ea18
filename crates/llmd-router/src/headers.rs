//! Which headers go on, in both directions, and the two that the router adds.
//!
//! Called in phases `receive`, `forward` and `stream`. Hop-by-hop headers end here; a client's
//! credentials do as well, unless the model's configuration passes them through.

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Request, Version};

/// The request id, made when absent or unusable, echoed, and sent upstream.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// W3C trace context.
pub(crate) const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// Says that an answer comes from a simulated engine.
pub(crate) const SIMULATED: HeaderName = HeaderName::from_static("x-llmd-ctl-simulated");

/// Longest request id that is taken over.
const MAX_ID: usize = 128;

/// Meant for one connection (RFC 9110, 7.6.1). A constant would be made anew for each header that
/// is compared with it.
static HOP_BY_HOP: [HeaderName; 9] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    HeaderName::from_static("proxy-connection"),
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// What proves who a client is; an engine has no business with it. Gateways and clouds invent
/// new names all the time, so most are told by how they begin or end: a header too many that
/// stays here costs nothing, and `passthrough` lets all of them go on.
const CREDENTIALS: [&str; 4] =
    ["cookie", "cookie2", "ocp-apim-subscription-key", "x-functions-key"];
/// Families of them: signed calls of clouds, and what sign-on proxies tell of a user.
const CREDENTIAL_BEGINS: [&str; 6] =
    ["x-goog-", "x-amz-", "x-amzn-oidc-", "x-ms-token-", "x-auth-request-", "cf-access-"];
/// `authorization` and `x-forwarded-authorization`, `x-api-key`, `x-csrf-token`, …
const CREDENTIAL_ENDS: [&str; 10] = [
    "authorization",
    "api-key",
    "apikey",
    "access-key",
    "token",
    "secret",
    "password",
    "credential",
    "credentials",
    "jwt-assertion",
];

/// Written anew for the endpoint. `accept-encoding` is left out because the router reads
/// streams as they pass; `expect` was answered here.
const OWN: [&str; 6] =
    ["host", "content-length", "expect", "accept-encoding", "x-request-id", "traceparent"];

/// What is wrong with the host that a request names. The router serves all hosts alike; but what
/// names two may be read differently by what stands before it.
pub(crate) fn host_problem<B>(request: &Request<B>) -> Option<&'static str> {
    let mut hosts = request.headers().get_all(header::HOST).into_iter();
    let (host, second) = (hosts.next(), hosts.next());
    if second.is_some() {
        return Some("host is given twice");
    }
    match (host, request.uri().authority()) {
        (None, None) if request.version() == Version::HTTP_11 => Some("host is missing"),
        (Some(host), Some(authority))
            if !host.as_bytes().eq_ignore_ascii_case(authority.as_str().as_bytes()) =>
        {
            Some("host is not that of the target")
        }
        _ => None,
    }
}

/// The client's request id when it is one: visible ASCII, not too long.
pub(crate) fn request_id(headers: &HeaderMap) -> Option<&HeaderValue> {
    let id = headers.get(REQUEST_ID)?;
    let fine = |byte: &u8| byte.is_ascii_graphic();
    let bytes = id.as_bytes();
    (!bytes.is_empty() && bytes.len() <= MAX_ID && bytes.iter().all(fine)).then_some(id)
}

/// The headers for an endpoint, but for its host and the trace context.
pub(crate) fn upstream(client: &HeaderMap, id: &HeaderValue, passthrough: bool) -> HeaderMap {
    let mut out = HeaderMap::with_capacity(client.len() + 3);
    let named = named_by_connection(client);
    for (name, value) in client {
        let text = name.as_str();
        let dropped = HOP_BY_HOP.contains(name)
            || OWN.contains(&text)
            || (!passthrough && is_credential(text))
            || named.iter().any(|other| other == text);
        if !dropped {
            out.append(name, value.clone());
        }
    }
    out.insert(REQUEST_ID, id.clone());
    out
}

/// Whether a header of this name, in lower case, proves who a client is.
fn is_credential(name: &str) -> bool {
    CREDENTIALS.contains(&name)
        || CREDENTIAL_BEGINS.iter().any(|begin| name.starts_with(begin))
        || CREDENTIAL_ENDS.iter().any(|end| name.ends_with(end))
}

/// Removes from an endpoint's answer what is not for the client.
pub(crate) fn downstream(answer: &mut HeaderMap) {
    let named = named_by_connection(answer);
    let ends = |name: &&HeaderName| {
        HOP_BY_HOP.contains(name)
            || **name == REQUEST_ID
            || named.iter().any(|n| n == name.as_str())
    };
    let ending: Vec<HeaderName> = answer.keys().filter(ends).cloned().collect();
    for name in ending {
        answer.remove(name);
    }
}

/// Whether an answer is an event stream.
pub(crate) fn is_event_stream(headers: &HeaderMap) -> bool {
    let value = headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    let wanted = b"text/event-stream";
    value
        .and_then(|value| value.get(..wanted.len()))
        .is_some_and(|begin| begin.eq_ignore_ascii_case(wanted))
}

/// Whether it is one whose events can be read. An engine may compress though nobody asked.
pub(crate) fn is_plain_event_stream(headers: &HeaderMap) -> bool {
    let encoding = headers.get(header::CONTENT_ENCODING).map(HeaderValue::as_bytes);
    is_event_stream(headers)
        && encoding.is_none_or(|encoding| encoding.eq_ignore_ascii_case(b"identity"))
}

/// Whether an answer is to be heard while it is made.
pub(crate) fn is_audio(headers: &HeaderMap) -> bool {
    let value = headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    value.is_some_and(|value| value.get(..6).is_some_and(|v| v.eq_ignore_ascii_case(b"audio/")))
}

/// Headers that `connection` declares hop-by-hop, in lower case.
fn named_by_connection(headers: &HeaderMap) -> Vec<String> {
    let values = headers.get_all(header::CONNECTION).into_iter();
    let texts = values.filter_map(|value| value.to_str().ok());
    let names = texts.flat_map(|text| text.split(','));
    names.map(|name| name.trim().to_ascii_lowercase()).filter(|name| !name.is_empty()).collect()
}

#[cfg(test)]
mod tests;
