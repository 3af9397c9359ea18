//! The simulated engine over real sockets: its API, its times, and every way a request can end.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test's helpers may fail loudly")]

mod api;
mod ending;
mod fixture;
mod parameters;
mod program;
mod timing;
