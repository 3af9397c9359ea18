//! Numbers and names that must not repeat: request numbers, request ids, seeds.

use http::HeaderValue;
use llmd_types::RequestId;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A number that differs from start to start. The standard library's map seed is the one source
/// of randomness that needs no dependency.
pub(crate) fn entropy() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Gives each request a number and, where the client gave none, a name.
#[derive(Debug)]
pub(crate) struct Ids {
    next: AtomicU64,
    process: u64,
}

impl Default for Ids {
    fn default() -> Self {
        Self { next: AtomicU64::new(1), process: entropy() }
    }
}

impl Ids {
    /// The next request's number.
    pub(crate) fn number(&self) -> RequestId {
        RequestId(self.next.fetch_add(1, Relaxed))
    }

    /// A name for it, unique among all routers.
    pub(crate) fn name(&self, number: RequestId) -> HeaderValue {
        let mut name = Vec::with_capacity(37);
        name.extend_from_slice(b"llmd-");
        hex(&mut name, &self.process.to_be_bytes());
        hex(&mut name, &number.0.to_be_bytes());
        HeaderValue::try_from(name).unwrap_or_else(|_| HeaderValue::from_static("llmd"))
    }
}

/// Appends bytes as hexadecimal digits.
pub(crate) fn hex(text: &mut Vec<u8>, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in bytes {
        text.push(DIGITS[usize::from(byte >> 4)]);
        text.push(DIGITS[usize::from(byte & 15)]);
    }
}
