//! How many connections to endpoints may be open at a time, for one purpose: each is a file, and
//! clients must find some left.
//!
//! Made by `files` from the limit of open files, asked by `upstream`. A connection holds its place
//! until its socket is closed. Who finds none waits, and connections that rest are closed for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// The right to one connection; free again when it is dropped.
pub(crate) type Place = Option<OwnedSemaphorePermit>;

/// The places of one purpose.
#[derive(Debug)]
pub(crate) struct Places {
    free: Arc<Semaphore>,
    /// Of these, what no connection may hold while it rests.
    spare: usize,
    waiting: AtomicUsize,
    claims: Notify,
}

impl Places {
    /// So many; `spare` of them are for connections that are in use.
    pub(crate) fn new(count: u64, spare: usize) -> Self {
        let most = Semaphore::MAX_PERMITS;
        let count = usize::try_from(count).map_or(most, |count| count.min(most));
        let free = Arc::new(Semaphore::new(count));
        Self { free, spare, waiting: AtomicUsize::new(0), claims: Notify::new() }
    }

    /// One, as soon as there is one.
    pub(crate) async fn take(&self) -> Place {
        let free = Arc::clone(&self.free);
        if let Ok(place) = Arc::clone(&free).try_acquire_owned() {
            return Some(place);
        }
        let _waiting = Waiting::count(&self.waiting);
        self.claim();
        // Fails only when no more are given out, which nobody ever says.
        free.acquire_owned().await.ok()
    }

    /// What rests is to be closed: its files are needed.
    pub(crate) fn claim(&self) {
        self.claims.notify_waiters();
    }

    /// Waits for that.
    pub(crate) async fn claimed(&self) {
        self.claims.notified().await;
    }

    /// Whether a connection that has nothing to do may stay open.
    pub(crate) fn may_rest(&self) -> bool {
        self.waiting.load(SeqCst) == 0 && self.free.available_permits() >= self.spare
    }
}

/// One who waits; counted until dropped.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn count(waiting: &'a AtomicUsize) -> Self {
        waiting.fetch_add(1, SeqCst);
        Self(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    #[test]
    fn who_finds_no_place_claims_one_and_gets_the_next() {
        let places = Places::new(1, 0);
        let mut context = Context::from_waker(Waker::noop());
        let Poll::Ready(first) = pin!(places.take()).poll(&mut context) else { panic!("full") };
        assert!(places.may_rest());
        let (mut claimed, mut next) = (pin!(places.claimed()), pin!(places.take()));
        assert!(claimed.as_mut().poll(&mut context).is_pending());
        assert!(next.as_mut().poll(&mut context).is_pending());
        assert!(claimed.poll(&mut context).is_ready() && !places.may_rest());
        drop(first);
        let Poll::Ready(second) = next.poll(&mut context) else { panic!("not handed on") };
        drop(second);
        assert_eq!(places.free.available_permits(), 1);
    }

    #[test]
    fn who_no_longer_waits_claims_nothing() {
        let places = Places::new(0, 0);
        let mut context = Context::from_waker(Waker::noop());
        {
            assert!(pin!(places.take()).poll(&mut context).is_pending());
        }
        assert!(places.may_rest());
    }

    #[test]
    fn spare_places_are_not_for_what_rests() {
        let places = Places::new(3, 2);
        let mut context = Context::from_waker(Waker::noop());
        let mut held = Vec::new();
        for rests in [true, false, false] {
            let Poll::Ready(place) = pin!(places.take()).poll(&mut context) else { panic!("full") };
            held.push(place);
            assert_eq!(places.may_rest(), rests);
        }
    }
}
