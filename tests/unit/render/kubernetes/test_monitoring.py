"""What Prometheus reads, and which promises wake somebody."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from llmd_ctl.plan import Plan, Slo
from llmd_ctl.plan.place import PlannedRouter
from llmd_ctl.render.kubernetes.monitoring import BOUNDS, RUNBOOKS
from tests.unit.render.kubernetes.clusters import TARGET, Json, cluster, objects, only

ROOT = Path(__file__).parents[4]


def promising(**slo: int) -> Plan:
    plan = cluster()
    return replace(plan, models=(replace(plan.models[0], slo=Slo(**slo)),))


def rules_of(plan: Plan) -> list[Json]:
    groups = only(plan, "PrometheusRule")["spec"]["groups"]
    return [rule for group in groups for rule in group["rules"]]


def test_engines_and_routers_are_read_at_ports_that_they_have() -> None:
    plan = cluster()
    for name, workload in (("prod-engines", "prod-chat-a"), ("prod-router", "prod-router")):
        monitor = only(plan, "PodMonitor", name)["spec"]
        template = only(plan, "Deployment", workload)["spec"]["template"]
        labels = template["metadata"]["labels"]
        assert monitor["selector"]["matchLabels"].items() <= labels.items()
        ports = {port["name"] for port in template["spec"]["containers"][0]["ports"]}
        assert {endpoint["port"] for endpoint in monitor["podMetricsEndpoints"]} <= ports


def test_series_of_the_router_say_of_which_fleet_they_are() -> None:
    (endpoint,) = only(cluster(), "PodMonitor", "prod-router")["spec"]["podMetricsEndpoints"]
    assert endpoint["relabelings"] == [{"targetLabel": "fleet", "replacement": "prod"}]


def test_without_a_promise_nobody_is_woken() -> None:
    assert "PrometheusRule" not in {kind for kind, _ in objects(cluster())}


def test_llm_ds_router_promises_nothing() -> None:
    plan = promising(ttft_us=800_000, ttft_percentile=95)
    plan = replace(plan, router=PlannedRouter("llm-d", TARGET.name, 1))
    assert "PrometheusRule" not in {kind for kind, _ in objects(plan)}


def test_each_promise_has_a_fast_and_a_slow_alert() -> None:
    plan = promising(ttft_us=800_000, ttft_percentile=95, itl_us=40_000, itl_percentile=99)
    told = [(rule["alert"], rule["labels"]["severity"]) for rule in rules_of(plan)]
    assert told == [
        ("LlmdFirstTokenLate", "critical"), ("LlmdFirstTokenLate", "warning"),
        ("LlmdTokensSlow", "critical"), ("LlmdTokensSlow", "warning"),
    ]  # fmt: skip


@pytest.mark.parametrize(("percentile", "most"), [(99, "0.144"), (95, "0.72"), (50, "0.9")])
def test_the_share_that_may_be_late_follows_the_percentile(percentile: int, most: str) -> None:
    rule = rules_of(promising(ttft_us=800_000, ttft_percentile=percentile))[0]
    assert rule["expr"].count(f"> {most}") == 2
    assert rule["expr"].count("[1h]") == rule["expr"].count("[5m]") == 3


def test_a_bound_of_the_histogram_needs_one_bucket() -> None:
    rule = rules_of(promising(ttft_us=500_000, ttft_percentile=95))[0]
    assert re.findall(r'le="([^"]*)"', rule["expr"]) == ["0.5", "0.5"]


def test_between_two_bounds_both_buckets_count() -> None:
    rule = rules_of(promising(ttft_us=750_000, ttft_percentile=95))[0]
    assert re.findall(r'([\d.]+) \* sum\(rate\(\w+\{[^}]*le="([^"]*)"', rule["expr"])[:2] == [
        ("0.5", "1.0"),
        ("0.5", "0.5"),
    ]


def test_the_bounds_are_the_routers() -> None:
    text = (ROOT / "crates" / "llmd-router" / "src" / "metrics.rs").read_text()
    written = re.search(r"const SECONDS: \[f64; \d+\] = \[(.*?)\];", text, re.DOTALL)
    assert written
    assert tuple(float(number) for number in re.findall(r"[\d.]+", written[1])) == BOUNDS


def test_every_alert_has_a_page() -> None:
    plan = promising(ttft_us=800_000, ttft_percentile=95, itl_us=40_000, itl_percentile=95)
    for rule in rules_of(plan):
        url = rule["annotations"]["runbook_url"]
        page = ROOT / "docs" / "runbooks" / url.removeprefix(f"{RUNBOOKS}/")
        assert rule["alert"] in page.read_text()
