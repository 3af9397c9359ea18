"""Every sharp edge that is known by a number: a rule, or what keeps it instead; none is missing.

The numbers are restated here, so that none goes unseen; what profiles must say of them is held.
"""

from collections.abc import Callable
from typing import Any

import pytest

from llmd_ctl.cli.explain.ask import Question, explain
from llmd_ctl.errors import codes
from llmd_ctl.profiles.rules import RULES
from llmd_ctl.profiles.rules.edges import Edge, edges, fact
from llmd_ctl.profiles.rules.pairs import RULES as OF_PAIRS
from llmd_ctl.profiles.rules.pods import RULES as OF_PODS
from tests.unit.profiles.rules.lines import CATALOG

# vLLM, KV transfer, NVIDIA, AMD, TPU, Gaudi, Intel GPUs, processors, Ascend, Rebellions, AWS,
# Kubernetes: how many of each are numbered.
NUMBERED = {
    "V": 17, "K": 18, "N": 13, "A": 10, "T": 12, "G": 8, "X": 6, "C": 9, "D": 6, "R": 6, "U": 5,
    "Q": 9,
}  # fmt: skip
IDS = [f"{kind}{number:02}" for kind, most in NUMBERED.items() for number in range(1, most + 1)]
OF_RULES = {*(r.id for r in RULES), *(r.id for r in OF_PAIRS), *(r.id for r in OF_PODS)}


def has(*words: str) -> Callable[[Any], bool]:
    return lambda found: set(words) <= set(found)


def lacks(*words: str) -> Callable[[Any], bool]:
    return lambda found: set(words).isdisjoint(found)


def says(*parts: str) -> Callable[[Any], bool]:
    return lambda found: all(part in str(found) for part in parts)


def equals(value: Any) -> Callable[[Any], bool]:
    return lambda found: bool(found == value)


# What profiles must say, so that the edge is kept.
FACTS: dict[str, Callable[[Any], bool]] = {
    "V05 nvidia-a100 nativeDtypes": lacks("fp8"),
    "V05 nvidia-l4 nativeDtypes": has("fp8"),
    "V08 nvidia-a100 engines.vllm.attention.sinks.order": equals(["TRITON_ATTN"]),
    "V09 vllm@0.32.0 defaults": lambda found: found["--gpu-memory-utilization"] == 0.92,
    "V14 nvidia-h100 engines.vllm.attention.hybrid.note": says("block size is raised"),
    "V17 deepseek-ai/DeepSeek-V4-Flash minVersion": equals({"vllm": "0.20.0"}),
    "K16 nvidia-h100 engines.sglang.transfer.sideChannelPort.value": equals(8998),
    "K17 trtllm@1.4.0rc1 notYet.--server_role": says("prefill and decode"),
    "N01 nvidia-h100 driver.minimum": equals("580.65.06"),
    "N04 nvidia-h100 nativeDtypes": lacks("fp4", "mxfp4"),
    "N04 nvidia-b200 nativeDtypes": has("fp4", "mxfp4"),
    "N04 nvidia-rtx-pro-6000 nativeDtypes": has("fp4", "mxfp4"),
    "N10 nvidia-h100 container.notes": says("Azure", "64 KiB"),
    "A01 amd-mi300x driver.minimum": equals("6.3"),
    "A01 amd-mi355x driver.minimum": equals("7.0"),
    "A02 amd-mi300x nativeDtypes": lacks("fp4", "mxfp4"),
    "A02 amd-mi355x nativeDtypes": has("fp4", "mxfp4"),
    "A02 amd-mi300x engines.sglang.weightDtypes": lacks("fp4", "mxfp4"),
    "A07 amd-mi300x engines.sglang.images": says("mi30x"),
    "A07 amd-mi355x engines.sglang.images": says("mi35x"),
    "A09 amd-mi300x engines.vllm.settings": lacks("--enable-prefix-caching"),
    "A10 amd-mi300x devicesPerNode.value": equals(8),
    "T08 google-tpu-v6e engines.vllm.startupSeconds.value": equals(120),
    "T10 google-tpu-v7x kubernetes.claim.notYet": says("does not know this chip"),
    "T12 google-tpu-v6e engines.vllm.package": equals("vllm-tpu"),
    "G05 intel-gaudi3 engines.vllm.unsupported.pipeline": says("no pipeline"),
    "G05 intel-gaudi3 engines.vllm.attention.sinks.note": says("sliding windows unsupported"),
    "G07 intel-gaudi3 engines.vllm.version": equals("0.26.0"),
    "G07 intel-gaudi3 engines.vllm.images": has("0.26.0"),
    "G08 intel-gaudi3 driver.minimum": equals("1.24.1"),
    "X02 intel-max-1550 engines.vllm.attention.dense.blockMultiple": equals(64),
    "X06 intel-max-1550 engines": lacks("sglang"),
    "X06 intel-arc-b60 engines": lacks("sglang"),
    "C06 cpu-x86 nativeDtypes": lacks("fp8"),
    "C06 cpu-arm nativeDtypes": lacks("fp8"),
    "C08 cpu-x86 engines": lacks("sglang"),
    "D05 ascend-910c devicesPerNode.value": equals(16),
    "D05 ascend-910c engines.vllm.images": says("-a3-"),
    "D06 ascend-910b engines": lacks("sglang"),
    "R06 rebellions-atom kubernetes.resource": lacks("devices"),
    "U05 aws-trn2 devicesPerNode.value": equals(64),
    "U05 aws-trn2 kubernetes.resource.devices": equals(4),
    "U05 aws-trn2 container.notes": says("scheduler extension"),
    "Q07 nvidia-h100 kubernetes.claim.kubernetes": equals("1.32"),
    "Q07 intel-gaudi3 kubernetes.claim.kubernetes": equals("1.34"),
}
ABSENT = {
    "K03": lambda: "an encoder beside the decoder" in CATALOG.families["special"].values(),
    "D04": lambda: (
        not any(
            CATALOG.accelerator(name).spec.architecture.startswith("ascend310")
            for name in CATALOG.names("AcceleratorProfile")
        )
    ),
}


@pytest.mark.parametrize("number", IDS)
def test_each_number_is_a_rule_or_says_what_keeps_it(number: str) -> None:
    assert (number in OF_RULES) is not (number in edges()), number
    assert explain(["rule", number], Question(CATALOG)).name == number


def test_the_table_has_no_other_numbers() -> None:
    assert set(edges()) <= set(IDS)


@pytest.mark.parametrize("edge", edges().values(), ids=lambda edge: edge.id)
def test_what_keeps_it_is_there(edge: Edge) -> None:
    assert edge.rules or edge.codes or edge.facts or edge.node or edge.absent or edge.manifests
    assert set(edge.rules) <= OF_RULES
    assert set(edge.codes) <= set(codes())
    for where in edge.facts:
        assert FACTS[f"{edge.id} {where}"](fact(where)), where


def test_each_fact_that_is_held_is_in_the_table() -> None:
    assert set(FACTS) == {f"{edge.id} {where}" for edge in edges().values() for where in edge.facts}


@pytest.mark.parametrize("number", ABSENT)
def test_what_nobody_can_ask_for_is_not_there(number: str) -> None:
    assert edges()[number].absent
    assert ABSENT[number]()
