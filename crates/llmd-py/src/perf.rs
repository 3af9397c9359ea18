//! The formulas of `llmd-perf`, over facts that come as one JSON document.

use llmd_perf::Workload;
use llmd_types::ReplicaFacts;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::fmt::Display;

/// Reads facts strictly; a bad one is a `ValueError` that names its place.
fn facts_from(json: &str) -> PyResult<ReplicaFacts> {
    let mut reader = serde_json::Deserializer::from_str(json);
    let facts: ReplicaFacts = serde_path_to_error::deserialize(&mut reader).map_err(refused)?;
    reader.end().map_err(refused)?;
    facts.check().map_err(refused)?;
    Ok(facts)
}

fn refused(error: impl Display) -> PyErr {
    PyValueError::new_err(format!("replica facts: {error}"))
}

/// Reads facts and computes from them without the GIL.
fn of_facts<T: Send>(
    py: Python<'_>,
    json: &str,
    formula: impl FnOnce(&ReplicaFacts) -> T + Send,
) -> PyResult<T> {
    let facts = facts_from(json)?;
    Ok(py.detach(|| formula(&facts)))
}

/// Refuses facts that no replica can have.
#[pyfunction]
pub(crate) fn check_facts(facts_json: &str) -> PyResult<()> {
    facts_from(facts_json).map(drop)
}

/// The steady state of a replica under one kind of request.
#[pyfunction]
#[pyo3(signature = (facts_json, prompt_tokens, output_tokens, itl_us_max=None))]
pub(crate) fn capacity<'py>(
    py: Python<'py>,
    facts_json: &str,
    prompt_tokens: u32,
    output_tokens: u32,
    itl_us_max: Option<f64>,
) -> PyResult<Bound<'py, PyDict>> {
    let workload = Workload { prompt_tokens, output_tokens };
    let found = of_facts(py, facts_json, |facts| llmd_perf::capacity(facts, workload, itl_us_max))?;
    let result = PyDict::new(py);
    result.set_item("batch", found.batch)?;
    result.set_item("itl_us", found.itl_us)?;
    result.set_item("prefill_tokens_per_second", found.prefill_tokens_per_second)?;
    result.set_item("decode_tokens_per_second", found.decode_tokens_per_second)?;
    result.set_item("requests_per_second", found.requests_per_second)?;
    result.set_item("tokens_per_second", found.tokens_per_second)?;
    Ok(result)
}

/// Microseconds between two tokens of a batch.
#[pyfunction]
pub(crate) fn itl_us(
    py: Python<'_>,
    facts_json: &str,
    batch: u32,
    context_tokens: u64,
) -> PyResult<f64> {
    of_facts(py, facts_json, |facts| llmd_perf::itl_us(facts, batch, context_tokens))
}

/// Microseconds to compute prompt tokens beside a batch that decodes.
#[pyfunction]
pub(crate) fn prefill_us(
    py: Python<'_>,
    facts_json: &str,
    tokens: u64,
    past: u64,
    batch: u32,
    context_tokens: u64,
) -> PyResult<f64> {
    of_facts(py, facts_json, |facts| {
        llmd_perf::prefill_us(facts, tokens, past, batch, context_tokens)
    })
}

/// Prompt tokens a second in full chunks beside a batch that decodes.
#[pyfunction]
pub(crate) fn prefill_tokens_per_second(
    py: Python<'_>,
    facts_json: &str,
    batch: u32,
    context_tokens: u64,
) -> PyResult<f64> {
    of_facts(py, facts_json, |facts| {
        llmd_perf::prefill_tokens_per_second(facts, batch, context_tokens)
    })
}

/// Microseconds between a request's arrival and its first step.
#[pyfunction]
pub(crate) fn request_us(py: Python<'_>, facts_json: &str) -> PyResult<f64> {
    of_facts(py, facts_json, llmd_perf::request_us)
}
