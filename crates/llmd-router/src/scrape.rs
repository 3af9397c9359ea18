//! Reads the engines' own metrics: how many requests run and wait there, how full the KV is.
//!
//! One tick for all endpoints; an endpoint whose last reading is not finished is left out, so a
//! slow one costs nothing but its own freshness. What an engine does not tell stays `None` and
//! is never read as zero. It decides nothing.

use crate::endpoint::Endpoint;
use crate::pool::{Pool, label};
use crate::router::Router;
use crate::tasks;
use crate::upstream::Upstream;
use bytes::Bytes;
use http::{HeaderMap, Method, Request, header};
use http_body_util::{BodyExt, Full, Limited};
use llmd_sched::EndpointIndex;
use llmd_types::{Micros, ReportedLoad};
use std::cell::RefCell;
use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Longest page that is read; vLLM's is about 60 kB.
const PAGE_MAX: usize = 4 << 20;

/// The names under which one engine tells its load.
struct Names {
    running: &'static str,
    waiting: &'static str,
    kv_usage: Option<&'static str>,
}

/// By engine (llm-d facts; llama.cpp has no gauge for KV). The first whose names are on a page
/// is taken.
const ENGINES: [Names; 4] = [
    Names {
        running: "vllm:num_requests_running",
        waiting: "vllm:num_requests_waiting",
        kv_usage: Some("vllm:kv_cache_usage_perc"),
    },
    Names {
        running: "sglang:num_running_reqs",
        waiting: "sglang:num_queue_reqs",
        kv_usage: Some("sglang:token_usage"),
    },
    Names {
        running: "trtllm_num_requests_running",
        waiting: "trtllm_num_requests_waiting",
        kv_usage: Some("trtllm_kv_cache_utilization"),
    },
    Names {
        running: "llamacpp:requests_processing",
        waiting: "llamacpp:requests_deferred",
        kv_usage: None,
    },
];

/// Reads all endpoints of all pools, tick by tick, until aborted.
pub(crate) async fn run(router: Arc<Router>, upstream: Rc<Upstream>) {
    let busy: Rc<RefCell<HashSet<u64>>> = Rc::default();
    loop {
        let table = router.table();
        let settings = table.config.scrape.clone();
        let timeout = Duration::from_millis(settings.timeout_ms);
        for pool in &table.pools {
            for (index, endpoint) in pool.joined() {
                if !busy.borrow_mut().insert(endpoint.uid) {
                    continue;
                }
                let (router, pool) = (Arc::clone(&router), Arc::clone(pool));
                let (upstream, busy) = (Rc::clone(&upstream), Rc::clone(&busy));
                tasks::spawn(async move {
                    one(&router, &pool, &upstream, index, &endpoint, timeout).await;
                    busy.borrow_mut().remove(&endpoint.uid);
                });
            }
        }
        upstream.sweep();
        tokio::time::sleep(Duration::from_millis(settings.interval_ms)).await;
    }
}

async fn one(
    router: &Router,
    pool: &Pool,
    upstream: &Rc<Upstream>,
    index: EndpointIndex,
    endpoint: &Endpoint,
    timeout: Duration,
) {
    let page = tokio::time::timeout(timeout, fetch(upstream, endpoint, timeout)).await;
    let load = page.ok().flatten().and_then(|page| read(&page, pool.now()));
    if load.is_none() {
        router.metrics.scrape_failed(&label(&pool.name, endpoint));
    }
    // The endpoint may have left meanwhile, and its number be another's.
    if pool.endpoint(&endpoint.known.name).is_some_and(|(now, _)| now.uid == endpoint.uid) {
        pool.scraped(index, load);
    }
}

async fn fetch(upstream: &Rc<Upstream>, endpoint: &Endpoint, limit: Duration) -> Option<String> {
    let mut request = Request::new(Full::<Bytes>::default());
    *request.method_mut() = Method::GET;
    *request.uri_mut() = http::Uri::from_static("/metrics");
    *request.headers_mut() = HeaderMap::from_iter([(header::HOST, endpoint.authority.clone())]);
    let answer = upstream.send(endpoint, request, limit, || {}).await.ok()?;
    let status = answer.response.status();
    let page = Limited::new(answer.response.into_body(), PAGE_MAX).collect().await.ok()?;
    answer.lease.give_back();
    let text = String::from_utf8(page.to_bytes().to_vec()).ok()?;
    status.is_success().then_some(text)
}

/// The load on a page; `None` when no engine's names are on it.
pub(crate) fn read(page: &str, at: Micros) -> Option<ReportedLoad> {
    let readings = ENGINES.iter().map(|names| {
        let whole = |name| values(page, name).reduce(|a, b| a + b).map(|sum| sum as u32);
        // Several engines behind one address (data parallel ranks): the fullest counts.
        let kv_usage = names.kv_usage.and_then(|name| values(page, name).reduce(f64::max));
        let (running, waiting) = (whole(names.running), whole(names.waiting));
        ReportedLoad { at, running, waiting, kv_usage }
    });
    let mut told = readings.filter(|load| load.running.is_some() || load.waiting.is_some());
    told.next()
}

/// All finite, not negative samples of a metric, whatever their labels.
fn values<'a>(page: &'a str, name: &'a str) -> impl Iterator<Item = f64> + 'a {
    page.lines().filter_map(move |line| {
        let rest = line.strip_prefix(name)?;
        let value = match rest.as_bytes().first()? {
            b' ' => rest,
            // Label values may hold spaces and braces; the value stands behind the last brace.
            b'{' => rest.rsplit_once('}')?.1,
            _ => return None,
        };
        let value: f64 = value.split_ascii_whitespace().next()?.parse().ok()?;
        (value.is_finite() && value >= 0.0).then_some(value)
    })
}

#[cfg(test)]
mod tests;
