"""What a device keeps for requests: the engine's blocks, filled up, replicated and aligned."""

from typing import Any

import pytest

from llmd_ctl.plan import Parallel
from llmd_ctl.plan.kept import Keeping, Kept, kept
from llmd_ctl.plan.memory import kv_format, weight_bytes
from llmd_ctl.profiles import Catalog, ModelShape, read_shape
from llmd_ctl.profiles.split import tensor_objection

LONG = 10**9


def built_in(name: str, **changes: Any) -> ModelShape:
    catalog = Catalog.load()
    return read_shape({**catalog.model(name).spec.config, **changes}, catalog.families)


def keep(name: str, tensor: int = 1, block: int = 16, length: int = LONG, **how: Any) -> Kept:
    model = built_in(name)
    form = str(how.pop("form", None) or kv_format(model, "auto"))
    return kept(model, Keeping(tensor, form, block, length, **how))


@pytest.mark.parametrize(
    ("name", "tensor", "block"),
    [  # the blocks that vLLM 0.32.0 makes: as long as a state, and other ones with other splits
        ("Qwen/Qwen3.5-27B", 1, 784),
        ("Qwen/Qwen3.5-27B", 8, 400),
        ("Qwen/Qwen3.5-35B-A3B", 1, 1056),
        ("Qwen/Qwen3.5-35B-A3B", 4, 528),
        ("nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-BF16", 1, 4160),
        ("moonshotai/Kimi-K3", 1, 5760),
        ("Qwen/Qwen3-32B", 1, 16),
    ],
)
def test_a_block_is_as_long_as_a_state(name: str, tensor: int, block: int) -> None:
    assert keep(name, tensor).block_size == block


def test_a_state_takes_a_whole_block_in_layers_filled_up_to_those_that_attend() -> None:
    one = keep("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16")
    page = 2 * 2 * 128 * 2 * one.block_size
    assert one.state_request == 24 * page  # 23 layers in groups of 6
    assert page >= 2_134_016 > page - 16 * 1024  # no longer than it must be


def test_where_prefixes_are_kept_a_request_holds_two_blocks_of_state() -> None:
    plain, prefixes = keep("Qwen/Qwen3.5-27B"), keep("Qwen/Qwen3.5-27B", prefixes=True)
    assert prefixes.state_request == 2 * plain.state_request
    assert prefixes.state_block == plain.state_block == 48 * 784 * 4096


def test_a_latent_is_whole_on_every_device() -> None:
    for name in ("deepseek-ai/DeepSeek-V3", "deepseek-ai/DeepSeek-V3.2", "zai-org/GLM-5.2"):
        assert keep(name, tensor=8).token == keep(name).token
    whole = keep("deepseek-ai/DeepSeek-V4-Flash")
    assert keep("deepseek-ai/DeepSeek-V4-Flash", tensor=8) == whole


def test_kv_heads_are_replicated_kind_by_kind() -> None:
    """Gemma 4: two KV heads where everything is seen, eight in windows."""
    four = keep("google/gemma-4-26B-A4B-it", tensor=4)
    assert four.token == 5 * 1 * 1024 * 2
    assert four.near_token == 25 * 2 * 512 * 2


def test_a_group_of_state_channels_is_not_divided() -> None:
    """Granite: one group, so every device has it, and a share of the heads."""
    for tensor in (1, 2, 4):
        state = 36 * ((8192 + 2 * 128 * tensor) // tensor * 3 * 2 + 128 // tensor * 64 * 128 * 2)
        assert keep("ibm-granite/granite-4.0-h-small", tensor, block=1).state_request == state


def test_windows_are_cut_to_the_context_and_chunks_begin_with_a_block() -> None:
    short = keep("google/gemma-3-27b-it", length=160)
    assert short.near_request == 60 * 16 * 256 * 2 * (160 + 16)
    chunk = keep("meta-llama/Llama-4-Scout-17B-16E-Instruct", length=LONG)
    assert chunk.near_request == 36 * 8 * 256 * 2 * 8192


def test_without_the_hybrid_manager_windows_keep_everything() -> None:
    lean, whole = keep("openai/gpt-oss-120b"), keep("openai/gpt-oss-120b", windows_whole=True)
    assert whole.token == lean.token + lean.near_token
    assert (whole.near_token, whole.near_request) == (0, 0)


def test_smaller_entries_stand_in_longer_blocks() -> None:
    """MiMo: an entry of a window is twice one of the others, whose blocks are twice as long."""
    assert keep("XiaomiMiMo/MiMo-V2-Flash").near_request == 45 * 8 * 320 * 2 * (128 + 16)
    wide = keep("google/gemma-4-31B-it", tensor=16)  # one head of 256 in windows, of 512 else
    assert wide.near_request == 50 * 512 * 2 * (1024 + 32)


def test_a_stage_keeps_its_share_of_the_layers() -> None:
    assert keep("deepseek-ai/DeepSeek-V3", stages=2).token == 31 * 1152


@pytest.mark.parametrize(
    ("name", "asked", "form"),
    [
        ("deepseek-ai/DeepSeek-V3", "fp8", "fp8"),
        ("deepseek-ai/DeepSeek-V3.2", "fp8", "fp8_ds_mla"),
        ("deepseek-ai/DeepSeek-V3.2", "nvfp4_ds_mla", "nvfp4_ds_mla"),
        ("deepseek-ai/DeepSeek-V4-Pro", "auto", "fp8_ds_mla"),
        ("deepseek-ai/DeepSeek-V3", "fp8_ds_mla", None),
        ("Qwen/Qwen3-8B", "fp8_ds_mla", None),
        ("Qwen/Qwen3-8B", "nvfp4", None),
    ],
)
def test_a_kv_dtype_means_what_the_model_makes_of_it(
    name: str, asked: str, form: str | None
) -> None:
    assert kv_format(built_in(name), asked) == form


def test_rows_of_four_bits_are_those_of_the_kernel() -> None:
    row = keep("deepseek-ai/DeepSeek-V3.2", form="nvfp4_ds_mla")
    assert row.token == 61 * (352 + 132)


@pytest.mark.parametrize(
    ("name", "tensor", "what"),
    [
        ("google/gemma-4-26B-A4B-it", 3, "attention heads"),
        ("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", 16, "groups of state channels"),
        ("stepfun-ai/Step-3.7-Flash", 64, "96 attention heads"),
        ("Qwen/Qwen3.5-35B-A3B", 16, None),
        ("ibm-granite/granite-4.0-h-small", 16, None),
        ("deepseek-ai/DeepSeek-V3", 16, None),
    ],
)
def test_every_kind_of_layer_must_divide_evenly(name: str, tensor: int, what: str | None) -> None:
    objection = tensor_objection(built_in(name), tensor)
    assert (objection is None) == (what is None)
    assert what is None or what in str(objection)


def test_a_device_holds_latents_whole_and_its_share_of_experts_and_heads() -> None:
    model = built_in("deepseek-ai/DeepSeek-V3")
    names = {"latent", "router", "norms"}
    whole = sum(p.weight_bytes for p in model.parts if p.name in names)
    experts = sum(p.weight_bytes for p in model.parts if p.name == "experts")
    rest = model.weight_bytes - whole - experts
    copied = 61 * 512 * 128 * (128 + 128) * 2  # kv_b_proj as decoding wants it, unpacked
    split = weight_bytes(model, Parallel(tensor=8))
    assert split == pytest.approx(whole + (rest + experts + copied) / 8)
    wide = weight_bytes(model, Parallel(tensor=8, data=2, expert=16))
    assert wide == pytest.approx(whole + (rest + copied) / 8 + experts / 16)
