//! What the YAML library says of a file that it cannot read, in the words of who wrote the file:
//! where it is once, and keys and values, not variants and structs.
//!
//! Used by `config` alone. Words are for people only: nothing is decided by them.

use crate::error::echo;
use llmd_discovery::echo_quoted;
use serde_path_to_error::Error;

/// Begins of messages, and how they begin here.
const BEGINS: [(&str, &str); 8] = [
    ("unknown variant ", "unknown value "),
    ("unknown field ", "unknown key "),
    ("missing field ", "missing key "),
    ("duplicate field ", "duplicate key "),
    ("invalid type: sequence", "invalid type: a list"),
    ("invalid type: map", "invalid type: a mapping"),
    ("invalid type: unit value", "invalid type: nothing"),
    (
        "invalid socket address syntax",
        "this is no IP address with a port; write one, such as 127.0.0.1:8000",
    ),
];

/// The problem with its place.
pub(super) fn told(error: &Error<serde_yaml_ng::Error>) -> String {
    let path = error.path().to_string();
    let text = error.inner().to_string();
    // The library begins with its own idea of the place, which ends sooner where it looked ahead.
    let text = match text.split_once(": ") {
        Some((place, rest)) if path.starts_with(place) => rest,
        _ => &text,
    };
    let begin =
        BEGINS.into_iter().find_map(|(theirs, ours)| Some((ours, text.strip_prefix(theirs)?)));
    let (begin, rest) = begin.unwrap_or(("", text));
    let place = if path == "." { String::new() } else { format!("{}: ", echo(&path)) };
    format!("{place}{begin}{}", expectation(&echo_quoted(rest)))
}

/// What is expected is a shape of YAML, not one of Rust.
fn expectation(text: &str) -> String {
    let Some((found, expected)) = text.rsplit_once(", expected ") else { return text.to_owned() };
    let (what, place) = match expected.split_once(" at line ") {
        Some((what, place)) => (what, format!(" at line {place}")),
        None => (expected, String::new()),
    };
    let what = match what.split(' ').next() {
        Some("struct" | "internally") => "a mapping",
        Some("enum" | "variant") => "one of the known values",
        Some("u16") => "a whole number from 0 to 65535",
        Some("u32") => "a whole number from 0 to 4294967295",
        Some("u64" | "usize") => "a whole number from 0",
        Some("f64") => "a number",
        Some("a") if what == "a sequence" => "a list",
        Some("a") if what.starts_with("a YAML tag") => "one of the known values",
        _ => what,
    };
    format!("{found}, expected {what}{place}")
}
