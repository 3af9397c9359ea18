//! Reads configurations on a thread of its own, one at a time: a file system that hangs holds up
//! the reload and nothing else.
//!
//! Kept by `control`. What was read counts whenever it comes; that it takes long is said once.
//! Asked again meanwhile, it reads once more afterwards. It puts nothing in force.

use super::{Kept, Prepared, prepare};
use crate::config;
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

/// The text of a configuration, or why it could not be read.
pub(crate) type Text = Result<String, String>;

/// What became of a reading.
#[derive(Debug)]
pub(crate) enum Told {
    /// The file has the text still that it was asked not to take apart again.
    Same,
    /// It was read.
    Read { text: Text, prepared: Box<Result<Prepared, ConfigError>> },
    /// It takes long, or cannot begin.
    Trouble(ConfigError),
}

/// What is being read.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    running: Option<Running>,
    again: Option<Again>,
}

/// How it was asked again while it read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Again {
    /// If the text is another one than the one that was just read.
    IfChanged,
    /// In any case.
    Always,
}

#[derive(Debug)]
struct Running {
    read: oneshot::Receiver<Told>,
    /// When it has taken too long; `None` once that is told.
    late: Option<Instant>,
}

impl Reader {
    /// Begins to read, at once or behind what is being read; `old` and `kept` are what is in force.
    /// A file that has the text `unless` is not taken apart.
    pub(crate) fn start(&mut self, file: &Path, old: Arc<Table>, kept: Kept, unless: Option<Text>) {
        if self.running.is_some() {
            let always = unless.is_none() || self.again == Some(Again::Always);
            self.again = Some(if always { Again::Always } else { Again::IfChanged });
            return;
        }
        let (done, read) = oneshot::channel();
        let path = file.to_owned();
        let run = move || {
            let text = config::next_text(&path);
            drop(done.send(if Some(&text) == unless.as_ref() {
                Told::Same
            } else {
                let prepared = Box::new(prepare(&path, &text, Some(&old), &kept));
                prepared.iter().for_each(Prepared::settle);
                Told::Read { text, prepared }
            }));
        };
        // Without a thread `done` is gone, and that is told.
        let _ = std::thread::Builder::new().name("reload".into()).spawn(run);
        self.running = Some(Running { read, late: Some(Instant::now() + HANGS) });
    }

    /// What was read, or that it takes long; never returns while nothing is read.
    pub(crate) async fn next(&mut self, file: &Path) -> Told {
        let Some(Running { read, late }) = &mut self.running else { return pending().await };
        let trouble = |text: String| Told::Trouble(ConfigError::new(file, &[text]));
        let hangs = async {
            match late {
                Some(late) => tokio::time::sleep_until(*late).await,
                None => pending().await,
            }
        };
        tokio::select! {
            read = read => {
                self.running = None;
                read.unwrap_or_else(|_| trouble("the system gives no thread to read it".into()))
            }
            () = hangs => {
                *late = None;
                let seconds = HANGS.as_secs();
                trouble(format!(
                    "reading it, and what it names, takes more than {seconds} s: look at the file \
                     systems; it is taken over when it is read"
                ))
            }
        }
    }

    /// How it was asked again meanwhile, told once nothing is being read.
    pub(crate) fn behind(&mut self) -> Option<Again> {
        if self.running.is_some() {
            return None;
        }
        self.again.take()
    }
}
