//! Which paths and methods the data port knows, and the answers that need no endpoint.

use crate::api::{self, Api};
use crate::config::Model;
use crate::error::{Failure, Kind, echo};
use crate::flight::Flight;
use crate::stream::{self, Reply};
use http::{HeaderValue, Method, Response, StatusCode, header};
use llmd_types::Outcome;
use serde_json::{Value, json};

/// What a request asks for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// An answer of a model.
    Ask(&'static Api),
    /// The list of models.
    Models,
    /// One entry of that list.
    Model(String),
    /// Which methods a path knows.
    Options(&'static str),
}

const GET: &str = "GET, HEAD, OPTIONS";
const POST: &str = "POST, OPTIONS";
/// Of the server as a whole (`OPTIONS *`).
const ALL: &str = "GET, HEAD, POST, OPTIONS";

/// The route, or why there is none.
pub(crate) fn find(method: &Method, path: &str) -> Result<Route, Failure> {
    if path == "*" && method == Method::OPTIONS {
        return Ok(Route::Options(ALL));
    }
    let one = path.strip_prefix("/v1/models/").filter(|name| !name.is_empty());
    let (allowed, route) = match (api::at(path), path, one) {
        (Some(api), ..) => (POST, Route::Ask(api)),
        (_, "/v1/models", _) => (GET, Route::Models),
        (_, _, Some(name)) => (GET, Route::Model(decoded(name))),
        _ => {
            return Err(Failure::new(
                Kind::UnknownPath,
                format!("there is no path {:?}", echo(path)),
            ));
        }
    };
    let known = allowed.split(", ").any(|name| name == method.as_str());
    match (known, method) {
        (true, &Method::OPTIONS) => Ok(Route::Options(allowed)),
        (true, _) => Ok(route),
        (false, _) => {
            let message = format!("{} takes {allowed}, not {}", echo(path), echo(method.as_str()));
            Err(Failure { allow: Some(allowed), ..Failure::new(Kind::WrongMethod, message) })
        }
    }
}

/// A name as it is meant: `%2F` is a slash. What is no such escape stays as it is, and what is
/// no text then is no model's name.
fn decoded(name: &str) -> String {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.as_bytes();
    while let [first, behind @ ..] = rest {
        let hex = |digit: u8| char::from(digit).to_digit(16);
        let escaped = match behind {
            [high, low, ..] if *first == b'%' => hex(*high).zip(hex(*low)),
            _ => None,
        };
        bytes.push(escaped.map_or(*first, |(high, low)| (high * 16 + low) as u8));
        rest = if escaped.is_some() { &behind[2..] } else { behind };
    }
    String::from_utf8(bytes).unwrap_or_else(|_| name.to_owned())
}

/// All models, aliases included, as the `OpenAI` API lists them.
pub(crate) fn models(flight: &mut Flight) -> Response<Reply> {
    let table = flight.table.clone();
    let data = table.config.models.iter().flat_map(|model| {
        let names = std::iter::once(&model.name).chain(&model.aliases);
        names.map(|name| entry(flight, name, model)).collect::<Vec<_>>()
    });
    let data: Vec<Value> = data.collect();
    ok(flight, &json!({"object": "list", "data": data}))
}

/// One model.
pub(crate) fn model(flight: &mut Flight, name: &str) -> Result<Response<Reply>, Failure> {
    let Some(pool) = flight.table.pool(name).cloned() else {
        let message = format!("the model {:?} does not exist", echo(name));
        return Err(Failure::new(Kind::UnknownModel, message).param("model"));
    };
    let object = entry(flight, name, &pool.model());
    Ok(ok(flight, &object))
}

/// `max_model_len` is the longest that some engine of the model takes: longer prompts are
/// refused, and shorter ones find one that takes them.
fn entry(flight: &Flight, name: &str, model: &Model) -> Value {
    let created = flight.table.loaded_at.duration_since(std::time::UNIX_EPOCH);
    let created = created.map_or(0, |since| since.as_secs());
    let mut entry = json!({
        "id": name, "object": "model", "created": created, "owned_by": "llmd-ctl",
        "root": model.name,
    });
    let facts = model.variants.iter().filter_map(|variant| variant.facts.as_ref());
    if let Some(longest) = facts.map(|facts| facts.max_model_len).max() {
        entry["max_model_len"] = longest.into();
    }
    entry
}

fn ok(flight: &mut Flight, object: &Value) -> Response<Reply> {
    flight.end(200, Outcome::Done, None);
    stream::json(StatusCode::OK, object.to_string())
}

/// The methods of a path.
pub(crate) fn options(flight: &mut Flight, allowed: &'static str) -> Response<Reply> {
    flight.end(204, Outcome::Done, None);
    let mut response = Response::new(Reply::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
    response
}

#[cfg(test)]
mod tests {
    use super::decoded;

    #[test]
    fn names_are_decoded_and_what_is_no_escape_stays() {
        for (written, meant) in [
            ("Org%2FName", "Org/Name"),
            ("Org/Name", "Org/Name"),
            ("a%2fb%20c", "a/b c"),
            ("%C3%A9", "é"),
            ("100%", "100%"),
            ("%2", "%2"),
            ("%+1%zz", "%+1%zz"),
            ("%252F", "%2F"),
            ("%ff", "%ff"),
        ] {
            assert_eq!(decoded(written), meant, "{written}");
        }
    }
}
