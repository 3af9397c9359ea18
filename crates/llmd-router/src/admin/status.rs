//! `GET /status`: all that the router knows, as one JSON document.

use crate::checks::Checked;
use crate::config::Checks;
use crate::date::rfc3339;
use crate::endpoint::{Endpoint, authority};
use crate::pool::{Overview, Pool};
use crate::router::Router;
use llmd_discovery::State as Lifecycle;
use llmd_sched::{BreakerState, EndpointState, EndpointStatus, HealthStatus, Why};
use llmd_types::Micros;
use serde_json::{Value, json};
use std::collections::HashSet;

/// The document.
pub(super) fn document(router: &Router) -> Value {
    let table = router.table();
    let loaded = table.loaded_at.duration_since(std::time::UNIX_EPOCH);
    let loaded = loaded.map_or(0, |since| since.as_millis() as u64);
    let checks = &table.config.resilience.checks;
    let refused = router.config_error();
    let config = json!({
        "loadedAt": rfc3339(loaded),
        "error": refused.as_ref().map(ToString::to_string),
        "needsRestart": refused.is_some_and(|error| error.needs_restart),
    });
    let models: Vec<Value> = table.pools.iter().map(|pool| model(pool, checks)).collect();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "fleet": table.config.fleet,
        "ready": router.ready(),
        "draining": router.draining(),
        "openRequests": router.open(),
        "config": config,
        "certificates": {"problems": table.tls.problems()},
        "models": models,
    })
}

fn model(pool: &Pool, checks: &Checks) -> Value {
    let overview = pool.overview();
    let mut endpoints: Vec<Value> = overview
        .members
        .iter()
        .map(|(known, index)| {
            let sched = index.and_then(|index| overview.status.endpoint(index));
            endpoint(known, sched, checks)
        })
        .collect();
    endpoints.extend(leaving(&overview));
    json!({
        "name": &*pool.name,
        "aliases": overview.model.aliases,
        "scheduler": overview.status.scheduler.name(),
        "bytesPerToken": overview.status.bytes_per_token,
        "requests": overview.status.requests,
        "indexEntries": overview.status.index_entries,
        "retryBudget": {
            "left": overview.status.retry_budget,
            "used": overview.status.retries,
            "refused": overview.status.retries_refused,
        },
        "problems": overview.problems,
        "endpoints": endpoints,
    })
}

/// Endpoints that discovery names no more and whose last requests still run.
fn leaving(overview: &Overview) -> Vec<Value> {
    let named: HashSet<_> = overview.members.iter().filter_map(|(_, index)| *index).collect();
    let left = overview.status.endpoints.iter().filter(|status| !named.contains(&status.index));
    left.map(|status| {
        json!({
            "name": &*status.name, "address": null, "variant": some_name(&status.variant),
            "accelerator": null, "simulated": null, "state": "down",
            "inflightRequests": status.inflight_requests,
            "inflightTokens": status.inflight_tokens,
        })
    })
    .collect()
}

fn endpoint(endpoint: &Endpoint, sched: Option<&EndpointStatus>, checks: &Checks) -> Value {
    let (known, variant) = (&endpoint.known, &endpoint.variant);
    let reported = sched.and_then(|sched| sched.reported);
    let mut accelerator = Some(variant.accelerator.as_str()).filter(|name| !name.is_empty());
    if accelerator.is_none() {
        accelerator = known.profile.as_deref().or(known.accelerator.as_deref());
    }
    json!({
        "name": known.name,
        "address": authority(&known.address, known.port),
        "variant": some_name(&variant.name),
        "accelerator": accelerator,
        "role": known.role,
        "simulated": endpoint.simulated(),
        "state": state(endpoint, sched),
        "unreachable": endpoint.unreachable(),
        "profile": if sched.is_some_and(|sched| sched.profile_known) { "known" } else { "neutral" },
        "inflightRequests": sched.map_or(0, |sched| sched.inflight_requests),
        "inflightTokens": sched.map_or(0, |sched| sched.inflight_tokens),
        "reportedRunning": reported.and_then(|load| load.running),
        "reportedWaiting": reported.and_then(|load| load.waiting),
        "reportedKvUsage": reported.and_then(|load| load.kv_usage),
        "reportedAgeMs": sched.and_then(|sched| sched.reported_age).map(|age| age.0 / 1_000),
        "prefillCorrection": sched.map(|sched| sched.prefill_correction),
        "stepCorrection": sched.map(|sched| sched.step_correction),
        "picks": sched.map_or(0, |sched| sched.picks),
        "failures": sched.map_or(0, |sched| sched.failures),
        "degraded": degraded(endpoint, sched),
        "health": sched.map(|sched| health(endpoint, &sched.health, checks)),
        "revision": known.revision,
    })
}

/// One that belongs to no variant has none.
fn some_name(variant: &str) -> Option<&str> {
    Some(variant).filter(|name| !name.is_empty())
}

/// What is decided with less than it should be, and why that is so.
pub(super) fn degraded(endpoint: &Endpoint, sched: Option<&EndpointStatus>) -> Vec<String> {
    let Some(sched) = sched else { return Vec::new() };
    let mut found = sched.degraded.clone();
    found.extend(endpoint.trouble.text());
    found.extend(
        endpoint
            .checked()
            .filter(|checked| *checked != Checked::Good)
            .map(|checked| format!("active check: {checked}")),
    );
    found
}

/// Its health, as the scheduler judges it and as the last check says.
fn health(endpoint: &Endpoint, health: &HealthStatus, checks: &Checks) -> Value {
    let millis = |span: Micros| span.0 / 1_000;
    let (why, left) = health.out.unzip();
    let state = match (health.out, health.breaker, health.slow_start) {
        (Some(_), ..) => "out",
        (None, BreakerState::HalfOpen, _) => "on trial",
        (None, _, Some(_)) => "slow start",
        (None, _, None) => "in",
    };
    let check = endpoint.checked().filter(|_| checks.failures > 0);
    let never = if checks.failures > 0 { "not yet" } else { "off" };
    json!({
        "state": state,
        "why": why.map(Why::name),
        "outForMs": health.out_for.map(millis),
        "outAtLeastMs": left.flatten().map(millis),
        "breaker": health.breaker.name(),
        "failuresInARow": health.failures_in_a_row,
        "slowStartShare": health.slow_start,
        "ejections": health.ejections.iter().sum::<u64>(),
        "check": check.map_or(never, Checked::name),
        "checkAnswer": check.filter(|check| *check != Checked::Good).map(|check| check.to_string()),
    })
}

/// Down: the last connection to it failed. Out: it is believed to be ill. It stays in the pool
/// all the same, and is chosen where no other is left.
fn state(endpoint: &Endpoint, sched: Option<&EndpointStatus>) -> &'static str {
    match (endpoint.known.state, sched.map(|sched| sched.state)) {
        (Lifecycle::Starting, _) => "starting",
        (Lifecycle::Draining, _) | (_, Some(EndpointState::Draining)) => "draining",
        _ if endpoint.unreachable().is_some() => "down",
        (_, Some(EndpointState::Ready)) if is_out(sched) => "out",
        _ => "ready",
    }
}

fn is_out(sched: Option<&EndpointStatus>) -> bool {
    sched.is_some_and(|sched| sched.health.out.is_some())
}
