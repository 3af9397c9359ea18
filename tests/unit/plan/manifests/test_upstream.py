"""Twelve defects of published manifests, rebuilt: each is caught, and its mended twin let through.

What was wrong is listed in llm-d's own guides of v0.8; the manifests here are written anew. What a
fleet can say of them is caught in a fleet too.
"""

from pathlib import Path

import pytest

from llmd_ctl.errors import LlmdError, Problem
from tests.unit.plan.fleets import fleet_text, plan_text
from tests.unit.plan.manifests.folders import FIXTURES, judged_folder, rule_of

# The folder, the rules, and what stands in the line that each of them points at.
DEFECTS: list[tuple[str, dict[str, str]]] = [
    ("01-patch-not-there", {"Q24": "path: patch-vllm-gpt120b.yaml"}),
    ("02-base-not-there", {"Q24": "- ../base-a4"}),
    ("03-tpu-chips", {"T01": "google.com/tpu: 8", "V04": "--max-num-batched-token=1028"}),
    ("04-gb200", {"Q11": "nvidia.com/gpu: 8", "K18": "llm-d-cuda-dev", "Q27": "cuda-gb200"}),
    (
        "05-sidecar-without-image",
        {"Q12": "name: routing-proxy", "Q05": "sidecar-dev:main", "Q31": "revit13/vllm-openai"},
    ),
    ("06-env-twice", {"Q03": "env:"}),
    ("07-removed-variable", {"V02": "VLLM_USE_V1"}),
    ("08-attention-without-connector", {"K06": "--attention-backend=ROCM_ATTN"}),
    ("09-both-sides-at-once", {"K09": "kv_both", "V02": "VLLM_NIXL_ABORT_REQUEST_TIMEOUT"}),
    ("10-side-channel-port", {"Q25": "containerPort: 5557"}),
    ("11-two-builds", {"K18": "llm-d-cuda-dev:sha-a1bcf21"}),
    ("12-mixed-pins", {"Q26": "nightly-20260504"}),
]


@pytest.fixture(autouse=True)
def _from_the_fixtures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FIXTURES)


@pytest.mark.parametrize(("folder", "expected"), DEFECTS, ids=[name for name, _ in DEFECTS])
def test_a_defect_is_caught_where_it_stands(folder: str, expected: dict[str, str]) -> None:
    found = judged_folder(Path(folder, "broken")).problems
    for rule, text in expected.items():
        places = [each.place for each in found if rule_of(each) == rule]
        assert any(place is not None and text in place.text for place in places), (rule, found)


@pytest.mark.parametrize(("folder", "expected"), DEFECTS, ids=[name for name, _ in DEFECTS])
def test_its_mended_twin_is_let_through(folder: str, expected: dict[str, str]) -> None:
    judgement = judged_folder(Path(folder, "clean"))
    del expected
    assert judgement.engines
    told = [each for each in judgement.problems if each.code != "LC3072"]
    assert told == []


def test_every_folder_is_one_of_them() -> None:
    assert sorted(path.name for path in FIXTURES.iterdir()) == [name for name, _ in DEFECTS]


def told_of(fleet: str) -> tuple[Problem, ...]:
    try:
        return plan_text(fleet).warnings
    except LlmdError as error:
        return error.problems


TPU = "{name: v, accelerator: google-tpu-v7x, target: here, topology: 2x2x1"
# A fleet's variant, the rule or code, and what of the fleet it points at.
FLEETS = [
    (f"{TPU}, parallelism: {{tensor: 16}}}}", "LC3011", "tensor"),
    (f"{TPU}, extraArgs: [--max-num-batched-token, '1028']}}", "V04", "extraArgs[0]"),
    ("{name: v, accelerator: intel-max-1550, env: {VLLM_USE_V1: '1'}}", "V02", "env.VLLM_USE_V1"),
    (
        "{name: v, accelerator: nvidia-h100, env: {VLLM_NIXL_ABORT_REQUEST_TIMEOUT: '120'}}",
        "V02",
        "env.VLLM_NIXL_ABORT_REQUEST_TIMEOUT",
    ),
    ("{name: v, accelerator: nvidia-gb200, parallelism: {tensor: 8}}", "LC3011", "tensor"),
]


@pytest.mark.parametrize(("variant", "rule", "place"), FLEETS)
def test_a_fleet_that_says_it_is_caught_too(variant: str, rule: str, place: str) -> None:
    text = fleet_text(f"- {variant}", uri="hf://Qwen/Qwen3-8B").replace(
        "{name: here, kind: local}", "{name: here, kind: kubernetes}"
    )
    told = told_of(text)
    found = [each.place for each in told if rule_of(each) == rule]
    assert any(each is not None and each.path.endswith(place) for each in found), told
