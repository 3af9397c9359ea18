//! What a process and all that it started use: processor time, memory, descriptors.
//!
//! Read from /proc by the load, at the edges of the measured time. Threads and children that end
//! in between are lost; the processes that are measured have none such.

use serde_json::{Value, json};
use std::fs;
use std::io;
use std::time::Duration;

/// What `watch` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The process
    #[arg(long)]
    pid: u32,
    /// For how long
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
}

/// Ticks of `utime` and `stime` in a second; the kernel's ABI has it at 100.
const TICKS: f64 = 100.0;

/// Use of a process and its children.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Use {
    /// Exact, of all threads.
    cpu_ns: u64,
    user_ticks: u64,
    system_ticks: u64,
}

impl Use {
    /// Until now; `None` watches nothing.
    pub(crate) fn of(pid: Option<u32>) -> Self {
        let mut all = Self::default();
        for pid in pid.map(tree).unwrap_or_default() {
            for task in numbers(&format!("/proc/{pid}/task")) {
                all.cpu_ns += first_number(&format!("/proc/{pid}/task/{task}/schedstat"));
            }
            let stat = stat(pid);
            all.user_ticks += stat.get(11).copied().unwrap_or(0);
            all.system_ticks += stat.get(12).copied().unwrap_or(0);
        }
        all
    }

    /// What was used since `before`, for each of `count` things.
    pub(crate) fn since(self, before: Self, count: u64) -> Value {
        let cpu_s = (self.cpu_ns - before.cpu_ns) as f64 / 1e9;
        let user = (self.user_ticks - before.user_ticks) as f64 / TICKS;
        let system = (self.system_ticks - before.system_ticks) as f64 / TICKS;
        let share = if user + system > 0.0 { user / (user + system) } else { 0.0 };
        json!({
            "cpu_s": cpu_s,
            "cpu_us_each": cpu_s * 1e6 / count.max(1) as f64,
            "user_share": share,
        })
    }
}

/// Resident memory of a process and its children, in bytes. Pages that they share count twice.
pub(crate) fn rss(pid: Option<u32>) -> u64 {
    let of = |pid: u32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        line.and_then(|text| text.split_ascii_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0)
    };
    pid.map(tree).unwrap_or_default().into_iter().map(of).sum::<u64>() * 1024
}

/// Watches for some seconds.
pub(crate) async fn run(options: Options) -> io::Result<Value> {
    let pid = Some(options.pid);
    let before = Use::of(pid);
    tokio::time::sleep(Duration::from_secs_f64(options.seconds)).await;
    let mut report = Use::of(pid).since(before, 1);
    report["seconds"] = json!(options.seconds);
    report["cores"] = json!(report["cpu_s"].as_f64().unwrap_or(0.0) / options.seconds);
    report["rss_bytes"] = json!(rss(pid));
    report["descriptors"] = json!(tree(options.pid).into_iter().map(descriptors).sum::<usize>());
    Ok(report)
}

fn descriptors(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

/// The process, its children, theirs, and so on.
fn tree(root: u32) -> Vec<u32> {
    let parents: Vec<(u32, u64)> =
        numbers("/proc").into_iter().filter_map(|pid| Some((pid, *stat(pid).get(1)?))).collect();
    let mut found = vec![root];
    let mut at = 0;
    while let Some(parent) = found.get(at).copied() {
        let children = parents.iter().filter(|(_, of)| *of == u64::from(parent));
        found.extend(children.map(|(pid, _)| *pid));
        at += 1;
    }
    found
}

/// The numbers behind a process' name: its state is left out as 0, then comes its parent.
fn stat(pid: u32) -> Vec<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let behind = text.rsplit_once(')').map_or("", |(_, behind)| behind);
    behind.split_ascii_whitespace().map(|field| field.parse().unwrap_or(0)).collect()
}

fn numbers(folder: &str) -> Vec<u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn first_number(file: &str) -> u64 {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.split_ascii_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_works_uses_time_and_memory() {
        let me = Some(std::process::id());
        let before = Use::of(me);
        let mut sum = 0_u64;
        while Use::of(me).cpu_ns < before.cpu_ns + 20_000_000 {
            sum = (0..100_000).fold(sum, |sum, number| sum.wrapping_mul(31) + number);
        }
        let used = Use::of(me).since(before, 10);
        assert!(used["cpu_s"].as_f64().unwrap() >= 0.02, "{used} {sum}");
        assert!(used["cpu_us_each"].as_f64().unwrap() >= 2_000.0);
        assert!(rss(me) > 100_000);
    }

    #[test]
    fn children_count() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let all = tree(std::process::id());
        let both = rss(Some(std::process::id())) > rss(Some(child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(all.contains(&child.id()) && both, "{all:?}");
    }
}
