use super::*;
use std::io::Write;
use std::process::{Command, Stdio};

fn filled() -> String {
    let metrics = Metrics::new();
    let model = metrics.model("chat");
    model.ended(200, 0.1);
    model.ended(404, 0.1);
    model.retried(false);
    model.retried(true);
    model.retried(true);
    let variant = metrics.variant("chat", "h100");
    variant.ttft.observe(0.1);
    variant.tokens_in.inc_by(7);
    metrics.reloaded(true);
    let label = EndpointLabel { model: "chat".into(), endpoint: "e".into(), variant: "v".into() };
    metrics.scrape_failed(&label);
    let gauges = EndpointGauges {
        inflight_requests: 2,
        running: Some(1.5),
        breaker: 2,
        ejections: [0, 0, 0, 7],
        ..Default::default()
    };
    metrics.page(
        3,
        1,
        &[("chat", PoolGauges { budget: 4, refused: 5, troubles: 6 })],
        &[(label, gauges)],
    )
}

#[test]
fn a_page_is_in_the_format_that_prometheus_tools_read() {
    let page = filled();
    assert!(page.contains("# TYPE llmd_router_requests_total counter\n"), "{page}");
    assert!(page.contains("llmd_router_requests_total{model=\"chat\",code=\"404\"} 1\n"));
    assert!(
        page.contains(
            "llmd_router_inflight_requests{model=\"chat\",endpoint=\"e\",variant=\"v\"} 2"
        )
    );
    assert!(page.contains("llmd_router_open_requests 3\n"));
    assert!(page.contains("llmd_router_retries_total{model=\"chat\",stream=\"false\"} 1\n"));
    assert!(page.contains("llmd_router_retries_total{model=\"chat\",stream=\"true\"} 2\n"));
    let endpoint = "model=\"chat\",endpoint=\"e\",variant=\"v\"";
    assert!(page.contains(&format!("llmd_router_breaker_state{{{endpoint}}} 2\n")));
    let ejections = format!("llmd_router_ejections_total{{{endpoint},reason=\"checks\"}} 7\n");
    assert!(page.contains(&ejections), "{page}");
    let none = format!("llmd_router_ejections_total{{{endpoint},reason=\"unreachable\"}} 0\n");
    assert!(page.contains(&none), "the first of a kind is a change, too: {page}");
    assert!(page.contains("llmd_router_retry_budget{model=\"chat\"} 4\n"));
    assert!(page.contains("llmd_router_discovery_problems{model=\"chat\"} 6\n"));
    assert!(page.contains("llmd_router_retries_refused_total{model=\"chat\"} 5\n"));
    assert!(!page.contains("# EOF"));
    assert!(!page.contains("reported_waiting{"), "a signal that was not given is not shown");
}

#[test]
fn histograms_reach_from_a_simulated_token_to_a_long_answer() {
    let page = filled();
    for (name, label) in [
        ("request_duration", "model=\"chat\""),
        ("time_to_first_token", "model=\"chat\",variant=\"h100\""),
        ("inter_token_latency", "model=\"chat\",variant=\"h100\""),
    ] {
        let begin = format!("llmd_router_{name}_seconds_bucket{{le=\"");
        let bucket = |line: &str| {
            let (bound, rest) = line.strip_prefix(&begin)?.split_once('"')?;
            rest.starts_with(&format!(",{label}}}")).then(|| bound.to_owned())
        };
        let bounds: Vec<String> = page.lines().filter_map(bucket).collect();
        let wanted = "0.0001 0.00025 0.0005 0.001 0.0025 0.005 0.01 0.025 0.05 0.1 0.25 0.5 1.0 \
                      2.5 5.0 10.0 30.0 60.0 120.0 300.0 +Inf";
        assert_eq!(bounds.join(" "), wanted, "{page}");
    }
}

/// Of a counter that is born at 1, no increase is seen.
#[test]
fn rare_events_are_counted_from_zero() {
    let metrics = Metrics::new();
    let label = EndpointLabel { model: "m".into(), endpoint: "e".into(), variant: String::new() };
    let _hold = metrics.expect(&label);
    let page = metrics.page(0, 0, &[], &[]);
    for line in [
        "llmd_router_config_reloads_total{result=\"applied\"} 0\n",
        "llmd_router_config_reloads_total{result=\"refused\"} 0\n",
        "llmd_router_certificate_reloads_total{result=\"applied\"} 0\n",
        "llmd_router_scrape_failures_total{model=\"m\",endpoint=\"e\",variant=\"\"} 0\n",
    ] {
        assert!(page.contains(line), "{page}");
    }
}

#[test]
fn an_endpoint_that_left_is_gone_from_the_next_page() {
    let metrics = Metrics::new();
    let label = EndpointLabel { model: "m".into(), endpoint: "e".into(), variant: String::new() };
    let before = metrics.page(0, 0, &[], &[(label.clone(), EndpointGauges::default())]);
    let hold = metrics.expect(&label);
    metrics.scrape_failed(&label);
    drop(hold);
    let after = metrics.page(0, 0, &[], &[]);
    assert!(before.contains("endpoint=\"e\""));
    assert!(!after.contains("endpoint=\"e\""));
}

#[test]
fn promtool_finds_nothing_to_object_to() {
    let tool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    // The end-to-end tests of telemetry install Prometheus and check the page of a router.
    let Ok(mut tool) = tool else {
        eprintln!("not checked: promtool is not installed (tests/e2e/telemetry checks the page)");
        return;
    };
    tool.stdin.take().unwrap().write_all(filled().as_bytes()).unwrap();
    let output = tool.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned()
        + &String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.trim().is_empty(), "{said}");
}

/// All that a model, a variant and an endpoint have series of.
fn served(metrics: &Metrics, name: &str) -> (ModelMetrics, VariantMetrics, Arc<Hold>) {
    let (model, variant) = (metrics.model(name), metrics.variant(name, "v"));
    let label = EndpointLabel { model: name.into(), endpoint: "e".into(), variant: "v".into() };
    let endpoint = metrics.expect(&label);
    for code in [200, 404, 499, 999] {
        model.ended(code, 0.1);
    }
    model.retried(true);
    model.stream_errors.inc();
    variant.picks.inc();
    metrics.scrape_failed(&label);
    (model, variant, endpoint)
}

#[test]
fn series_end_with_the_last_who_counts_for_them() {
    let metrics = Metrics::new();
    let empty = metrics.page(0, 0, &[], &[]);
    for number in 0..100 {
        drop(served(&metrics, &format!("m{number}")));
    }
    let samples = |page: &str| page.lines().filter(|line| !line.starts_with('#')).count();
    assert_eq!(samples(&metrics.page(0, 0, &[], &[])), samples(&empty));
    // A request of a model that was gone, and is back, still runs.
    let old = served(&metrics, "m");
    let new = served(&metrics, "m");
    drop(old);
    new.0.ended(200, 0.1);
    let page = metrics.page(0, 0, &[], &[]);
    assert!(page.contains("llmd_router_requests_total{model=\"m\",code=\"200\"} 3\n"), "{page}");
    drop(new);
    assert_eq!(samples(&metrics.page(0, 0, &[], &[])), samples(&empty));
}
