//! What a request needs of the thread and the connection that it is on.

use crate::router::Router;
use crate::upstream::Upstream;
use std::rc::Rc;
use std::sync::Arc;
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

/// Closes a client's connection behind the answer that is being sent on it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Closer(Rc<Notify>);

impl Closer {
    /// Close it.
    pub(crate) fn close(&self) {
        self.0.notify_one();
    }

    /// Waits for that.
    pub(crate) async fn closed(&self) {
        self.0.notified().await;
    }
}
