//! What is wrong with an endpoint's metrics now: for status, and for one line of the log when it
//! begins and one when it is over.
//!
//! Kept by each endpoint, told by `scrape` after each reading. A page that fails now and then is
//! one trouble: it is over only after some readings in a row that were good.

use super::PATHS;
use super::page::Told;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Good readings in a row that end a trouble: a second at the usual interval.
const GOOD: u32 = 5;

/// Why a reading told nothing, or not all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// No connection came about.
    Unreachable,
    /// The router may open no more files.
    NoFiles,
    /// The whole page did not come in this time.
    Late(Duration),
    /// The connection was lost, or what came was no HTTP.
    Broken,
    /// The answer had this status.
    Status(u16),
    /// The page is longer than any that is read.
    TooLong,
    /// No engine's names are on the page.
    Unknown,
    /// A metric has a value that cannot be true.
    Garbled(&'static str),
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable => write!(f, "no connection came about"),
            Self::NoFiles => write!(f, "the router may open no more files"),
            Self::Late(limit) => write!(f, "no whole page came within {} ms", limit.as_millis()),
            Self::Broken => write!(f, "the answer broke off"),
            Self::Status(status) => write!(f, "the answer was {status}"),
            Self::TooLong => write!(f, "the page is too long"),
            Self::Unknown => write!(f, "no engine's load is on the page"),
            Self::Garbled(name) => write!(f, "`{name}` has a value that cannot be true"),
        }
    }
}

impl Told {
    /// Whether all of it can be used.
    pub(super) fn usable(self) -> Result<(), Why> {
        self.garbled.map_or(Ok(()), |name| Err(Why::Garbled(name)))
    }
}

/// An endpoint's trouble with its metrics.
#[derive(Debug, Default)]
pub(crate) struct Trouble(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    why: Option<Why>,
    good: u32,
    place: usize,
    /// What the first place said while the others are tried.
    elsewhere: Option<Why>,
}

impl Trouble {
    /// In words; `None` when all is well.
    pub(crate) fn text(&self) -> Option<String> {
        self.lock().why.map(|why| format!("metrics cannot be used: {why}"))
    }

    /// Which of the places of a page is asked next.
    pub(super) fn place(&self) -> usize {
        self.lock().place
    }

    /// What came of a reading.
    pub(super) fn note(&self, model: &str, endpoint: &str, reading: Result<(), Why>) {
        let mut state = self.lock();
        let Err(mut why) = reading else {
            state.good = state.good.saturating_add(1);
            if state.good >= GOOD && state.why.take().is_some() {
                tracing::info!(model, endpoint, "metrics can be used again");
            }
            return;
        };
        state.good = 0;
        if matches!(why, Why::Unknown | Why::Status(404)) {
            state.place = (state.place + 1) % PATHS.len();
            if state.place != 0 {
                state.elsewhere = Some(why);
                return;
            }
            // Where it should be tells more than where it might have been.
            why = state.elsewhere.take().unwrap_or(why);
        }
        if state.why.replace(why).is_none() {
            tracing::warn!(model, endpoint, %why, "metrics cannot be used");
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trouble_is_over_after_some_good_readings_in_a_row() {
        let trouble = Trouble::default();
        let note = |reading| trouble.note("m", "e", reading);
        assert_eq!(trouble.text(), None);
        note(Err(Why::Status(500)));
        assert!(trouble.text().unwrap().contains("500"));
        for _ in 0..GOOD - 1 {
            note(Ok(()));
        }
        note(Err(Why::Garbled("x")));
        for _ in 0..GOOD - 1 {
            note(Ok(()));
        }
        assert!(trouble.text().unwrap().contains("`x`"), "one more good reading is wanted");
        note(Ok(()));
        assert_eq!(trouble.text(), None);
    }

    #[test]
    fn a_page_that_is_not_there_is_looked_for_elsewhere_before_it_is_a_trouble() {
        for (why, moved) in
            [(Why::Status(404), true), (Why::Unknown, true), (Why::Status(500), false)]
        {
            let trouble = Trouble::default();
            trouble.note("m", "e", Err(why));
            assert_eq!((trouble.place() != 0, trouble.text().is_none()), (moved, moved), "{why}");
            trouble.note("m", "e", Err(why));
            assert!(trouble.text().is_some(), "{why}");
        }
    }
}
