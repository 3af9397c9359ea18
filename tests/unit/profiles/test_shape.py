"""A config.json as numbers, against figures published for the models."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmd_ctl.profiles import Catalog, ConfigError, ModelShape, read_shape

# A small model of each kind, to change single keys of.
DENSE: dict[str, Any] = {
    "model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64, "intermediate_size": 256,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 1000,
    "max_position_embeddings": 4096, "dtype": "bfloat16", "tie_word_embeddings": False,
}  # fmt: skip
EXPERTS: dict[str, Any] = {
    "n_routed_experts": 4, "num_experts": 4, "num_local_experts": 4, "num_experts_per_tok": 2,
    "num_experts_per_token": 2, "moe_intermediate_size": 32, "top_k_experts": 2,
    "moe_num_experts": 4, "moe_top_k": 2,
}  # fmt: skip
DENSE_AND_EXPERTS = {**DENSE, **EXPERTS}
LATENT: dict[str, Any] = {
    "kv_lora_rank": 32, "qk_rope_head_dim": 8, "qk_nope_head_dim": 16, "v_head_dim": 16,
    "q_lora_rank": 24, "n_shared_experts": 1, "first_k_dense_replace": 1,
}  # fmt: skip
INDEXED = {**LATENT, "index_topk": 8, "index_n_heads": 2, "index_head_dim": 128}
KIMI = {**LATENT, "n_shared_experts": None, "linear_attn_config": {
    "kda_layers": [1], "num_heads": 2, "head_dim": 8, "short_conv_kernel_size": 4}}  # fmt: skip
COMPRESSED: dict[str, Any] = {
    "compress_ratios": [4, 128, 0], "head_dim": 16, "q_lora_rank": 24, "o_lora_rank": 8,
    "o_groups": 2, "sliding_window": 8, "index_topk": 8, "index_n_heads": 2,
    "index_head_dim": 128, "hc_mult": 2,
}  # fmt: skip
DELTA: dict[str, Any] = {
    "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8,
    "linear_value_head_dim": 8, "linear_conv_kernel_dim": 4, "full_attention_interval": 2,
}  # fmt: skip
MAMBA: dict[str, Any] = {
    "layer_types": ["mamba", "attention"], "mamba_n_heads": 4, "mamba_d_head": 8,
    "mamba_d_state": 16, "shared_intermediate_size": 32,
}  # fmt: skip
NEMOTRON: dict[str, Any] = {
    "hybrid_override_pattern": "M*", "mamba_num_heads": 4, "mamba_head_dim": 8,
    "ssm_state_size": 16, "conv_kernel": 4,
}  # fmt: skip


def shape(**changes: Any) -> ModelShape:
    families = Catalog.load().families
    traits = families["families"].get(str(changes.get("model_type", "llama")), {})
    base = DENSE_AND_EXPERTS if "experts" in traits else DENSE
    return read_shape({**base, **changes}, families)


def built_in(name: str) -> ModelShape:
    catalog = Catalog.load()
    return read_shape(catalog.model(name).spec.config, catalog.families)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [  # as Hugging Face counts the tensors of the checkpoints
        ("meta-llama/Llama-3.1-8B-Instruct", 8_030_261_248),
        ("meta-llama/Llama-3.1-8B", 8_030_261_248),
        ("Qwen/Qwen3-32B", 32_762_123_264),
        ("openai/gpt-oss-20b", 20_914_757_184),
    ],
)
def test_parameters_are_counted_exactly(name: str, parameters: int) -> None:
    assert built_in(name).parameters == parameters


def test_plain_weights_take_two_bytes_a_parameter() -> None:
    model = built_in("Qwen/Qwen3-32B")
    assert model.weight_bytes == 2 * model.parameters


def test_mxfp4_packs_experts_alone() -> None:
    """13.76 GB, the size of gpt-oss-20b's checkpoint."""
    model = built_in("openai/gpt-oss-20b")
    assert model.weight_bytes == 13_761_264_768
    assert model.weight_dtype == "mxfp4"


def test_gpt_oss_has_a_window_on_every_other_layer() -> None:
    model = built_in("openai/gpt-oss-20b")
    assert (model.full_layers, model.window_layers, model.window) == (12, 12, 128)
    assert (model.experts, model.experts_per_token) == (32, 4)


def test_a_tied_head_is_counted_once() -> None:
    assert shape().parameters - shape(tie_word_embeddings=True).parameters == 64 * 1000


def test_biases_and_norms_are_counted_where_the_family_has_them() -> None:
    plain = shape().parameters
    assert shape(attention_bias=True).parameters - plain == 2 * (64 + 2 * 32 + 64)
    assert shape(mlp_bias=True).parameters - plain == 2 * (256 * 2 + 64)
    assert shape(model_type="qwen2").parameters - plain == 2 * (64 + 2 * 32)
    assert shape(model_type="qwen3").parameters - plain == 2 * 2 * 16


def test_head_dim_is_what_the_config_says_else_the_hidden_size_over_the_heads() -> None:
    assert [group.width for group in shape().cache] == [2 * 16]
    assert [group.width for group in shape(head_dim=32).cache] == [2 * 32]


@pytest.mark.parametrize(
    ("changes", "layers"),
    [
        ({}, 0),
        ({"model_type": "mistral", "sliding_window": 512}, 2),
        ({"model_type": "mistral", "sliding_window": None}, 0),
        ({"model_type": "qwen3", "sliding_window": 512, "use_sliding_window": False}, 0),
        ({"model_type": "qwen3", "sliding_window": 512, "use_sliding_window": True,
          "max_window_layers": 1}, 1),
        ({"model_type": "gemma3_text", "sliding_window": 512, "num_hidden_layers": 12}, 10),
        ({"model_type": "gpt_oss", "sliding_window": 128, "num_local_experts": 4,
          "num_experts_per_tok": 2,
          "layer_types": ["full_attention", "full_attention"]}, 0),
        ({"model_type": "mistral", "sliding_window": 512,
          "layer_types": ["sliding_attention", "full_attention"]}, 1),
    ],
)  # fmt: skip
def test_window_layers_are_those_of_the_model(changes: dict[str, Any], layers: int) -> None:
    assert shape(**changes).window_layers == layers


@pytest.mark.parametrize(
    ("rope", "longest"),
    [
        (None, 4096),
        ({"rope_type": "llama3", "factor": 8.0}, 4096),
        ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}, 4096),
        ({"rope_type": "linear", "factor": 2.0}, 8192),
        ({"type": "dynamic", "factor": 2.0}, 8192),
    ],
)
def test_the_longest_context_is_the_engines(rope: dict[str, Any] | None, longest: int) -> None:
    assert shape(rope_scaling=rope).max_positions == longest


def test_gemma_3_counts_its_rope_scaling_in_already() -> None:
    rope = {"rope_type": "linear", "factor": 8.0}
    assert shape(model_type="gemma3_text", rope_scaling=rope).max_positions == 4096


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("kv_lora_rank", 512),
        ("mamba_d_state", 128),
        ("linear_num_key_heads", 16),
        ("attention_chunk_size", 8192),
        ("index_topk", 2048),
        ("is_encoder_decoder", True),
        ("vision_config", {"hidden_size": 1}),
        ("n_shared_experts", 1),
        ("layer_types", ["full_attention", "linear_attention"]),
    ],
)
def test_a_cache_of_another_kind_is_refused_and_not_guessed(key: str, value: Any) -> None:
    with pytest.raises(ConfigError) as raised:
        shape(**{key: value})
    assert raised.value.code == "LC2031"


def test_an_unknown_family_names_the_known_ones() -> None:
    with pytest.raises(ConfigError) as raised:
        shape(model_type="rwkv")
    assert raised.value.code == "LC2032"
    assert "llama" in raised.value.allowed


@pytest.mark.parametrize(
    "changes",
    [
        {"num_hidden_layers": None},
        {"num_hidden_layers": 0},
        {"num_hidden_layers": "two"},
        {"num_hidden_layers": True},
        {"hidden_size": 10**12},
        {"num_key_value_heads": 3},
        {"dtype": "int3"},
    ],
)
def test_a_value_that_cannot_be_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as raised:
        shape(**changes)
    assert raised.value.code == "LC2033"


@pytest.mark.parametrize(
    ("packed", "dtype", "per_weight"),
    [
        ({"quant_method": "fp8"}, "fp8", 1.0),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8", 1 + 4 / 128**2),
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, "int4", 0.5 + 2.5 / 128),
        ({"quant_method": "compressed-tensors", "config_groups": {"g": {"weights": {
            "num_bits": 8, "type": "float"}}}}, "fp8", 1.0),
        ({"quant_method": "compressed-tensors", "config_groups": {"g": {"weights": {
            "num_bits": 4, "type": "int", "group_size": 32}}}}, "int4", 0.5 + 2 / 32),
    ],
)  # fmt: skip
def test_packed_weights_take_what_their_method_says(
    packed: dict[str, Any], dtype: str, per_weight: float
) -> None:
    model = shape(quantization_config=packed)
    linear = 2 * (64 * 64 * 2 + 64 * 32 * 2 + 64 * 256 * 3)
    plain = model.parameters - linear
    assert model.weight_bytes == pytest.approx(linear * per_weight + plain * 2)
    assert model.weight_dtype == dtype


INT4: dict[str, Any] = {
    "quant_method": "compressed-tensors", "config_groups": {"g": {"weights": {
        "num_bits": 4, "type": "int", "group_size": 32}}},
}  # fmt: skip
SHARES: list[tuple[dict[str, Any], float, float]] = [  # of attention and of feed-forward, packed
    ({"ignore": []}, 1, 1),
    ({"ignore": ["lm_head", "re:.*self_attn.*"]}, 0, 1),
    ({"ignore": ["re:.*mlp\\.(gate|up|gate_up|down)_proj.*"]}, 1, 0),
    ({"ignore": ["model.layers.0.self_attn*"]}, 0.5, 1),
    ({"ignore": ["model.layers.1*", "model.layers.10.mlp*"]}, 0.5, 0.5),
    ({"ignore": ["model.layers.*.self_attn"]}, 0, 1),
    ({"ignore": ["*.mlp.*"]}, 1, 0),
    ({"exclude_modules": ["language_model.model.layers.1.mlp.gate_proj"]}, 1, 0.5),
    ({"modules_to_not_convert": ["self_attn", "gate"]}, 0, 1),
]


@pytest.mark.parametrize(("left_out", "attention", "mlp"), SHARES)
def test_layers_that_a_config_leaves_out_are_not_packed(
    left_out: dict[str, Any], attention: float, mlp: float
) -> None:
    model = shape(quantization_config={**INT4, **left_out})
    matrices = {"attention": 2 * 64 * 64, "kv": 2 * 64 * 32, "mlp": 3 * 64 * 256}
    packed = 0.5 + 2 / 32
    for part in model.parts:
        if part.name in matrices:
            share = mlp if part.name == "mlp" else attention
            expected = 2 * matrices[part.name] * (share * packed + (1 - share) * 2)
            assert part.weight_bytes == pytest.approx(expected)


@pytest.mark.parametrize(
    ("packed", "dtype", "per_weight"),
    [
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4", 9 / 16),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, "fp8", 1.0),
        ({"quant_method": "mxfp8"}, "fp8", 33 / 32),
        ({"quant_method": "compressed-tensors", "format": "mxfp4-pack-quantized",
          "config_groups": {"g": {"weights": {"num_bits": 4}}}}, "mxfp4", 17 / 32),
        ({"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized",
          "config_groups": {"g": {"weights": {"num_bits": 4}}}}, "nvfp4", 9 / 16),
    ],
)  # fmt: skip
def test_four_bits_with_scales_of_their_own_are_counted(
    packed: dict[str, Any], dtype: str, per_weight: float
) -> None:
    model = shape(quantization_config=packed)
    linear = 2 * (64 * 64 * 2 + 64 * 32 * 2 + 64 * 256 * 3)
    assert model.weight_dtype == dtype
    assert model.weight_bytes == pytest.approx(
        linear * per_weight + (model.parameters - linear) * 2
    )


def test_scales_of_kv_alone_pack_no_weights() -> None:
    scheme = {"num_bits": 8, "type": "float"}
    packed = {"quant_method": "compressed-tensors", "config_groups": {}, "kv_cache_scheme": scheme}
    assert shape(quantization_config=packed).weight_bytes == shape().weight_bytes


def test_experts_may_be_of_a_dtype_of_their_own() -> None:
    model = shape(
        model_type="deepseek_v4", **COMPRESSED, expert_dtype="fp4",
        quantization_config={"quant_method": "fp8"},
    )  # fmt: skip
    experts = next(part for part in model.parts if part.name == "experts")
    assert experts.weight_bytes == experts.parameters * 17 / 32
    attention = next(part for part in model.parts if part.name == "attention")
    assert attention.weight_bytes == attention.parameters - 2 * 4 + 2 * 4 * 4  # sinks of 32 bits


@pytest.mark.parametrize(
    "packed",
    [
        {**INT4, "ignore": ["re:("]},
        {**INT4, "ignore": ["re:(.*)*x"]},
        {**INT4, "ignore": ["re:.*.*.*x"]},
        {**INT4, "ignore": [f"re:{n}" for n in range(65)]},
        {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"},
        {"quant_method": "quark"},
        {"quant_method": "awq", "bits": 4},
        {"quant_method": "compressed-tensors", "config_groups": {}},
        {"bits": 4},
    ],
)
def test_packing_that_is_not_known_is_refused(packed: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as raised:
        shape(quantization_config=packed)
    assert raised.value.code == "LC2031"
    assert "weightBytes" in str(raised.value.hint)


def test_weight_bytes_that_are_given_overrule_what_is_counted() -> None:
    model = read_shape(DENSE, Catalog.load().families, weight_bytes=10_000.0)
    assert model.weight_bytes == pytest.approx(10_000)
    assert model.parameters == shape().parameters


# --- models with more than a language model ---

VISION = {
    "model_type": "siglip_vision_model", "num_hidden_layers": 2, "hidden_size": 32,
    "intermediate_size": 128, "patch_size": 14,
}  # fmt: skip


def test_the_language_model_of_a_larger_config_is_read_and_its_tower_counted() -> None:
    whole = shape(model_type="llava", text_config={**DENSE}, vision_config=VISION)
    tower = next(part for part in whole.parts if part.name == "tower")
    blocks = 2 * (4 * 32 * 32 + 2 * 32 * 128)
    assert tower.parameters == blocks + 3 * 14 * 14 * 32 + 32 * 64
    assert tower.split == "none"
    assert whole.parameters == shape().parameters + tower.parameters
    assert whole.cache == shape().cache
    assert any("images are counted within a few percent" in note for note in whole.notes)


def test_what_is_not_counted_of_a_larger_config_is_said() -> None:
    strange = shape(model_type="x", text_config={**DENSE}, vision_config={"embed_dim": 8})
    assert strange.parameters == shape().parameters
    assert strange.notes == ("the weights that take in images are not counted",)
    spoken = shape(model_type="x", text_config={**DENSE}, audio_config={"depth": 1})
    assert spoken.notes == ("the weights that take in audio are not counted",)


def test_draft_layers_are_not_counted_and_that_is_said() -> None:
    model = shape(model_type="deepseek_v3", **LATENT, num_nextn_predict_layers=1)
    assert any("MTP" in note for note in model.notes)


# --- which layer is of which kind ---


@pytest.mark.parametrize(
    ("changes", "dense"),
    [
        ({"first_k_dense_replace": 3}, 3),
        ({"first_k_dense_replace": 1, "moe_layer_freq": 2}, 3),
        ({"moe_layer_freq": [0, 1, 1, 0]}, 2),
        ({"mlp_layer_types": ["dense", "sparse", "sparse", "sparse"]}, 1),
        ({"moe_layers_enum": "1,3"}, 2),
        ({"mlp_only_layers": [2]}, 1),
        ({"decoder_sparse_step": 2}, 2),
        ({"interleave_moe_layer_step": 2}, 2),
        ({}, 0),
    ],
)
def test_experts_are_counted_in_the_layers_that_have_them(
    changes: dict[str, Any], dense: int
) -> None:
    base = {**LATENT, "first_k_dense_replace": 0, "num_hidden_layers": 4}
    model = shape(model_type="deepseek_v3", **{**base, **changes})
    parts = {part.name: part.parameters for part in model.parts}
    assert parts.get("mlp", 0) == dense * 3 * 64 * 256
    assert parts["experts"] == (4 - dense) * 4 * 3 * 64 * 32
    assert parts["shared"] == (4 - dense) * 3 * 64 * 32


@pytest.mark.parametrize(
    ("changes", "full", "near"),
    [
        ({"model_type": "llama4_text", "attention_chunk_size": 8}, 1, 3),
        ({"model_type": "llama4_text", "attention_chunk_size": 8,
          "no_rope_layers": [1, 0, 1, 0]}, 2, 2),
        ({"model_type": "llama4_text", "attention_chunk_size": 8,
          "layer_types": ["chunked_attention"] * 3 + ["full_attention"]}, 1, 3),
        ({"model_type": "mimo_v2_flash", "sliding_window": 8,
          "hybrid_layer_pattern": [0, 1, 1, 1]}, 1, 3),
        ({"model_type": "qwen3_5_text", **DELTA}, 2, 0),
        ({"model_type": "qwen3_5_text", **DELTA, "layer_types":
          ["linear_attention"] * 3 + ["full_attention"]}, 1, 0),
        ({"model_type": "nemotron_h", **NEMOTRON, "hybrid_override_pattern": "M*E-"}, 1, 0),
        ({"model_type": "nemotron_h", **NEMOTRON, "hybrid_override_pattern": None,
          "layers_block_type": ["attention", "moe", "attention", "mamba"]}, 2, 0),
        ({"model_type": "gemma3_text", "sliding_window": 8, "sliding_window_pattern": 2}, 2, 2),
    ],
)  # fmt: skip
def test_layers_are_of_the_kinds_that_the_config_says(
    changes: dict[str, Any], full: int, near: int
) -> None:
    model = shape(**{"num_hidden_layers": 4, **changes})
    assert (model.layers, model.full_layers, model.window_layers) == (4, full, near)


@pytest.mark.parametrize(
    "changes",
    [
        {"layer_types": ["full_attention"]},
        {"num_hidden_layers": 20_000},
        {"model_type": "deepseek_v3", **LATENT, "moe_layer_freq": [1]},
        {"model_type": "glm_moe_dsa", **INDEXED, "indexer_types": ["full"]},
        {"model_type": "deepseek_v4", **COMPRESSED, "compress_ratios": [4]},
    ],
)
def test_a_list_that_leaves_layers_out_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as raised:
        shape(**changes)
    assert raised.value.code == "LC2033"


@pytest.mark.parametrize("layers", ["²,³", "9" * 5000, "1," + "9" * 5000, ["²"], "1.5"])
def test_layers_enumerated_by_what_is_no_number_are_refused(layers: object) -> None:
    with pytest.raises(ConfigError, match="whole numbers") as raised:
        shape(model_type="deepseek_v3", **LATENT, moe_layers_enum=layers)
    assert raised.value.code == "LC2033"


@pytest.mark.parametrize(
    ("rope", "words"),
    [
        ({"rope_type": "linear", "factor": "4"}, "factor"),
        ({"rope_type": "linear", "factor": True}, "factor"),
        ({"rope_type": "dynamic", "factor": [4]}, "factor"),
        ({"rope_type": ["x"], "factor": 4}, "rope_type"),
        ({"type": {"a": 1}}, "rope_type"),
    ],
)
def test_rope_scaling_that_cannot_be_read_is_refused(rope: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words) as raised:
        shape(rope_scaling=rope)
    assert raised.value.code == "LC2033"


@pytest.mark.parametrize(
    "changes",
    [
        {"model_type": "deepseek_v3", **LATENT, "index_topk": 8},
        {"model_type": "deepseek_v3", **LATENT, "layer_types": ["chunked_attention"] * 2},
        {"model_type": "glm_moe_dsa", **INDEXED, "index_topk_freq": 4},
        {"model_type": "deepseek_v4", **COMPRESSED, "compress_ratios": [4, 16]},
        {"model_type": "gemma4_text", "num_kv_shared_layers": 2},
    ],
)
def test_a_kind_that_is_not_known_of_a_family_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as raised:
        shape(**changes)
    assert raised.value.code == "LC2031"


KEYS = [
    *DENSE, "head_dim", "rope_scaling", "rope_parameters", "layer_types", "sliding_window",
    "max_window_layers", "use_sliding_window", "num_local_experts", "num_experts_per_tok",
    "quantization_config", "decoder_sparse_step", "attention_bias", "first_k_dense_replace",
    "moe_layer_freq", "mlp_only_layers", "mlp_layer_types", "moe_layers_enum", "index_topk",
    "indexer_types", "compress_ratios", "attention_chunk_size", "no_rope_layers", "text_config",
    "vision_config", "linear_attn_config", "sparse_attention_config", "hybrid_override_pattern",
    "expert_dtype", "kv_lora_rank", "q_lora_rank", "n_shared_experts", "mamba_n_groups",
    "full_attention_interval", "mamba_ssm_dtype", "attn_output_gate", "rope_parameters",
]  # fmt: skip
VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 5), st.integers(), st.floats(), st.text(max_size=5),
    st.lists(
        st.sampled_from(
            ["full_attention", "sliding_attention", "linear_attention", "mamba", "moe", 0, 3, 4,
             "dense", "sparse", "full", "shared", "chunked_attention", "x"]
        ),
        max_size=3,
    ),
    st.sampled_from(["M*E-", "M", "0,1", "fp4", "float32", "auto"]),
    st.fixed_dictionaries(
        {}, optional={
            "rope_type": st.sampled_from(["linear", "yarn", 3]), "factor": st.floats() | st.text(),
            "quant_method": st.sampled_from(["fp8", "awq", "mxfp4", "compressed-tensors", 3]),
            "bits": st.integers(-1, 9), "group_size": st.integers(-1, 9) | st.none(),
            "weight_block_size": st.lists(st.integers(-1, 3), max_size=3),
            "config_groups": st.dictionaries(st.text(max_size=2), st.integers(), max_size=2)
            | st.lists(st.integers(), max_size=2),
            "ignore": st.lists(
                st.text(max_size=5)
                | st.sampled_from(["re:.*self_attn.*", "re:(", "re:(a+)+$", "layers.0*", "*mlp*"]),
                max_size=3,
            ),
            "hidden_size": st.integers(-1, 64), "depth": st.integers(), "num_heads": st.integers(),
            "kda_layers": st.lists(st.integers(-1, 3) | st.text(max_size=1), max_size=2),
            "sparse_attention_freq": st.lists(st.integers(0, 2), max_size=3),
        },
    ),
)  # fmt: skip


# What a small model of each kind needs besides.
KINDS: dict[str, dict[str, Any]] = {
    **{family: {} for family in ("llama", "mistral", "qwen3", "gpt_oss", "gemma2", "glm4_moe")},
    "deepseek_v3": LATENT, "deepseek_v32": INDEXED, "glm_moe_dsa": INDEXED, "kimi_linear": KIMI,
    "deepseek_v4": COMPRESSED, "qwen3_5_text": DELTA, "qwen3_5_moe_text": DELTA,
    "granitemoehybrid": MAMBA, "nemotron_h": NEMOTRON, "llama4_text": {"attention_chunk_size": 8},
    "gemma4_text": {"global_head_dim": 32, "sliding_window": 8},
    "minimax_m3": {"sparse_attention_config": {
        "sparse_index_dim": 8, "sparse_num_index_heads": 1, "sparse_topk_blocks": 2,
        "sparse_block_size": 4, "sparse_attention_freq": [0, 1]}},
    "mimo_v2_flash": {"hybrid_layer_pattern": [0, 1], "sliding_window": 8},
    "step3p5": {"sliding_window": 8, "layer_types": ["full_attention", "sliding_attention"]},
}  # fmt: skip


@pytest.mark.parametrize("family", KINDS)
def test_a_small_model_of_each_kind_is_read(family: str) -> None:
    model = shape(**{"model_type": family, **KINDS[family]})
    assert model.layers == 2
    assert model.cache


@given(
    st.sampled_from(sorted(KINDS)),
    st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=4),
)
def test_no_config_breaks_the_reader(family: str, changes: dict[str, Any]) -> None:
    try:
        model = shape(**{"model_type": family, **KINDS[family], **changes})
    except ConfigError:
        return
    assert 0 < model.weight_bytes < float("inf")
    assert 0 < model.max_positions <= 10**9
    assert 0 <= model.window_layers <= model.layers
    assert 0 <= model.full_layers <= model.layers
    assert all(group.layers > 0 for group in model.cache)
