"""Every rule of two sides: a pair that breaks it, one that does not, and where a fleet tells."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from llmd_ctl.errors import Problem
from llmd_ctl.profiles.rules.pair import Pair, Side
from llmd_ctl.profiles.rules.pairs import RULES, check_pair
from tests.unit.plan.fleets import fleet_text, plan_text, problems_of
from tests.unit.profiles.rules.lines import line_of

CASES: list[dict[str, Any]] = yaml.safe_load(
    (Path(__file__).parent / "pairs.yaml").read_text("utf-8")
)
TRANSFER = '{{"kv_connector": "NixlConnector", "kv_role": "{role}"}}'
KEPT = {"VLLM_HTTP_TIMEOUT_KEEP_ALIVE": "120"}


def side(said: dict[str, Any], role: str) -> Side:
    words = [*said.get("words", []), "--kv-transfer-config"]
    line, unread = line_of(
        said.get("accelerator", "nvidia-h100"),
        said.get("model", "Qwen/Qwen3-8B"),
        [*words, said.get("transfer", TRANSFER.format(role=role))],
        version=said.get("version"),
        env={**KEPT, **said.get("env", {})},
    )
    assert unread.problems == []
    return Side(line, said.get("image"))


def broken(prefill: dict[str, Any], decode: dict[str, Any]) -> list[str]:
    pair = Pair(side(prefill, "kv_producer"), side(decode, "kv_consumer"))
    return [finding.rule.id for finding in check_pair(pair)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["rule"])
def test_a_rule_speaks_of_the_pair_that_breaks_it_and_of_no_other(case: dict[str, Any]) -> None:
    prefill = case.get("prefill", {})
    assert case["rule"] in broken(prefill, case["decode"])
    assert broken(case.get("passesPrefill", prefill), case["passes"]) == []


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
