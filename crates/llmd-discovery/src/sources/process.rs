//! Source `process`: the controller's `replicas.json`, and whether the processes live.
//!
//! The controller writes the file whole and renames it into place. Between two writes a process
//! can die: its id and start time are looked at four times a second, and a dead one is dropped
//! at once, long before the controller has noticed. It never starts or ends a process.

use crate::follow::follow;
use crate::sources::read_small;
use crate::{DiscoveryError, Endpoint, Reading, Sink, Source, State};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often processes are looked at.
const POLL: Duration = Duration::from_millis(250);

/// Local processes of one model.
#[derive(Debug)]
pub struct ProcessSource {
    path: PathBuf,
    model: String,
}

impl ProcessSource {
    /// The entries of `model` in the file at `path`.
    pub fn new(path: impl Into<PathBuf>, model: impl Into<String>) -> Self {
        Self { path: path.into(), model: model.into() }
    }
}

impl Source for ProcessSource {
    fn start(self: Box<Self>, sink: Sink) -> Result<(), DiscoveryError> {
        let Self { path, model } = *self;
        let first = read_small(&path).and_then(|text| parse(&text, &model));
        let mut replicas = first
            .map_err(|reason| DiscoveryError::File { file: path.display().to_string(), reason })?;
        sink.publish(Reading { endpoints: alive(&replicas), ..Reading::default() });
        follow(path.clone(), POLL, move || {
            let problems = match read_small(&path).and_then(|text| parse(&text, &model)) {
                Ok(new) => {
                    replicas = new;
                    Vec::new()
                }
                Err(reason) => vec![format!("{}: {reason}; kept as it was", path.display())],
            };
            sink.publish(Reading { endpoints: alive(&replicas), problems, pending: false });
            !sink.closed()
        })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    version: u32,
    replicas: Vec<Replica>,
}

/// One line of `replicas.json`.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Replica {
    name: String,
    model: String,
    variant: String,
    address: String,
    port: u16,
    /// Absent for an engine that somebody else runs.
    pid: Option<u32>,
    start_time: Option<u64>,
    state: State,
    revision: Option<u64>,
}

pub(crate) fn parse(text: &str, model: &str) -> Result<Vec<Replica>, String> {
    let document: Document =
        serde_json::from_str(text).map_err(|error| format!("cannot parse as JSON: {error}"))?;
    if document.version != 1 {
        return Err(format!("version is {}, but must be 1", document.version));
    }
    Ok(document.replicas.into_iter().filter(|replica| replica.model == model).collect())
}

fn alive(replicas: &[Replica]) -> Vec<Endpoint> {
    let lives = |replica: &&Replica| match (replica.pid, replica.start_time) {
        (Some(pid), Some(start_time)) => start_time_of(pid) == Some(start_time),
        _ => true,
    };
    replicas.iter().filter(lives).map(endpoint).collect()
}

fn endpoint(replica: &Replica) -> Endpoint {
    Endpoint {
        name: replica.name.clone(),
        address: replica.address.clone(),
        port: replica.port,
        variant: Some(replica.variant.clone()),
        accelerator: None,
        profile: None,
        role: None,
        state: replica.state,
        revision: replica.revision,
    }
}

/// Field 22 of `/proc/PID/stat`: clock ticks from boot to the process's start. `None` for a
/// process that is gone, or that only waits to be reaped.
fn start_time_of(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat"));
    // The name, in brackets, may hold spaces and brackets itself: fields start behind the last.
    let stat = stat.ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests;
