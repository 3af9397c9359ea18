//! What stops a source from starting. After the start nothing stops it: problems are reported
//! in the snapshot, and the last good state is kept.

use thiserror::Error;

/// A source that cannot start.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum DiscoveryError {
    /// The file as a whole cannot be used.
    #[error("{file}: {reason}")]
    File {
        /// The file.
        file: String,
        /// What is wrong and what would be right.
        reason: String,
    },
    /// Single entries cannot be used.
    #[error("{file}: {}", .problems.join("; "))]
    Entries {
        /// The file.
        file: String,
        /// One sentence for each entry.
        problems: Vec<String>,
    },
    /// The operating system gave no thread.
    #[error("no thread to watch {file}: {reason}")]
    Thread {
        /// The file.
        file: String,
        /// What the system said.
        reason: String,
    },
}
