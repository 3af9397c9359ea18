//! Any text as `router.yaml`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| llmd_router::fuzz::config(bytes));
