//! Why a simulated engine cannot start. What a client did wrong is in `api_error`.

use std::net::SocketAddr;
use std::path::PathBuf;

/// Why the engine cannot start, with the remedy in its text.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration file cannot be read.
    #[error("cannot read {path}: {cause}; name a readable file with --config")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        cause: std::io::Error,
    },
    /// The configuration file is wrong.
    #[error("{path}: {message}")]
    Config {
        /// The file.
        path: PathBuf,
        /// What is wrong, with the key.
        message: String,
    },
    /// The address is not to be had.
    #[error("cannot listen on {address}: {cause}; choose another address in `listen`")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        cause: std::io::Error,
    },
    /// The access log cannot be written.
    #[error("cannot write the access log {path}: {cause}; make its folder, or change `accessLog`")]
    AccessLog {
        /// The file.
        path: PathBuf,
        /// What the system said.
        cause: std::io::Error,
    },
    /// The process gets no runtime or no signals.
    #[error("cannot start: {0}")]
    Runtime(#[source] std::io::Error),
}

impl StartError {
    /// The exit code: 65 for a wrong configuration, 1 for a system that refuses.
    pub fn exit_code(&self) -> i32 {
        match self {
            Self::Unreadable { .. } | Self::Config { .. } => 65,
            Self::Listen { .. } | Self::AccessLog { .. } | Self::Runtime(_) => 1,
        }
    }
}
