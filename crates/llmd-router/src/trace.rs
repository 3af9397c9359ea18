//! Spans, for those requests alone that are sampled: a request that is not makes none.
//!
//! One trace holds the client's trace id, the root `llmd_router.request`, one child for each
//! phase, and one client span for each attempt, whose id the engine gets as its parent. Names
//! and attributes follow OpenTelemetry's `GenAI` conventions. Prompts are never recorded.

mod context;
mod export;

pub(crate) use context::Parent;

use crate::config::Traces;
use context::traceparent;
use http::HeaderValue;
use llmd_sched::{Pick, Rng};
use llmd_types::{Phase, Usage};
use opentelemetry::trace::{
    Span as _, SpanBuilder, SpanContext, SpanId, SpanKind, Status, TraceContextExt as _,
    TraceFlags, TraceId, TraceState, Tracer as _, TracerProvider as _,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider, Span};
use prometheus_client::metrics::counter::Counter;
use std::sync::{Mutex, PoisonError};

/// Makes traces, or none.
#[derive(Debug)]
pub(crate) struct Tracer {
    on: Option<On>,
}

#[derive(Debug)]
struct On {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
    sample_ratio: f64,
    rng: Mutex<Rng>,
}

impl Tracer {
    /// By configuration; chance, where it decides who is sampled, comes from `seed`.
    pub(crate) fn new(config: Option<&Traces>, fleet: &str, dropped: &Counter, seed: u64) -> Self {
        let on = config.map(|traces| {
            let provider = export::provider(traces, fleet, dropped);
            let tracer = provider.tracer("llmd-router");
            let rng = Mutex::new(Rng::seeded(seed));
            On { provider, tracer, sample_ratio: traces.sample_ratio, rng }
        });
        Self { on }
    }

    /// Waits, not for long, until all spans are sent. Blocks the thread.
    pub(crate) fn flush(&self) {
        if let Some(on) = &self.on {
            // Spans that could not be sent are counted.
            let _ = on.provider.force_flush();
        }
    }

    /// The trace of one request. The client's decision counts; without one, chance decides.
    pub(crate) fn begin(&self, parent: Option<Parent>) -> Trace {
        let Some(on) = &self.on else { return Trace::passing(parent) };
        let context = match parent {
            Some(parent) if parent.sampled => remote(parent),
            None if on.chance() => Context::new(),
            // Not sampled: the engine is told so, lest it begins a trace of its own.
            other => return Trace::passing(Some(other.unwrap_or_else(|| on.unsampled()))),
        };
        let builder = SpanBuilder::from_name("llmd_router.request").with_kind(SpanKind::Server);
        let root = on.tracer.build_with_context(builder, &context);
        let context = Context::new().with_remote_span_context(root.span_context().clone());
        let tracer = on.tracer.clone();
        let live = Live { tracer, root, context, phase: None, attempt: None };
        Trace { live: Some(Box::new(live)), parent: None }
    }
}

impl On {
    fn chance(&self) -> bool {
        self.rng.lock().unwrap_or_else(PoisonError::into_inner).unit() < self.sample_ratio
    }

    fn unsampled(&self) -> Parent {
        let mut rng = self.rng.lock().unwrap_or_else(PoisonError::into_inner);
        let mut random = || rng.next_u64().max(1);
        let trace = (u128::from(random()) << 64) | u128::from(random());
        let span = random();
        Parent { trace: TraceId::from(trace), span: SpanId::from(span), sampled: false }
    }
}

fn remote(parent: Parent) -> Context {
    let flags = TraceFlags::SAMPLED;
    let state = TraceState::NONE;
    let span = SpanContext::new(parent.trace, parent.span, flags, true, state);
    Context::new().with_remote_span_context(span)
}

/// The trace of one request.
#[derive(Debug)]
pub(crate) struct Trace {
    live: Option<Box<Live>>,
    /// Without spans: what is sent on.
    parent: Option<Parent>,
}

#[derive(Debug)]
struct Live {
    tracer: SdkTracer,
    root: Span,
    context: Context,
    phase: Option<Span>,
    attempt: Option<Span>,
}

impl Trace {
    fn passing(parent: Option<Parent>) -> Self {
        Self { live: None, parent }
    }

    /// Whether spans are made: attributes need not be built otherwise.
    pub(crate) fn is_live(&self) -> bool {
        self.live.is_some()
    }

    /// The request enters a phase; the one before it ends.
    pub(crate) fn phase(&mut self, phase: Phase) {
        if let Some(live) = &mut self.live {
            live.phase = None;
            let builder = SpanBuilder::from_name(phase.name());
            live.phase = Some(live.tracer.build_with_context(builder, &live.context));
        }
    }

    /// On the root span.
    pub(crate) fn set(&mut self, name: &'static str, value: impl Into<opentelemetry::Value>) {
        if let Some(live) = &mut self.live {
            live.root.set_attribute(KeyValue::new(name, value));
        }
    }

    /// Why the endpoint was chosen, on the span of phase `pick`.
    pub(crate) fn picked(&mut self, pick: &Pick) {
        let Some(span) = self.live.as_mut().and_then(|live| live.phase.as_mut()) else { return };
        let why = &pick.reasons;
        let whole = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        span.set_attributes([
            KeyValue::new("llmd.pick.scheduler", why.scheduler.name()),
            KeyValue::new("llmd.pick.tier", why.tier.name()),
            KeyValue::new("llmd.pick.attempt", i64::from(why.attempt)),
            KeyValue::new("llmd.pick.candidates", i64::from(why.candidates)),
            KeyValue::new("llmd.pick.ttft_us", whole(why.ttft.0)),
            KeyValue::new("llmd.pick.wait_us", whole(why.wait.0)),
            KeyValue::new("llmd.pick.itl_us", whole(why.itl.0)),
            KeyValue::new("llmd.pick.delay_us", whole(why.delay.0)),
            KeyValue::new("llmd.pick.finish_us", whole(why.finish.0)),
            KeyValue::new("llmd.pick.best_finish_us", whole(why.best_finish.0)),
            KeyValue::new("llmd.pick.output_tokens", i64::from(why.output_tokens)),
            KeyValue::new("llmd.pick.inflight_requests", i64::from(why.inflight_requests)),
            KeyValue::new("llmd.pick.inflight_tokens", whole(why.inflight_tokens)),
            KeyValue::new("llmd.pick.prompt_tokens", i64::from(pick.prompt_tokens)),
            KeyValue::new("llmd.pick.cached_tokens", i64::from(pick.cached_tokens)),
        ]);
    }

    /// An attempt begins, inside the present phase; returns the `traceparent` for the engine.
    pub(crate) fn attempt(&mut self, endpoint: &crate::endpoint::Endpoint) -> Option<HeaderValue> {
        let Some(live) = &mut self.live else { return self.parent.map(Parent::header) };
        let parent = live.phase.as_ref().map(|span| span.span_context().clone());
        let context = parent.map(|parent| Context::new().with_remote_span_context(parent));
        let known = &endpoint.known;
        let builder = SpanBuilder::from_name("attempt").with_kind(SpanKind::Client);
        let builder = builder.with_attributes([
            KeyValue::new("server.address", known.address.clone()),
            KeyValue::new("server.port", i64::from(known.port)),
            KeyValue::new("llmd.endpoint", known.name.clone()),
            KeyValue::new("llmd.variant", endpoint.variant.name.to_string()),
            KeyValue::new("llmd.accelerator", endpoint.variant.accelerator.clone()),
            KeyValue::new("llmd.simulated", endpoint.simulated()),
        ]);
        let span =
            live.tracer.build_with_context(builder, context.as_ref().unwrap_or(&live.context));
        let header = traceparent(span.span_context());
        live.attempt = Some(span);
        header
    }

    /// How the attempt went: the engine's status, or the name of what failed.
    pub(crate) fn attempted(&mut self, status: Option<u16>, error: Option<&'static str>) {
        let Some(span) = self.live.as_mut().and_then(|live| live.attempt.as_mut()) else { return };
        if let Some(status) = status {
            span.set_attribute(KeyValue::new("http.response.status_code", i64::from(status)));
        }
        if let Some(error) = error {
            span.set_attribute(KeyValue::new("error.type", error));
            span.set_status(Status::error(error));
        }
    }

    /// The present attempt ends.
    pub(crate) fn end_attempt(&mut self) {
        if let Some(live) = &mut self.live {
            live.attempt = None;
        }
    }

    /// The request ended.
    pub(crate) fn end(&mut self, status: u16, error: Option<&'static str>, usage: Usage) {
        let Some(mut live) = self.live.take() else { return };
        live.attempt = None;
        live.phase = None;
        live.root.set_attribute(KeyValue::new("http.response.status_code", i64::from(status)));
        let counts = [
            ("gen_ai.usage.input_tokens", usage.prompt_tokens),
            ("gen_ai.usage.output_tokens", usage.completion_tokens),
            ("gen_ai.usage.cache_read.input_tokens", usage.cached_tokens),
        ];
        for (name, count) in counts {
            if let Some(count) = count {
                live.root.set_attribute(KeyValue::new(name, i64::from(count)));
            }
        }
        if let Some(error) = error {
            live.root.set_attribute(KeyValue::new("error.type", error));
            live.root.set_status(Status::error(error));
        }
        live.root.end();
    }
}
