//! The simulator: a pool of simulated engines in virtual time, placed by the live scheduler.
//!
//! Called by tests and tools; `llmd-engine` uses the engine model alone, in real time. It drives
//! `llmd_sched::step` with the events that a router would make, so a simulated decision is the
//! live decision. It has no clock and no I/O: the same seed gives the same run to the bit.
//!
//! - [`engine`]: one engine; all its times come from `llmd-perf`
//! - [`workload`]: what is asked, and when
//! - [`fleet`]: the run: arrivals, picks, engines, scrapes, ends
//! - [`report`]: what came of it

pub mod engine;
pub mod fleet;
pub mod report;
pub mod workload;

pub use fleet::{Member, Scenario, run};
pub use report::{Report, Share, Trip};
pub use workload::{Arrivals, Job};
