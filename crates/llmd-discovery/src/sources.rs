//! The sources that are built.

mod file;
mod fixed;
mod process;

pub use file::FileSource;
pub(crate) use file::parse as parse_file;
pub use fixed::StaticSource;
pub use process::ProcessSource;

use std::io::Read;
use std::path::Path;

/// Longest file that is read; llm-d's own limit for `endpoints.yaml`.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The text of a small file, or why it cannot be had.
fn read_small(path: &Path) -> Result<String, String> {
    let file = std::fs::File::open(path).map_err(|error| format!("cannot be read: {error}"))?;
    let mut text = String::new();
    let read = file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text);
    read.map_err(|error| format!("cannot be read as text: {error}"))?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(format!("is larger than {MAX_FILE_BYTES} bytes, the most that is read"));
    }
    Ok(text)
}
