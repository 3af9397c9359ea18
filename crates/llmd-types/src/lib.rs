//! Facts and names that every part of the hot path shares.
//!
//! Called by all other crates; depends on serde and nothing else. It never computes
//! (formulas are in `llmd-perf`), never decides (`llmd-sched`) and never does I/O.
//!
//! - `facts`: what one replica can do, as the planner knows it
//! - `load`: what an endpoint reports of itself
//! - `request`: what a scheduler needs to know of a request
//! - `time`: integer microseconds

mod facts;
mod load;
mod request;
mod time;

pub use facts::{Confidence, FactsError, ReplicaFacts};
pub use load::ReportedLoad;
pub use request::{Objective, Outcome, Phase, RequestId, Slo, Usage};
pub use time::Micros;
