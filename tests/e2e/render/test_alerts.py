"""Rendered alerts, judged by promtool: they are rules, and fire when they should and only then."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from llmd_ctl.plan import Slo
from tests.unit.render.kubernetes.clusters import cluster, only

pytestmark = pytest.mark.services

BUCKETS = ("0.5", "1.0")  # around the bound
ALERT = "LlmdFirstTokenLate"
MINUTES = 400


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    """The rules of a model of whose requests 95 % are promised a first token within 0.8 s."""
    plan = cluster()
    slo = Slo(ttft_us=800_000, ttft_percentile=95, itl_us=40_000, itl_percentile=99)
    plan = replace(plan, models=(replace(plan.models[0], slo=slo),))
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump(only(plan, "PrometheusRule")["spec"]))
    return file


def promtool(folder: Path, *argv: str | Path) -> str:
    done = subprocess.run(
        [str(folder / "promtool"), *map(str, argv)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def series(kept: str) -> list[dict[str, str]]:
    """An hour's 3600 requests, of which those in the buckets grow by `kept`."""
    labels = 'fleet="prod",model="chat",variant="a"'
    name = "llmd_router_time_to_first_token_seconds"
    buckets = [
        {"series": f'{name}_bucket{{{labels},le="{bound}"}}', "values": kept} for bound in BUCKETS
    ]
    return [*buckets, {"series": f"{name}_count{{{labels}}}", "values": f"0+60x{MINUTES}"}]


def case(kept: str, minute: int, severities: tuple[str, ...]) -> dict[str, Any]:
    """What is to fire at a minute."""
    firing = f'{{alertname="{ALERT}",alertstate="firing",fleet="prod",model="chat"}}'
    samples = [{"labels": f'{{severity="{one}"}}', "value": 1} for one in severities]
    return {
        "interval": "1m",
        "input_series": series(kept),
        "promql_expr_test": [
            {
                "expr": f"count by (severity) (ALERTS{firing})",
                "eval_time": f"{minute}m",
                "exp_samples": samples,
            }
        ],
    }


CASES = {
    "all in time": case(f"0+60x{MINUTES}", 300, ()),
    "every tenth late": case(f"0+54x{MINUTES}", 380, ()),
    "every second late for long": case(f"0+30x{MINUTES}", 380, ("warning",)),
    "nearly all late for long": case(f"0+3x{MINUTES}", 380, ("critical", "warning")),
    "all late for ten minutes": case(f"0+60x180 10800+0x10 10860+60x{MINUTES - 192}", 189, ()),
    "over for ten minutes": case(f"0+0x300 0+60x{MINUTES - 301}", 312, ("warning",)),
    "over for half an hour": case(f"0+0x300 0+60x{MINUTES - 301}", 340, ()),
}


def test_they_are_rules(rules: Path, prometheus_bin: Path) -> None:
    assert "4 rules found" in promtool(prometheus_bin, "check", "rules", rules)


@pytest.mark.parametrize("name", CASES)
def test_they_fire_when_a_promise_is_broken_and_only_then(
    name: str, rules: Path, prometheus_bin: Path, tmp_path: Path
) -> None:
    file = tmp_path / "test.yaml"
    document = {
        "rule_files": [str(rules)],
        "evaluation_interval": "1m",
        "tests": [CASES[name]],
    }
    file.write_text(yaml.safe_dump(document))
    promtool(prometheus_bin, "test", "rules", file)
