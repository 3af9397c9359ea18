//! How many files the process may have open: every connection is one.
//!
//! `command` raises the limit at the start, `server` asks how many connections fit under it, and
//! `upstream` whether a connection failed for want of a file, which is no endpoint's fault.

use crate::admin;
use crate::config::Limits;
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit, setrlimit};
use std::fs::File;
use std::io;

/// Connections beyond the limit that are told so at a time; those beyond are closed untold.
pub(crate) const TOLD: u64 = 256;
/// Open besides clients' connections, those to endpoints for them, and those that are told that
/// there are too many: listeners, timers, watches, readings of metrics; and the admin port's.
const OTHERS: u64 = 64 + admin::CONNECTIONS as u64;

/// Raises the limit to the most that the system allows.
pub(crate) fn raise() {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        limit.current = limit.maximum;
        // Refused where all is allowed, and more than the kernel's own limit means: it stays then.
        let _ = setrlimit(Resource::Nofile, limit);
    }
}

/// Connections of clients that fit, each with one to an endpoint.
pub(crate) fn room() -> u64 {
    getrlimit(Resource::Nofile).current.map_or(u64::MAX, fit)
}

fn fit(files: u64) -> u64 {
    (files.saturating_sub(OTHERS + 2 * TOLD) / 2).max(1)
}

/// Says when fewer connections fit than the configuration asks for. What it does not ask for is
/// as many as fit.
pub(crate) fn say_if_few(limits: &Limits) {
    let Some(wanted) = limits.connections else { return };
    let Some(files) = getrlimit(Resource::Nofile).current else { return };
    if let Some(room) = Some(fit(files)).filter(|room| *room < wanted) {
        let needed = wanted.saturating_mul(2).saturating_add(OTHERS + 2 * TOLD);
        tracing::warn!(
            "limits.connections: {wanted} connections need {needed} open files, and the process \
             may have {files}: room for {room}; raise the hard limit (`ulimit -Hn`, systemd's \
             LimitNOFILE), or set limits.connections to {room}"
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
        assert_eq!(fit(1_024), 192);
        assert_eq!(fit(131_712), 65_536);
        assert_eq!((fit(0), fit(640), fit(643)), (1, 1, 1));
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
