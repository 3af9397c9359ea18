//! How long things take on one replica: the only place where a speed formula stands.
//!
//! Called by the scheduler (live and simulated), by the simulated engine, and by the planner
//! through `llmd-py`. Pure: no clock, no I/O, no state. Floats are combined with
//! + - x / min max alone (no libm), so that results are equal to the bit everywhere.
//!
//! The physics is a roofline for each engine step, the terms common to the published
//! simulators of this field (Vidur, BLIS and the like): fixed cost, weight read against
//! matrix multiplication, KV read, prefill attention. What the numbers are is the profiles'
//! business (`ReplicaFacts`); `speed` divides every time, which is how simulation is slowed.
//!
//! - `step`: one engine step
//! - `service`: a request's prefill and decode, built on steps
//! - `capacity`: the steady state of a replica under one workload

mod capacity;
mod service;
mod step;

pub use capacity::{Capacity, Workload, capacity};
pub use service::{itl_us, prefill_tokens_per_second, prefill_us, request_us};
pub use step::{Step, step_us};

#[cfg(test)]
mod tests;
