//! Log lines on standard error, for people or as JSON. No line holds a prompt.
//!
//! `command` starts and ends it. A thread of its own writes: neither a full disk nor a pipe that
//! nobody reads may stop a request. What cannot wait is dropped, and a line says how many were.

use clap::ValueEnum;
use std::io::{self, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;
use tracing_subscriber::EnvFilter;

/// Lines that may wait to be written; some 200 bytes each.
const WAITING: usize = 4_096;
/// For the last lines to be written when the program ends.
const LAST: Duration = Duration::from_secs(1);

static QUEUE: OnceLock<SyncSender<Item>> = OnceLock::new();
static DROPPED: AtomicU64 = AtomicU64::new(0);

/// What waits for the thread that writes.
#[derive(Debug)]
enum Item {
    Line(Vec<u8>),
    /// All before it is written.
    Mark(SyncSender<()>),
}

/// How a line looks.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Text,
    /// One object a line.
    Json,
}

/// Without another wish. What a name server sends that is no answer is told once, by us.
const LEVELS: &str = "info,hickory=off";

/// Starts logging; the level comes from `LLMD_LOG`, "info" without it. A second start in one
/// process (the wheel's) changes nothing.
pub(crate) fn start(format: Format) {
    let (queue, items) = sync_channel(WAITING);
    if QUEUE.set(queue).is_err() {
        return;
    }
    // Without the thread every line is dropped; what follows will not get its threads either.
    let _ = std::thread::Builder::new().name("log".into()).spawn(move || write(&items));
    let level = EnvFilter::try_from_env("LLMD_LOG").unwrap_or_else(|_| EnvFilter::new(LEVELS));
    let lines = tracing_subscriber::fmt().with_writer(|| Waiting).with_env_filter(level);
    let _ = match format {
        Format::Text => lines.with_ansi(false).try_init(),
        Format::Json => lines.json().try_init(),
    };
}

/// Waits for what was logged to be written, unless that is stuck.
pub(crate) fn end() {
    let (mark, written) = sync_channel(1);
    if QUEUE.get().is_some_and(|queue| queue.try_send(Item::Mark(mark)).is_ok()) {
        let _ = written.recv_timeout(LAST);
    }
}

/// Takes each line as a whole, and never waits.
struct Waiting;

impl Write for Waiting {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let item = Item::Line(line.to_vec());
        if QUEUE.get().is_none_or(|queue| queue.try_send(item).is_err()) {
            DROPPED.fetch_add(1, Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn write(items: &Receiver<Item>) {
    while let Ok(first) = items.recv() {
        for item in std::iter::once(first).chain(items.try_iter()) {
            match item {
                Item::Line(line) => {
                    // There is no other place to say that this one cannot be written to.
                    let _ = io::stderr().write_all(&line);
                }
                Item::Mark(mark) => {
                    let _ = mark.send(());
                }
            }
        }
        // Told when nothing waits any more: this line needs room too.
        let dropped = DROPPED.swap(0, Relaxed);
        if dropped > 0 {
            tracing::warn!(lines = dropped, "log lines were dropped: they came too fast");
        }
    }
}
