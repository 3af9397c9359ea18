//! Reads configurations on a thread of its own, one at a time: a file system that hangs holds up
//! the reload and nothing else.
//!
//! Kept by `control`. What was read counts whenever it comes; that it takes long is said once.
//! Asked again meanwhile, it reads once more afterwards. It puts nothing in force.

use super::{Kept, Prepared, prepare};
use crate::error::ConfigError;
use crate::router::Table;
use std::future::pending;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// A reading that takes longer is told of.
const HANGS: Duration = Duration::from_secs(10);

type Read = Result<Prepared, ConfigError>;

/// What is being read.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    running: Option<Running>,
    again: bool,
}

#[derive(Debug)]
struct Running {
    read: oneshot::Receiver<Read>,
    /// When it has taken too long; `None` once that is told.
    late: Option<Instant>,
}

impl Reader {
    /// Begins to read, at once or behind what is being read; `old` and `kept` are what is in force.
    pub(crate) fn start(&mut self, file: &Path, old: Arc<Table>, kept: Kept) {
        self.again = self.running.is_some();
        if self.again {
            return;
        }
        let (done, read) = oneshot::channel();
        let path = file.to_owned();
        let run = move || drop(done.send(prepare(&path, Some(&old), &kept)));
        // Without a thread `done` is gone, and that is told.
        let _ = std::thread::Builder::new().name("reload".into()).spawn(run);
        self.running = Some(Running { read, late: Some(Instant::now() + HANGS) });
    }

    /// What was read, or that it takes long; never returns while nothing is read.
    pub(crate) async fn next(&mut self, file: &Path) -> Read {
        let Some(Running { read, late }) = &mut self.running else { return pending().await };
        let problem = |text: String| {
            Err(ConfigError { file: file.into(), problems: vec![text], needs_restart: false })
        };
        let hangs = async {
            match late {
                Some(late) => tokio::time::sleep_until(*late).await,
                None => pending().await,
            }
        };
        tokio::select! {
            read = read => {
                self.running = None;
                read.unwrap_or_else(|_| problem("the system gives no thread to read it".into()))
            }
            () = hangs => {
                *late = None;
                let seconds = HANGS.as_secs();
                problem(format!(
                    "reading it, and what it names, takes more than {seconds} s: look at the file \
                     systems; it is taken over when it is read"
                ))
            }
        }
    }

    /// Whether it was asked again meanwhile, and nothing is being read.
    pub(crate) fn is_behind(&self) -> bool {
        self.again && self.running.is_none()
    }
}
