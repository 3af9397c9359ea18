//! The programs of the hot path, so that `pip install` brings them along.

use pyo3::prelude::*;
use std::ffi::OsString;

/// Runs the simulated engine until it ends; `argv` is what follows the program's name. It
/// handles SIGTERM and SIGINT itself. Returns the exit code.
#[pyfunction]
pub(crate) fn engine_main(py: Python<'_>, argv: Vec<OsString>) -> i32 {
    py.detach(|| llmd_engine::engine_main(argv))
}

/// Runs the router until it ends; as `engine_main`.
#[pyfunction]
pub(crate) fn router_main(py: Python<'_>, argv: Vec<OsString>) -> i32 {
    py.detach(|| llmd_router::router_main(argv))
}
