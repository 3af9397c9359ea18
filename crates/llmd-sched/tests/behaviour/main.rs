//! What the scheduler does, seen from outside: events in, actions and status out.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod accounting;
mod budget;
mod eligibility;
mod expected_finish;
mod health;
mod learning;
mod prefixes;
mod schedulers;
mod told;
mod world;
