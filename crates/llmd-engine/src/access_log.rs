//! The access log: one JSON line a request, whatever its end, written at once.
//!
//! A line is one `write` to a file opened for appending, so nothing is lost when the process
//! is killed. What was said in a request is never in it.

use crate::error::StartError;
use serde::Serialize;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Where lines go; nowhere without a file.
#[derive(Debug)]
pub(crate) struct AccessLog {
    file: Option<File>,
    endpoint: String,
    failed: AtomicBool,
}

/// One request's line. Times are Unix microseconds.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Record {
    pub(crate) request_id: String,
    pub(crate) model: String,
    pub(crate) stream: bool,
    pub(crate) prompt_tokens: u32,
    pub(crate) cached_tokens: u32,
    pub(crate) completion_tokens: u32,
    /// The HTTP status; 499 when the client left before there was one.
    pub(crate) status: u16,
    /// `stop`, `length`, `abort` (the client left) or `error` (it was refused).
    pub(crate) finish: &'static str,
    pub(crate) arrive_us: u64,
    pub(crate) first_token_us: Option<u64>,
    pub(crate) end_us: u64,
}

/// A line as it is written.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    endpoint: &'a str,
    #[serde(flatten)]
    record: &'a Record,
}

impl AccessLog {
    /// Opens `path` for appending.
    pub(crate) fn open(path: Option<&Path>, endpoint: &str) -> Result<Arc<Self>, StartError> {
        let open = |path: &Path| {
            File::options()
                .append(true)
                .create(true)
                .open(path)
                .map_err(|cause| StartError::AccessLog { path: path.to_owned(), cause })
        };
        let file = path.map(open).transpose()?;
        Ok(Arc::new(Self { file, endpoint: endpoint.to_owned(), failed: AtomicBool::new(false) }))
    }

    /// Writes a request's line. A failure is told once; serving goes on.
    pub(crate) fn write(&self, record: &Record) {
        let Some(mut file) = self.file.as_ref() else { return };
        let written = serde_json::to_vec(&Line { endpoint: &self.endpoint, record })
            .map_err(std::io::Error::from)
            .and_then(|mut line| {
                line.push(b'\n');
                file.write_all(&line)
            });
        if let Err(error) = written
            && !self.failed.swap(true, Ordering::Relaxed)
        {
            tracing::error!(%error, "the access log cannot be written; lines are missing");
        }
    }
}
