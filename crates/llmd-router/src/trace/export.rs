//! Spans leave the process here: a bounded queue, a thread, OTLP over HTTP or gRPC.
//!
//! A collector that is dead or slow costs spans, which are counted, and nothing else: no
//! request waits for it and no memory grows. The thread is woken for the first span of a batch
//! and for its last, not for each: a switch of threads costs more than a span.

use crate::config::{Protocol, Traces};
use opentelemetry::{Context, KeyValue};
use opentelemetry_otlp::{ExporterBuildError, SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    Sampler, SdkTracerProvider, Span, SpanData, SpanExporter as _, SpanProcessor,
};
use prometheus_client::metrics::counter::Counter;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
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
        .with_span_processor(Inlet::start(traces.clone(), resource, dropped.clone()))
        .build()
}

/// What waits to be sent.
#[derive(Debug, Default)]
struct Waiting {
    spans: VecDeque<SpanData>,
    /// Spans taken out, and not sent yet.
    sending: usize,
    /// Nothing more will come.
    ended: bool,
}

/// Spans on their way from the requests to the thread that sends them.
#[derive(Debug)]
struct Queue {
    waiting: Mutex<Waiting>,
    /// The first span of a batch came, or its last, or the end.
    news: Condvar,
    dropped: Counter,
}

impl Queue {
    fn new(dropped: Counter) -> Self {
        Self { waiting: Mutex::default(), news: Condvar::new(), dropped }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, span: SpanData) {
        let mut waiting = self.lock();
        if waiting.ended || waiting.spans.len() + waiting.sending >= QUEUE {
            self.dropped.inc();
            return;
        }
        waiting.spans.push_back(span);
        let count = waiting.spans.len();
        drop(waiting);
        if count == 1 || count == BATCH {
            self.news.notify_one();
        }
    }

    /// The next batch, once it is full or its first span has waited long enough; what was taken
    /// before counts as sent. `None` when nothing can come any more.
    fn take(&self) -> Option<Vec<SpanData>> {
        let mut waiting = self.lock();
        waiting.sending = 0;
        let empty = |waiting: &mut Waiting| waiting.spans.is_empty() && !waiting.ended;
        let waiting = self.news.wait_while(waiting, empty).unwrap_or_else(PoisonError::into_inner);
        let begun = |waiting: &mut Waiting| waiting.spans.len() < BATCH && !waiting.ended;
        let waited = self.news.wait_timeout_while(waiting, DELAY, begun);
        let (mut waiting, _) = waited.unwrap_or_else(PoisonError::into_inner);
        waiting.sending = waiting.spans.len().min(BATCH);
        let sending = ..waiting.sending;
        let batch: Vec<SpanData> = waiting.spans.drain(sending).collect();
        (!batch.is_empty()).then_some(batch)
    }

    /// What was taken out could not be sent.
    fn lost(&self) {
        let count = std::mem::take(&mut self.lock().sending);
        self.dropped.inc_by(count as u64);
    }

    /// Nothing more is sent: how many spans were left.
    fn give_up(&self) -> usize {
        let mut waiting = self.lock();
        waiting.ended = true;
        let left = waiting.spans.len() + std::mem::take(&mut waiting.sending);
        waiting.spans.clear();
        self.dropped.inc_by(left as u64);
        left
    }

    fn end(&self) {
        self.lock().ended = true;
        self.news.notify_one();
    }
}

/// The queue as the spans see it.
#[derive(Debug)]
struct Inlet(Arc<Queue>);

impl Inlet {
    fn start(traces: Traces, resource: Resource, dropped: Counter) -> Self {
        let queue = Arc::new(Queue::new(dropped));
        let outlet = Arc::clone(&queue);
        let run = move || {
            if let Err(error) = deliver(&outlet, &traces, &resource) {
                outlet.end();
                tracing::error!(%error, otlp = traces.otlp, "no traces");
            }
        };
        if let Err(error) = std::thread::Builder::new().name("traces".into()).spawn(run) {
            queue.end();
            tracing::error!(%error, "no traces");
        }
        Self(queue)
    }
}

impl SpanProcessor for Inlet {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        self.0.push(span);
    }

    /// Called at the router's end alone: waits until all is sent, or for a while; what is left then
    /// is dropped.
    fn force_flush(&self) -> OTelSdkResult {
        let end = Instant::now() + FLUSH;
        let left = || {
            let waiting = self.0.lock();
            waiting.spans.len() + waiting.sending
        };
        while left() > 0 && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
        let spans = self.0.give_up();
        if spans > 0 {
            tracing::warn!(
                spans,
                "spans were dropped at the end: the collector took them too late"
            );
        }
        Ok(())
    }

    /// Does not wait: the last request of an old configuration ends on a thread that serves.
    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        self.0.end();
        Ok(())
    }
}

/// Sends batches until nothing can come any more.
fn deliver(queue: &Queue, traces: &Traces, resource: &Resource) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let _inside = runtime.enter();
    let mut exporter = exporter(traces).map_err(|error| error.to_string())?;
    exporter.set_resource(resource);
    let mut healthy = true;
    while let Some(batch) = queue.take() {
        let sent = runtime.block_on(tokio::time::timeout(TIMEOUT, exporter.export(batch)));
        let problem = match sent {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some("no answer in time".into()),
        };
        match problem {
            None => healthy = true,
            Some(problem) => {
                queue.lost();
                if healthy {
                    tracing::warn!(problem, otlp = traces.otlp, "spans are being dropped");
                }
                healthy = false;
            }
        }
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;
    use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status};
    use opentelemetry_sdk::trace::{SpanEvents, SpanLinks};
    use std::time::SystemTime;

    fn span(number: u64) -> SpanData {
        SpanData {
            span_context: SpanContext::empty_context(),
            parent_span_id: SpanId::from(number),
            parent_span_is_remote: false,
            span_kind: SpanKind::Internal,
            name: "".into(),
            start_time: SystemTime::UNIX_EPOCH,
            end_time: SystemTime::UNIX_EPOCH,
            attributes: Vec::new(),
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: SpanLinks::default(),
            status: Status::Unset,
            instrumentation_scope: opentelemetry::InstrumentationScope::default(),
        }
    }

    #[test]
    fn a_batch_is_what_came_by_then_and_what_comes_behind_the_end_is_dropped() {
        let queue = Queue::new(Counter::default());
        let all = 0..BATCH as u64 + 7;
        all.clone().for_each(|number| queue.push(span(number)));
        queue.end();
        queue.push(span(all.end));
        let batches: Vec<_> = std::iter::from_fn(|| queue.take()).collect();
        assert_eq!(batches.iter().map(Vec::len).collect::<Vec<_>>(), [BATCH, 7]);
        let numbers = batches.into_iter().flatten().map(|span| span.parent_span_id);
        assert!(numbers.eq(all.map(SpanId::from)));
        assert_eq!(queue.dropped.get(), 1);
    }

    #[test]
    fn what_is_left_at_the_end_is_dropped_and_counted_once() {
        let queue = Queue::new(Counter::default());
        (0..BATCH as u64 + 7).for_each(|number| queue.push(span(number)));
        assert_eq!(queue.take().map(|batch| batch.len()), Some(BATCH));
        queue.lost();
        assert_eq!(queue.dropped.get(), BATCH as u64);
        (0..BATCH as u64).for_each(|number| queue.push(span(number)));
        assert_eq!(queue.take().map(|batch| batch.len()), Some(BATCH));
        assert_eq!(queue.give_up(), BATCH + 7);
        queue.lost();
        queue.push(span(0));
        assert_eq!((queue.give_up(), queue.dropped.get()), (0, 2 * BATCH as u64 + 8));
        assert!(queue.take().is_none());
    }

    #[test]
    fn what_waits_and_what_is_being_sent_are_bounded_together() {
        let queue = Queue::new(Counter::default());
        (0..BATCH as u64).for_each(|number| queue.push(span(number)));
        assert_eq!(queue.take().map(|batch| batch.len()), Some(BATCH));
        (0..QUEUE as u64).for_each(|number| queue.push(span(number)));
        assert_eq!(queue.dropped.get(), BATCH as u64);
    }
}
