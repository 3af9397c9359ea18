//! A client's connection as it counts towards `limits.connections`.
//!
//! Made by `server` for each that is accepted. One that finds no room may wait: who has just ended
//! a connection and opens another is here before the end of the first has been seen.

use crate::router::Router;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// For a connection to end, until a request on one that found no room is refused: some turns of a
/// busy thread.
const PATIENCE: Duration = Duration::from_millis(100);

/// One open connection; counted until dropped.
#[derive(Debug)]
pub(super) struct Slot {
    router: Arc<Router>,
    /// How many there were, with it, when it came.
    pub(super) number: u64,
    inside: Cell<bool>,
    refused: Cell<bool>,
}

impl Slot {
    /// Of a connection that has not been let in.
    pub(super) fn new(router: &Arc<Router>) -> Self {
        let number = router.connections.fetch_add(1, Relaxed) + 1;
        let (inside, refused) = (Cell::new(false), Cell::new(false));
        Self { router: Arc::clone(router), number, inside, refused }
    }

    /// Connections that are let in.
    pub(super) fn most(&self) -> u64 {
        self.router.table().config.limits.connections().min(self.router.files.room)
    }

    /// Lets it in, if there is room.
    pub(super) fn enter(&self) -> bool {
        if !self.inside.get() {
            let most = self.most();
            let one_more = |inside| (inside < most).then_some(inside + 1);
            self.inside.set(self.router.inside.fetch_update(Relaxed, Relaxed, one_more).is_ok());
        }
        self.inside.get()
    }

    /// The same, as soon as there is room, and that is soon.
    pub(super) async fn entered(&self) -> bool {
        if self.enter() {
            return true;
        }
        let entering = async {
            while !self.enter() {
                self.router.left.notified().await;
            }
        };
        tokio::time::timeout(PATIENCE, entering).await.is_ok()
    }

    /// Its client is told that there is no room.
    pub(super) fn refuse(&self) {
        if !self.refused.replace(true) {
            self.router.metrics.connections_refused.inc();
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.router.connections.fetch_sub(1, Relaxed);
        if self.inside.get() {
            self.router.inside.fetch_sub(1, Relaxed);
            self.router.left.notify_one();
        } else {
            self.refuse();
        }
    }
}
