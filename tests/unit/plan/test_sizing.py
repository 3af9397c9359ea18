"""Parallelism and fit: what is chosen, what is refused, and the numbers of both."""

import math
from pathlib import Path
from typing import Any

import pytest

from llmd_ctl.plan import Observed, Parallel, PlannedVariant, memory
from llmd_ctl.plan.fit import taken_share
from llmd_ctl.plan.kept import Keeping, kept
from llmd_ctl.plan.units import counted, dollars
from llmd_ctl.profiles import Catalog, ModelShape, read_shape
from llmd_ctl.profiles.split import (
    candidates,
    expert_objection,
    legal_tensors,
    tensor_objection,
)
from tests.unit.plan.fleets import GIB, fleet_text, plan_text, planned, problems_of, refused, tiny

QWEN = "hf://Qwen/Qwen3-32B"
GPT_OSS = "hf://openai/gpt-oss-20b"


def shape(name: str = "meta-llama/Llama-3.1-8B", **changes: Any) -> ModelShape:
    catalog = Catalog.load()
    return read_shape({**catalog.model(name).spec.config, **changes}, catalog.families)


# --- what is legal ---


def test_tensor_parallelism_divides_heads_and_kv_heads_or_replicates_them() -> None:
    assert legal_tensors(shape(), 64) == (1, 2, 4, 8, 16, 32)
    assert legal_tensors(shape(num_key_value_heads=2, num_attention_heads=6, head_dim=128,
                               intermediate_size=6 * 1024), 6) == (1, 2, 6)  # fmt: skip
    assert "KV heads" in str(tensor_objection(
        shape(num_key_value_heads=2, num_attention_heads=6, head_dim=128), 3
    ))  # fmt: skip
    assert "feed-forward" in str(tensor_objection(shape(intermediate_size=14337), 2))


def test_the_plan_tries_powers_of_two_only() -> None:
    assert candidates(shape(num_attention_heads=24, num_key_value_heads=24, head_dim=128,
                            intermediate_size=12288), 8) == (1, 2, 4, 8)  # fmt: skip


def test_experts_are_spread_evenly_over_all_devices() -> None:
    model = shape("openai/gpt-oss-20b", num_local_experts=6)
    assert expert_objection(model, 2, 2) is None
    assert "6 experts are not divisible by 4" in str(expert_objection(model, 4, 4))
    assert "over the 2 devices" in str(expert_objection(model, 3, 2))
    assert "no experts" in str(expert_objection(shape(), 2, 2))


# --- KV and weights ---


@pytest.mark.parametrize(
    ("name", "bf16"),
    [  # the table of 44 models: whole model, TP 1
        ("meta-llama/Llama-3.1-8B-Instruct", 131_072),
        ("Qwen/Qwen3-32B", 262_144),
        ("openai/gpt-oss-20b", 24_576),
    ],
)
def test_kv_bytes_a_token_are_those_of_the_table(name: str, bf16: int) -> None:
    for form, expected in (("bf16", bf16), ("fp8", bf16 / 2)):
        assert kept(shape(name), Keeping(1, form, 16, 131072)).token == expected


def test_window_layers_keep_their_window_and_not_the_context() -> None:
    keep = kept(shape("openai/gpt-oss-20b"), Keeping(1, "bf16", 16, 131072))
    assert keep.near_token == 24_576
    assert keep.near_request == (128 + 16) * 24_576
    dense = kept(shape(), Keeping(1, "bf16", 16, 131072))
    assert (dense.near_token, dense.near_request, dense.state_request) == (0, 0, 0)


@pytest.mark.parametrize(("tensor", "heads"), [(1, 8), (2, 4), (8, 1), (16, 1), (32, 1)])
def test_kv_heads_are_replicated_beyond_one_a_device(tensor: int, heads: int) -> None:
    assert memory.heads_per_device(8, tensor) == heads
    assert kept(shape(), Keeping(tensor, "bf16", 16, 131072)).token == 32 * heads * 2 * 128 * 2


def test_weights_are_split_over_devices_but_norms_and_replicated_kv_heads_are_not() -> None:
    model = shape()
    whole = memory.weight_bytes(model, Parallel())
    assert whole == 2 * model.parameters
    norms = 2 * (32 * 2 + 1) * 4096
    assert memory.weight_bytes(model, Parallel(tensor=2)) == (whole - norms) / 2 + norms
    kv = 2 * 32 * 2 * 4096 * 1024
    expected = (whole - norms - kv) / 16 + norms + kv / 8
    assert memory.weight_bytes(model, Parallel(tensor=16)) == math.ceil(expected)


def test_a_stage_holds_its_layers_and_one_end() -> None:
    model = shape()
    ends = 2 * 128256 * 4096
    layers = 2 * model.parameters - 2 * ends
    assert memory.weight_bytes(model, Parallel(pipeline=2)) == layers / 2 + ends


# --- what is chosen ---


@pytest.mark.parametrize(
    ("accelerator", "model", "uri", "tensor"),
    [
        ("nvidia-h100", "maxModelLen: 32768", QWEN, 2),
        ("amd-mi300x", "maxModelLen: 32768", QWEN, 1),
        ("google-tpu-v6e", "maxModelLen: 32768", QWEN, 4),
        ("nvidia-l4", "maxModelLen: 32768", QWEN, 4),
        ("nvidia-l4", "maxModelLen: 8192", "hf://meta-llama/Llama-3.1-8B", 1),
        ("nvidia-l4", "maxModelLen: 131072", "hf://meta-llama/Llama-3.1-8B", 2),
    ],
)
def test_unsaid_it_is_the_smallest_that_fits(
    accelerator: str, model: str, uri: str, tensor: int
) -> None:
    variant = planned(f"{{name: v, accelerator: {accelerator}}}", model=model, uri=uri)
    assert variant.parallelism.tensor == variant.devices_per_replica == tensor
    tried = [line.split(":")[0] for line in variant.ruled_out]
    assert tried == [f"tensor {1 << n}" for n in range(tensor.bit_length() - 1)]


SHARE = "engineArgs: {gpuMemoryUtilization: 0.88}"
TIGHT = f"{{name: v, accelerator: nvidia-l4, replicas: 2, {SHARE}}}"


def test_a_size_with_little_room_says_so_and_what_the_next_one_gives() -> None:
    chosen = planned(TIGHT, model="maxModelLen: 8192", uri=QWEN)
    asked = planned(
        f"{TIGHT[:-1]}, parallelism: {{tensor: 8}}}}", model="maxModelLen: 8192", uri=QWEN
    )
    assert chosen.fit is not None
    assert asked.fit is not None
    assert asked.capacity is not None
    assert asked.price_per_hour is not None
    assert taken_share(chosen.fit) >= 0.9
    assert (
        f"little room: {taken_share(chosen.fit):.0%} of the memory budget is taken before any KV "
        f"cache; {counted(round(chosen.fit.concurrency, 1), 'request')} of full length at once"
    ) in chosen.reasons
    assert (
        f"parallelism: {{tensor: 8}} would fit at {taken_share(asked.fit):.0%} and carry "
        f"{asked.capacity.tokens_per_second * 2:,.0f} tokens/s for "
        f"{dollars(asked.price_per_hour)} an hour"
    ) in chosen.reasons


def test_little_room_is_no_news_to_who_said_the_size_and_has_no_way_out_on_the_largest() -> None:
    said = f"{TIGHT[:-1]}, parallelism: {{tensor: 4}}}}"
    model = "maxModelLen: 8192"
    assert "little room" not in " ".join(planned(said, model=model, uri=QWEN).reasons)
    four = "inventory: [{accelerator: nvidia-l4, nodes: 2, devicesPerNode: 4}]"
    largest = planned(TIGHT, model=model, uri=QWEN, spec=four).reasons
    assert any(r.endswith("one machine has no larger size") for r in largest)
    roomy = planned("{name: v, accelerator: nvidia-h100}", model=model)
    assert "little room" not in " ".join(roomy.reasons)


def test_more_devices_for_the_sake_of_a_small_share_of_memory_are_explained() -> None:
    model = "maxModelLen: 8192"
    small = "{name: v, accelerator: nvidia-h100, engineArgs: {gpuMemoryUtilization: 0.2}}"
    variant = planned(small, model=model)
    assert variant.parallelism.tensor == 2
    said = (
        "because --gpu-memory-utilization is 0.2 (by engineArgs): with the usual 0.92, tensor 1 "
        "would fit"
    )
    assert said in variant.reasons
    assert said not in planned(small.replace("0.2", "0.9"), model=model).reasons
    assert "because" not in " ".join(planned(small.replace("0.2", "0.9"), uri=QWEN).reasons)


def test_the_inventory_says_how_many_devices_a_machine_has() -> None:
    item = "inventory: [{accelerator: nvidia-l4, nodes: 4, devicesPerNode: 1}]"
    problem = refused("{name: v, accelerator: nvidia-l4}", uri=QWEN, spec=item)
    assert problem.code == "LC3010"


@pytest.mark.parametrize(
    "said",
    ["parallelism: {tensor: 3}", "engineArgs: {tensorParallelSize: 3}", "extraArgs: [-tp, '3']"],
)
def test_an_illegal_split_is_refused_with_the_legal_ones_wherever_it_is_said(said: str) -> None:
    problem = refused(f"{{name: v, accelerator: nvidia-h100, {said}}}")
    assert problem.code == "LC3011"
    assert problem.allowed == ("1", "2", "4", "8")
    assert problem.place is not None
    assert problem.place.text[problem.place.column - 1] in "3-"


@pytest.mark.parametrize("split", ["tensor", "pipeline", "expert"])
def test_a_split_that_the_engine_has_no_flag_for_is_refused_and_not_left_out(
    split: str, tmp_path: Path
) -> None:
    variant = "{accelerator: cpu-x86, engine: {name: llamacpp}, parallelism: {%s: %d}}"
    text = fleet_text(f"- {variant % (split, 2)}", uri="./tiny")
    (problem,) = problems_of(text, simulate=None, observed=tiny(tmp_path))
    assert (problem.code, problem.allowed) == ("LC3011", ("1",))
    assert problem.place is not None
    assert problem.place.path.endswith(f"parallelism.{split}")
    one = fleet_text(f"- {variant % (split, 1)}", uri="./tiny")
    assert plan_text(one, simulate=None, observed=tiny(tmp_path))


def test_a_split_over_more_devices_than_a_machine_has_is_refused() -> None:
    problem = refused("{name: v, accelerator: nvidia-h100, parallelism: {tensor: 16}}")
    assert (problem.code, problem.allowed) == ("LC3011", ("1", "2", "4", "8"))


def test_a_pipeline_is_refused_where_the_engine_has_none() -> None:
    problem = refused("{name: v, accelerator: intel-gaudi3, parallelism: {pipeline: 2}}")
    assert (problem.code, "vllm-gaudi has no pipeline parallelism" in problem.message) == (
        "LC3011",
        True,
    )
    assert (
        refused("{name: v, accelerator: nvidia-h100, parallelism: {pipeline: 33}}").code == "LC3011"
    )
    assert (
        planned(
            "{name: v, accelerator: nvidia-h100, parallelism: {pipeline: 2}}"
        ).devices_per_replica
        == 2
    )


def test_experts_are_spread_over_the_devices_of_tensor_parallelism() -> None:
    good = planned(
        "{name: v, accelerator: nvidia-h100, parallelism: {tensor: 2, expert: 2}}", uri=GPT_OSS
    )
    assert (good.parallelism.expert, good.devices_per_replica) == (2, 2)
    assert good.settings["--enable-expert-parallel"].value is True
    auto = planned("{name: v, accelerator: nvidia-h100, parallelism: {expert: 4}}", uri=GPT_OSS)
    assert auto.parallelism.tensor == 4
    for wrong in ("{tensor: 2, expert: 4}", "{expert: 3}"):
        variant = f"{{name: v, accelerator: nvidia-h100, parallelism: {wrong}}}"
        assert refused(variant, uri=GPT_OSS).code == "LC3011"
    for said in (
        "parallelism: {expert: 2}",
        "engineArgs: {enableExpertParallel: true}",
        "extraArgs: [-ep]",
    ):
        dense = refused(f"{{name: v, accelerator: nvidia-h100, {said}}}")
        assert (dense.code, "no experts" in dense.message) == ("LC3011", True)


def test_ranks_of_a_dense_model_are_copies_that_serve_side_by_side() -> None:
    one = planned("{name: v, accelerator: nvidia-h100, parallelism: {tensor: 1}}")
    two = planned("{name: v, accelerator: nvidia-h100, parallelism: {tensor: 1, data: 2}}")
    assert (two.parallelism.data, two.devices_per_replica) == (2, 2)
    assert one.fit
    assert two.fit
    assert one.facts
    assert two.facts
    assert one.capacity
    assert two.capacity
    assert two.fit.weight_bytes == one.fit.weight_bytes
    reserve = two.fit.reserve_bytes - one.fit.reserve_bytes  # what ranks exchange with
    assert two.facts["kvTokens"] == pytest.approx(2 * one.facts["kvTokens"], rel=0.05)
    assert reserve >= 0
    assert two.facts["maxSequences"] == 2 * one.facts["maxSequences"]
    assert two.facts["weightBytes"] == one.facts["weightBytes"]
    assert two.capacity.tokens_per_second == pytest.approx(
        2 * one.capacity.tokens_per_second, rel=0.06
    )
    assert any("2 data-parallel ranks" in line for line in two.reasons)
    real = plan_text(
        fleet_text("- {name: v, accelerator: nvidia-h100, parallelism: {data: 2}}"),
        simulate=None, observed=Observed(accelerators={"nvidia-h100": 8}),
    )  # fmt: skip
    assert "--data-parallel-size 2" in " ".join(real.models[0].variants[0].command)


def test_ranks_share_the_experts_of_a_model_that_has_some() -> None:
    def of(split: str) -> PlannedVariant:
        return planned(f"{{name: v, accelerator: nvidia-h100, parallelism: {split}}}", uri=GPT_OSS)

    four = of("{tensor: 4}")
    ranks = of("{tensor: 1, data: 4}")
    spread = of("{tensor: 1, data: 4, expert: 4}")
    assert four.facts
    assert ranks.facts
    assert ranks.facts["expertBytes"] == four.facts["expertBytes"]  # a quarter, either way
    assert ranks.facts["weightBytes"] > four.facts["weightBytes"]  # attention is copied
    assert spread.parallelism.expert == 4
    assert spread.facts == ranks.facts
    problem = refused(
        "{name: v, accelerator: nvidia-h100, parallelism: {tensor: 1, data: 4, expert: 2}}",
        uri=GPT_OSS,
    )
    assert (problem.code, problem.allowed) == ("LC3011", ("1", "4"))


def test_ranks_have_to_stand_in_one_machine() -> None:
    problem = refused("{name: v, accelerator: nvidia-h100, parallelism: {tensor: 4, data: 4}}")
    assert problem.code == "LC3011"
    assert problem.allowed == ("1", "2")
    alone = refused("{name: v, accelerator: nvidia-h100, parallelism: {data: 9}}")
    assert (alone.code, alone.found) == ("LC3011", "9")


def test_devices_that_come_in_groups_are_used_whole() -> None:
    found = planned("{name: v, accelerator: google-tpu-v5p}", model="maxModelLen: 2048")
    assert found.parallelism.tensor == 4
    assert "tensor 1: the cluster hands out no group of 1" in found.ruled_out


# --- fit ---


def test_the_terms_add_up() -> None:
    fit = planned("{name: v, accelerator: nvidia-h100}").fit
    assert fit is not None
    assert fit.memory_bytes == 80 * GIB
    assert fit.budget_bytes == int(80 * GIB * 0.92)
    assert fit.weight_bytes == 2 * 8_030_261_248
    assert fit.reserve_bytes == int(3.5 * GIB)
    assert fit.activation_bytes == 8192 * 2 * (4096 + 14336) * 2 + 1024 * 128256 * 4
    taken = fit.weight_bytes + fit.reserve_bytes + fit.activation_bytes
    assert fit.kv_bytes_free == fit.budget_bytes - taken
    assert fit.kv_tokens == fit.kv_bytes_free // 131_072


def test_devices_that_work_together_reserve_more() -> None:
    one = planned("{name: v, accelerator: nvidia-h100}").fit
    two = planned("{name: v, accelerator: nvidia-h100, parallelism: {tensor: 2}}").fit
    assert one is not None
    assert two is not None
    assert two.reserve_bytes - one.reserve_bytes == 392_000_000


def test_a_fp8_cache_holds_twice_the_tokens() -> None:
    plain = planned("{name: v, accelerator: nvidia-h100}").fit
    fp8 = planned("{name: v, accelerator: nvidia-h100, engineArgs: {kvCacheDtype: fp8}}").fit
    assert plain is not None
    assert fp8 is not None
    assert fp8.kv_bytes_per_token * 2 == plain.kv_bytes_per_token
    assert fp8.kv_tokens == pytest.approx(2 * plain.kv_tokens, abs=2)


def test_a_window_costs_once_a_request_and_once_for_prompts_under_way() -> None:
    fit = planned("{name: v, accelerator: nvidia-h100}", uri=GPT_OSS).fit
    assert fit is not None
    assert fit.window_in_flight_bytes == 8192 * 24_576
    taken = fit.weight_bytes + fit.reserve_bytes + fit.activation_bytes
    assert fit.kv_bytes_free == fit.budget_bytes - taken - fit.window_in_flight_bytes
    assert fit.window_bytes_per_request == 144 * 24_576
    request = fit.max_model_len * 24_576 + fit.window_bytes_per_request
    assert fit.kv_tokens == fit.kv_bytes_free * fit.max_model_len // request


@pytest.mark.parametrize(
    ("accelerator", "dtype"),
    [("google-tpu-v6e", "fp8_inc"), ("intel-gaudi3", "fp8"), ("nvidia-h100", "fp8_inc")],
)
def test_a_cache_type_that_the_device_lacks_is_refused(accelerator: str, dtype: str) -> None:
    variant = f"{{name: v, accelerator: {accelerator}, engineArgs: {{kvCacheDtype: {dtype}}}}}"
    problem = refused(variant)
    assert problem.code == "LC3040"
    assert dtype not in problem.allowed


def test_a_cache_type_whose_size_is_not_known_is_not_counted_by_guess() -> None:
    variant = "{name: v, accelerator: nvidia-b200, engineArgs: {kvCacheDtype: nvfp4}}"
    problem = refused(variant)
    assert problem.code == "LC3017"
    assert "nvfp4" not in problem.allowed


def test_what_does_not_fit_is_refused_with_the_numbers_and_a_way_out() -> None:
    problem = refused("{name: v, accelerator: nvidia-l4, parallelism: {tensor: 1}}")
    assert problem.code == "LC3010"
    assert "24.00 GiB memory x 0.92 = 22.08 GiB budget" in problem.message
    assert "14.96 GiB weights" in problem.message
    assert "27,521 / 131,072 tokens" in problem.message
    assert problem.remedy == "parallelism: {tensor: 2} fits."


def test_the_way_out_may_be_a_shorter_context() -> None:
    item = "inventory: [{accelerator: nvidia-l4, devicesPerNode: 1}]"
    problem = refused("{name: v, accelerator: nvidia-l4}", spec=item)
    assert problem.remedy == "maxModelLen: 27521 is the longest that fits."
    assert planned("{name: v, accelerator: nvidia-l4, maxModelLen: 27521}", spec=item).fit
    assert refused("{name: v, accelerator: nvidia-l4, maxModelLen: 27522}", spec=item)


def test_weights_that_alone_are_too_big_say_how_much_is_missing() -> None:
    item = "inventory: [{accelerator: nvidia-l4, devicesPerNode: 2}]"
    problem = refused("{name: v, accelerator: nvidia-l4}", uri=QWEN, spec=item)
    assert "too little before any KV" in str(problem.found)
    assert problem.remedy == "Use an accelerator with more memory, or a smaller model."


def test_a_context_beyond_the_models_is_refused_where_it_is_said() -> None:
    problem = refused("{name: v, accelerator: amd-mi300x}", model="maxModelLen: 40961", uri=QWEN)
    assert (problem.code, problem.found) == ("LC3012", "40961")
    assert problem.place is not None
    assert problem.place.path == "spec.models[0].maxModelLen"


def test_a_step_needs_room_for_every_sequence() -> None:
    problem = refused("{name: v, accelerator: nvidia-h100, engineArgs: {maxNumBatchedTokens: 512}}")
    assert (problem.code, problem.message[:4]) == ("LC3040", "V32:")


def test_kv_bytes_that_are_told_are_taken_and_the_share_is_then_ignored() -> None:
    variant = (
        "{name: v, accelerator: nvidia-h100, parallelism: {tensor: 1}, "
        f"engineArgs: {{kvCacheMemoryBytes: {30 * GIB}}}}}"
    )
    fit = planned(variant).fit
    assert fit is not None
    assert (fit.kv_bytes_free, fit.utilization) == (30 * GIB, 1.0)
    problem = refused(variant.replace(str(30 * GIB), str(70 * GIB)))
    assert problem.code == "LC3010"
    assert "70.00 GiB of KV do not fit" in str(problem.found)


# --- the machine itself as a device ---


def test_on_a_host_kv_space_is_modest_unless_it_is_told(tmp_path: Path) -> None:
    here = tiny(tmp_path)
    modest, told = plan_text(
        fleet_text(
            "- {name: a, accelerator: cpu-x86}\n"
            "- {name: b, accelerator: cpu-x86, engineArgs: {kvCacheMemoryBytes: 1000000}}",
            uri="./tiny", model="maxModelLen: 512",
        ),
        observed=here,
    ).models[0].variants  # fmt: skip
    assert modest.settings["--kv-cache-memory-bytes"].value == 256 * 2**20
    assert modest.settings["--kv-cache-memory-bytes"].set_by == "plan"
    assert told.fit is not None
    assert told.fit.kv_bytes_free == 1_000_000


def test_on_a_host_kv_space_holds_at_least_one_request_of_full_length(tmp_path: Path) -> None:
    here = tiny(tmp_path, num_hidden_layers=64, head_dim=512, max_position_embeddings=8192)
    text = fleet_text("- {name: a, accelerator: cpu-x86}", uri="./tiny")
    fit = plan_text(text, observed=here).models[0].variants[0].fit
    assert fit is not None
    assert fit.kv_bytes_free == 8192 * fit.kv_bytes_per_token > 256 * 2**20


@pytest.mark.parametrize(
    ("engine", "lifted"),
    [
        ("vllm", "env: {VLLM_ALLOW_LONG_MAX_MODEL_LEN: '1'}"),
        ("vllm", """engineArgs: {hfOverrides: '{"max_position_embeddings": 131072}'}"""),
        ("vllm", "extraArgs: [--hf-overrides.max_position_embeddings, '131072']"),
        ("sglang", "env: {SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN: '1'}"),
        ("sglang", """extraArgs: [--json-model-override-args, '{"rope_scaling": {}}']"""),
    ],
)
def test_a_context_beyond_the_models_is_planned_where_the_engine_is_told_to_take_it(
    engine: str, lifted: str
) -> None:
    variant = f"name: v, accelerator: amd-mi300x, engine: {{name: {engine}}}, maxModelLen: 131072"
    (planned,) = plan_text(fleet_text(f"- {{{variant}, {lifted}}}", uri=QWEN)).models[0].variants
    assert planned.facts
    assert planned.facts["maxModelLen"] == 131072
    assert "context of 131,072 tokens, as asked for: the model's own is 40,960" in planned.reasons
    off = lifted.replace("'1'", "'0'")
    if off != lifted:
        assert {p.code for p in problems_of(fleet_text(f"- {{{variant}, {off}}}", uri=QWEN))} & {
            "LC3012", "LC3040",
        }  # fmt: skip


def test_memory_that_nobody_saw_is_not_guessed() -> None:
    (problem,) = problems_of(
        fleet_text("- {name: v, accelerator: cpu-x86}"), observed=Observed({"cpu-x86": 1})
    )
    assert problem.code == "LC3018"


def test_every_problem_of_every_variant_is_told_at_once() -> None:
    text = fleet_text(
        "- {name: a, accelerator: nvidia-l4, parallelism: {tensor: 1}}\n"
        "- {name: b, accelerator: nvidia-h100, parallelism: {tensor: 5}}\n"
        "- {name: c, accelerator: google-tpu-v6e, maxModelLen: 200000}"
    )
    assert [p.code for p in problems_of(text)] == ["LC3010", "LC3011", "LC3012"]
    assert plan_text(fleet_text("- {name: a, accelerator: nvidia-h100}")).summary.fits


def test_window_layers_whose_kv_is_kept_whole_are_counted_so() -> None:
    variant = "name: v, accelerator: nvidia-h100"
    off = "extraArgs: [--disable-hybrid-kv-cache-manager]"
    lean, whole = (
        planned(f"{{{variant}}}", uri=GPT_OSS),
        planned(f"{{{variant}, {off}}}", uri=GPT_OSS),
    )
    assert lean.fit is not None
    assert whole.fit is not None
    assert (lean.fit.kv_bytes_per_token, whole.fit.kv_bytes_per_token) == (24_576, 49_152)
    assert (whole.fit.window_in_flight_bytes, whole.fit.window_bytes_per_request) == (0, 0)
    assert whole.fit.kv_tokens == whole.fit.kv_bytes_free // 49_152
    assert lean.facts is not None
    assert whole.facts is not None
    assert whole.facts["kvTokens"] == whole.fit.kv_tokens < lean.facts["kvTokens"]
    assert whole.facts["windowKvBytesPerToken"] == lean.facts["windowKvBytesPerToken"]
    assert any("window layers keep the KV of the whole context" in line for line in whole.reasons)
    dense = planned(f"{{{variant}, {off}}}")
    assert not any("window layers" in line for line in dense.reasons)


@pytest.mark.parametrize(
    ("rope", "length", "fits"),
    [
        ("linear", 16384, True),
        ("dynamic", 16384, True),
        ("yarn", 8192, True),
        ("yarn", 8193, False),
    ],
)
def test_a_context_is_as_long_as_the_engine_counts_rope_scaling(
    tmp_path: Path, rope: str, length: int, *, fits: bool
) -> None:
    scaling = {"rope_type": rope, "factor": 4.0, "original_max_position_embeddings": 8192}
    here = tiny(tmp_path, rope_scaling=scaling)
    text = fleet_text(f"- {{name: v, accelerator: cpu-x86, maxModelLen: {length}}}", uri="./tiny")
    if fits:
        (variant,) = plan_text(text, observed=here).models[0].variants
        assert any("by rope scaling" in r for r in variant.reasons) == (length > 8192)
    else:
        (problem,) = problems_of(text, observed=here)
        assert problem.code == "LC3012"
        assert "of rope scaling yarn, vLLM 0.32.0 takes max_position_embeddings" in problem.remedy
