//! What a well-formed configuration can still have wrong: each rule once, all of them told, with
//! the place, what is there, and what to write instead.

mod models;

use super::{Config, Limits, Listen, Traces};
use crate::error::echo;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

/// Longest name of a model or a variant: that of a fleet.
const NAME_MAX: usize = 127;

/// All problems, each with its path.
pub(super) fn problems(config: &Config) -> Vec<String> {
    let mut out = Vec::new();
    if config.version != 1 {
        out.push(format!("version: is {}, but must be 1", config.version));
    }
    if !config.fleet.is_empty() {
        check_name("fleet", &config.fleet, NAME_MAX, &mut out);
    }
    check_listen(&config.listen, &mut out);
    check_limits(&config.limits, &mut out);
    let hint = "1 tries nothing again";
    above_zero("retry.attempts", u64::from(config.retry.attempts), hint, &mut out);
    config.resilience.problems(&config.retry, &mut out);
    for (name, value) in
        [("intervalMs", config.scrape.interval_ms), ("timeoutMs", config.scrape.timeout_ms)]
    {
        let hint = "metrics are always read, seldom where it is high";
        above_zero(&format!("scrape.{name}"), value, hint, &mut out);
    }
    if let Some(traces) = &config.traces {
        check_traces(traces, &mut out);
    }
    let mut taken = HashMap::new();
    for (index, model) in config.models.iter().enumerate() {
        let place = format!("models[{index}]");
        check_names(&place, model.names(), &mut taken, &mut out);
        models::check(model, &place, &mut out);
    }
    out
}

/// A number that must not be 0, and what to do where 0 was meant to switch something off.
pub(super) fn above_zero(place: &str, value: u64, hint: &str, out: &mut Vec<String>) {
    if value == 0 {
        out.push(format!("{place}: is 0, but must be above 0; {hint}"));
    }
}

fn check_listen(listen: &Listen, out: &mut Vec<String>) {
    let (data, admin) = (listen.data, listen.admin);
    if overlap(data, admin) {
        out.push(format!(
            "listen.admin: {admin} is taken by listen.data ({data}); give it another port"
        ));
    }
}

/// Whether one of two sockets keeps the other from listening. Port 0 is any that is free.
fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let covers = |all: IpAddr, ip: IpAddr| {
        all == ip || (all.is_unspecified() && (all.is_ipv6() || ip.is_ipv4()))
    };
    let (a, b) = (one.ip(), other.ip());
    one.port() == other.port() && one.port() != 0 && (covers(a, b) || covers(b, a))
}

fn check_limits(limits: &Limits, out: &mut Vec<String>) {
    for (name, value) in [
        ("bodyBytes", limits.body_bytes),
        ("headerMs", limits.header_ms),
        ("keepAliveMs", limits.keep_alive_ms),
        ("connections", limits.connections()),
        ("connectMs", limits.connect_ms),
        ("firstByteMs", limits.first_byte_ms),
        ("idleMs", limits.idle_ms),
        ("totalMs", limits.total_ms),
    ] {
        let hint = "set it high where no limit is wanted";
        above_zero(&format!("limits.{name}"), value, hint, out);
    }
    let drain = limits.drain_ms;
    if let Some(quiet) = limits.quiet_ms.filter(|quiet| *quiet > 0 && *quiet >= drain) {
        out.push(format!(
            "limits.quietMs: is {quiet}, but must be less than drainMs, {drain}, or 0: after that \
             all is cut"
        ));
    }
}

fn check_traces(traces: &Traces, out: &mut Vec<String>) {
    let (ratio, otlp) = (traces.sample_ratio, &traces.otlp);
    if !(0.0..=1.0).contains(&ratio) {
        out.push(format!("traces.sampleRatio: is {ratio}, but must be from 0 to 1"));
    }
    // Not told again: it may hold a password.
    if otlp.contains('@') {
        out.push(
            "traces.otlp: names a user, and the collector is sent none; leave out all up to `@`"
                .into(),
        );
    } else if !otlp.parse::<http::Uri>().is_ok_and(|uri| uri.scheme_str() == Some("http")) {
        let echo = echo(otlp);
        out.push(format!("traces.otlp: {echo:?} is not http://host:port; TLS is not spoken there"));
    }
}

/// What a model or an alias may be called, each once in the file.
fn check_names<'a>(
    model: &str,
    names: impl Iterator<Item = (String, &'a str)>,
    taken: &mut HashMap<&'a str, String>,
    out: &mut Vec<String>,
) {
    for (key, name) in names {
        let place = format!("{model}.{key}");
        check_name(&place, name, NAME_MAX, out);
        if let Some(first) = taken.get(name) {
            out.push(format!(
                "{place}: {:?} is {first} already; names and aliases are unique",
                echo(name)
            ));
        } else {
            taken.insert(name, place);
        }
    }
}

/// They go into labels, headers and lines of the log.
fn check_name(place: &str, name: &str, most: usize, out: &mut Vec<String>) {
    if name.is_empty() {
        out.push(format!("{place}: is empty; write a name"));
    } else if name.len() > most {
        let (told, length) = (echo(name), name.len());
        out.push(format!("{place}: {told:?} has {length} bytes, but at most {most} are allowed"));
    } else if name.chars().any(char::is_control) {
        out.push(format!("{place}: {name:?} has a control character; leave it out"));
    }
}
