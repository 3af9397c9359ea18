//! Any bytes as the body of a completion.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| llmd_router::fuzz::body(bytes));
