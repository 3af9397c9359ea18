//! Any bytes on a client's connection.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| llmd_router::fuzz::head(bytes));
