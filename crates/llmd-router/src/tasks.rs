//! The only place where tasks are started. All are local to their thread: nothing on a
//! request's path crosses threads but the pool's mutex.

use std::future::Future;
use tokio::task::{AbortHandle, JoinSet};

/// Runs a future beside the caller, on the same thread, until it ends.
pub(crate) fn spawn(future: impl Future<Output = ()> + 'static) -> AbortHandle {
    tokio::task::spawn_local(future).abort_handle()
}

/// A task that ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Owned(AbortHandle);

impl Owned {
    pub(crate) fn spawn(future: impl Future<Output = ()> + 'static) -> Self {
        Self(spawn(future))
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Tasks that are waited for together; dropped, they end.
#[derive(Debug, Default)]
pub(crate) struct Group(JoinSet<()>);

impl Group {
    pub(crate) fn spawn(&mut self, future: impl Future<Output = ()> + 'static) {
        self.0.spawn_local(future);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Waits for one to end; never returns while there is none.
    pub(crate) async fn reap(&mut self) {
        if self.0.join_next().await.is_none() {
            std::future::pending::<()>().await;
        }
    }
}
