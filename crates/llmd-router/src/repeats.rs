//! Lines of the log that would come with every request while something is wrong: the first of a
//! kind is written, those that follow within some seconds are counted and told in one line.
//!
//! Kept by `router`, asked by whoever has such a line. None is lost silently: a count is told as
//! soon as its time is over, and at the router's end.

use crate::router::Router;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long lines of one kind are counted before they are told.
const WINDOW: Duration = Duration::from_secs(10);
/// How often it is looked for counts whose time is over.
const LOOK: Duration = Duration::from_secs(1);

/// What makes two lines alike. All of it comes from the code and the configuration: there are only
/// so many kinds.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Kind {
    /// What the lines say.
    pub(crate) line: &'static str,
    /// The error's short name.
    pub(crate) error: &'static str,
    /// The model; empty where it is about none.
    pub(crate) model: String,
    /// The endpoint; empty where it is about none.
    pub(crate) endpoint: String,
}

#[derive(Debug)]
struct Seen {
    since: Instant,
    more: u64,
}

/// The kinds of late.
#[derive(Debug, Default)]
pub(crate) struct Repeats(Mutex<BTreeMap<Kind, Seen>>);

impl Repeats {
    /// Whether a line of this kind is to be written now; else it is counted.
    pub(crate) fn is_first(&self, kind: &Kind) -> bool {
        self.is_first_at(kind, Instant::now())
    }

    fn is_first_at(&self, kind: &Kind, now: Instant) -> bool {
        let mut kinds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(seen) = kinds.get_mut(kind) {
            seen.more += 1;
            return false;
        }
        kinds.insert(kind.clone(), Seen { since: now, more: 0 });
        true
    }

    /// The counts whose time is over. What goes on is counted on; what is quiet is forgotten.
    fn due(&self, now: Instant, window: Duration) -> Vec<(Kind, u64)> {
        let mut due = Vec::new();
        let mut kinds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kinds.retain(|kind, seen| {
            if now.duration_since(seen.since) < window {
                return true;
            }
            let more = std::mem::take(&mut seen.more);
            seen.since = now;
            if more > 0 {
                due.push((kind.clone(), more));
            }
            more > 0
        });
        due
    }

    /// Tells what was counted, at the router's end: nothing more will come.
    pub(crate) fn tell_all(&self) {
        tell(&self.due(Instant::now(), Duration::ZERO));
    }
}

fn tell(counts: &[(Kind, u64)]) {
    for (Kind { line, error, model, endpoint }, more) in counts {
        let seconds = WINDOW.as_secs();
        tracing::warn!(
            model = said(model),
            endpoint = said(endpoint),
            error = said(error),
            "{line}: and {more} more in the last {seconds} s"
        );
    }
}

/// What a kind is not about is no field of its line.
fn said(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

/// Tells counts as their time is over, until aborted.
pub(crate) async fn follow(router: Arc<Router>) {
    loop {
        tokio::time::sleep(LOOK).await;
        tell(&router.repeats.due(Instant::now(), WINDOW));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_flood_the_first_is_written_and_all_others_are_counted() {
        let (repeats, start) = (Repeats::default(), Instant::now());
        let kind = |endpoint: &str| Kind { endpoint: endpoint.into(), ..Kind::default() };
        let (one, other) = (kind("one"), kind("other"));
        assert!(repeats.is_first_at(&one, start) && repeats.is_first_at(&other, start));
        let at = |millis| start + Duration::from_millis(millis);
        for millis in 1..=9_999 {
            assert!(!repeats.is_first_at(&one, at(millis)));
            assert_eq!(repeats.due(at(millis), WINDOW), []);
        }
        assert_eq!(repeats.due(at(10_000), WINDOW), [(one.clone(), 9_999)]);
        assert!(repeats.is_first_at(&other, at(10_001)), "it was quiet, and is forgotten");
        assert!(!repeats.is_first_at(&one, at(10_001)), "it goes on");
        assert_eq!(repeats.due(at(20_000), WINDOW), [(one.clone(), 1)]);
        assert_eq!(repeats.due(at(30_001), WINDOW), []);
        assert!(repeats.0.lock().unwrap().is_empty(), "nothing stays");
        assert!(repeats.is_first_at(&one, at(40_000)) && !repeats.is_first_at(&one, at(40_001)));
        assert_eq!(repeats.due(at(40_002), Duration::ZERO), [(one, 1)], "told at the end");
    }
}
