"""Rules of engines in a plan: where they are told, who may insist, and what a plan says itself."""

import pytest

from tests.unit.plan.fleets import fleet_text, planned, problems_of, refused, warned

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


def test_what_a_variant_says_twice_is_warned_of() -> None:
    variant = f"{{{H100}, parallelism: {{tensor: 2}}, engineArgs: {{tensorParallelSize: 4}}}}"
    assert warned(variant, uri=QWEN) == ("LC2042",)
    alike = f"{{{H100}, parallelism: {{tensor: 2}}, engineArgs: {{tensorParallelSize: 2}}}}"
    assert warned(alike, uri=QWEN) == ()
    below = "engineArgs: {maxNumSeqs: 64}"
    assert warned(f"{{{H100}, engineArgs: {{maxNumSeqs: 32}}}}", uri=QWEN, model=below) == ()
