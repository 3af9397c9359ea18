use super::*;
use llmd_types::Micros;

const MINIMAL: &str = "version: 1\n";

fn problems(text: &str) -> Vec<String> {
    Config::parse(text).unwrap_err()
}

#[test]
fn what_is_not_said_has_these_defaults() {
    let config = Config::parse(MINIMAL).unwrap();
    assert_eq!(config.listen.data.to_string(), "127.0.0.1:8000");
    assert_eq!(config.listen.admin.to_string(), "127.0.0.1:9090");
    assert_eq!(config.limits.body_bytes, 67_108_864);
    assert_eq!(config.limits.header_ms, 10_000);
    assert_eq!((config.limits.connections, config.limits.connections()), (None, 65_536));
    assert_eq!(config.limits.connect_ms, 1_000);
    assert_eq!(config.limits.first_byte_ms, 300_000);
    assert_eq!(config.limits.idle_ms, 60_000);
    assert_eq!(config.limits.total_ms, 3_600_000);
    assert_eq!(config.limits.drain_ms, 30_000);
    assert_eq!((config.limits.quiet_ms, config.limits.quiet().as_millis()), (None, 200));
    let retry = Retry { attempts: 3, budget_percent: 20, budget_min_per_second: 10 };
    assert_eq!(config.retry, retry);
    // What the scheduler does without a configuration, and simulations with it.
    assert_eq!(config.resilience.rules(&retry), llmd_sched::Resilience::default());
    let checks = &config.resilience.checks;
    assert_eq!(
        (checks.interval_ms, checks.timeout_ms, checks.path.as_str()),
        (2_000, 1_000, "/health")
    );
    assert_eq!((config.scrape.interval_ms, config.scrape.timeout_ms), (200, 1_000));
    assert_eq!(config.traces, None);
}

#[test]
fn every_field_of_the_schema_is_read() {
    let facts = serde_json::to_string(&ReplicaFacts::neutral()).unwrap();
    let text = format!(
        "version: 1
fleet: prod
listen: {{data: \"0.0.0.0:1\", admin: \"0.0.0.0:2\"}}
adminKeyFile: key
limits: {{bodyBytes: 1, headerMs: 2, connectMs: 3, firstByteMs: 4, idleMs: 5, totalMs: 6,
  drainMs: 7, quietMs: 0}}
retry: {{attempts: 2, budgetPercent: 5, budgetMinPerSecond: 0}}
resilience:
  breaker: {{failures: 0, openMs: 10, openMaxMs: 20}}
  ejection: {{windowMs: 30, minRequests: 1, failurePercent: 0, maxPercent: 100}}
  slowStartMs: 0
  checks: {{intervalMs: 40, timeoutMs: 50, failures: 0, successes: 2, path: /v2/health/ready?x=1}}
scrape: {{intervalMs: 100, timeoutMs: 200}}
traces: {{otlp: \"http://127.0.0.1:4317\", protocol: grpc, sampleRatio: 0.5}}
models:
- name: chat
  aliases: [assistant]
  objective: cost
  scheduler: llm-d-default
  slo: {{ttftUs: 800000}}
  seed: 7
  passthrough: true
  variants:
  - {{name: h, accelerator: nvidia-h100, engine: vllm, simulated: true, servedName: x,
     facts: {facts}}}
  sources:
  - {{kind: static, endpoints: [{{name: e, address: 127.0.0.1, port: 18000, variant: h}}]}}
  - {{kind: file, path: endpoints.yaml}}
  - {{kind: process, path: replicas.json}}
  - {{kind: dns, name: chat-h.llm.svc, port: 8000}}
  - {{kind: dns, name: a., port: 1, variant: h, intervalMs: 100, resolver: \"[::1]:53\"}}
"
    );
    let mut config = Config::parse(&text).unwrap();
    assert_eq!(config.models[0].scheduler, Scheduler::LlmDDefault);
    assert_eq!(config.traces.as_ref().unwrap().protocol, Protocol::Grpc);
    config.resolve(Path::new("/etc/router/router.yaml"));
    assert_eq!(config.admin_key_file, Some("/etc/router/key".into()));
    let path = PathBuf::from("/etc/router/endpoints.yaml");
    assert_eq!(config.models[0].sources[1], Source::File { path });
    let Source::Dns(name) = &config.models[0].sources[3] else { panic!("no name") };
    assert_eq!((name.interval_ms, name.resolver, &name.variant), (5_000, None, &None));
}

#[test]
fn an_unknown_key_is_refused_with_its_path() {
    let text = "version: 1\nmodels:\n- name: a\n  variants:\n  - {name: v, sped: 1}\n";
    let problem = problems(text).remove(0);
    assert!(problem.contains("models[0].variants[0]"), "{problem}");
    assert!(problem.contains("sped"), "{problem}");
    assert!(problems("version: 1\nextra: 1\n")[0].contains("extra"));
}

#[test]
fn all_problems_are_told_at_once() {
    let text = "version: 2
limits: {idleMs: 0}
traces: {otlp: \"ftp://x\", sampleRatio: 2}
models:
- {name: a, aliases: [b]}
- name: b
  variants: [{name: v}, {name: v, servedName: \"\"}]
  sources:
  - {kind: static, endpoints: [{name: e, address: h, port: 0, variant: w}]}
";
    let problems = problems(text);
    let wanted = [
        "version: is 2",
        "limits.idleMs",
        "traces.sampleRatio",
        "traces.otlp",
        "models[1].name: \"b\" is models[0].aliases[0] already",
        "models[1].variants[1].name",
        "models[1].variants[1].servedName",
        "models[1].sources[0].endpoints[0].port: is 0",
        "models[1].sources[0].endpoints[0].variant: \"w\" is none of",
    ];
    for wanted in wanted {
        assert!(problems.iter().any(|p| p.contains(wanted)), "{wanted} not in {problems:?}");
    }
    assert_eq!(problems.len(), wanted.len(), "{problems:?}");
}

/// A model with these settings.
fn model(more: &str) -> String {
    format!("version: 1\nmodels:\n- name: chat\n  {more}\n")
}

fn endpoint(more: &str) -> String {
    model(&format!(
        "variants: [{{name: v}}, {{name: w}}]\n  \
         sources: [{{kind: static, endpoints: [{{name: e, {more}}}]}}]"
    ))
}

#[derive(Debug, serde::Deserialize)]
struct Mistake {
    file: String,
    told: Vec<String>,
}

#[test]
fn each_kind_of_mistake_is_told_with_its_place_and_a_remedy() {
    let table = include_str!("../../tests/fixtures/config/mistakes.yaml");
    let long = "x".repeat(5_000);
    let table = table.replace(" LONG", &format!(" {long}")).replace("BEGIN", &long[..128]);
    let rows: Vec<Mistake> = serde_yaml_ng::from_str(&table).unwrap();
    let found = rows.iter().map(|row| problems(&row.file));
    let wrong: Vec<_> = found.zip(&rows).filter(|(found, row)| *found != row.told).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn what_can_be_neither_an_address_nor_a_path_is_refused() {
    for (address, good) in [
        ("10.0.0.1", true),
        ("::1", true),
        ("host", true),
        ("my_engine.svc.cluster.local.", true),
        ("3com.example", true),
        ("300.0.0.1", false),
        ("10.0.0", false),
        ("7", false),
        ("[::1]", false),
        ("host:8000", false),
        ("http://host", false),
        ("a..b", false),
        ("a b", false),
        ("", false),
    ] {
        let text = endpoint(&format!("address: {address:?}, port: 1"));
        assert_eq!(Config::parse(&text).is_ok(), good, "{address}");
    }
    for path in ["*", "", "http://x/health", "/a b", "/health#x"] {
        let text = format!("version: 1\nresilience: {{checks: {{path: {path:?}}}}}\n");
        assert!(Config::parse(&text).is_err(), "{path}");
    }
}

#[test]
fn two_ports_that_cannot_both_listen_are_refused() {
    for (data, admin, good) in [
        ("127.0.0.1:0", "127.0.0.1:0", true),
        ("127.0.0.1:1", "127.0.0.2:1", true),
        ("127.0.0.1:1", "127.0.0.1:2", true),
        ("0.0.0.0:1", "[::1]:1", true),
        ("127.0.0.1:1", "127.0.0.1:1", false),
        ("0.0.0.0:1", "127.0.0.1:1", false),
        ("127.0.0.1:1", "[::]:1", false),
        ("[::]:1", "[::1]:1", false),
    ] {
        let text = format!("version: 1\nlisten: {{data: \"{data}\", admin: \"{admin}\"}}\n");
        assert_eq!(Config::parse(&text).is_ok(), good, "{data} {admin}");
    }
}

#[test]
fn names_are_as_long_as_those_of_a_fleet() {
    let named = |length| format!("version: 1\nmodels: [{{name: {}}}]\n", "x".repeat(length));
    assert!(Config::parse(&named(127)).is_ok() && Config::parse(&named(128)).is_err());
}

#[test]
fn each_rule_of_health_reaches_the_scheduler() {
    let text = "version: 1
retry: {attempts: 1, budgetPercent: 2, budgetMinPerSecond: 3}
resilience:
  breaker: {failures: 4, openMs: 5, openMaxMs: 6}
  ejection: {windowMs: 7, minRequests: 8, failurePercent: 9, maxPercent: 10}
  slowStartMs: 11
  checks: {intervalMs: 12, timeoutMs: 13, failures: 14, successes: 15}
";
    let config = Config::parse(text).unwrap();
    let expected = llmd_sched::Resilience {
        breaker_failures: 4,
        breaker_open: Micros(5_000),
        breaker_open_max: Micros(6_000),
        ejection_window: Micros(7_000),
        ejection_min_requests: 8,
        ejection_failure_percent: 9,
        ejection_max_percent: 10,
        slow_start: Micros(11_000),
        check_failures: 14,
        check_successes: 15,
        retry_budget_percent: 2,
        retry_budget_min_per_second: 3,
    };
    assert_eq!(config.resilience.rules(&config.retry), expected);
}

#[test]
fn impossible_facts_are_named_by_variant_and_field() {
    let mut facts = ReplicaFacts::neutral();
    facts.speed = 0.0;
    let facts = serde_json::to_string(&facts).unwrap();
    let text =
        format!("version: 1\nmodels: [{{name: a, variants: [{{name: v, facts: {facts}}}]}}]\n");
    assert!(problems(&text)[0].starts_with("models[0].variants[0].facts.speed"));
}

#[test]
fn what_is_no_yaml_is_refused_with_a_line() {
    assert!(problems("version: [")[0].contains("line"));
}

#[test]
fn what_cannot_be_read_is_told_in_the_words_of_the_file_and_its_place_once() {
    let long = "x".repeat(500);
    for (text, told) in [
        (
            model("scheduler: clever"),
            "models[0].scheduler: unknown value `clever`, expected one of `expected-finish`, \
             `round-robin`, `random`, `least-request`, `llm-d-default` at line 4 column 14",
        ),
        (
            model("sources: [{kind: ray, path: x}]"),
            "models[0].sources[0].kind: unknown value `ray`, expected one of `static`, `file`, \
             `process`, `dns` at line 4 column 20",
        ),
        (model("aliases: chat"), "expected a list"),
        (model("usage: [exact]"), "invalid type: a list, expected one of the known values"),
        (model("usage: 3"), "unknown value `3`, expected `as-told` or `exact`"),
        (
            model("sources: [{kind: static, endpoints: [{adress: y}]}]"),
            "models[0].sources[0]: unknown key `adress`, expected one of `name`, `address`",
        ),
        ("version: one\n".into(), "version: invalid type: string \"one\", expected a whole number"),
        ("version: 1\nlimits: 7\n".into(), "limits: invalid type: integer `7`, expected a mapping"),
        ("version: 1\nlimit: {}\n".into(), "limit: unknown key `limit`, expected one of `version`"),
        ("fleet: x\n".into(), "missing key `version`"),
        (format!("version: 1\n{long}: 7\n"), "unknown key `xx"),
        (format!("version: \"{long}\"\n"), "version: invalid type: string \"xx"),
    ] {
        let [problem] = &problems(&text)[..] else { panic!("{text}") };
        assert!(problem.contains(told), "{problem}");
        assert!(!problem.contains(&long), "{problem}");
        for word in ["unknown variant", "struct", "field", "enum", "[0]: models", "sequence"] {
            assert!(!problem.contains(word), "{word}: {problem}");
        }
    }
}
