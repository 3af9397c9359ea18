//! Traces, as a collector receives them.

use crate::support::{Setup, body, engine, one_model};
use http_body_util::{BodyExt, Full};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use llmd_testkit::{Behaviour, Collector};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use prost::Message;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";
const VERSION: &str = env!("CARGO_PKG_VERSION");

fn config(engines: &[&llmd_testkit::FakeEngine], otlp: &str, more: &str) -> String {
    format!("{}traces: {{otlp: \"{otlp}\"{more}}}\n", one_model(engines))
}

fn hex(bytes: &[u8]) -> String {
    let digits: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    digits.concat()
}

fn spans(collector: &Collector) -> Vec<Span> {
    let requests = collector.bodies().into_iter();
    let requests = requests.map(|body| ExportTraceServiceRequest::decode(&body[..]).unwrap());
    let resources = requests.flat_map(|request| request.resource_spans);
    resources.flat_map(|r| r.scope_spans).flat_map(|scope| scope.spans).collect()
}

async fn spans_until(collector: &Collector, root: usize) -> Vec<Span> {
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        let spans = spans(collector);
        if spans.iter().filter(|span| span.name == "llmd_router.request").count() >= root {
            return spans;
        }
        assert!(Instant::now() < end, "{spans:#?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn attributes(span: &Span) -> BTreeMap<String, String> {
    let text = |value: &Value| match value {
        Value::StringValue(text) => text.clone(),
        Value::IntValue(number) => number.to_string(),
        Value::BoolValue(flag) => flag.to_string(),
        other => format!("{other:?}"),
    };
    let pairs = span.attributes.iter();
    let value = |kv: &opentelemetry_proto::tonic::common::v1::KeyValue| {
        kv.value.as_ref().and_then(|v| v.value.as_ref()).map(text).unwrap_or_default()
    };
    pairs.map(|kv| (kv.key.clone(), value(kv))).collect()
}

fn find<'a>(spans: &'a [Span], name: &str) -> &'a Span {
    spans.iter().find(|span| span.name == name).unwrap_or_else(|| panic!("no {name}: {spans:#?}"))
}

#[tokio::test]
async fn one_trace_holds_the_client_the_phases_and_the_attempt() {
    let collector = Collector::start().await.unwrap();
    let engine = engine(vec![Behaviour::Usage(3, [50, 16, 3])]);
    let otlp = format!("http://{}", collector.address);
    let setup = Setup::start(&config(&[&engine], &otlp, ""));
    let header = format!("traceparent: 00-{TRACE}-{PARENT}-01");
    setup.post(&[&header], &body("chat", true)).await.reply().await.unwrap();

    let spans = spans_until(&collector, 1).await;
    assert!(spans.iter().all(|span| hex(&span.trace_id) == TRACE), "{spans:#?}");
    let root = find(&spans, "llmd_router.request");
    assert_eq!(hex(&root.parent_span_id), PARENT);
    for phase in ["receive", "parse", "admit", "tokenize", "pick", "forward", "stream", "account"] {
        assert_eq!(find(&spans, phase).parent_span_id, root.span_id, "{phase}");
    }
    assert_eq!(spans.len(), 10, "{spans:#?}");
    let attempt = find(&spans, "attempt");
    assert_eq!(attempt.parent_span_id, find(&spans, "forward").span_id);
    let sent = engine.received()[0].header("traceparent").unwrap().to_owned();
    assert_eq!(sent, format!("00-{TRACE}-{}-01", hex(&attempt.span_id)));

    let about = attributes(root);
    assert_eq!(about["gen_ai.operation.name"], "chat");
    assert_eq!(about["gen_ai.request.model"], "chat");
    assert_eq!(about["gen_ai.usage.input_tokens"], "50");
    assert_eq!(about["gen_ai.usage.output_tokens"], "3");
    assert_eq!(about["http.response.status_code"], "200");
    let about = attributes(find(&spans, "pick"));
    assert_eq!(about["llmd.pick.scheduler"], "round-robin");
    assert!(about.contains_key("llmd.pick.ttft_us") && about.contains_key("llmd.pick.candidates"));
    assert_eq!(attributes(attempt)["llmd.endpoint"], "e0");
    let all = format!("{spans:?}");
    assert!(!all.contains("hello there"), "a prompt is in the trace");
}

/// Attributes whose values take time or chance.
fn is_time(name: &str) -> bool {
    name.ends_with("_us") || name == "server.port"
}

/// The attributes of a span; of those that take time, only their names.
fn lasting(span: &Span) -> Vec<(String, String)> {
    let pairs = attributes(span).into_iter();
    pairs
        .map(|(name, value)| if is_time(&name) { (name, "-".into()) } else { (name, value) })
        .collect()
}

#[tokio::test]
async fn all_that_a_trace_tells_has_its_name_and_its_value() {
    let collector = Collector::start().await.unwrap();
    let engine = engine(vec![Behaviour::Usage(3, [50, 16, 3]), Behaviour::DieAfter(1)]);
    let setup = Setup::start(&config(&[&engine], &format!("http://{}", collector.address), ""));
    setup.post(&["x-request-id: mine"], &body("chat", true)).await.reply().await.unwrap();
    setup.ask_stream().await;
    let spans = spans_until(&collector, 2).await;
    let named = |name: &str| spans.iter().filter(|span| span.name == name).collect::<Vec<_>>();
    let told = |span: &Span| {
        let pairs = lasting(span).into_iter();
        pairs.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>()
    };
    let root = named("llmd_router.request")[0];
    assert_eq!(
        told(root),
        [
            "gen_ai.operation.name=chat",
            "gen_ai.request.max_tokens=8",
            "gen_ai.request.model=chat",
            "gen_ai.usage.cache_read.input_tokens=16",
            "gen_ai.usage.input_tokens=50",
            "gen_ai.usage.output_tokens=3",
            "http.request.method=POST",
            "http.response.status_code=200",
            "llmd.request.id=mine",
            "llmd.stream=true",
            "url.path=/v1/chat/completions",
        ]
    );
    assert_eq!(
        told(named("pick")[0]),
        [
            "llmd.pick.attempt=1",
            "llmd.pick.best_finish_us=-",
            "llmd.pick.cached_tokens=0",
            "llmd.pick.candidates=1",
            "llmd.pick.delay_us=-",
            "llmd.pick.finish_us=-",
            "llmd.pick.inflight_requests=0",
            "llmd.pick.inflight_tokens=0",
            "llmd.pick.itl_us=-",
            "llmd.pick.output_tokens=8",
            "llmd.pick.prompt_tokens=10",
            "llmd.pick.scheduler=round-robin",
            "llmd.pick.tier=not-judged",
            "llmd.pick.ttft_us=-",
            "llmd.pick.wait_us=-",
        ]
    );
    let attempt = [
        "llmd.accelerator=test-accelerator",
        "llmd.endpoint=e0",
        "llmd.simulated=false",
        "llmd.variant=v",
        "server.address=127.0.0.1",
        "server.port=-",
    ];
    let attempts = named("attempt");
    let answered = [&["http.response.status_code=200"], &attempt[..]].concat();
    assert_eq!(told(attempts[0]), answered);
    // The head came, and then it broke.
    assert_eq!(told(attempts[1]), [&["error.type=endpoint_lost"], &answered[..]].concat());
    let port = engine.address.port().to_string();
    assert!(attempts.iter().all(|span| attributes(span)["server.port"] == port));
    assert_eq!((root.kind, attempts[0].kind), (SpanKind::Server as i32, SpanKind::Client as i32));
    let broken = named("llmd_router.request")[1];
    for (span, code) in [(root, 0), (attempts[0], 0), (broken, 2), (attempts[1], 2)] {
        assert_eq!(span.status.as_ref().map_or(0, |status| status.code), code, "{span:#?}");
    }
    assert_eq!(attributes(broken)["error.type"], "endpoint_lost");
}

#[tokio::test]
async fn each_attempt_is_a_span_and_the_engine_gets_its_own() {
    let collector = Collector::start().await.unwrap();
    let engines = [engine(vec![Behaviour::CloseBeforeHead]), engine(vec![Behaviour::ok()])];
    let otlp = format!("http://{}/v1/traces", collector.address);
    let setup = Setup::start(&config(&[&engines[0], &engines[1]], &otlp, ""));
    setup.ask().await;
    setup.ask().await;
    let spans = spans_until(&collector, 2).await;
    let attempts: Vec<&Span> = spans.iter().filter(|span| span.name == "attempt").collect();
    let sent: Vec<String> = engines
        .iter()
        .flat_map(llmd_testkit::FakeEngine::received)
        .map(|received| received.header("traceparent").unwrap()[36..52].to_owned())
        .collect();
    assert_eq!(attempts.len(), sent.len());
    assert!(attempts.iter().all(|span| sent.contains(&hex(&span.span_id))));
    let failed: Vec<_> =
        attempts.iter().filter_map(|span| attributes(span).get("error.type").cloned()).collect();
    assert_eq!(failed, vec!["endpoint_lost"; engines[0].received().len()]);
    assert!(!failed.is_empty());
}

#[tokio::test]
async fn who_is_not_sampled_makes_no_span_and_the_engine_is_told() {
    let collector = Collector::start().await.unwrap();
    let engine = engine(vec![]);
    let otlp = format!("http://{}", collector.address);
    let setup = Setup::start(&config(&[&engine], &otlp, ", sampleRatio: 0"));
    setup.ask().await;
    let unsampled = format!("00-{TRACE}-{PARENT}-00");
    let header = format!("traceparent: {unsampled}");
    setup.post(&[&header], &body("chat", false)).await.reply().await.unwrap();
    // The client's own decision goes before ours; this one is also the end of the wait.
    let header = format!("traceparent: 00-{TRACE}-{PARENT}-01");
    setup.post(&[&header], &body("chat", false)).await.reply().await.unwrap();
    let spans = spans_until(&collector, 1).await;
    assert!(spans.iter().all(|span| hex(&span.trace_id) == TRACE));
    assert_eq!(spans.iter().filter(|span| span.name == "attempt").count(), 1);
    let received = engine.received();
    assert!(received[0].header("traceparent").unwrap().ends_with("-00"));
    assert_eq!(received[1].header("traceparent"), Some(unsampled.as_str()));
}

#[tokio::test]
async fn without_a_collector_configured_the_clients_context_passes() {
    let engine = engine(vec![]);
    let setup = Setup::start(&one_model(&[&engine]));
    let context = format!("00-{TRACE}-{PARENT}-01");
    setup
        .post(&[&format!("traceparent: {context}")], &body("chat", false))
        .await
        .reply()
        .await
        .unwrap();
    setup.ask().await;
    assert_eq!(engine.received()[0].header("traceparent"), Some(context.as_str()));
    assert_eq!(engine.received()[1].header("traceparent"), None);
}

#[tokio::test]
async fn the_last_spans_are_sent_before_the_router_ends() {
    let collector = Collector::start().await.unwrap();
    let engine = engine(vec![]);
    let mut setup = Setup::start(&config(&[&engine], &format!("http://{}", collector.address), ""));
    setup.ask().await;
    setup.tell(llmd_router::control::Command::Drain);
    setup.ended().await;
    find(&spans(&collector), "llmd_router.request");
}

/// A collector that speaks gRPC: takes one message a call, answers an empty one.
async fn grpc_collector(listener: tokio::net::TcpListener, bodies: Arc<Mutex<Vec<Vec<u8>>>>) {
    while let Ok((socket, _)) = listener.accept().await {
        let bodies = Arc::clone(&bodies);
        let service = service_fn(move |request: http::Request<hyper::body::Incoming>| {
            let bodies = Arc::clone(&bodies);
            async move {
                let path = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
                assert_eq!(request.uri().path(), path);
                let body = request.into_body().collect().await?.to_bytes();
                // A byte for compression and four for the length go before the message.
                bodies.lock().unwrap().push(body[5..].to_vec());
                let empty = Full::new(bytes::Bytes::from_static(&[0; 5]));
                let status = http::HeaderMap::from_iter([(
                    http::HeaderName::from_static("grpc-status"),
                    http::HeaderValue::from_static("0"),
                )]);
                let answer = empty.with_trailers(std::future::ready(Some(Ok(status))));
                let answer = http::Response::builder()
                    .header("content-type", "application/grpc")
                    .body(answer)
                    .unwrap();
                Ok::<_, hyper::Error>(answer)
            }
        });
        let http2 = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        tokio::spawn(http2.serve_connection(TokioIo::new(socket), service));
    }
}

#[tokio::test]
async fn spans_are_sent_over_grpc_as_well() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let otlp = format!("http://{}", listener.local_addr().unwrap());
    let bodies: Arc<Mutex<Vec<Vec<u8>>>> = Arc::default();
    tokio::spawn(grpc_collector(listener, Arc::clone(&bodies)));
    let engine = engine(vec![]);
    let setup = Setup::start(&config(&[&engine], &otlp, ", protocol: grpc"));
    setup.ask().await;
    let end = Instant::now() + Duration::from_secs(10);
    while bodies.lock().unwrap().is_empty() {
        assert!(Instant::now() < end, "nothing came");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let request = ExportTraceServiceRequest::decode(&bodies.lock().unwrap()[0][..]).unwrap();
    let resource = request.resource_spans[0].resource.as_ref().unwrap();
    for (key, value) in [("name", "llmd-router"), ("namespace", "test"), ("version", VERSION)] {
        let key = format!("service.{key}");
        let found = resource.attributes.iter().find(|kv| kv.key == key).unwrap();
        assert!(format!("{found:?}").contains(&format!("{value:?}")), "{found:?}");
    }
}

#[tokio::test]
async fn a_dead_collector_costs_counted_spans_and_nothing_else() {
    for protocol in ["http/protobuf", "grpc"] {
        let engine = engine(vec![]);
        let more = format!(", protocol: {protocol}");
        let setup = Setup::start(&config(&[&engine], "http://127.0.0.1:9", &more));
        for _ in 0..3 {
            assert_eq!(setup.ask().await.status, 200);
        }
        let end = Instant::now() + Duration::from_secs(20);
        while setup.metric("llmd_router_dropped_spans_total").await < 30.0 {
            assert!(Instant::now() < end, "not counted with {protocol}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}
