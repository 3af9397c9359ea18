//! The rules of one model: its variants, and the endpoints that are written into the file.

use super::{NAME_MAX, check_name};
use crate::api::{self, APIS};
use crate::config::{DnsName, EndpointTls, Model, Multimodal, Source, StaticEndpoint, Variant};
use crate::error::echo;
use std::collections::HashMap;
use std::net::IpAddr;
use std::ops::RangeInclusive;

/// Longest name of an endpoint, which holds those of its model and its variant; and of a host.
const ENDPOINT_MAX: usize = 253;
/// Longest name that engines may know a model by: it may be a path.
const SERVED_MAX: usize = 4_096;
/// Between two looks at a name: not so often that it is a burden, nor as good as never.
const INTERVAL_MS: RangeInclusive<u64> = 100..=3_600_000;

/// All that is wrong with it, each with its path.
pub(super) fn check(model: &Model, place: &str, out: &mut Vec<String>) {
    for (name, tokens) in model.multimodal.named() {
        let most = Multimodal::MAX;
        if tokens > most {
            out.push(format!("{place}.multimodal.{name}: is {tokens}, but must be at most {most}"));
        }
    }
    let mut variants = HashMap::new();
    for (index, variant) in model.variants.iter().enumerate() {
        let place = format!("{place}.variants[{index}]");
        once(&variant.name, NAME_MAX, &place, &mut variants, out);
        check_variant(variant, &place, out);
    }
    let variants: Vec<&str> = model.variants.iter().map(|one| one.name.as_str()).collect();
    let mut endpoints = HashMap::new();
    for (index, source) in model.sources.iter().enumerate() {
        let place = format!("{place}.sources[{index}]");
        let list = match source {
            Source::Static { endpoints } => endpoints,
            Source::Dns(name) => {
                check_dns(name, &variants, &place, out);
                continue;
            }
            Source::File { .. } | Source::Process { .. } => continue,
        };
        for (at, endpoint) in list.iter().enumerate() {
            let place = format!("{place}.endpoints[{at}]");
            once(&endpoint.name, ENDPOINT_MAX, &place, &mut endpoints, out);
            check_endpoint(endpoint, &variants, &place, out);
        }
    }
}

/// A name that nothing else of its kind has in this model.
fn once<'a>(
    name: &'a str,
    most: usize,
    place: &str,
    taken: &mut HashMap<&'a str, String>,
    out: &mut Vec<String>,
) {
    check_name(&format!("{place}.name"), name, most, out);
    if let Some(first) = taken.get(name) {
        out.push(format!("{place}.name: {:?} is that of {first} already", echo(name)));
    } else {
        taken.insert(name, place.to_owned());
    }
}

fn check_variant(variant: &Variant, place: &str, out: &mut Vec<String>) {
    match variant.served_name.as_deref() {
        Some("") => out.push(format!("{place}.servedName: is empty; leave it out or write a name")),
        Some(name) => check_name(&format!("{place}.servedName"), name, SERVED_MAX, out),
        None => {}
    }
    if let Some(tls) = &variant.tls {
        check_tls(tls, place, out);
    }
    let unknown = |name: &&String| api::named(name).is_none();
    for name in variant.apis.iter().flatten().filter(unknown) {
        let known: Vec<_> = APIS.iter().map(|api| api.name).collect();
        out.push(format!("{place}.apis: {:?} is none; there are {}", echo(name), known.join(", ")));
    }
    if variant.apis.as_ref().is_some_and(Vec::is_empty) {
        out.push(format!("{place}.apis: is empty; leave it out for all, or name some"));
    }
    if let Some(Err(error)) = variant.facts.as_ref().map(llmd_types::ReplicaFacts::check) {
        out.push(format!("{place}.facts.{error}"));
    }
}

fn check_endpoint(
    endpoint: &StaticEndpoint,
    variants: &[&str],
    place: &str,
    out: &mut Vec<String>,
) {
    if let Some(tls) = &endpoint.tls {
        check_tls(tls, place, out);
    }
    if !is_host(&endpoint.address) {
        let address = echo(&endpoint.address);
        out.push(format!(
            "{place}.address: {address:?} is no IP address and no host name; write one, without \
             a port"
        ));
    }
    if endpoint.port == 0 {
        out.push(format!("{place}.port: is 0; write the port where its engine listens"));
    }
    known_variant(endpoint.variant.as_deref(), variants, place, out);
}

fn check_dns(dns: &DnsName, variants: &[&str], place: &str, out: &mut Vec<String>) {
    let name = echo(&dns.name);
    if dns.name.parse::<IpAddr>().is_ok() {
        out.push(format!(
            "{place}.name: {name:?} is an address; write a name, or a source of `kind: static`"
        ));
    } else if !is_host(&dns.name) {
        out.push(format!("{place}.name: {name:?} is no host name; write one, without a port"));
    }
    if dns.port == 0 {
        out.push(format!("{place}.port: is 0; write the port where its engines listen"));
    }
    let (interval, first, last) = (dns.interval_ms, INTERVAL_MS.start(), INTERVAL_MS.end());
    if !INTERVAL_MS.contains(&interval) {
        out.push(format!("{place}.intervalMs: is {interval}, but must be {first} to {last}"));
    }
    if let Some(resolver) = dns.resolver.filter(|resolver| resolver.port() == 0) {
        out.push(format!("{place}.resolver: {resolver} has no port; 53 is that of name servers"));
    }
    known_variant(dns.variant.as_deref(), variants, place, out);
}

/// One that is named must be there.
fn known_variant(named: Option<&str>, variants: &[&str], place: &str, out: &mut Vec<String>) {
    if let Some(variant) = named.filter(|name| !variants.contains(name)) {
        let variant = echo(variant);
        out.push(match variants {
            [] => format!(
                "{place}.variant: {variant:?} is none, the model has no `variants`; add it there, \
                 or leave `variant` out"
            ),
            _ => format!(
                "{place}.variant: {variant:?} is none of the model's variants, {variants:?}; name \
                 one of them, or add it"
            ),
        });
    }
}

/// An IP address, or a name that a resolver may know. What ends with a number is an address or a
/// mistake: resolvers read `300.0.0.1` each in its own way.
fn is_host(text: &str) -> bool {
    if text.parse::<IpAddr>().is_ok() {
        return true;
    }
    let label = |label: &str| {
        let known = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        (1..=63).contains(&label.len()) && label.bytes().all(known)
    };
    let name = text.strip_suffix('.').unwrap_or(text);
    let last = name.rsplit('.').next().unwrap_or_default();
    name.len() <= ENDPOINT_MAX
        && name.split('.').all(label)
        && !last.bytes().all(|byte| byte.is_ascii_digit())
}

fn check_tls(tls: &EndpointTls, place: &str, out: &mut Vec<String>) {
    if tls.cert_file.is_some() != tls.key_file.is_some() {
        out.push(format!(
            "{place}.tls: certFile and keyFile need each other; name both or neither"
        ));
    }
    if let Some(name) = &tls.server_name
        && rustls::pki_types::ServerName::try_from(name.as_str()).is_err()
    {
        out.push(format!(
            "{place}.tls.serverName: {:?} is no host name and no IP address; write the name that \
             is in the endpoint's certificate",
            echo(name)
        ));
    }
}
