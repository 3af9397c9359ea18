//! Time as integer microseconds, so that a decision can be repeated to the bit.
//!
//! Used by the scheduler, the simulator and the router alike; the zero point is the caller's.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::{Add, AddAssign, Sub};

/// A point in time or a span, in whole microseconds. Arithmetic saturates: time never wraps.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Micros(pub u64);

impl Micros {
    /// No time at all.
    pub const ZERO: Self = Self(0);
    /// The end of time; a sum that would pass it stays here.
    pub const MAX: Self = Self(u64::MAX);

    /// From a span in microseconds as the physics computes it: rounded to nearest, NaN and
    /// negative become 0, and what is too large becomes [`Micros::MAX`].
    pub fn from_f64(us: f64) -> Self {
        Self((us + 0.5) as u64)
    }

    /// From whole milliseconds.
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms.saturating_mul(1_000))
    }

    /// As a float, for the physics.
    pub fn as_f64(self) -> f64 {
        self.0 as f64
    }

    /// In seconds, for metrics.
    pub fn as_seconds(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// The span from `earlier` to `self`, or zero when `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }
}

impl Add for Micros {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Micros {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Micros {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        self.since(other)
    }
}

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0..=9_999 => write!(f, "{}us", self.0),
            10_000..=9_999_999 => write!(f, "{}ms", self.0 / 1_000),
            _ => write!(f, "{:.1}s", self.as_seconds()),
        }
    }
}
