//! What the system says of this process, under the names that every Prometheus client uses.
//!
//! Called by `metrics` when a page is asked for; reads `/proc` and keeps nothing. A number that
//! the system does not tell is left out: an absent signal is not zero.

use std::fmt::Write as _;
use std::fs;

/// Of the times in `/proc`, a second: fixed by Linux for all programs (`USER_HZ`).
const TICKS: f64 = 100.0;

/// Name, type, help and value of one number.
type Sample = (&'static str, &'static str, &'static str, Option<f64>);

/// The numbers, in Prometheus' text format.
pub(crate) fn page() -> String {
    let read = |name: &str| fs::read_to_string(format!("/proc/{name}")).unwrap_or_default();
    let (stat, status, limits) = (read("self/stat"), read("self/status"), read("self/limits"));
    let open = fs::read_dir("/proc/self/fd").ok().map(|entries| entries.count() as f64);
    write(&[
        (
            "process_cpu_seconds_total",
            "counter",
            "Processor time, of the system's part too",
            cpu_seconds(&stat),
        ),
        ("process_resident_memory_bytes", "gauge", "Memory in use", resident_bytes(&status)),
        ("process_open_fds", "gauge", "File descriptors in use", open),
        ("process_max_fds", "gauge", "File descriptors that may be in use", most_open(&limits)),
        (
            "process_start_time_seconds",
            "gauge",
            "When the process began, in seconds since 1970",
            began(&stat, &read("stat")),
        ),
    ])
}

fn write(samples: &[Sample]) -> String {
    let mut text = String::new();
    for (name, kind, help, value) in samples {
        if let Some(value) = value {
            // Writing to a String cannot fail.
            let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}\n");
        }
    }
    text
}

/// A field of `/proc/self/stat` by its number in proc(5), which counts from 1. The name, in
/// brackets, may hold spaces and brackets itself: fields start behind the last.
fn field(stat: &str, number: usize) -> Option<f64> {
    let behind_name = stat.rsplit_once(')')?.1;
    behind_name.split_ascii_whitespace().nth(number - 3)?.parse().ok()
}

fn cpu_seconds(stat: &str) -> Option<f64> {
    Some((field(stat, 14)? + field(stat, 15)?) / TICKS)
}

fn began(stat: &str, system: &str) -> Option<f64> {
    let boot: f64 = system.lines().find_map(|line| line.strip_prefix("btime "))?.parse().ok()?;
    Some(boot + field(stat, 22)? / TICKS)
}

fn resident_bytes(status: &str) -> Option<f64> {
    let value = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: f64 = value.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kilobytes * 1024.0)
}

/// The soft limit; without one there is nothing to tell.
fn most_open(limits: &str) -> Option<f64> {
    let values = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    values.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "7 (a )b) S 1 7 7 0 -1 0 0 0 0 0 150 50 0 0 20 0 4 0 1000 0 0";

    #[test]
    fn numbers_are_read_as_proc_writes_them() {
        assert_eq!(cpu_seconds(STAT), Some(2.0));
        assert_eq!(began(STAT, "cpu 1 2\nbtime 1700000000\n"), Some(1_700_000_010.0));
        assert_eq!(resident_bytes("VmHWM:\t  9 kB\nVmRSS:\t    2048 kB\n"), Some(2_097_152.0));
        assert_eq!(most_open("Max open files            1024    4096    files\n"), Some(1024.0));
    }

    #[test]
    fn what_is_not_told_is_left_out() {
        assert_eq!(cpu_seconds(""), None);
        assert_eq!(began(STAT, ""), None);
        assert_eq!(most_open("Max open files   unlimited   unlimited   files\n"), None);
        assert_eq!(write(&[("a", "gauge", "b", None)]), "");
    }

    #[test]
    fn this_process_has_all_of_them() {
        let page = page();
        for name in ["cpu_seconds_total", "resident_memory_bytes", "open_fds", "max_fds"] {
            assert!(page.contains(&format!("\nprocess_{name} ")), "{name} in {page}");
        }
        assert!(page.contains("\nprocess_start_time_seconds 1"), "{page}");
    }
}
