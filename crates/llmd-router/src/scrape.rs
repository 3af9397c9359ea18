//! Reads the engines' own metrics: how many requests run and wait there, how full the KV is.
//!
//! Runs on the control thread. One tick for all endpoints; an endpoint whose last reading is not
//! finished is left out, so a slow one costs nothing but its own freshness. A page that cannot be
//! used, or only in part, is said in status and in one line of the log, not in one a reading. It
//! decides nothing.

mod names;
mod page;
mod trouble;

pub(crate) use trouble::Trouble;

use crate::endpoint::Endpoint;
use crate::error::Kind;
use crate::pool::{Pool, label};
use crate::router::Router;
use crate::tasks;
use crate::upstream::Upstream;
use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full};
use llmd_sched::EndpointIndex;
use llmd_types::{Micros, ReportedLoad};
use page::{Page, Told};
use std::cell::RefCell;
use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use trouble::Why;

/// Longest page that is read; vLLM's is about 60 kB.
const PAGE_MAX: usize = 4 << 20;

/// Where a page may be: TensorRT-LLM's server has JSON of another kind at the first. The other
/// one is tried when the last reading found nothing at one.
const PATHS: [&str; 2] = ["/metrics", "/prometheus/metrics"];

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
        // Not held while nothing is done: its models may be gone by then.
        drop(table);
        tokio::time::sleep(Duration::from_millis(settings.interval_ms)).await;
    }
}

/// The load on a whole page, as a fuzzer asks for it.
pub(crate) fn load_on(page: &[u8], at: Micros) -> Option<ReportedLoad> {
    let mut whole = Page::default();
    whole.feed(page);
    whole.end(at).map(|told| told.load)
}

async fn one(
    router: &Router,
    pool: &Pool,
    upstream: &Rc<Upstream>,
    index: EndpointIndex,
    endpoint: &Endpoint,
    timeout: Duration,
) {
    let _turn = router.files.turns.acquire().await;
    let reading = tokio::time::timeout(timeout, read(upstream, endpoint, timeout, || pool.now()));
    let told = reading.await.unwrap_or(Err(Why::Late(timeout)));
    let load = told.as_ref().ok().map(|told| told.load);
    // What is no load is no reading: a KV space alone places nothing.
    let load = load.filter(|load| load.running.is_some() || load.waiting.is_some());
    // The endpoint may have left meanwhile, its series have ended, and its number be another's.
    if pool.endpoint(&endpoint.known.name).is_some_and(|(now, _)| now.uid == endpoint.uid) {
        if load.is_none() {
            router.metrics.scrape_failed(&label(&pool.name, endpoint));
        }
        endpoint.trouble.note(&pool.name, &endpoint.known.name, told.and_then(Told::usable));
        pool.scraped(index, load);
    }
}

async fn read(
    upstream: &Rc<Upstream>,
    endpoint: &Endpoint,
    limit: Duration,
    now: impl Fn() -> Micros,
) -> Result<Told, Why> {
    let path = PATHS[endpoint.trouble.place()];
    let mut request = Request::new(Full::<Bytes>::default());
    *request.method_mut() = Method::GET;
    *request.uri_mut() = Uri::from_static(path);
    *request.headers_mut() = HeaderMap::from_iter([(header::HOST, endpoint.authority.clone())]);
    let answer = upstream.send(endpoint, || request.clone(), limit, || {}).await;
    let answer = answer.map_err(|failure| match failure.kind {
        Kind::Unreachable => Why::Unreachable,
        Kind::NoFiles => Why::NoFiles,
        _ => Why::Broken,
    })?;
    let status = answer.response.status();
    let mut body = answer.response.into_body();
    let (mut page, mut length) = (Page::default(), 0);
    while let Some(piece) = body.frame().await {
        let Ok(bytes) = piece.map_err(|_| Why::Broken)?.into_data() else { continue };
        length += bytes.len();
        if length > PAGE_MAX {
            return Err(Why::TooLong);
        }
        if status == StatusCode::OK {
            page.feed(&bytes);
        }
    }
    answer.lease.give_back();
    if status != StatusCode::OK {
        return Err(Why::Status(status.as_u16()));
    }
    page.end(now()).ok_or(Why::Unknown)
}
