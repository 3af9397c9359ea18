//! Source `file`: llm-d's `endpoints.yaml`, unchanged.
//!
//! Its rules are llm-d's (llm-d facts): YAML or JSON, at most 1 MiB, unknown fields ignored,
//! `name` and `namespace` are the key, of duplicates the last one counts, `address` is an IPv4
//! literal, `port` a string. At the start a bad entry is an error. Later a bad file leaves all
//! as it was; a bad entry is dropped and named, and the good ones are applied. Unlike llm-d a
//! file without a list, or with bad entries only, is a bad file: the first is what a writer
//! leaves between truncating and writing, and of neither an empty pool was meant.

use crate::echo::{echo, echo_quoted, first_few, printable};
use crate::follow::follow;
use crate::sources::read_small;
use crate::{DiscoveryError, Endpoint, Reading, Sink, Source, State};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often the file is read when no change was seen.
const POLL: Duration = Duration::from_secs(2);
/// Longest name, and longest label that is read: those of Kubernetes are shorter.
const TEXT_MAX: usize = 253;

/// An `endpoints.yaml`.
#[derive(Debug)]
pub struct FileSource {
    path: PathBuf,
}

impl FileSource {
    /// Follows the file at `path`.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }
}

impl Source for FileSource {
    fn start(self: Box<Self>, sink: Sink) -> Result<(), DiscoveryError> {
        let path = self.path;
        let file = path.display().to_string();
        let text = read_small(&path)
            .map_err(|reason| DiscoveryError::File { file: file.clone(), reason })?;
        let first =
            parse(&text).map_err(|reason| DiscoveryError::File { file: file.clone(), reason })?;
        if !first.problems.is_empty() {
            return Err(DiscoveryError::Entries { file, problems: first.problems });
        }
        sink.publish(first.clone());
        let mut state = Followed { text: Some(text), problem: None, reading: first };
        follow(path.clone(), POLL, move || {
            state.look(&path, &sink);
            !sink.closed()
        })
    }
}

/// What the file said when it was last looked at.
struct Followed {
    /// The text looked at, good or bad; `None` after the file could not be read.
    text: Option<String>,
    problem: Option<String>,
    /// The last good reading.
    reading: Reading,
}

impl Followed {
    fn look(&mut self, path: &Path, sink: &Sink) {
        let file = path.display();
        let parsed = match read_small(path) {
            Ok(text) if self.text.as_ref() == Some(&text) => return,
            Ok(text) => {
                let parsed = parse(&text).and_then(some);
                self.text = Some(text);
                parsed
            }
            Err(reason) => {
                self.text = None;
                Err(reason)
            }
        };
        match parsed {
            Ok(mut reading) => {
                for problem in &mut reading.problems {
                    *problem = format!("{file}: {problem}");
                    tracing::warn!("{problem}");
                }
                tracing::info!(%file, endpoints = reading.endpoints.len(), "endpoints read");
                self.problem = None;
                self.reading = reading;
                sink.publish(self.reading.clone());
            }
            Err(reason) if self.problem.as_ref() == Some(&reason) => {}
            Err(reason) => {
                let problem = format!("{file}: {reason}; the endpoints stay as they were");
                tracing::error!("{problem}");
                let endpoints = self.reading.endpoints.clone();
                sink.publish(Reading { endpoints, problems: vec![problem], pending: false });
                self.problem = Some(reason);
            }
        }
    }
}

#[derive(Deserialize)]
struct Document {
    endpoints: Option<Vec<serde_yaml_ng::Value>>,
}

#[derive(Deserialize)]
struct Entry {
    #[serde(default)]
    name: String,
    #[serde(default)]
    namespace: Option<String>,
    #[serde(default)]
    address: String,
    #[serde(default)]
    port: serde_yaml_ng::Value,
    #[serde(default)]
    labels: Option<BTreeMap<String, String>>,
}

/// What a file says. The error is about the file as a whole; problems are about its entries.
pub(crate) fn parse(text: &str) -> Result<Reading, String> {
    let Some(entries) = document(text)?.endpoints else {
        return Err("has no list of endpoints; write `endpoints: []` for none".into());
    };
    let mut reading = Reading::default();
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    let (mut problems, mut twice) = (Vec::new(), Vec::new());
    for (index, value) in entries.into_iter().enumerate() {
        match entry(value) {
            Ok(endpoint) => {
                let next = reading.endpoints.len();
                let place = *places.entry(endpoint.name.clone()).or_insert(next);
                if place == next {
                    reading.endpoints.push(endpoint);
                } else {
                    twice.push(endpoint.name.clone());
                    reading.endpoints[place] = endpoint;
                }
            }
            Err(problem) => problems.push(format!("endpoints[{index}]: {}", printable(&problem))),
        }
    }
    if !twice.is_empty() {
        let names = first_few(twice);
        tracing::warn!(?names, "endpoints that are named twice; the last entry counts");
    }
    reading.problems = first_few(problems);
    Ok(reading)
}

fn document(text: &str) -> Result<Document, String> {
    if text.trim().is_empty() {
        return Err("is empty; write `endpoints: []` for none".into());
    }
    let cannot = |what: &str, why: String| format!("cannot parse as {what}: {}", in_short(&why));
    // JSON may be indented with tabs, which YAML refuses.
    if text.trim_start().starts_with('{') {
        return serde_json::from_str(text).map_err(|error| cannot("JSON", error.to_string()));
    }
    serde_yaml_ng::from_str(text).map_err(|error| cannot("YAML", error.to_string()))
}

/// A parser's message in the words of who wrote the file.
fn in_short(message: &str) -> String {
    let told = printable(&echo_quoted(message));
    told.replace("struct Document", "a mapping").replace("struct Entry", "a mapping")
}

/// A file of which no entry can be used says nothing of endpoints.
fn some(reading: Reading) -> Result<Reading, String> {
    if reading.endpoints.is_empty() && !reading.problems.is_empty() {
        return Err(format!("has no entry that can be used: {}", reading.problems.join("; ")));
    }
    Ok(reading)
}

fn entry(value: serde_yaml_ng::Value) -> Result<Endpoint, String> {
    let entry: Entry =
        serde_yaml_ng::from_value(value).map_err(|error| in_short(&error.to_string()))?;
    if entry.name.is_empty() {
        return Err("name is missing".into());
    }
    let name = match entry.namespace.as_deref() {
        None | Some("" | "default") => entry.name,
        Some(namespace) => format!("{namespace}/{}", entry.name),
    };
    let told = echo(&name);
    if name.len() > TEXT_MAX {
        return Err(format!("{told}: name, with its namespace, is longer than {TEXT_MAX} bytes"));
    }
    if name.chars().any(char::is_control) {
        return Err(format!("{told}: name has a control character"));
    }
    if entry.address.parse::<Ipv4Addr>().is_err() {
        let address = echo(&entry.address);
        return Err(format!("{told}: address {address:?} is not an IPv4 literal"));
    }
    let port = match &entry.port {
        serde_yaml_ng::Value::String(port) => port.parse::<u16>().ok().filter(|port| *port > 0),
        _ => None,
    };
    let Some(port) = port else {
        return Err(format!("{told}: port must be a string from \"1\" to \"65535\""));
    };
    let labels = entry.labels.unwrap_or_default();
    let label = |key: &str| match labels.get(key) {
        Some(value) if value.len() > TEXT_MAX => {
            Err(format!("{told}: label {key} is longer than {TEXT_MAX} bytes"))
        }
        value => Ok(value.cloned()),
    };
    Ok(Endpoint {
        address: entry.address,
        port,
        variant: None,
        accelerator: label("llm-d.ai/accelerator-variant")?,
        profile: label("llmd-ctl.dev/profile")?,
        role: label("llm-d.ai/role")?,
        state: State::Ready,
        revision: None,
        name,
    })
}

#[cfg(test)]
mod tests;
