"""Rules of engines in a plan: where they are told, who may insist, and what a plan says itself."""

import pytest
from msgspec.structs import replace

from llmd_ctl.errors import LlmdError, Problem
from llmd_ctl.profiles import Catalog
from tests.unit.plan.fleets import (
    MACHINE,
    fleet_text,
    plan_text,
    planned,
    problems_of,
    refused,
    warned,
)

H100 = "name: v, accelerator: nvidia-h100"
QWEN = "hf://Qwen/Qwen3-8B"


@pytest.mark.parametrize(
    ("words", "rule", "place"),
    [
        (
            "engineArgs: {blockSize: 24, attentionBackend: FLASH_ATTN}",
            "V07",
            "engineArgs.blockSize",
        ),
        ("engineArgs: {attentionBackend: TRITON_MLA}", "V20", "engineArgs.attentionBackend"),
        ("extraArgs: [--attention-config.backend, XFORMERS]", "V18", "extraArgs[0]"),
        ("engineArgs: {quantization: awq}", "V38", "engineArgs.quantization"),
    ],
)
def test_a_rule_is_told_where_the_user_wrote_what_breaks_it(
    words: str, rule: str, place: str
) -> None:
    problem = refused(f"{{{H100}, {words}}}", uri=QWEN)
    assert (problem.code, problem.message.partition(":")[0]) == ("LC3040", rule)
    assert problem.place is not None
    assert problem.place.path == f"spec.models[0].variants[0].{place}"
    assert problem.remedy


def test_what_no_user_wrote_is_told_at_the_accelerator() -> None:
    problem = refused("{name: v, accelerator: cpu-x86}", uri="hf://deepseek-ai/DeepSeek-V3.2")
    assert problem.message.startswith("C02: ")
    assert problem.place is not None
    assert problem.place.path == "spec.models[0].variants[0].accelerator"


def test_what_is_taken_and_then_ignored_is_warned_of() -> None:
    variant = f"{{{H100}, engineArgs: {{maxParallelLoadingWorkers: 2}}}}"
    assert warned(variant, uri=QWEN) == ("LC3041",)


def test_a_variant_may_insist_at_its_own_risk() -> None:
    words = "engineArgs: {blockSize: 24, attentionBackend: FLASH_ATTN}"
    assert warned(f"{{{H100}, unsafe: true, {words}}}", uri=QWEN) == ("LC2028",)
    assert warned(f"{{{H100}, unsafe: true}}", uri=QWEN) == ("LC2029",)


def test_a_simulated_engine_stands_for_one_that_takes_the_words() -> None:
    variant = "{name: v, accelerator: nvidia-h100, engineArgs: {attentionBackend: TRITON_MLA}}"
    (problem,) = problems_of(fleet_text(f"- {variant}", uri=QWEN), simulate=1.0)
    assert problem.code == "LC3040"
    dsa = "hf://deepseek-ai/DeepSeek-V3.2"
    assert planned("{name: v, accelerator: nvidia-h200, engine: {name: sim}}", uri=dsa).simulated


@pytest.mark.parametrize(
    ("words", "told", "hint"),
    [
        (
            "engineArgs: {kvCacheDtype: fp8_ds_mla}",
            "with --kv-cache-dtype fp8_ds_mla and --block-size 16 (set by profile nvidia-h100)",
            "Leave --kv-cache-dtype fp8_ds_mla out: the engine then takes what the model needs.",
        ),
        (
            "engineArgs: {kvCacheDtype: fp8_ds_mla, blockSize: 32}",
            "with --kv-cache-dtype fp8_ds_mla and --block-size 32",
            "Leave --kv-cache-dtype fp8_ds_mla and --block-size 32 out: the engine then takes what"
            " the model needs.",
        ),
    ],
)
def test_what_no_user_wrote_is_told_with_who_did(words: str, told: str, hint: str) -> None:
    (problem,) = problems_of(fleet_text(f"- {{{H100}, {words}}}", uri=QWEN))
    assert problem.message.endswith(told)
    assert problem.hint == hint


@pytest.mark.parametrize(
    ("words", "who"),
    [
        ("maxNumActiveSeqs: 5000", " (--max-num-seqs is set by profile nvidia-h100)"),
        ("maxNumActiveSeqs: 5000, maxNumSeqs: 64", ""),
    ],
)
def test_a_value_that_a_rule_names_is_told_with_who_set_it(words: str, who: str) -> None:
    (problem,) = problems_of(fleet_text(f"- {{{H100}, engineArgs: {{{words}}}}}", uri=QWEN))
    assert problem.message.endswith(who)
    assert who or not problem.message.endswith(")")


def test_what_a_variant_says_twice_is_warned_of() -> None:
    variant = f"{{{H100}, parallelism: {{tensor: 2}}, engineArgs: {{tensorParallelSize: 4}}}}"
    assert warned(variant, uri=QWEN) == ("LC2042",)
    alike = f"{{{H100}, parallelism: {{tensor: 2}}, engineArgs: {{tensorParallelSize: 2}}}}"
    assert warned(alike, uri=QWEN) == ()
    below = "engineArgs: {maxNumSeqs: 64}"
    assert warned(f"{{{H100}, engineArgs: {{maxNumSeqs: 32}}}}", uri=QWEN, model=below) == ()


@pytest.mark.parametrize(
    ("accelerator", "model", "block"),
    [
        ("nvidia-h200", "deepseek-ai/DeepSeek-V3.2", 64),
        ("nvidia-b200", "deepseek-ai/DeepSeek-V4-Flash", 256),
        ("nvidia-b300", "zai-org/GLM-5", 64),
        ("nvidia-h100", "Qwen/Qwen3-8B", 16),
        ("cpu-arm", "moonshotai/Kimi-K2.5", 16),
    ],
)
def test_blocks_that_nobody_says_are_those_of_the_attention(
    accelerator: str, model: str, block: int
) -> None:
    words = "name: v, maxModelLen: 4096, parallelism: {tensor: 8}"
    words = words.replace("tensor: 8", "tensor: 1") if accelerator == "cpu-arm" else words
    text = fleet_text(f"- {{{words}, accelerator: {accelerator}}}", uri=f"hf://{model}")
    there = replace(MACHINE, accelerators={accelerator: 64}, memory_bytes=10**14)
    (variant,) = plan_text(text, observed=there).models[0].variants
    assert variant.settings["--block-size"].value == block


def test_a_backend_that_is_named_brings_its_own_blocks() -> None:
    variant = (
        "{name: v, accelerator: nvidia-h200, parallelism: {tensor: 8}, maxModelLen: 8192,"
        " engineArgs: {attentionBackend: FLASHMLA}}"
    )
    found = planned(variant, uri="hf://deepseek-ai/DeepSeek-R1")
    assert found.settings["--block-size"].value == 64


@pytest.mark.parametrize("model", Catalog.load().names("ModelProfile"))
@pytest.mark.parametrize(
    "accelerator", ["nvidia-h200", "nvidia-b200", "nvidia-rtx-pro-6000", "amd-mi355x"]
)
def test_no_rule_refuses_what_nobody_wrote(accelerator: str, model: str) -> None:
    text = fleet_text(f"- {{name: v, accelerator: {accelerator}}}", uri=f"hf://{model}")
    found: tuple[Problem, ...]
    try:
        found = plan_text(text).warnings
    except LlmdError as error:  # it does not fit: that is no rule's word
        found = error.problems
    assert [p.message for p in found if p.code in {"LC3040", "LC3041"}] == []


def test_what_the_profile_says_is_not_served_is_refused() -> None:
    problem = refused(
        "{name: v, accelerator: google-tpu-v7x}", uri="hf://deepseek-ai/DeepSeek-V3.2"
    )
    assert (problem.code, problem.message[:5]) == ("LC3040", "V158:")
    assert problem.found is None


HYBRID = "hf://Qwen/Qwen3.5-35B-A3B"


def longer(words: str, uri: str = HYBRID) -> list[str]:
    told = plan_text(fleet_text(f"- {{{H100}, {words}}}", uri=uri)).warnings
    return [one.message for one in told if one.code == "LC3019"]


def test_blocks_that_a_state_makes_longer_are_told() -> None:
    (message,) = longer("engineArgs: {blockSize: 16}")
    assert message.startswith("vllm makes blocks of 1,056 tokens, not of 16")


@pytest.mark.parametrize(
    "words",
    [
        "replicas: 1",  # a profile's size is nobody's word
        "engineArgs: {blockSize: 1056}",
        "engine: {name: sglang}, engineArgs: {pageSize: 16}",  # its states lie elsewhere
    ],
)
def test_blocks_that_are_as_said_are_not(words: str) -> None:
    assert longer(words) == []


def test_a_model_without_states_has_the_blocks_that_were_said() -> None:
    assert longer("engineArgs: {blockSize: 16}", QWEN) == []
