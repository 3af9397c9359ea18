//! Who is connected to the admin port, and who makes room when it is full.
//!
//! Kept by `admin`. Of clients without a request the one that has rested longest goes: whoever
//! holds connections and says nothing locks nobody out. A request in hand is never cut for it.

use crate::wire::Line;
use std::cell::RefCell;
use std::rc::Rc;
use tokio::sync::Notify;

/// All clients of the port.
#[derive(Debug, Default)]
pub(super) struct Guests(Rc<RefCell<Vec<Rc<Seat>>>>);

#[derive(Debug, Default)]
struct Seat {
    line: Line,
    leave: Notify,
}

/// One client; its seat is free again when this is dropped.
#[derive(Debug)]
pub(super) struct Guest {
    seat: Rc<Seat>,
    all: Rc<RefCell<Vec<Rc<Seat>>>>,
}

/// How a client was let in.
#[derive(Debug)]
pub(super) enum Entry {
    /// There was a seat.
    Free(Guest),
    /// Another one leaves for it.
    Instead(Guest),
    /// All others have a request in hand.
    Full,
}

impl Guests {
    /// One more client, of so many at most.
    pub(super) fn admit(&self, most: usize) -> Entry {
        let mut seats = self.0.borrow_mut();
        let full = seats.len() >= most;
        if full {
            let resting = seats.iter().enumerate();
            let resting = resting.filter_map(|(at, seat)| Some((seat.line.rests_since()?, at)));
            let Some((_, longest)) = resting.min() else { return Entry::Full };
            seats.remove(longest).leave.notify_one();
        }
        let seat = Rc::<Seat>::default();
        seats.push(Rc::clone(&seat));
        let guest = Guest { seat, all: Rc::clone(&self.0) };
        if full { Entry::Instead(guest) } else { Entry::Free(guest) }
    }
}

impl Guest {
    /// Its requests.
    pub(super) fn line(&self) -> &Line {
        &self.seat.line
    }

    /// Waits until another one needs the seat.
    pub(super) async fn dismissed(&self) {
        self.seat.leave.notified().await;
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.all.borrow_mut().retain(|seat| !Rc::ptr_eq(seat, &self.seat));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::{Context, Waker};

    fn goes(guest: &Guest) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        pin!(guest.dismissed()).poll(&mut context).is_ready()
    }

    #[test]
    fn who_rested_longest_makes_room_and_a_request_in_hand_never_does() {
        let guests = Guests::default();
        let free = |entry| if let Entry::Free(guest) = entry { guest } else { panic!("full") };
        let [busy, waits, done] = [(); 3].map(|()| free(guests.admit(3)));
        let (_running, _) = busy.line().begin();
        drop(waits.line().begin());
        drop(done.line().begin());
        let Entry::Instead(_last) = guests.admit(3) else { panic!("nobody went") };
        assert_eq!([goes(&busy), goes(&waits), goes(&done)], [false, true, false]);
        let Entry::Instead(next) = guests.admit(3) else { panic!("nobody went") };
        assert!(goes(&done) && !goes(&busy));
        let held: Vec<_> = guests.0.borrow().iter().map(|seat| seat.line.begin()).collect();
        assert!(matches!(guests.admit(3), Entry::Full));
        drop(held);
        drop(next);
        drop(free(guests.admit(3)));
        assert_eq!(guests.0.borrow().len(), 2);
    }
}
