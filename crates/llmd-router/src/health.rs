//! Says when an endpoint is out and when it is back: one line of the log for each change,
//! whatever it was that told the scheduler. Runs on the control thread; changes nothing.

use crate::endpoint::Endpoint;
use crate::router::Router;
use llmd_sched::{HealthStatus, Why};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// How often it looks: a line comes at most so late.
const LOOK: Duration = Duration::from_millis(500);

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
                now.insert(endpoint.uid, tell(&pool.name, &endpoint, &health, before));
            }
        }
        said = now;
    }
}

fn tell(model: &str, endpoint: &Endpoint, health: &HealthStatus, before: Said) -> Said {
    let name = endpoint.known.name.as_str();
    let now = Said { out: health.out_for.is_some(), ejections: health.ejections.iter().sum() };
    let went_out = now.ejections > before.ejections;
    if went_out && !before.out {
        let why = health.last.map_or("", Why::name);
        let check = endpoint.checked().map_or(String::new(), |checked| checked.to_string());
        tracing::warn!(model, endpoint = name, why, check, "endpoint is out");
    }
    if !now.out && (before.out || went_out) {
        tracing::info!(model, endpoint = name, "endpoint is back");
    }
    now
}
