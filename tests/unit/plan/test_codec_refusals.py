"""A plan file that was edited into something harmful is refused, with the path of each value."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from llmd_ctl.cli.plan_view import plan_document, plan_from_document
from llmd_ctl.errors import SpecInvalid, render_problem
from llmd_ctl.plan import Plan
from tests.unit.plan.fleets import fleet_text, plan_text

VARIANTS = """
- {name: h, accelerator: nvidia-h100, replicas: 2}
- {name: old, accelerator: nvidia-l4, endpoint: {url: "http://10.0.0.7:8000"}}
"""
WRONG = "slo: {itl: {p95: 1us}}\naliases: [al, am]"
PLAN = plan_text(fleet_text(VARIANTS, model=WRONG))
V = ".models[0].variants[0]"
Edit = Callable[[Any, Any, Any], object]


def document() -> Any:
    return json.loads(json.dumps(plan_document(PLAN, ())))


def refused(edit: Edit, read: Callable[[Any], Plan] = plan_from_document) -> list[str]:
    """The messages for a document after an edit of it, its model and its first variant."""
    made = document()
    edit(made, made["models"][0], made["models"][0]["variants"][0])
    with pytest.raises(SpecInvalid) as raised:
        read(made)
    assert {p.code for p in raised.value.problems} == {"LC3001"}
    assert all(render_problem(p) for p in raised.value.problems)
    return [p.message for p in raised.value.problems]


def test_the_document_reads_back_when_nobody_edited_it() -> None:
    assert plan_from_document(document()) == PLAN


IMPOSSIBLE: list[tuple[str, Edit]] = [
    (".fleet", lambda d, _m, _v: d.update(fleet="../../evil")),
    (".fleet", lambda d, _m, _v: d.update(fleet="")),
    (".models[0].name", lambda _d, m, _v: m.update(name="a/b")),
    (".models[0].aliases[1]", lambda _d, m, _v: m.update(aliases=["ok", "not ok"])),
    (".models[0].aliases[0]", lambda _d, m, _v: m.update(aliases=["chat"])),
    (f"{V}.name", lambda _d, _m, v: v.update(name="../x")),
    (".models[0].variants[1].name", lambda _d, m, v: m["variants"][1].update(name=v["name"])),
    (f"{V}.accelerator", lambda _d, _m, v: v.update(accelerator="NVIDIA")),
    (f"{V}.target", lambda _d, _m, v: v.update(target="../x")),
    (f"{V}.endpointUrl", lambda _d, _m, v: v.update(endpointUrl="file:///etc/passwd")),
    (f"{V}.servedName", lambda _d, _m, v: v.update(servedName="\n")),
    (f"{V}.replicas", lambda _d, _m, v: v.update(replicas=-1)),
    (f"{V}.replicas", lambda _d, _m, v: v.update(replicas=10_001)),
    (f"{V}.startupSeconds", lambda _d, _m, v: v.update(startupSeconds=-1)),
    (f"{V}.maxModelLen", lambda _d, _m, v: v.update(maxModelLen=-8)),
    (f"{V}.pricePerHour", lambda _d, _m, v: v.update(pricePerHour=-0.5)),
    (f"{V}.parallelism.tensor", lambda _d, _m, v: v["parallelism"].update(tensor=0)),
    (f"{V}.fit.kvTokens", lambda _d, _m, v: v["fit"].update(kvTokens=-5)),
    (f"{V}.capacity.itlUs", lambda _d, _m, v: v["capacity"].update(itlUs=float("nan"))),
    (f"{V}.capacity.itlUs", lambda _d, _m, v: v["capacity"].update(itlUs=10**400)),
    (f"{V}.command[0]", lambda _d, _m, v: v.update(command=["a\0b"])),
    (f"{V}.env.A", lambda _d, _m, v: v.update(env={"A": "\ud800"})),
    (".simulate.speed", lambda d, _m, _v: d.update(simulate={"speed": 0})),
    (".summary.devices", lambda d, _m, _v: d["summary"].update(devices=-1)),
    (".traces.otlp", lambda d, _m, _v: d.update(
        traces={"otlp": "no url", "protocol": "grpc", "sampleRatio": 1.0})),
    (".traces.sampleRatio", lambda d, _m, _v: d.update(
        traces={"otlp": "http://c:4317", "protocol": "grpc", "sampleRatio": 1.5})),
    (".resilience.breaker.failures", lambda d, _m, _v: d["resilience"]["breaker"].update(
        failures=-1)),
    (".resilience.checks.path", lambda d, _m, _v: d["resilience"]["checks"].update(path=5)),
    (".resilience.limits.bodyBytes", lambda d, _m, _v: d["resilience"]["limits"].update(
        bodyBytes=1.5)),
    (".warnings[0].code", lambda d, _m, _v: d["warnings"][0].update(code="LC9999")),
    (".warnings[0].message", lambda d, _m, _v: d["warnings"][0].update(message=5)),
    (".warnings[0].severity", lambda d, _m, _v: d["warnings"][0].update(severity="fatal")),
]  # fmt: skip


@pytest.mark.parametrize(("path", "edit"), IMPOSSIBLE)
def test_what_no_plan_can_say_is_refused_wherever_it_is_read(path: str, edit: Edit) -> None:
    def stored(made: Any) -> Plan:
        body = {key: value for key, value in made.items() if key != "changes"}
        del body["summary"]["changes"]
        return Plan.from_json(body)

    for read in (stored, plan_from_document):
        [message] = refused(edit, read)
        assert f" {path}" in message


UNUSABLE: list[tuple[str, Edit]] = [
    (f"{V}.facts", lambda _d, _m, v: v["facts"].update(weightBandwidth=-1.0)),
    (f"{V}.facts", lambda _d, _m, v: v["facts"].update(kvTokens=-1)),
    (f"{V}.facts", lambda _d, _m, v: v["facts"].update(stepUs=float("nan"))),
    (f"{V}.facts", lambda _d, _m, v: v["facts"].update(stepUs="soon")),
    (f"{V}.facts", lambda _d, _m, v: v["facts"].update(more=1)),
    (f"{V}.facts", lambda _d, _m, v: v["facts"].pop("speed")),
    (f"{V}.facts", lambda _d, _m, v: v.update(facts=None)),
    (f"{V}.command", lambda _d, _m, v: v.update(command=[])),
    (f"{V}.simulated", lambda _d, _m, v: v.update(simulated=False)),
    (f"{V}.simulated", lambda _d, _m, v: v.update(engine="vllm")),
    (f"{V}.simulated", lambda _d, _m, v: v.update(engine="vllm", simulated=False)),
    (".models[0].variants[1].simulated", lambda _d, m, _v: m["variants"][1].update(simulated=True)),
    (".models[0].variants[1].command", lambda _d, m, _v: m["variants"][1].update(command=["x"])),
    (f"{V}.fit.verdict", lambda _d, _m, v: v["fit"].update(verdict="too-big")),
    (f"{V}.env", lambda _d, _m, v: v.update(env={"A=B": "c"})),
    (".summary.fits", lambda d, _m, _v: d["summary"].update(fits=False)),
]


@pytest.mark.parametrize(("path", "edit"), UNUSABLE)
def test_a_plan_file_that_does_not_go_together_is_refused(path: str, edit: Edit) -> None:
    [message] = refused(edit)
    assert f" {path}: " in message


def test_all_wrong_values_are_told_at_once() -> None:
    def edit(made: Any, model: Any, variant: Any) -> None:
        made["fleet"] = "../x"
        variant["replicas"] = -1
        model["aliases"] = ["\n"]

    assert len(refused(edit)) == 3


def test_memory_that_is_missing_may_be_below_zero() -> None:
    made = document()
    made["models"][0]["variants"][0]["fit"]["kvBytesFree"] = -5
    assert plan_from_document(made)
