//! `engine.json`: its schema and what makes it wrong. Unknown keys are refused with their path.
//!
//! Written by the planner for a simulated replica, read once at the start.

use crate::error::StartError;
use llmd_types::ReplicaFacts;
use serde::Deserialize;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// The whole file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Config {
    /// Of the schema; 1.
    pub version: u32,
    /// The replica's name; `endpoint` in the access log.
    pub name: String,
    /// The served model.
    pub model: String,
    /// Other names of it.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// What is simulated; told in every answer.
    pub accelerator: String,
    /// Where to listen.
    pub listen: SocketAddr,
    /// All that decides its speed.
    pub facts: ReplicaFacts,
    /// Where a line a request is appended; none without it.
    #[serde(default)]
    pub access_log: Option<PathBuf>,
    /// Chooses the words and the lengths of answers.
    #[serde(default)]
    pub seed: u64,
}

impl Config {
    /// Reads and checks a file.
    pub fn load(path: &Path) -> Result<Self, StartError> {
        let text = std::fs::read_to_string(path)
            .map_err(|cause| StartError::Unreadable { path: path.to_owned(), cause })?;
        Self::parse(&text).map_err(|message| StartError::Config { path: path.to_owned(), message })
    }

    /// Reads and checks a text; the error names the key.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut reader = serde_json::Deserializer::from_str(text);
        let config: Self =
            serde_path_to_error::deserialize(&mut reader).map_err(|error| error.to_string())?;
        reader.end().map_err(|error| error.to_string())?;
        config.check()?;
        Ok(config)
    }

    fn check(&self) -> Result<(), String> {
        if self.version != 1 {
            return Err(format!("version is {}, but this engine knows only 1", self.version));
        }
        let names =
            [("name", &self.name), ("model", &self.model), ("accelerator", &self.accelerator)];
        for (key, text) in names {
            // They go into header values and labels.
            if text.is_empty() || text.chars().any(char::is_control) {
                return Err(format!("{key} must be a text without control characters"));
            }
        }
        self.facts.check().map_err(|error| format!("facts.{error}"))
    }

    /// Whether requests may call the model so.
    pub fn serves(&self, model: &str) -> bool {
        self.model == model || self.aliases.iter().any(|alias| alias == model)
    }
}
