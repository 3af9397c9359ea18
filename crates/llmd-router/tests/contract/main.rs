//! The router in process, between raw-socket clients and scripted engines: what it promises to
//! both sides, one test for each promise.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::float_cmp,
    reason = "a test may fail loudly, and counters are whole numbers"
)]

mod accounting;
mod admin;
mod apis;
mod bodies;
mod cancel;
mod configuration;
mod drains;
mod echoes;
mod failures;
mod files;
mod floods;
mod health;
mod lifecycle;
mod load;
mod names;
mod patience;
mod process;
mod reloads;
mod requests;
mod rows;
mod shown;
mod slow;
mod smuggling;
mod sse;
mod support;
mod tls;
mod traces;
mod usage;
mod versions;
