//! What an endpoint says of its own load. It is always old by some time: see `at`.
//!
//! Written by the router's scraper and the simulator, read by the scheduler. Our own exact
//! counts are kept apart from it (`llmd-sched`), under names that start with `inflight_`.

use crate::Micros;

/// One reading of an endpoint's metrics. `None` is a signal that the engine did not give:
/// it is never read as zero.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ReportedLoad {
    /// When the reading was taken.
    pub at: Micros,
    /// Requests in the running batch.
    pub running: Option<u32>,
    /// Requests that wait to enter it.
    pub waiting: Option<u32>,
    /// Share of the KV space in use, 0 to 1.
    pub kv_usage: Option<f64>,
}
