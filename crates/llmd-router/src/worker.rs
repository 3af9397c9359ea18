//! What a request needs of the thread and the connection that it is on.

use crate::router::Router;
use crate::upstream::Upstream;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::Notify;

/// Handed to every request of one connection.
#[derive(Clone, Debug)]
pub(crate) struct Worker {
    /// Shared by all threads.
    pub(crate) router: Arc<Router>,
    /// This thread's connections to endpoints.
    pub(crate) upstream: Rc<Upstream>,
    /// Ends this connection.
    pub(crate) closer: Closer,
}

impl Worker {
    /// For a new connection on the same thread.
    pub(crate) fn new(router: &Arc<Router>, upstream: &Rc<Upstream>) -> Self {
        let (router, upstream) = (Arc::clone(router), Rc::clone(upstream));
        Self { router, upstream, closer: Closer::default() }
    }
}

/// Closes a client's connection behind the answer that is being sent on it, or in its middle.
#[derive(Clone, Debug, Default)]
pub(crate) struct Closer(Rc<Ends>);

#[derive(Debug, Default)]
struct Ends {
    close: Notify,
    cut: Cell<Option<Instant>>,
}

impl Closer {
    /// Close it.
    pub(crate) fn close(&self) {
        self.0.close.notify_one();
    }

    /// Waits for that.
    pub(crate) async fn closed(&self) {
        self.0.close.notified().await;
    }

    /// The time of the answer that is passing by ends then: the connection is cut if the client
    /// lets it wait. `None` when none is passing any more.
    pub(crate) fn cut_at(&self, end: Option<Instant>) {
        self.0.cut.set(end);
    }

    /// See [`Self::cut_at`].
    pub(crate) fn cut(&self) -> Option<Instant> {
        self.0.cut.get()
    }
}
