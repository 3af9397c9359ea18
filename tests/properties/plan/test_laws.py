"""Laws of the plan that hold for every model, device and setting."""

import itertools
import json
import math
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from llmd_ctl.errors import LlmdError
from llmd_ctl.plan import Fit, Parallel, Plan
from llmd_ctl.plan.codec import to_json
from llmd_ctl.plan.fit import Device, Load, fit_of
from llmd_ctl.profiles import Catalog, ModelShape, read_shape
from llmd_ctl.profiles.split import legal_tensors, tensor_objection
from tests.unit.plan.fleets import fleet_text, plan_text

FAMILIES = Catalog.load().families
GIB = 2**30


@st.composite
def shapes(draw: st.DrawFn) -> ModelShape:
    """Models from tiny to large, dense or of experts, with a window or without."""
    kv_heads = draw(st.sampled_from([1, 2, 3, 4, 8, 16]))
    family = draw(st.sampled_from(["llama", "mistral", "gpt_oss", "qwen3_moe"]))
    config = {
        "model_type": family,
        "num_hidden_layers": draw(st.integers(1, 100)),
        "hidden_size": draw(st.sampled_from([64, 1024, 4096, 8192])),
        "intermediate_size": draw(st.sampled_from([256, 11008, 28672])),
        "num_key_value_heads": kv_heads,
        "num_attention_heads": kv_heads * draw(st.sampled_from([1, 2, 4, 8])),
        "head_dim": draw(st.sampled_from([32, 64, 128])),
        "vocab_size": draw(st.integers(100, 200_000)),
        "max_position_embeddings": 131072,
        "sliding_window": draw(st.sampled_from([128, 4096])),
        "num_local_experts": 8, "num_experts": 8, "num_experts_per_tok": 2,
        "moe_intermediate_size": 768,
    }  # fmt: skip
    return read_shape(config, FAMILIES)


@st.composite
def other_kinds(draw: st.DrawFn) -> ModelShape:
    """Models with latents, with states, and with heads of their own in windows."""
    catalog = Catalog.load()
    name = draw(st.sampled_from(KINDS))
    config = dict(catalog.model(name).spec.config)
    return read_shape(config, FAMILIES)


KINDS = [
    "deepseek-ai/DeepSeek-V3", "deepseek-ai/DeepSeek-V3.2", "deepseek-ai/DeepSeek-V4-Flash",
    "moonshotai/Kimi-K3", "Qwen/Qwen3.5-35B-A3B", "ibm-granite/granite-4.0-h-small",
    "google/gemma-4-26B-A4B-it", "meta-llama/Llama-4-Scout-17B-16E-Instruct",
    "XiaomiMiMo/MiMo-V2-Flash", "stepfun-ai/Step-3.7-Flash", "MiniMaxAI/MiniMax-M3",
]  # fmt: skip
every_kind = shapes() | other_kinds()


devices = st.builds(
    Device,
    memory_bytes=st.integers(GIB, 300 * GIB),
    utilization=st.floats(0.3, 1.0),
    reserve_bytes=st.integers(0, 8 * GIB),
    collective_reserve_bytes=st.integers(0, GIB),
)
loads = st.builds(
    Load,
    max_model_len=st.integers(1, 131072),
    max_sequences=st.integers(1, 1024),
    max_batched_tokens=st.integers(1, 16384),
    block_size=st.sampled_from([1, 16, 128]),
    kv_format=st.sampled_from(["fp8", "bf16", "fp32"]),
    kv_bytes_limit=st.none() | st.integers(1, 100 * GIB),
    kv_bytes_default=st.none() | st.integers(1, GIB),
    window_kv_whole=st.booleans(),
    prefixes=st.booleans(),
)


def recompute(fit: dict[str, Any]) -> str:
    """The verdict from the printed numbers alone, written down a second time."""
    left = (
        math.floor(fit["memoryBytes"] * fit["utilization"])
        - fit["weightBytes"] - fit["reserveBytes"] - fit["activationBytes"]
        - fit["windowInFlightBytes"]
    )  # fmt: skip
    told = fit["kvBytesLimit"]
    free = left if told is None else min(told, left)
    constant = fit["windowBytesPerRequest"] + fit["stateBytesPerRequest"]
    a_request = fit["maxModelLen"] * fit["kvBytesPerToken"] + constant
    # At least one request of full length, and all that the engine was told to take.
    good = free > 0 and free >= a_request and (told is None or told <= left)
    return "fits" if good else "too-big"


@given(every_kind, devices, loads, st.integers(1, 16), st.integers(1, 4))
def test_the_verdict_follows_from_the_printed_numbers(
    shape: ModelShape, device: Device, load: Load, tensor: int, pipeline: int
) -> None:
    assume(tensor_objection(shape, tensor) is None and pipeline <= shape.layers)
    fit = fit_of(shape, Parallel(tensor=tensor, pipeline=pipeline), device, load)
    assert fit.verdict == recompute(json.loads(json.dumps(to_json(fit))))


@given(every_kind, devices, loads, st.integers(0, 100 * GIB))
def test_more_memory_never_makes_a_fit_a_misfit(
    shape: ModelShape, device: Device, load: Load, more: int
) -> None:
    before = fit_of(shape, Parallel(), device, load)
    larger = Device(
        device.memory_bytes + more, device.utilization, device.reserve_bytes,
        device.collective_reserve_bytes,
    )  # fmt: skip
    after = fit_of(shape, Parallel(), larger, load)
    assert after.kv_tokens >= before.kv_tokens
    if before.verdict == "fits":
        assert after.verdict == "fits"


@given(every_kind, devices, loads, st.data())
def test_less_context_never_makes_a_fit_a_misfit(
    shape: ModelShape, device: Device, load: Load, data: st.DataObject
) -> None:
    assume(load.kv_bytes_limit is None)
    shorter = data.draw(st.integers(1, load.max_model_len))
    if fit_of(shape, Parallel(), device, load).verdict == "fits":
        less = replace(load, max_model_len=shorter)
        assert fit_of(shape, Parallel(), device, less).verdict == "fits"


@given(every_kind, devices, loads)
def test_a_wider_split_never_holds_more_of_the_model_on_a_device(
    shape: ModelShape, device: Device, load: Load
) -> None:
    fits: list[Fit] = [
        fit_of(shape, Parallel(tensor=n), device, load) for n in legal_tensors(shape, 16)
    ]
    for narrow, wide in itertools.pairwise(fits):
        assert wide.weight_bytes <= narrow.weight_bytes
        assert wide.kv_bytes_per_token <= narrow.kv_bytes_per_token


@given(every_kind, st.integers(1, 64))
def test_every_legal_split_gives_whole_heads_to_every_device(
    shape: ModelShape, devices: int
) -> None:
    for tensor in legal_tensors(shape, devices):
        assert all(heads % tensor == 0 for heads in shape.heads)
        assert all(heads % tensor == 0 or tensor % heads == 0 for heads in shape.kv_heads)
        assert tensor <= devices


def attempt(text: str) -> Plan | LlmdError:
    """The plan of a fleet, or what refuses it."""
    try:
        return plan_text(text)
    except LlmdError as error:
        return error


ACCELERATORS = ["nvidia-h100", "nvidia-l4", "amd-mi300x", "google-tpu-v6e", "intel-gaudi3"]
MODELS = ["meta-llama/Llama-3.1-8B", "Qwen/Qwen3-32B", "openai/gpt-oss-20b"]


@given(
    st.sampled_from(ACCELERATORS),
    st.sampled_from(MODELS),
    st.integers(1, 40_960),
    st.none() | st.integers(1, 16),
)
def test_a_plan_that_is_returned_holds_what_it_promises(
    accelerator: str, model: str, length: int, tensor: int | None
) -> None:
    split = "" if tensor is None else f", parallelism: {{tensor: {tensor}}}"
    text = fleet_text(
        f"- {{name: v, accelerator: {accelerator}, maxModelLen: {length}{split}}}",
        uri=f"hf://{model}",
    )
    found = attempt(text)
    if isinstance(found, LlmdError):
        assert found.exit_code == 66
        assert all(p.place is not None and p.remedy for p in found.problems)
        return
    variant = found.models[0].variants[0]
    assert variant.fit is not None
    assert variant.facts is not None
    assert variant.fit.verdict == "fits"
    assert variant.facts["kvTokens"] >= variant.max_model_len == length
    assert tensor is None or variant.parallelism.tensor == tensor
    assert variant.capacity is not None
    assert variant.capacity.tokens_per_second > 0


WORDS = [
    "--max-num-seqs",
    "--no-enforce-eager",
    "-tp",
    "-cc.x",
    "--host",
    "--",
    "-",
    "",
    "1",
    "x",
    "=",
]


@given(st.lists(st.sampled_from(WORDS) | st.text(max_size=12), min_size=1, max_size=5))
def test_no_raw_flags_break_the_reader(words: list[str]) -> None:
    text = fleet_text(f"- {{name: v, accelerator: nvidia-h100, extraArgs: {json.dumps(words)}}}")
    found = attempt(text)
    assert isinstance(found, Plan) or found.exit_code in {65, 66}


@pytest.mark.parametrize("rounds", [3])
def test_the_same_fleet_gives_the_same_bytes(rounds: int) -> None:
    text = fleet_text(
        "\n".join(f"- {{name: v{n}, accelerator: {a}}}" for n, a in enumerate(ACCELERATORS))
    )
    plans = {json.dumps(plan_text(text).to_json()) for _ in range(rounds)}
    assert len(plans) == 1
