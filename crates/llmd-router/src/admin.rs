//! The admin port: health, readiness, metrics, status, and probes.
//!
//! What changes state (a probe sends a request) needs the key. Runs on the control thread, so it
//! answers whatever the data port is busy with. Its clients have the limits of the data port's.

mod guests;
mod probe;
mod status;

use crate::api::Errors;
use crate::error::{self, Failure, echo};
use crate::metrics::{EndpointGauges, PoolGauges};
use crate::patience::Patient;
use crate::pool::label;
use crate::repeats::Kind;
use crate::router::Router;
use crate::stream::{self, Reply};
use crate::tasks;
use crate::tls;
use crate::upstream::Upstream;
use crate::wire::Line;
use crate::worker::Worker;
use guests::{Entry, Guest, Guests};
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use llmd_sched::BreakerState;
use std::convert::Infallible;
use std::fmt::Display;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};

/// Connections at a time, lest they take the files that clients' connections need. Load balancers,
/// Prometheus and people need a few.
pub(crate) const CONNECTIONS: usize = 64;
/// After an accept that failed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves until aborted.
pub(crate) async fn serve(listener: TcpListener, router: Arc<Router>, upstream: Rc<Upstream>) {
    let guests = Guests::default();
    let say = |line: &'static str, why: &dyn Display| {
        if router.repeats.is_first(&Kind { line, ..Kind::default() }) {
            tracing::warn!(%why, "{line}");
        }
    };
    loop {
        match listener.accept().await {
            Ok((socket, _)) => {
                let entry = guests.admit(CONNECTIONS);
                if !matches!(entry, Entry::Free(_)) {
                    say("admin port: connection closed", &"too many are open");
                }
                let (Entry::Free(guest) | Entry::Instead(guest)) = entry else { continue };
                tasks::spawn(connection(socket, Worker::new(&router, &upstream), guest));
            }
            Err(error) => {
                say("admin port: cannot accept a connection", &error);
                router.files.claim();
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn connection(socket: TcpStream, worker: Worker, guest: Guest) {
    tokio::select! {
        () = talk(socket, worker, guest.line()) => {}
        () = guest.dismissed() => {}
    }
}

async fn talk(socket: TcpStream, worker: Worker, line: &Line) {
    let table = worker.router.table();
    let limits = &table.config.limits;
    let header = Duration::from_millis(limits.header_ms);
    let idle = Duration::from_millis(limits.idle_ms);
    let socket = Patient::new(socket, idle, worker.closer.clone());
    let accepted =
        tokio::time::timeout(header, tls::accept(table.tls.admin.as_ref(), socket)).await;
    let Ok(Ok(socket)) = accepted else {
        worker.router.metrics.tls_failures.inc();
        return;
    };
    let service = service_fn(move |request| {
        let (worker, running) = (worker.clone(), line.begin());
        async move {
            let _running = running;
            Ok::<_, Infallible>(respond(&worker, request).await)
        }
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(header)
        .serve_connection(TokioIo::new(socket), service);
    // An error is the client's: it left, or spoke no HTTP.
    let _ = serving.await;
}

async fn respond(worker: &Worker, request: Request<Incoming>) -> Response<Reply> {
    let router = &worker.router;
    let get = matches!(*request.method(), Method::GET | Method::HEAD);
    match (get, request.uri().path()) {
        (true, "/healthz") => text(StatusCode::OK, "ok\n".into()),
        (true, "/readyz") if router.ready() => text(StatusCode::OK, "ready\n".into()),
        (true, "/readyz") => text(StatusCode::SERVICE_UNAVAILABLE, not_ready(router)),
        (true, "/metrics") => text(StatusCode::OK, metrics(router)),
        (true, "/status") => stream::json(StatusCode::OK, status::document(router).to_string()),
        (false, "/probe") if request.method() == Method::POST => {
            probe::answer(worker, request).await
        }
        (_, "/healthz" | "/readyz" | "/metrics" | "/status") => wrong_method("GET, HEAD"),
        (_, "/probe") => wrong_method("POST"),
        (_, path) => {
            let failure =
                Failure::new(error::Kind::UnknownPath, format!("no path {:?}", echo(path)));
            stream::error(&failure, Errors::OpenAi)
        }
    }
}

fn wrong_method(allowed: &'static str) -> Response<Reply> {
    let failure = Failure::new(error::Kind::WrongMethod, format!("use {allowed}"));
    stream::error(&Failure { allow: Some(allowed), ..failure }, Errors::OpenAi)
}

fn text(status: StatusCode, text: String) -> Response<Reply> {
    let mut response = Response::new(Reply::Whole(Full::from(text)));
    *response.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, plain);
    response
}

fn not_ready(router: &Router) -> String {
    if router.draining() {
        return "draining\n".into();
    }
    let table = router.table();
    let empty = table.pools.iter().filter(|pool| pool.joined().is_empty());
    let names: Vec<&str> = empty.map(|pool| &*pool.name).collect();
    format!("no endpoint for: {}\n", names.join(", "))
}

fn metrics(router: &Router) -> String {
    let table = router.table();
    let (mut gauges, mut models) = (Vec::new(), Vec::new());
    for pool in &table.pools {
        let overview = pool.overview();
        let (budget, refused) = (overview.status.retry_budget, overview.status.retries_refused);
        models
            .push((&*pool.name, PoolGauges { budget, refused, troubles: overview.problems.len() }));
        for (endpoint, index) in &overview.members {
            let known = index.and_then(|index| overview.status.endpoint(index));
            let Some(known) = known else { continue };
            let (reported, health) = (known.reported, known.health);
            let values = EndpointGauges {
                breaker: match health.breaker {
                    BreakerState::Closed => 0,
                    BreakerState::HalfOpen => 1,
                    BreakerState::Open => 2,
                },
                out: health.out.is_some(),
                simulated: endpoint.simulated(),
                degraded: !status::degraded(endpoint, Some(known)).is_empty(),
                ejections: health.ejections,
                inflight_requests: known.inflight_requests.into(),
                inflight_tokens: known.inflight_tokens,
                running: reported.and_then(|load| load.running).map(f64::from),
                waiting: reported.and_then(|load| load.waiting).map(f64::from),
                kv_usage: reported.and_then(|load| load.kv_usage),
                age: known.reported_age.map(llmd_types::Micros::as_seconds),
            };
            gauges.push((label(&pool.name, endpoint), values));
        }
    }
    let connections = router.connections.load(Relaxed);
    router.metrics.page(router.open(), connections, &models, &gauges)
}
