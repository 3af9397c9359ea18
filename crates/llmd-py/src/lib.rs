//! `llmd_ctl._native`: the hot path as Python sees it.
//!
//! Called by `llmd_ctl/perf`, `llmd_ctl/router` and `llmd_ctl/sim`, nobody else. Each function
//! converts its arguments, releases the GIL, calls one function of one crate and maps the
//! error. No logic lives here, and no request ever passes through Python.
//!
//! - `perf`: the formulas; `programs`: router and simulated engine, run until they end

use pyo3::prelude::*;

mod perf;
mod programs;

/// The module's table of contents; its types are in `llmd_ctl/_native.pyi`.
#[pymodule]
mod _native {
    #[pymodule_export]
    use crate::perf::{
        capacity, check_facts, itl_us, prefill_tokens_per_second, prefill_us, request_us,
    };
    #[pymodule_export]
    use crate::programs::{engine_main, router_main};
}
