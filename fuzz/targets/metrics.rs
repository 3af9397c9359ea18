//! Any bytes as the page of an engine's metrics.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| llmd_router::fuzz::metrics(bytes));
