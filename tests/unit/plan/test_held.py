"""Packed weights that an engine unpacks while it loads them count as what they take then."""

from __future__ import annotations

from llmd_ctl.plan import PlannedVariant
from tests.unit.plan.fleets import fleet_text, plan_text

GIB = 2**30
INT8 = """apiVersion: fleet.llmd-ctl.dev/v1alpha1
kind: ModelProfile
metadata: {name: own/Llama-int8}
extends: meta-llama/Llama-3.1-8B-Instruct
spec:
  source: a test
  config:
    quantization_config:
      quant_method: compressed-tensors
      format: int-quantized
      config_groups: {group_0: {weights: {num_bits: 8, type: int}}}
"""


def planned(
    accelerator: str, more: str = "", uri: str = "hf://openai/gpt-oss-20b"
) -> PlannedVariant:
    image = "" if accelerator == "nvidia-h100" else ", engine: {name: vllm, image: 'x.example/g:1'}"
    words = f"- {{name: v, accelerator: {accelerator}{image}{more}}}"
    return plan_text(fleet_text(words, uri=uri), profiles=[INT8]).models[0].variants[0]


def weights(variant: PlannedVariant) -> float:
    assert variant.fit is not None
    return variant.fit.weight_bytes / GIB


def told(variant: PlannedVariant) -> list[str]:
    return [line for line in variant.reasons if "unpacked" in line]


def test_weights_that_gaudi_unpacks_count_unpacked() -> None:
    held, elsewhere = planned("intel-gaudi3"), planned("nvidia-h100")
    assert 38 < weights(held) < 42
    assert weights(elsewhere) < 14
    (line,) = told(held)
    assert line.endswith("to bf16 while they are loaded; HPU_MXFP4_NATIVE=1 leaves them packed")
    assert told(elsewhere) == []


def test_a_variable_leaves_them_packed() -> None:
    packed = planned("intel-gaudi3", ", env: {HPU_MXFP4_NATIVE: '1'}")
    assert weights(packed) == weights(planned("nvidia-h100"))
    assert told(packed) == []
    assert told(planned("intel-gaudi3", ", env: {HPU_MXFP4_NATIVE: '0'}"))


def test_what_no_variable_leaves_packed_is_named_without_one() -> None:
    held = planned("intel-gaudi3", uri="hf://own/Llama-int8")
    assert weights(held) > 14
    (line,) = told(held)
    assert line == "weights in int8 are unpacked to bf16 while they are loaded"
