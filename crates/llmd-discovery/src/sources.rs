//! The sources that are built.

mod dns;
mod file;
mod fixed;
mod lookup;
mod process;

pub use dns::{DnsName, DnsSource};
pub use file::FileSource;
pub(crate) use file::parse as parse_file;
pub use fixed::StaticSource;
pub use process::ProcessSource;

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

/// Longest file that is read; llm-d's own limit for `endpoints.yaml`.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// Brackets in brackets that are read.
const DEEPEST: usize = 128;
/// The mark of byte order.
const MARK: char = '\u{feff}';

/// What a small file holds, or why it cannot be had.
pub fn read_file(path: &Path) -> Result<Vec<u8>, String> {
    read_file_up_to(path, MAX_FILE_BYTES)
}

/// The same of a file of at most so many bytes. Only of regular files: others may never end, or
/// let a reader wait for ever.
pub fn read_file_up_to(path: &Path, most: u64) -> Result<Vec<u8>, String> {
    let cannot = |error: io::Error| format!("cannot be read: {error}");
    if !fs::metadata(path).map_err(cannot)?.is_file() {
        return Err("cannot be read: it is no regular file".into());
    }
    read_any(path, most)
}

/// The same of whatever can be read, a pipe say, for as long as that takes.
pub fn read_any(path: &Path, most: u64) -> Result<Vec<u8>, String> {
    let cannot = |error: io::Error| format!("cannot be read: {error}");
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(cannot)?;
    file.take(most + 1).read_to_end(&mut bytes).map_err(cannot)?;
    if bytes.len() as u64 > most {
        return Err(format!("is larger than {most} bytes, the most that is read"));
    }
    Ok(bytes)
}

/// What was read, as text. Some editors begin it with a mark, which is none of its own.
pub fn text(read: Vec<u8>) -> Result<String, String> {
    let text = String::from_utf8(read);
    let mut text = text.map_err(|error| format!("cannot be read as text: {error}"))?;
    if text.starts_with(MARK) {
        text.drain(..MARK.len_utf8());
    }
    if is_deep(&text) {
        return Err(format!("has brackets in brackets, more than {DEEPEST} deep"));
    }
    Ok(text)
}

/// Whether brackets stand in brackets deeper than in any file of ours: the time that YAML takes for
/// those grows with the square of their number. Which of them are part of a text does not matter.
fn is_deep(text: &str) -> bool {
    let mut depth = 0_usize;
    text.bytes().any(|byte| {
        match byte {
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth > DEEPEST
    })
}

fn read_small(path: &Path) -> Result<String, String> {
    text(read_file(path)?)
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
        assert_eq!(text("\u{feff}a\u{feff}".into()).unwrap(), "a\u{feff}");
        let file = folder.path().join("file");
        for (bytes, most) in [(0, true), (MAX_FILE_BYTES, true), (MAX_FILE_BYTES + 1, false)] {
            File::create(&file).unwrap().set_len(bytes).unwrap();
            let read = read_file(&file);
            assert_eq!(read.is_ok_and(|read| read.len() as u64 == bytes), most, "{bytes}");
        }
    }

    #[test]
    fn what_is_nested_too_deep_is_refused_before_it_is_parsed() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(text(nested(DEEPEST).into_bytes()).is_ok());
        assert!(text("[]{}".repeat(500_000).into_bytes()).is_ok());
        for deep in [nested(DEEPEST + 1), "{".repeat(1 << 20)] {
            assert!(text(deep.into_bytes()).unwrap_err().contains("brackets in brackets"));
        }
    }
}
