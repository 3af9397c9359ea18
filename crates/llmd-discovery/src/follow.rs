//! A thread that reads a file again when it changes.
//!
//! Started by the file and process sources, and by the router for its own configuration. The
//! folder is watched, not the file: an atomic rename or a removed and new file keeps being seen.
//! Where the system has no watch (or loses it), the slow poll finds the change. It never holds
//! the file open.

use crate::DiscoveryError;
use notify::{RecursiveMode, Watcher};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// Waited after a change is seen, so that a writer that truncates and writes is mostly done.
const SETTLE: Duration = Duration::from_millis(20);

/// Calls `read` at once, after each change in the folder that holds `path`, and every `poll`,
/// until it returns false.
pub fn follow(
    path: PathBuf,
    poll: Duration,
    mut read: impl FnMut() -> bool + Send + 'static,
) -> Result<(), DiscoveryError> {
    let file = path.display().to_string();
    let body = move || {
        let (changes, _watcher) = watch(&path);
        // Read before the first wait: a change may have come before the watch was set.
        while read() {
            if wait(&changes, poll) {
                std::thread::sleep(SETTLE);
                while changes.try_recv().is_ok() {}
            }
        }
    };
    std::thread::Builder::new()
        .name("discovery".into())
        .spawn(body)
        .map(drop)
        .map_err(|error| DiscoveryError::Thread { file, reason: error.to_string() })
}

/// Whether a change came within `poll`. A channel whose watcher is gone is waited out, since a
/// loop without a pause would follow.
fn wait(changes: &Receiver<()>, poll: Duration) -> bool {
    match changes.recv_timeout(poll) {
        Ok(()) => true,
        Err(RecvTimeoutError::Timeout) => false,
        Err(RecvTimeoutError::Disconnected) => {
            std::thread::sleep(poll);
            false
        }
    }
}

fn watch(path: &Path) -> (Receiver<()>, Option<notify::RecommendedWatcher>) {
    let (sender, changes) = channel();
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let on_event = move |event: notify::Result<notify::Event>| {
        if event.is_ok_and(|event| !event.kind.is_access()) {
            // The receiver is gone only when the thread ends.
            let _ = sender.send(());
        }
    };
    let watcher = notify::recommended_watcher(on_event).and_then(|mut watcher| {
        watcher.watch(folder, RecursiveMode::NonRecursive)?;
        Ok(watcher)
    });
    match watcher {
        Ok(watcher) => (changes, Some(watcher)),
        Err(error) => {
            tracing::warn!(file = %path.display(), %error, "cannot watch, polling instead");
            (changes, None)
        }
    }
}
