//! Any bytes as an event stream, cut anywhere.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| llmd_router::fuzz::sse(bytes));
