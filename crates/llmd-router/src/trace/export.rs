//! Spans leave the process here: a bounded queue, a thread, OTLP over HTTP or gRPC.
//!
//! A collector that is dead or slow costs spans, which are counted, and nothing else: no
//! request waits for it and no memory grows.

use crate::config::{Protocol, Traces};
use opentelemetry::{Context, KeyValue};
use opentelemetry_otlp::{ExporterBuildError, SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    Sampler, SdkTracerProvider, Span, SpanData, SpanExporter as _, SpanProcessor,
};
use prometheus_client::metrics::counter::Counter;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Spans that may wait.
const QUEUE: usize = 4_096;
/// Spans sent at once, and how long the first of them waits for others.
const BATCH: usize = 512;
/// See [`BATCH`].
const DELAY: Duration = Duration::from_millis(200);
/// For one sending.
const TIMEOUT: Duration = Duration::from_secs(5);
/// For the last spans, when the router ends.
const FLUSH: Duration = Duration::from_secs(2);

/// A provider that records everything it is asked to: who is sampled was decided before.
pub(super) fn provider(traces: &Traces, fleet: &str, dropped: &Counter) -> SdkTracerProvider {
    let resource = Resource::builder_empty()
        .with_service_name("llmd-router")
        .with_attributes([
            KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
            KeyValue::new("service.namespace", fleet.to_owned()),
        ])
        .build();
    SdkTracerProvider::builder()
        .with_sampler(Sampler::AlwaysOn)
        .with_resource(resource.clone())
        .with_span_processor(Queue::start(traces.clone(), resource, dropped.clone()))
        .build()
}

#[derive(Debug)]
struct Queue {
    /// Taken away at the end, which ends the thread once it has sent what is left.
    sender: Mutex<Option<SyncSender<SpanData>>>,
    /// Spans in the queue or being sent.
    pending: Arc<AtomicUsize>,
    dropped: Counter,
}

impl Queue {
    fn start(traces: Traces, resource: Resource, dropped: Counter) -> Self {
        let (sender, spans) = sync_channel(QUEUE);
        let pending: Arc<AtomicUsize> = Arc::default();
        let outlet = Outlet { spans, pending: Arc::clone(&pending), dropped: dropped.clone() };
        let run = move || {
            if let Err(error) = outlet.deliver(&traces, &resource) {
                tracing::error!(%error, otlp = traces.otlp, "no traces");
            }
        };
        if let Err(error) = std::thread::Builder::new().name("traces".into()).spawn(run) {
            tracing::error!(%error, "no traces");
        }
        Self { sender: Mutex::new(Some(sender)), pending, dropped }
    }
}

impl SpanProcessor for Queue {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
        self.pending.fetch_add(1, SeqCst);
        if sender.as_ref().is_none_or(|sender| sender.try_send(span).is_err()) {
            self.pending.fetch_sub(1, SeqCst);
            self.dropped.inc();
        }
    }

    /// Waits until all is sent, or for a while.
    fn force_flush(&self) -> OTelSdkResult {
        let end = Instant::now() + FLUSH;
        while self.pending.load(SeqCst) > 0 && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Does not wait: the last request of an old configuration ends on a thread that serves.
    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        drop(self.sender.lock().unwrap_or_else(PoisonError::into_inner).take());
        Ok(())
    }
}

/// The queue's other end.
struct Outlet {
    spans: Receiver<SpanData>,
    pending: Arc<AtomicUsize>,
    dropped: Counter,
}

impl Outlet {
    /// Sends batches until nothing can come any more.
    fn deliver(&self, traces: &Traces, resource: &Resource) -> Result<(), String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        let _inside = runtime.enter();
        let mut exporter = exporter(traces).map_err(|error| error.to_string())?;
        exporter.set_resource(resource);
        let mut healthy = true;
        while let Ok(first) = self.spans.recv() {
            let batch = collect(first, &self.spans);
            let count = batch.len();
            let sent = runtime.block_on(tokio::time::timeout(TIMEOUT, exporter.export(batch)));
            let problem = match sent {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(error.to_string()),
                Err(_) => Some("no answer in time".into()),
            };
            match problem {
                None => healthy = true,
                Some(problem) => {
                    self.dropped.inc_by(count as u64);
                    if healthy {
                        tracing::warn!(problem, otlp = traces.otlp, "spans are being dropped");
                    }
                    healthy = false;
                }
            }
            self.pending.fetch_sub(count, SeqCst);
        }
        Ok(())
    }
}

fn collect(first: SpanData, spans: &Receiver<SpanData>) -> Vec<SpanData> {
    let mut batch = vec![first];
    let end = Instant::now() + DELAY;
    while batch.len() < BATCH {
        match spans.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(span) => batch.push(span),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
        }
    }
    batch
}

fn exporter(traces: &Traces) -> Result<SpanExporter, ExporterBuildError> {
    let base = traces.otlp.trim_end_matches('/');
    match traces.protocol {
        Protocol::Http => {
            let path = if base.ends_with("/v1/traces") { "" } else { "/v1/traces" };
            let builder = SpanExporter::builder().with_http().with_timeout(TIMEOUT);
            builder
                .with_protocol(opentelemetry_otlp::Protocol::HttpBinary)
                .with_endpoint(format!("{base}{path}"))
                .build()
        }
        Protocol::Grpc => {
            let builder = SpanExporter::builder().with_tonic().with_timeout(TIMEOUT);
            builder.with_endpoint(base).build()
        }
    }
}
