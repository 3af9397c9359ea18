//! One pass over a metrics page, piece by piece as it arrives.
//!
//! Used by `scrape` for each reading. Nothing is copied but a line that two pieces share, and
//! reading stops paying attention when everything that is wanted was seen. What a page does not
//! tell, or tells in a way that cannot be true, stays `None`: it is never read as zero.
//!
//! Samples of a metric are added, whatever their labels: several ranks, and several models,
//! behind one address share its accelerators, so all of their requests are in a new one's way.
//! Of KV spaces the fullest counts.

use super::names::{ENGINES, Engine, Metric, Signal};
use llmd_types::{Micros, ReportedLoad};
use smallvec::SmallVec;

/// Longest line that is read; the longest of a real page (vLLM's `cache_config_info`) has 1 kB.
const LINE_MAX: usize = 8 << 10;

/// A page that is being read.
#[derive(Debug, Default)]
pub(super) struct Page {
    /// The beginning of a line whose end has not come yet.
    line: Vec<u8>,
    /// The line is longer than any that is read: its rest is left out.
    overlong: bool,
    /// The engine whose names were found, by its place in the table.
    engine: Option<usize>,
    sums: [Option<Sum>; 3],
    done: bool,
}

/// The samples of one signal.
#[derive(Debug)]
struct Sum {
    name: &'static [u8],
    /// By rank where an engine has copies, else one for each sample. `None`: a sample that
    /// cannot be true, and without it there is no sum.
    parts: Option<SmallVec<[(u32, f64); 4]>>,
}

/// What a page told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Told {
    /// The load; a signal that was not told is `None`.
    pub(super) load: ReportedLoad,
    /// The first signal whose samples cannot be true.
    pub(super) garbled: Option<&'static str>,
}

impl Page {
    /// The next bytes of it.
    pub(super) fn feed(&mut self, mut bytes: &[u8]) {
        if self.done {
            return;
        }
        if !self.line.is_empty() || self.overlong {
            let Some(end) = memchr::memchr(b'\n', bytes) else { return self.keep(bytes) };
            self.keep(&bytes[..end]);
            bytes = &bytes[end + 1..];
            let line = std::mem::take(&mut self.line);
            if !std::mem::take(&mut self.overlong) {
                self.read(&line);
            }
        }
        while let Some(end) = memchr::memchr(b'\n', bytes) {
            if self.done {
                return;
            }
            self.read(&bytes[..end]);
            bytes = &bytes[end + 1..];
        }
        self.keep(bytes);
    }

    fn keep(&mut self, bytes: &[u8]) {
        if self.overlong || self.line.len() + bytes.len() > LINE_MAX {
            self.line.clear();
            self.overlong = true;
        } else {
            self.line.extend_from_slice(bytes);
        }
    }

    /// All of it came; `None` when no engine's names were on it. A last line without its end may
    /// be cut in the middle of a number, so it is not read.
    pub(super) fn end(self, at: Micros) -> Option<Told> {
        self.engine?;
        let mut garbled = None;
        let [running, waiting, kv_usage] =
            [Signal::Running, Signal::Waiting, Signal::KvUsage].map(|signal| {
                let sum = self.sums[signal as usize].as_ref()?;
                let value = sum.value(signal);
                if value.is_none() {
                    garbled = garbled.or(std::str::from_utf8(sum.name).ok());
                }
                value
            });
        let whole = |value: Option<f64>| value.map(|value| value as u32);
        let load = ReportedLoad { at, running: whole(running), waiting: whole(waiting), kv_usage };
        Some(Told { load, garbled })
    }

    /// One line, without its end.
    fn read(&mut self, line: &[u8]) {
        if matches!(line.first(), None | Some(b'#')) {
            return;
        }
        let Some(end) = memchr::memchr2(b'{', b' ', line) else { return };
        let (name, rest) = line.split_at(end);
        let Some((place, engine, metric)) = find(name, rest, self.engine) else {
            // Samples of one metric stand together: behind the last wanted one comes no other.
            self.done = self.sums.iter().all(Option::is_some);
            return;
        };
        if self.engine.is_none_or(|known| place < known) {
            self.engine = Some(place);
            self.sums = Default::default();
        }
        self.add(engine, metric, rest);
    }

    fn add(&mut self, engine: &Engine, metric: &Metric, rest: &[u8]) {
        let slot = &mut self.sums[metric.signal as usize];
        let sum =
            slot.get_or_insert_with(|| Sum { name: metric.name, parts: Some(SmallVec::new()) });
        if sum.name != metric.name {
            return;
        }
        let Some(value) = value(rest) else {
            sum.parts = None;
            return;
        };
        let Some(parts) = &mut sum.parts else { return };
        match engine.rank.map(|label| rank(rest, label)) {
            Some(rank) if let Some(known) = parts.iter_mut().find(|(at, _)| *at == rank) => {
                known.1 = known.1.max(value);
            }
            rank => parts.push((rank.unwrap_or(0), value)),
        }
    }
}

impl Sum {
    /// `None` when it cannot be true.
    fn value(&self, signal: Signal) -> Option<f64> {
        let values = self.parts.as_ref()?.iter().map(|(_, value)| *value);
        let (value, most) = match signal {
            Signal::Running | Signal::Waiting => (values.sum::<f64>(), f64::from(u32::MAX)),
            Signal::KvUsage => (values.fold(0.0, f64::max), 1.0),
        };
        (value <= most).then_some(value)
    }
}

/// The metric that a sample belongs to, with its engine; one of a later engine than `known` is
/// of no interest any more.
fn find(
    name: &[u8],
    rest: &[u8],
    known: Option<usize>,
) -> Option<(usize, &'static Engine, &'static Metric)> {
    let engines = ENGINES.iter().enumerate().take(known.map_or(ENGINES.len(), |at| at + 1));
    for (place, engine) in engines {
        let mut named = engine.metrics.iter().filter(|metric| metric.name == name);
        let fits = |metric: &&Metric| {
            metric.only.is_none_or(|only| memchr::memmem::find(rest, only).is_some())
        };
        if let Some(metric) = named.find(fits) {
            return Some((place, engine, metric));
        }
    }
    None
}

/// The value of a sample: what stands behind its labels. Label values may hold spaces and
/// braces; a value holds neither.
fn value(rest: &[u8]) -> Option<f64> {
    let behind = memchr::memrchr(b'}', rest).map_or(rest, |end| &rest[end + 1..]);
    let text = std::str::from_utf8(behind).ok()?;
    let value: f64 = text.split_ascii_whitespace().next()?.parse().ok()?;
    (value.is_finite() && value >= 0.0).then_some(value)
}

/// The number in a sample's rank label; 0 without one.
fn rank(rest: &[u8], label: &[u8]) -> u32 {
    let Some(at) = memchr::memmem::find(rest, label) else { return 0 };
    let digits = rest[at + label.len()..].iter().take_while(|byte| byte.is_ascii_digit());
    digits
        .fold(0, |number: u32, digit| number.wrapping_mul(10).wrapping_add(u32::from(digit - b'0')))
}

#[cfg(test)]
mod tests;
