"""Every rule of two sides: a pair that breaks it, one that does not, and where a fleet tells."""

from collections.abc import Iterator
from typing import Any

import pytest

from llmd_ctl.errors import Problem
from llmd_ctl.profiles.rules.pair import Pair, Side
from llmd_ctl.profiles.rules.pairs import RULES, check_pair
from tests.unit.plan.fleets import fleet_text, plan_text, problems_of
from tests.unit.profiles.rules.asked import read, severity, words_of
from tests.unit.profiles.rules.lines import line_of
from tests.unit.profiles.rules.mutation import Case, said

CASES: list[dict[str, Any]] = next(read("pairs.yaml"))
EDGES: dict[str, list[dict[str, Any]]] = next(read("pairs_edges.yaml"))
TRANSFER = '{{"kv_connector": "NixlConnector", "kv_role": "{role}"}}'
KEPT = {"VLLM_HTTP_TIMEOUT_KEEP_ALIVE": "120"}


def side(own: dict[str, Any], role: str) -> Side:
    transfer = own.get("transfer", TRANSFER.format(role=role))
    handed = [] if transfer is None else ["--kv-transfer-config", transfer]
    line, unread = line_of(
        own.get("accelerator", "nvidia-h100"),
        own.get("model", "Qwen/Qwen3-8B"),
        [*own.get("words", []), *handed],
        version=own.get("version"),
        env={**KEPT, **own.get("env", {})},
    )
    assert unread.problems == []
    return Side(line, own.get("image"))


def pair_of(prefill: dict[str, Any], decode: dict[str, Any]) -> Pair:
    """Two sides; `planned` is the connector that the plan chose, where neither names one."""
    planned = {"connector": decode["planned"]} if "planned" in decode else {}
    return Pair(side(prefill, "kv_producer"), side(decode, "kv_consumer"), **planned)


def cases_of_pairs() -> Iterator[Case]:
    """Return each case as tests of the tests ask it."""
    for case in CASES:
        prefill = case.get("prefill", {})
        yield Case(case["rule"], pair_of(prefill, case["decode"]), severity(case))
        passing = pair_of(case.get("passesPrefill", prefill), case["passes"])
        yield Case(case["rule"], passing, None)
    for rule in EDGES:
        yield from (Case(rule, pair, says) for says, pair in edges(rule))


def edges(rule: str) -> Iterator[tuple[str | None, Pair]]:
    """What a rule says of pairs near its edges; of those that pass, other rules may speak."""
    first = next(case for case in CASES if case["rule"] == rule)
    for edge in EDGES[rule]:
        prefill = edge.get("prefill", first.get("prefill", {}))
        if "breaks" in edge:
            yield severity(first), pair_of(prefill, edge["breaks"])
        if "passes" in edge:
            yield None, pair_of(prefill, edge["passes"])


def findings(prefill: dict[str, Any], decode: dict[str, Any]) -> dict[str, str]:
    found = check_pair(pair_of(prefill, decode))
    return {finding.rule.id: finding.rule.severity for finding in found}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["rule"])
def test_a_rule_speaks_of_the_pair_that_breaks_it_and_of_no_other(case: dict[str, Any]) -> None:
    prefill = case.get("prefill", {})
    assert findings(prefill, case["decode"]).get(case["rule"]) == severity(case)
    assert findings(case.get("passesPrefill", prefill), case["passes"]) == {}


@pytest.mark.parametrize("rule", EDGES)
def test_a_rule_begins_and_ends_at_its_edges(rule: str) -> None:
    judged = next(each for each in RULES if each.id == rule)
    for says, pair in edges(rule):
        assert said(judged, pair) == says, (rule, *map(words_of, pair.lines))


def test_each_rule_has_a_case_and_a_source() -> None:
    assert {rule.id for rule in RULES} == {case["rule"] for case in CASES}
    for rule in RULES:
        assert any(digit.isdigit() for digit in rule.source), rule.id
        assert rule.remedy.endswith("."), rule.id


GKE = "{name: here, kind: kubernetes, namespace: llm}"
ROUTER = "router: {kind: llm-d}"


def fleet(prefill: str, decode: str) -> str:
    variants = (
        f"- {{name: p, role: prefill, env: {{VLLM_HTTP_TIMEOUT_KEEP_ALIVE: '120'}}, {prefill}}}\n"
        f"- {{name: d, role: decode, {decode}}}"
    )
    text = fleet_text(variants, uri="hf://Qwen/Qwen3-8B", spec=ROUTER)
    return text.replace("{name: here, kind: local}", GKE)


def told(text: str) -> list[Problem]:
    return [each for each in problems_of(text) if each.code in ("LC3040", "LC3041")]


def test_a_fleet_tells_it_where_its_side_says_it() -> None:
    text = fleet(
        "accelerator: nvidia-h100",
        "accelerator: nvidia-h100, engineArgs: {kvCacheDtype: fp8}",
    )
    (problem,) = told(text)
    assert (problem.code, problem.message[:11]) == ("LC3040", "K47: p and ")
    assert problem.place is not None
    assert problem.place.path == "spec.models[0].variants[1].engineArgs.kvCacheDtype"


def test_what_the_plan_chose_is_judged_too_and_a_pair_that_fits_is_planned() -> None:
    uneven = fleet(
        "accelerator: nvidia-h100, parallelism: {tensor: 4}",
        "accelerator: nvidia-h100, parallelism: {tensor: 2}, engineArgs: {blockSize: 32}",
    )
    assert [problem.message[:3] for problem in told(uneven)] == ["K05"]
    even = fleet("accelerator: nvidia-h100", "accelerator: nvidia-h100")
    assert [w.code for w in plan_text(even).warnings if w.code.startswith("LC304")] == []


def test_sides_on_accelerators_with_other_attention_are_warned_of() -> None:
    text = fleet("accelerator: nvidia-h100", "accelerator: amd-mi300x")
    warnings = [w for w in plan_text(text).warnings if w.code == "LC3041"]
    assert [w.message[:3] for w in warnings] == ["K40"]
    assert "TRITON_ATTN" in warnings[0].allowed
