//! Says when an endpoint is out and when it is back: one line of the log for each change,
//! whatever it was that told the scheduler; lines of one that flaps are counted. Runs on the
//! control thread; changes nothing.

use crate::endpoint::Endpoint;
use crate::repeats::{Kind, Repeats};
use crate::router::Router;
use llmd_sched::{HealthStatus, Why};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// How often it looks: a line comes at most so late.
const LOOK: Duration = Duration::from_millis(500);
const OUT: &str = "endpoint is out";
const IN: &str = "endpoint is back";

/// What was last said of an endpoint.
#[derive(Clone, Copy, Debug, Default)]
struct Said {
    out: bool,
    ejections: u64,
}

/// Looks, until aborted.
pub(crate) async fn watch(router: Arc<Router>) {
    let mut said = HashMap::new();
    loop {
        tokio::time::sleep(LOOK).await;
        let mut now = HashMap::new();
        for pool in &router.table().pools {
            for (endpoint, health) in pool.healths() {
                let before = said.get(&endpoint.uid).copied().unwrap_or_default();
                let told = tell((&pool.name, &endpoint), &health, before, &router.repeats);
                now.insert(endpoint.uid, told);
            }
        }
        said = now;
    }
}

fn tell(
    (model, endpoint): (&str, &Endpoint),
    health: &HealthStatus,
    before: Said,
    repeats: &Repeats,
) -> Said {
    let name = endpoint.known.name.as_str();
    let is_first = |line| {
        repeats.is_first(&Kind { line, error: "", model: model.into(), endpoint: name.into() })
    };
    let now = Said { out: health.out_for.is_some(), ejections: health.ejections.iter().sum() };
    let went_out = now.ejections > before.ejections;
    if went_out && !before.out && is_first(OUT) {
        let why = health.last.map_or("", Why::name);
        let check = endpoint.checked().map_or(String::new(), |checked| checked.to_string());
        tracing::warn!(model, endpoint = name, why, check, "{OUT}");
    }
    if !now.out && (before.out || went_out) && is_first(IN) {
        tracing::info!(model, endpoint = name, "{IN}");
    }
    now
}
