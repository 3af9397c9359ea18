//! How many files the process may have open: every connection is one.
//!
//! `command` raises the limit at the start, `router` keeps what is derived from it, and `upstream`
//! asks whether a connection failed for want of a file, which is no endpoint's fault. What the
//! router opens by itself, to read metrics and to check, can never take the files of its clients.

use crate::admin;
use crate::config::Limits;
use crate::places::Places;
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit, setrlimit};
use std::fs::File;
use std::io;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// Connections beyond the limit that are told so at a time; those beyond are closed untold.
pub(crate) const TOLD: u64 = 256;
/// The admin port's connections; each may probe an endpoint.
const ADMIN: u64 = admin::CONNECTIONS as u64;
/// Open besides clients' connections, those to endpoints, and those that are told that there are
/// too many: listeners, timers, watches; and the admin port's.
const OTHERS: u64 = 64 + 2 * ADMIN;
/// Of so many files one is for reading metrics and for checks.
const BACKGROUND: u64 = 16;
/// Open in a router that serves one client, and more for each of its threads.
const LEAST: u64 = 32;
/// See [`LEAST`].
const EACH: u64 = 5;
const RAISE: &str = "raise the hard limit (`ulimit -Hn`, systemd's LimitNOFILE)";

/// Raises the limit to the most that the system allows.
pub(crate) fn raise() {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        limit.current = limit.maximum;
        // Refused where all is allowed, and more than the kernel's own limit means: it stays then.
        let _ = setrlimit(Resource::Nofile, limit);
    }
}

/// What the files are for.
#[derive(Debug)]
pub(crate) struct Files {
    /// Connections of clients that fit.
    pub(crate) room: u64,
    /// As many to endpoints, for their requests.
    pub(crate) requests: Arc<Places>,
    /// For probes.
    pub(crate) probes: Arc<Places>,
    /// For readings of metrics and for checks.
    pub(crate) background: Arc<Places>,
    /// Readings and checks at a time: half of their places, the others are for connections that
    /// rest. Who waits for a turn is not late yet.
    pub(crate) turns: Semaphore,
}

impl Files {
    /// Of this process.
    pub(crate) fn new() -> Self {
        let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let room = fit(files);
        let turns = usize::try_from(turns(files))
            .map_or(Semaphore::MAX_PERMITS, |turns| turns.min(Semaphore::MAX_PERMITS));
        Self {
            room,
            requests: Arc::new(Places::new(room, 0)),
            probes: Arc::new(Places::new(ADMIN, 0)),
            background: Arc::new(Places::new(2 * turns as u64, turns)),
            turns: Semaphore::new(turns),
        }
    }

    /// A file was wanted in vain: connections to endpoints that rest are closed.
    pub(crate) fn claim(&self) {
        for places in [&self.requests, &self.probes, &self.background] {
            places.claim();
        }
    }
}

/// Whether there are enough to serve anybody with so many threads.
pub(crate) fn check(threads: usize) -> io::Result<()> {
    let needed = LEAST + EACH * threads as u64;
    match getrlimit(Resource::Nofile).current.filter(|files| *files < needed) {
        None => Ok(()),
        Some(files) => Err(io::Error::other(format!(
            "the process may have {files}, and needs {needed} at least; {RAISE}"
        ))),
    }
}

/// Connections of clients that fit, each with one to an endpoint.
fn fit(files: u64) -> u64 {
    (files.saturating_sub(OTHERS + 2 * TOLD + 2 * turns(files)) / 2).max(1)
}

/// Readings and checks at a time; as many connections rest.
fn turns(files: u64) -> u64 {
    (files / BACKGROUND / 2).max(1)
}

/// Says when fewer connections fit than the configuration asks for, or than the endpoints need.
/// What it does not ask for is as many as fit.
pub(crate) fn say_if_few(limits: &Limits, endpoints: usize) {
    let Some(files) = getrlimit(Resource::Nofile).current else { return };
    let room = fit(files);
    if let Some(wanted) = limits.connections.filter(|wanted| room < *wanted) {
        let besides = wanted.saturating_mul(2).saturating_add(OTHERS + 2 * TOLD);
        let needed = besides.saturating_mul(BACKGROUND).div_ceil(BACKGROUND - 1);
        tracing::warn!(
            "limits.connections: {wanted} connections need {needed} open files, and the process \
             may have {files}: room for {room}; {RAISE}, or set limits.connections to {room}"
        );
    }
    let (wanted, turns) = (endpoints as u64, turns(files));
    if turns < wanted {
        let needed = wanted.saturating_mul(2 * BACKGROUND);
        tracing::warn!(
            "{wanted} endpoints need {needed} open files, and the process may have {files}: \
             metrics are read and checks are made of {turns} at a time, on new connections; {RAISE}"
        );
    }
}

/// Whether something failed because this process, or the whole system, has no file left. A name
/// that is looked up in vain for that does not say why: then it is tried.
pub(crate) fn are_out(error: &io::Error) -> bool {
    let is = |code: i32| [Errno::MFILE, Errno::NFILE].iter().any(|e| e.raw_os_error() == code);
    match error.raw_os_error() {
        Some(code) => is(code),
        None => File::open("/dev/null").is_err_and(|error| error.raw_os_error().is_some_and(is)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_needs_two_files_beside_those_that_are_kept() {
        assert_eq!(fit(1_024), 128);
        assert_eq!((fit(140_559), fit(140_560)), (65_535, 65_536));
        assert_eq!((fit(0), fit(704), fit(753)), (1, 1, 1));
    }

    #[test]
    fn all_that_may_be_open_at_once_fits() {
        for files in [800, 1_024, 20_000, 1 << 20] {
            let most = 2 * (fit(files) + TOLD + turns(files)) + OTHERS;
            assert!(most <= files && files - most < 2, "{files} {most}");
        }
    }

    #[test]
    fn only_a_want_of_files_is_one() {
        for (code, out) in [(Errno::MFILE, true), (Errno::NFILE, true), (Errno::CONNREFUSED, false)]
        {
            assert_eq!(are_out(&io::Error::from_raw_os_error(code.raw_os_error())), out, "{code}");
        }
        assert!(!are_out(&io::Error::other("no such host")));
    }
}
