"""Rules over several fields: names, targets, endpoints, lengths, and what may be left out."""

from __future__ import annotations

import pytest

from tests.unit.spec.told import Complain, Load, caret

ROUTING = "routing: {objective: latency, scheduler: expected-finish}"
PAIR = "certFile: mine.yaml, keyFile: mine.yaml"
TINY = "{name: cpu, accelerator: cpu-x86, target: here}"
OLD = (
    '{name: old, accelerator: nvidia-l4, endpoint: {url: "http://10.0.0.7:8000", servedName: q}, '
    "apis: [chat, completions]}"
)

OLD_URL = "http://10.0.0.7:8000"

# what stands in the valid fleet, what is put there, the code, what the caret underlines
CASES = [
    # one name for one thing
    ("  defaults:", "  - {name: here, kind: local}\n  defaults:", "LC1060", "here"),
    ("name: tiny", "name: chat", "LC1060", "chat"),
    ("name: tiny", "name: assistant", "LC1060", "assistant"),
    ("[assistant]", "[chat]", "LC1060", "chat"),
    ("[assistant]", "[tiny]", "LC1060", "tiny"),
    ("[assistant]", "[a, a]", "LC1060", "a"),
    ("name: tpu", "name: h100", "LC1060", "h100"),
    ("[./mine.yaml]", "[./mine.yaml, ./mine.yaml]", "LC1060", "./mine.yaml"),
    # a host is dealt out once
    (
        "{name: here, kind: local}",
        "{name: here, kind: systemd, hosts: [a, b, a]}",
        "LC1060",
        "a",
    ),
    (
        "{name: here, kind: local}",
        "{name: here, kind: systemd, hosts: [a, A]}",
        "LC1060",
        "A",
    ),
    (
        "  defaults:",
        "  - {name: x, kind: systemd, hosts: [a]}\n  - {name: y, kind: systemd, hosts: [b, a]}\n"
        "  defaults:",
        "LC1060",
        "a",
    ),
    # a variable has one secret
    *(
        ("aliases: [assistant]", f"aliases: [assistant]\n    secretRefs: [{refs}]", "LC1060", under)
        for refs, under in (
            ("{name: a, env: X}, {name: b, env: X}", "X"),
            ("{name: a}, {name: b}, {name: a}", "a"),
        )
    ),
    # targets
    ("target: there, engine", "target: nowhere, engine", "LC1061", "nowhere"),
    ("{target: here, accelerator: nvidia", "{target: gke, accelerator: nvidia", "LC1061", "gke"),
    (TINY, "{name: cpu, accelerator: cpu-x86}", "LC1062", "{name: cpu, accelerator: cpu-x86}"),
    (
        "- {target: here, accelerator: nvidia-h100, nodes: 2, devicesPerNode: 8, ",
        "- {accelerator: nvidia-h100, nodes: 2, devicesPerNode: 8, ",
        "LC1062",
        "{accelerator: nvidia-h100, nodes: 2, devicesPerNode: 8, pricePerDeviceHour: 2.95}",
    ),
    # TLS of what runs already
    (
        'http://10.0.0.7:8000", servedName: q}',
        'http://h", tls: {}}',
        "LC1071",
        '{url: "http://h", tls: {}}',
    ),
    *(
        (f'{OLD_URL}"', f'https://h", tls: {half}', "LC1071", half)
        for half in ("{certFile: mine.yaml}", "{keyFile: mine.yaml}")
    ),
    ('http://10.0.0.7:8000"', 'https://h", tls: {caFile: no.crt}', "LC1001", "no.crt"),
    ('http://10.0.0.7:8000"', 'https://h", tls: {serverName: "a b"}', "LC1046", '"a b"'),
    # TLS of the router
    *(
        (ROUTING, f"tls: {tls}\n    {ROUTING}", code, under)
        for tls, code, under in (
            ("{certFile: mine.yaml}", "LC1021", "tls"),
            ("{certFile: mine.yaml, keyFile: no.key}", "LC1001", "no.key"),
            (f"{{{PAIR}, clientCaFile: no.crt}}", "LC1001", "no.crt"),
            (f"{{{PAIR}, caFile: mine.yaml}}", "LC1020", "caFile"),
            (f"{{{PAIR}, clientCaFile: ''}}", "LC1027", "''"),
        )
    ),
    # a variant's name
    (
        TINY,
        "{name: a, accelerator: cpu-x86, target: here}, {accelerator: cpu-x86, target: here}",
        "LC1063",
        "{accelerator: cpu-x86, target: here}",
    ),
    # what does nothing beside an endpoint
    ("servedName: q}", "servedName: q}, target: here", "LC1064", "target"),
    ("servedName: q}", "servedName: q}, replicas: 1", "LC1064", "replicas"),
    ("servedName: q}", "servedName: q}, parallelism: {tensor: 2}", "LC1064", "parallelism"),
    ("servedName: q}", "servedName: q}, parallelism: {tensor: 0}", "LC1064", "parallelism"),
    ("servedName: q}", "servedName: q}, engineArgs: {a: 1}", "LC1064", "engineArgs"),
    ("servedName: q}", "servedName: q}, extraArgs: [-x]", "LC1064", "extraArgs"),
    ("servedName: q}", "servedName: q}, unsafe: true", "LC1064", "unsafe"),
    (
        "servedName: q}",
        "servedName: q}, engine: {name: vllm, executable: x}",
        "LC1064",
        "executable",
    ),
    ("maxModelLen: 16384", "maxModelLen: 32769", "LC1065", "32769"),
    ("uri: ./tiny", "uri: ./tiny, revision: main", "LC1066", "revision"),
    ("uri: ./tiny", "uri: file:///tiny, revision: main", "LC1066", "revision"),
    ("uri: ./tiny", "uri: /tiny, revision: main", "LC1066", "revision"),
    # the inventory
    (
        "  models:",
        "  - {target: here, accelerator: nvidia-h100}\n  models:",
        "LC1067",
        "nvidia-h100",
    ),
    # the service level
    ("ttft: {p50: 500ms, p95: 800ms}", "ttft: {p50: 1s, p95: 800ms}", "LC1068", None),
    ("ttft: {p50: 500ms, p95: 800ms}", "ttft: {p50: 1s, p99: 800ms}", "LC1068", None),
    ("ttft: {p50: 500ms, p95: 800ms}", "ttft: {}", "LC1068", "{}"),
    ("slo: {ttft: {p50: 500ms, p95: 800ms}, itl: {p95: 40ms}}", "slo: {}", "LC1068", "{}"),
    (ROUTING, f"target: nowhere\n    {ROUTING}", "LC1061", "nowhere"),
    # what one place says belongs together
    *(
        (TINY, TINY.replace("}", f", {said}}}"), code, under)
        for said, code, under in (
            ("replicas: 2, autoscale: {min: 1, max: 2}", "LC1074", "replicas"),
            ("autoscale: {min: 3, max: 2}", "LC1073", "{min: 3, max: 2}"),
            (
                "autoscale: {min: 0, max: 2, scaler: hpa}",
                "LC1073",
                "{min: 0, max: 2, scaler: hpa}",
            ),
            ("cache: {}", "LC1073", "{}"),
            ("cache: {path: /a, size: 1Gi}", "LC1073", "{path: /a, size: 1Gi}"),
            ("tolerations: [{value: a}]", "LC1073", "{value: a}"),
            ("tolerations: [{key: a, operator: Equal}]", "LC1073", "{key: a, operator: Equal}"),
            (
                "tolerations: [{effect: NoSchedule, tolerationSeconds: 1}]",
                "LC1073",
                "{effect: NoSchedule, tolerationSeconds: 1}",
            ),
            ("secretRefs: [{name: a, key: b}]", "LC1073", "{name: a, key: b}"),
            ("role: prefill", "LC1075", "prefill"),
            ("role: decode", "LC1075", "decode"),
        )
    ),
    ("maxModelLen: 32768", "disaggregation: {}", "LC1075", "disaggregation"),
    *(
        (OLD, OLD.replace("{name: old", f"{{name: old, {said}"), "LC1064", said.partition(":")[0])
        for said in (
            "role: both",
            "topology: 2x4",
            'env: {A: "1"}',
            "resources: {cpu: 1}",
            "nodeSelector: {a: b}",
            "tolerations: []",
            "imagePullSecrets: []",
            "secretRefs: []",
            "cache: {size: 1Gi}",
            "autoscale: {min: 1, max: 2}",
        )
    ),
    # a breaker's longest time, said or not
    ("openMax: 30s", "openMax: 999ms", "LC1072", "999ms"),
    ("open: 1s, openMax: 30s", "open: 31s", "LC1072", "31s"),
    ("open: 1s, openMax: 30s", "openMax: 999ms", "LC1072", "999ms"),
    # a router that ends is quiet before it is cut off
    ("drain: 31s", "drain: 31s, quiet: 31s", "LC1076", "31s"),
    ("drain: 31s", "quiet: 40s", "LC1076", "40s"),
    ("drain: 31s", "drain: 0s, quiet: 1ms", "LC1076", "1ms"),
    # the simulated engine starts nothing of yours
    ("engine: {name: sim}", "engine: {name: sim, executable: x}", "LC1069", "executable"),
    (
        "defaults: {engine: {name: vllm, version: 0.32.0}",
        "defaults: {engine: {name: sim, executable: x}",
        "LC1069",
        "executable",
    ),
    ("uri: ./tiny", "uri: ./tiny, engine: {name: sim, executable: x}", "LC1069", "executable"),
    # one endpoint, one variant
    (
        OLD,
        OLD
        + '\n    - {name: older, accelerator: cpu-x86, endpoint: {url: "http://10.0.0.7:8000/"}}',
        "LC1070",
        '"http://10.0.0.7:8000/"',
    ),
]


@pytest.mark.parametrize(("before", "after", "code", "under"), CASES)
def test_a_broken_rule_is_one_placed_problem(
    valid: str, complain: Complain, before: str, after: str, code: str, under: str | None
) -> None:
    assert before in valid
    (problem,) = complain(valid.replace(before, after, 1))
    assert problem.code == code
    assert under is None or caret(problem) == under


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("open: 5s, openMax: 2000ms", "openMax is 2000ms, but open is 5s"),
        ("open: 2m", "openMax is 30s (the default), but open is 2m"),
        ("openMax: 0.5s", "openMax is 0.5s, but open is 1s (the default)"),
    ],
)
def test_times_are_told_in_the_units_they_are_written_in(
    valid: str, complain: Complain, written: str, told: str
) -> None:
    (problem,) = complain(valid.replace("open: 1s, openMax: 30s", written, 1))
    assert problem.message == f"breaker: {told}"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("maxModelLen: 16384", "maxModelLen: 32768"),
        ("ttft: {p50: 500ms, p95: 800ms}", "ttft: {p50: 1s, p95: 1s}"),
        ("replicas: 4", "replicas: 0"),
        ("  models:", "  - {target: there, accelerator: nvidia-h100}\n  models:"),
        ("servedName: q}", "servedName: q}, engine: {name: vllm}, maxModelLen: 4096"),
        (TINY, TINY.replace("cpu,", "h100,")),
        ("uri: ./tiny", "uri: ../t.gguf"),
        ("http://10.0.0.7:8000", "http://[fd00::7]:8000/"),
        ("http://10.0.0.7:8000", "https://10.0.0.7"),
        (ROUTING, f"tls: {{{PAIR}}}\n    {ROUTING}"),
        (ROUTING, f"tls: {{{PAIR}, clientCaFile: mine.yaml}}\n    {ROUTING}"),
        ('http://10.0.0.7:8000"', 'https://h", tls: {}'),
        ('http://10.0.0.7:8000"', 'https://h", tls: {serverName: "fd00::7"}'),
        ('http://10.0.0.7:8000"', 'https://h", tls: {caFile: mine.yaml}'),
        ('http://10.0.0.7:8000"', 'https://h", tls: {certFile: mine.yaml, keyFile: mine.yaml}'),
        ("[--seed, ", "[--json, '{\"a\": 1}', "),
        ("pricePerDeviceHour: 2.95", "pricePerDeviceHour: 3"),
    ],
)
def test_what_stands_at_the_edge_of_a_rule_is_accepted(
    valid: str, load: Load, before: str, after: str
) -> None:
    assert before in valid
    assert load(valid.replace(before, after, 1))


def _one_target(valid: str) -> str:
    return valid.replace("  - {name: there, kind: local}\n", "").replace("there", "here")


def test_the_only_target_may_be_left_out(valid: str, load: Load) -> None:
    said = _one_target(valid)
    left_out = said.replace("target: here, ", "").replace("      target: here\n", "")
    left_out = left_out.replace(", target: here", "")
    assert "target: " not in left_out
    (loaded,) = load(left_out)
    spec = loaded.fleet.spec
    assert [item.target for item in spec.inventory] == ["here"]
    assert [v.target for m in spec.models for v in m.variants] == ["here", "here", None, "here"]
    assert loaded.spec_hash == load(said)[0].spec_hash


def test_a_variant_left_unnamed_is_named_after_its_accelerator(valid: str, load: Load) -> None:
    (loaded,) = load(valid.replace("{name: tpu, accelerator", "{accelerator"))
    assert loaded.fleet.spec.models[0].variants[1].name == "google-tpu-v6e"


def test_a_name_taken_from_the_accelerator_may_not_repeat_another(
    valid: str, complain: Complain
) -> None:
    spoilt = valid.replace("name: h100", "name: google-tpu-v6e")
    (problem,) = complain(spoilt.replace("{name: tpu, accelerator", "{accelerator"))
    assert problem.code == "LC1060"


def test_what_is_left_out_stands_where_its_map_does(valid: str, load: Load) -> None:
    (loaded,) = load(valid)
    variant = ("spec", "models", 0, "variants", 1)
    assert loaded.place((*variant, "replicas")) == loaded.place(variant) or (
        loaded.place((*variant, "replicas")).line == loaded.place(variant).line
    )
    assert loaded.place((*variant, "replicas")).path == "spec.models[0].variants[1].replicas"
    assert loaded.place(("spec", "models", 1, "slo", "ttft")).line == 32
    assert loaded.place((*variant, "name"), key=True).text.startswith("    - {name: tpu")


def test_a_missing_accelerator_is_told_once(valid: str, complain: Complain) -> None:
    (problem,) = complain(valid.replace(TINY, "{target: here}"))
    assert (problem.code, "accelerator" in problem.message) == ("LC1021", True)


def test_a_fleet_of_wrong_kinds_is_refused_without_a_flood(complain: Complain) -> None:
    head = "apiVersion: fleet.llmd-ctl.dev/v1alpha1\nkind: Fleet\nmetadata: {name: x}\n"
    (problem,) = complain(f"{head}spec: [1, 2]")
    assert (problem.code, caret(problem)) == ("LC1023", "[1, 2]")
    targets, models = complain(f"{head}spec: {{targets: x, models: {{a: 1}}}}")
    assert (targets.code, caret(targets)) == ("LC1023", "x")
    assert (models.code, caret(models)) == ("LC1023", "{a: 1}")
    (item, missing) = complain(f"{head}spec: {{targets: [1], models: [2]}}")
    assert {item.code, missing.code} == {"LC1023"}
