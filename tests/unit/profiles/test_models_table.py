"""Every model that comes with llmd-ctl, against what its paper, card or checkpoint says.

What a request keeps is written down a second time here: by hand, from the numbers of each model,
in formulas that share nothing with the code. Parameters are those published; where a checkpoint's
total bytes are published too, they are met to the byte.
"""

import math
from dataclasses import dataclass

import pytest

from llmd_ctl.plan.kept import Keeping, Kept, kept
from llmd_ctl.plan.memory import kv_format
from llmd_ctl.profiles import Catalog, ModelShape, read_shape

BLOCK = 16
LONG = 10**9  # longer than any context: windows are not cut


@dataclass(frozen=True)
class Expected:
    """Bytes of KV a token in 16 and in 8 bits, and bytes a request whatever its length."""

    token: float
    token_fp8: float
    constant: float = 0.0
    constant_fp8: float = 0.0


def full(layers: int, heads: int, width: int, values: int = 0) -> Expected:
    elements = layers * heads * (width + (values or width))
    return Expected(2.0 * elements, elements)


def latent(layers: int, rank: int = 512, rope: int = 64) -> Expected:
    return Expected(2.0 * layers * (rank + rope), layers * (rank + rope))


def indexed(layers: int, owners: int) -> Expected:
    """Latents in rows of 656 bytes where they are of 8 bits; an index of 128 bytes and a scale."""
    return Expected(layers * 1152 + owners * 132, layers * 656 + owners * 132)


def near(base: Expected, layers: int, heads: int, elements: int, tokens: int) -> Expected:
    """Add layers that hold `tokens` whatever the length of the request.

    `layers` are counted as the engine fills them up: to a multiple of those that see everything.
    """
    kept_bytes = layers * heads * elements * tokens
    return Expected(base.token, base.token_fp8, 2.0 * kept_bytes, kept_bytes)


def window(tokens: int) -> int:
    """Tokens that a window takes in blocks of 16: it may begin within one."""
    return (math.ceil(tokens / BLOCK) + 1) * BLOCK


def state(base: Expected, layers: int, channels: int, elements: int, size: int) -> Expected:
    """Add layers with a state: three tokens of 16 bits a channel, and elements of `size` bytes."""
    each = layers * (channels * 3 * 2 + elements * size)
    return Expected(base.token, base.token_fp8, each, each)


def gated_delta(base: Expected, layers: int, values: int) -> Expected:
    channels = 2 * 16 * 128 + values * 128
    return state(base, layers, channels, values * 128 * 128, 4)


def mamba(base: Expected, layers: int, heads: int, groups: int, size: int) -> Expected:
    channels = heads * 64 + 2 * groups * 128
    return state(base, layers, channels, heads * 64 * 128, size)


def compressed(layers: int, fours: int, many: int) -> Expected:
    """DeepSeek V4: rows of 584 bytes, and what waits to be compressed in 32 bits."""
    token = 584 * (fours / 4 + many / 128) + 132 * fours / 4
    plain = layers * 584 * 192  # a window of 128 in blocks of 64
    waiting = fours * (8 + 4) * (2048 + 512) * 4 + many * (128 + 8) * 1024 * 4
    return Expected(token, token, plain + waiting, plain + waiting)


def chunked(full_layers: int, layers: int) -> Expected:
    return near(full(full_layers, 8, 128), layers, 8, 256, 8192)


M3 = Expected(60 * 4 * 256 * 2 + 57 * 256, 60 * 4 * 256 + 57 * 256)
NANO = "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16"
SUPER = "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-BF16"
ULTRA = "nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16"
# Billions of parameters as published, and the longest context.
TABLE: dict[str, tuple[float, int, Expected]] = {
    "meta-llama/Llama-3.2-1B-Instruct": (1.24, 131072, full(16, 8, 64)),
    "meta-llama/Llama-3.2-3B-Instruct": (3.21, 131072, full(28, 8, 128)),
    "meta-llama/Llama-3.1-8B": (8.03, 131072, full(32, 8, 128)),
    "meta-llama/Llama-3.1-8B-Instruct": (8.03, 131072, full(32, 8, 128)),
    "meta-llama/Llama-3.3-70B-Instruct": (70.6, 131072, full(80, 8, 128)),
    "meta-llama/Llama-3.1-405B-Instruct": (405, 131072, full(126, 8, 128)),
    "meta-llama/Llama-4-Scout-17B-16E-Instruct": (109, 10485760, chunked(12, 36)),
    "meta-llama/Llama-4-Maverick-17B-128E-Instruct": (400, 1048576, chunked(12, 36)),
    "Qwen/Qwen3-0.6B": (0.6, 40960, full(28, 8, 128)),
    "Qwen/Qwen3-8B": (8.2, 40960, full(36, 8, 128)),
    "Qwen/Qwen3-14B": (14.8, 40960, full(40, 8, 128)),
    "Qwen/Qwen3-32B": (32.8, 40960, full(64, 8, 128)),
    "Qwen/Qwen3-30B-A3B": (30.5, 40960, full(48, 4, 128)),
    "Qwen/Qwen3-235B-A22B": (235, 40960, full(94, 4, 128)),
    "Qwen/Qwen3-Coder-480B-A35B-Instruct": (480, 262144, full(62, 8, 128)),
    "Qwen/Qwen3.5-27B": (27, 262144, gated_delta(full(16, 4, 256), 48, 48)),
    "Qwen/Qwen3.5-35B-A3B": (35, 262144, gated_delta(full(10, 2, 256), 30, 32)),
    "Qwen/Qwen3.5-122B-A10B": (122, 262144, gated_delta(full(12, 2, 256), 36, 64)),
    "Qwen/Qwen3.5-397B-A17B": (397, 262144, gated_delta(full(15, 2, 256), 45, 64)),
    "openai/gpt-oss-20b": (21, 131072, near(full(12, 8, 64), 12, 8, 128, window(128))),
    "openai/gpt-oss-120b": (117, 131072, near(full(18, 8, 64), 18, 8, 128, window(128))),
    "deepseek-ai/DeepSeek-V3": (671, 163840, latent(61)),
    "deepseek-ai/DeepSeek-R1": (671, 163840, latent(61)),
    "deepseek-ai/DeepSeek-V3.2": (671, 163840, indexed(61, 61)),
    "deepseek-ai/DeepSeek-V4-Flash": (284, 1048576, compressed(43, 21, 20)),
    "deepseek-ai/DeepSeek-V4-Pro": (1600, 1048576, compressed(61, 30, 31)),
    "zai-org/GLM-4.5": (355, 131072, full(92, 8, 128)),
    "zai-org/GLM-4.6": (357, 202752, full(92, 8, 128)),
    "zai-org/GLM-4.7": (357, 202752, full(92, 8, 128)),
    "zai-org/GLM-4.5-Air": (106, 131072, full(46, 8, 128)),
    "zai-org/GLM-5": (744, 202752, indexed(78, 78)),
    "zai-org/GLM-5.1": (744, 202752, indexed(78, 78)),
    "zai-org/GLM-5.2": (743, 1048576, indexed(78, 21)),
    "moonshotai/Kimi-K2-Instruct": (1026, 131072, latent(61)),
    "moonshotai/Kimi-K2.5": (1026, 262144, latent(61)),
    "moonshotai/Kimi-K2.6": (1026, 262144, latent(61)),
    "moonshotai/Kimi-K2.7-Code": (1026, 262144, latent(61)),
    "moonshotai/Kimi-K3": (
        2800, 1048576, state(latent(24), 69, 3 * 96 * 128, 96 * 128 * 128, 4),
    ),
    "google/gemma-3-27b-it": (
        27.4, 131072, near(full(10, 16, 128), 60, 16, 256, window(1024)),
    ),
    "google/gemma-4-26B-A4B-it": (
        26, 262144, near(full(5, 2, 512), 25, 8, 512, window(1024)),
    ),
    "google/gemma-4-31B-it": (
        31, 262144, near(full(10, 4, 512), 50, 16, 512, window(1024)),
    ),
    "mistralai/Ministral-3-8B-Instruct-2512": (8.9, 262144, full(34, 8, 128)),
    "mistralai/Mistral-Small-4-119B-2603": (119, 262144, latent(36, 256, 64)),
    "mistralai/Mistral-Large-3-675B-Instruct-2512": (675, 294912, latent(61)),
    "ibm-granite/granite-4.0-h-small": (32.2, 131072, mamba(full(4, 8, 128), 36, 128, 1, 2)),
    NANO: (31.6, 262144, mamba(full(6, 2, 128), 23, 64, 8, 4)),
    SUPER: (120, 262144, mamba(full(8, 2, 128), 40, 128, 8, 4)),
    ULTRA: (550, 262144, mamba(full(12, 2, 128), 48, 256, 8, 4)),
    "MiniMaxAI/MiniMax-M2.5": (230, 196608, full(62, 8, 128)),
    "MiniMaxAI/MiniMax-M3": (427, 1048576, M3),
    "XiaomiMiMo/MiMo-V2-Flash": (
        309, 262144, near(full(9, 4, 192, 128), 45, 8, 320, window(128)),
    ),
    "stepfun-ai/Step-3.7-Flash": (
        196, 65536, near(full(12, 8, 128), 36, 8, 256, window(512)),
    ),
}  # fmt: skip


def built_in(name: str) -> ModelShape:
    catalog = Catalog.load()
    return read_shape(catalog.model(name).spec.config, catalog.families)


def keeps(model: ModelShape, asked: str, tensor: int = 1, block: int = BLOCK) -> Kept:
    form = kv_format(model, asked)
    assert form is not None
    return kept(model, Keeping(tensor, form, block, LONG))


def test_the_table_holds_every_model() -> None:
    assert sorted(TABLE) == list(Catalog.load().names("ModelProfile"))


@pytest.mark.parametrize("name", TABLE)
def test_parameters_are_those_published_within_two_percent(name: str) -> None:
    billions = TABLE[name][0]
    assert built_in(name).parameters / 1e9 == pytest.approx(billions, rel=0.02)


@pytest.mark.parametrize("name", TABLE)
def test_the_longest_context_is_the_models(name: str) -> None:
    assert built_in(name).max_positions == TABLE[name][1]


@pytest.mark.parametrize("name", TABLE)
def test_a_token_takes_what_its_layers_keep(name: str) -> None:
    model, expected = built_in(name), TABLE[name][2]
    assert keeps(model, "auto").token == pytest.approx(expected.token, rel=1e-12)
    assert keeps(model, "fp8").token == pytest.approx(expected.token_fp8, rel=1e-12)


@pytest.mark.parametrize("name", TABLE)
def test_a_request_takes_its_windows_and_states_whatever_its_length(name: str) -> None:
    model, expected = built_in(name), TABLE[name][2]
    for asked, constant in (("auto", expected.constant), ("fp8", expected.constant_fp8)):
        # The engine makes blocks as long as a state; the state alone is that of blocks of 1.
        alone = keeps(model, asked, block=1).state_request
        assert keeps(model, asked).near_request + alone == pytest.approx(constant)


@pytest.mark.parametrize(
    ("name", "weight_bytes"),
    [  # `metadata.total_size` of model.safetensors.index.json
        ("Qwen/Qwen3-8B", 16_381_470_720),
        ("Qwen/Qwen3-14B", 29_536_614_400),
        ("Qwen/Qwen3-32B", 65_524_246_528),
        ("Qwen/Qwen3-30B-A3B", 61_064_245_248),
        ("Qwen/Qwen3-235B-A22B", 470_187_269_120),
        ("meta-llama/Llama-3.3-70B-Instruct", 141_107_412_992),
        ("openai/gpt-oss-20b", 13_761_264_768),
        ("openai/gpt-oss-120b", 65_248_815_744),
    ],
)
def test_weights_take_the_bytes_of_the_checkpoint(name: str, weight_bytes: int) -> None:
    assert built_in(name).weight_bytes == weight_bytes


def test_weights_of_a_model_with_states_take_the_size_that_is_published() -> None:
    assert round(built_in("ibm-granite/granite-4.0-h-small").weight_bytes / 2**30, 2) == 59.99


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("meta-llama/Llama-3.2-3B-Instruct", 3_212_749_824),
        ("deepseek-ai/DeepSeek-V3", 671_026_419_200),
        (NANO, 31_577_940_288),
    ],
)
def test_parameters_are_counted_to_the_last(name: str, parameters: int) -> None:
    assert built_in(name).parameters == parameters


def test_blocks_of_128_by_128_and_experts_of_four_bits_are_counted_with_their_scales() -> None:
    model = built_in("deepseek-ai/DeepSeek-V3")
    plain = 2 * 129280 * 7168 + 58 * (256 * 7168 + 256) + 61 * (2 * 7168 + 1536 + 512) + 7168
    packed = model.parameters - plain
    assert model.weight_bytes == pytest.approx(packed * (1 + 4 / 128**2) + 2 * plain)
    kimi = built_in("moonshotai/Kimi-K2.5")
    experts = sum(part.parameters for part in kimi.parts if part.name == "experts")
    assert experts == 60 * 384 * 3 * 7168 * 2048
    rest = kimi.parameters - experts
    assert kimi.weight_bytes == pytest.approx(experts * (0.5 + 2 / 32) + 2 * rest)


def without_tower(name: str) -> int:
    return sum(part.parameters for part in built_in(name).parts if part.name != "tower")


def test_a_gate_as_wide_as_the_queries_and_delta_nets_are_counted() -> None:
    hidden, vocabulary = 5120, 248320
    attention = hidden * 2 * 24 * 256 + 24 * 256 * hidden + 2 * hidden * 4 * 256 + 2 * 256
    channels = 2 * 16 * 128 + 48 * 128
    delta = hidden * (channels + 48 * 128 + 2 * 48) + 48 * 128 * hidden
    delta += 4 * channels + 2 * 48 + 128
    layers = 16 * attention + 48 * delta + 64 * 3 * hidden * 17408 + (2 * 64 + 1) * hidden
    assert without_tower("Qwen/Qwen3.5-27B") == layers + 2 * vocabulary * hidden


def test_keys_that_are_values_and_experts_beside_a_dense_layer_are_counted() -> None:
    hidden = 2816
    near = 2 * hidden * 16 * 256 + 2 * hidden * 8 * 256 + 2 * 256
    full_layer = 2 * hidden * 16 * 512 + hidden * 2 * 512 + 2 * 512
    feeding = 3 * hidden * 2112 + 128 * 3 * hidden * 704 + hidden * 128 + hidden + 128
    layers = 25 * near + 5 * full_layer + 30 * feeding + (7 * 30 + 1) * hidden
    assert without_tower("google/gemma-4-26B-A4B-it") == layers + 262144 * hidden


def test_a_tower_with_gates_has_three_matrices_a_layer() -> None:
    parts = built_in("google/gemma-4-26B-A4B-it").parts
    (tower,) = (part for part in parts if part.name == "tower")
    blocks = 27 * (4 * 1152 * 1152 + 3 * 1152 * 4304)
    ends = (3 * 16 * 16 + 2 * 10240) * 1152 + 1152 * 2816
    assert tower.parameters == blocks + ends


@pytest.mark.parametrize("name", TABLE)
def test_a_model_of_low_confidence_says_what_is_not_confirmed(name: str) -> None:
    spec = Catalog.load().model(name).spec
    assert spec.source
    assert spec.unconfirmed or spec.confidence != "low"
    for version in spec.min_version.values():
        assert all(word.isdigit() for word in version.split("."))
