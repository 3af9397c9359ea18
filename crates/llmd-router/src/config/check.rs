//! What a well-formed configuration can still have wrong: each rule once, all of them told.

use super::{Config, EndpointTls, Model, Multimodal, Source, Variant};
use crate::api::{self, APIS};
use crate::error::echo;
use std::collections::HashSet;

/// All problems, each with its path.
pub(super) fn problems(config: &Config) -> Vec<String> {
    let mut out = Vec::new();
    if config.version != 1 {
        out.push(format!("version: is {}, but must be 1", config.version));
    }
    positive(config, &mut out);
    config.resilience.problems(&config.retry, &mut out);
    if let Some(traces) = &config.traces {
        if !(0.0..=1.0).contains(&traces.sample_ratio) {
            out.push(format!("traces.sampleRatio: is {}, but 0 to 1", traces.sample_ratio));
        }
        if !traces.otlp.parse::<http::Uri>().is_ok_and(|uri| uri.scheme_str() == Some("http")) {
            out.push(format!("traces.otlp: {:?} is not http://host:port", echo(&traces.otlp)));
        }
    }
    let mut names = HashSet::new();
    for (index, model) in config.models.iter().enumerate() {
        let place = format!("models[{index}]");
        for name in std::iter::once(&model.name).chain(&model.aliases) {
            if name.is_empty() {
                out.push(format!("{place}: a name is empty"));
            } else if !names.insert(name) {
                out.push(format!("{place}: {:?} is a name or alias twice", echo(name)));
            }
        }
        check_model(model, &place, &mut out);
    }
    out
}

fn positive(config: &Config, out: &mut Vec<String>) {
    let limits = &config.limits;
    let values = [
        ("limits.bodyBytes", limits.body_bytes),
        ("limits.headerMs", limits.header_ms),
        ("limits.keepAliveMs", limits.keep_alive_ms),
        ("limits.connections", limits.connections),
        ("limits.connectMs", limits.connect_ms),
        ("limits.firstByteMs", limits.first_byte_ms),
        ("limits.idleMs", limits.idle_ms),
        ("limits.totalMs", limits.total_ms),
        ("retry.attempts", u64::from(config.retry.attempts)),
        ("scrape.intervalMs", config.scrape.interval_ms),
        ("scrape.timeoutMs", config.scrape.timeout_ms),
    ];
    for (name, value) in values {
        if value == 0 {
            out.push(format!("{name}: must be above 0"));
        }
    }
}

fn check_apis(variant: &Variant, place: &str, out: &mut Vec<String>) {
    let unknown = |name: &&String| api::named(name).is_none();
    for name in variant.apis.iter().flatten().filter(unknown) {
        let known: Vec<_> = APIS.iter().map(|api| api.name).collect();
        out.push(format!("{place}.apis: {:?} is not one of {known:?}", echo(name)));
    }
    if variant.apis.as_ref().is_some_and(Vec::is_empty) {
        out.push(format!("{place}.apis: is empty; leave it out or name some"));
    }
}

fn check_model(model: &Model, place: &str, out: &mut Vec<String>) {
    for (name, tokens) in model.multimodal.named() {
        if tokens > Multimodal::MAX {
            out.push(format!("{place}.multimodal.{name}: is above {}", Multimodal::MAX));
        }
    }
    let mut variants = HashSet::new();
    for (index, variant) in model.variants.iter().enumerate() {
        let place = format!("{place}.variants[{index}]");
        if variant.name.is_empty() || !variants.insert(variant.name.as_str()) {
            out.push(format!("{place}.name: {:?} is empty or there twice", echo(&variant.name)));
        }
        if variant.served_name.as_deref() == Some("") {
            out.push(format!("{place}.servedName: is empty; leave it out or give a name"));
        }
        if let Some(tls) = &variant.tls {
            check_tls(tls, &place, out);
        }
        check_apis(variant, &place, out);
        if let Some(Err(error)) = variant.facts.as_ref().map(llmd_types::ReplicaFacts::check) {
            out.push(format!("{place}.facts.{error}"));
        }
    }
    let mut endpoints = HashSet::new();
    for (index, source) in model.sources.iter().enumerate() {
        let place = format!("{place}.sources[{index}]");
        let Source::Static { endpoints: list } = source else { continue };
        for (index, endpoint) in list.iter().enumerate() {
            let place = format!("{place}.endpoints[{index}]");
            if endpoint.name.is_empty() || !endpoints.insert(endpoint.name.as_str()) {
                out.push(format!(
                    "{place}.name: {:?} is empty or there twice",
                    echo(&endpoint.name)
                ));
            }
            if let Some(tls) = &endpoint.tls {
                check_tls(tls, &place, out);
            }
            if endpoint.address.is_empty() || endpoint.port == 0 {
                out.push(format!("{place}: needs an address and a port above 0"));
            }
            if let Some(variant) = &endpoint.variant
                && !variants.contains(variant.as_str())
            {
                let known = known(&variants);
                out.push(format!("{place}.variant: {:?} is not one of {known}", echo(variant)));
            }
        }
    }
}

fn known(variants: &HashSet<&str>) -> String {
    let mut names: Vec<_> = variants.iter().copied().collect();
    names.sort_unstable();
    format!("{names:?}")
}

fn check_tls(tls: &EndpointTls, place: &str, out: &mut Vec<String>) {
    if tls.cert_file.is_some() != tls.key_file.is_some() {
        out.push(format!("{place}.tls: certFile and keyFile need each other"));
    }
    let name = tls.server_name.as_deref();
    if name.is_some_and(|name| rustls::pki_types::ServerName::try_from(name).is_err()) {
        out.push(format!("{place}.tls.serverName: {name:?} is no host name and no IP address"));
    }
}
