//! Log lines on standard error, for people or as JSON. No line holds a prompt.

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;

/// How a line looks.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Text,
    /// One object a line.
    Json,
}

/// Starts logging; the level comes from `LLMD_LOG`, "info" without it. A second start in one
/// process (the wheel's) changes nothing.
pub(crate) fn start(format: Format) {
    let level = EnvFilter::try_from_env("LLMD_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let lines = tracing_subscriber::fmt().with_writer(std::io::stderr).with_env_filter(level);
    let _ = match format {
        Format::Text => lines.with_ansi(false).try_init(),
        Format::Json => lines.json().try_init(),
    };
}
