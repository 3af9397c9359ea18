//! The sources that are built.

mod file;
mod fixed;
mod process;

pub use file::FileSource;
pub(crate) use file::parse as parse_file;
pub use fixed::StaticSource;
pub use process::ProcessSource;

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

/// Longest file that is read; llm-d's own limit for `endpoints.yaml`.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// What a small file holds, or why it cannot be had. Only of regular files: others may never end,
/// or let a reader wait for ever.
pub fn read_file(path: &Path) -> Result<Vec<u8>, String> {
    let cannot = |error: io::Error| format!("cannot be read: {error}");
    if !fs::metadata(path).map_err(cannot)?.is_file() {
        return Err("cannot be read: it is no regular file".into());
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(cannot)?;
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(cannot)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(format!("is larger than {MAX_FILE_BYTES} bytes, the most that is read"));
    }
    Ok(bytes)
}

/// The same as text.
fn read_small(path: &Path) -> Result<String, String> {
    String::from_utf8(read_file(path)?).map_err(|error| format!("cannot be read as text: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn only_regular_files_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for path in [pipe.as_path(), folder.path(), Path::new("/dev/zero")] {
            assert_eq!(read_file(path).unwrap_err(), "cannot be read: it is no regular file");
        }
        let file = folder.path().join("file");
        for (bytes, most) in [(0, true), (MAX_FILE_BYTES, true), (MAX_FILE_BYTES + 1, false)] {
            File::create(&file).unwrap().set_len(bytes).unwrap();
            let read = read_file(&file);
            assert_eq!(read.is_ok_and(|read| read.len() as u64 == bytes), most, "{bytes}");
        }
    }
}
