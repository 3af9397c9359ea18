//! The parser of `endpoints.yaml` as a fuzzer reaches it. Never called by the router.

#![allow(clippy::missing_panics_doc, reason = "to panic is how it reports")]

use crate::sources::parse_file;
use std::collections::HashSet;

/// Any bytes as `endpoints.yaml`: every endpoint that comes out can be connected to and named.
pub fn endpoints(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match parse_file(text) {
        Err(reason) => assert!(!reason.is_empty()),
        Ok(reading) => {
            let names: HashSet<&str> = reading.endpoints.iter().map(|e| e.name.as_str()).collect();
            assert_eq!(names.len(), reading.endpoints.len(), "a name is there twice");
            for endpoint in &reading.endpoints {
                assert!(!endpoint.name.is_empty() && endpoint.port > 0, "{endpoint:?}");
                assert!(!endpoint.address.is_empty(), "{endpoint:?}");
            }
        }
    }
}
