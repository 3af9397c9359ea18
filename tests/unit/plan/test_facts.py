"""The numbers that go down to perf, router and simulated engine, worked out by hand here."""

from typing import Any

import pytest

from llmd_ctl import perf
from tests.unit.plan.fleets import fleet_text, plan_text, planned, problems_of

QWEN = "hf://Qwen/Qwen3-32B"
GPT_OSS = "hf://openai/gpt-oss-20b"
HEAD = "apiVersion: fleet.llmd-ctl.dev/v1alpha1\nkind: AcceleratorProfile\n"


def facts(variant: str, **more: str) -> dict[str, Any]:
    found = planned(variant, **more).facts
    assert found is not None
    return dict(found)


def test_rates_are_the_data_sheet_times_what_is_reached() -> None:
    f = facts("{name: v, accelerator: nvidia-h100}")
    assert f["weightBandwidth"] == pytest.approx(3.35e12 * 0.79)
    assert f["kvBandwidth"] == pytest.approx(3.35e12 * 0.81)
    assert f["gemmFlops"] == pytest.approx(989e12 * 0.78)
    assert f["attentionFlops"] == pytest.approx(989e12 * 0.53)
    assert f["confidence"] == "high"


def test_a_step_reads_all_weights_but_the_input_embedding() -> None:
    table = 2 * 128256 * 4096
    assert facts("{name: v, accelerator: nvidia-h100}")["weightBytes"] == 2 * 8_030_261_248 - table


def test_flops_of_a_token_are_twice_the_matrices_of_the_layers() -> None:
    f = facts("{name: v, accelerator: nvidia-h100}")
    matrices = 32 * (2 * 4096**2 + 2 * 4096 * 1024 + 3 * 4096 * 14336)
    assert f["flopsPerToken"] == 2 * matrices
    assert f["attentionFlopsPerPair"] == 4 * 32 * 128 * 32


def test_a_replica_of_several_devices_has_a_share_on_each_and_pays_for_collectives() -> None:
    one = facts("{name: v, accelerator: nvidia-h100}", uri=QWEN, model="maxModelLen: 1024")
    two = facts(
        "{name: v, accelerator: nvidia-h100, parallelism: {tensor: 2}}", uri=QWEN,
        model="maxModelLen: 1024",
    )  # fmt: skip
    assert two["flopsPerToken"] == one["flopsPerToken"] / 2
    assert two["attentionFlopsPerPair"] == one["attentionFlopsPerPair"] / 2
    assert two["kvBytesPerToken"] == one["kvBytesPerToken"] / 2
    assert one["tokenUs"] == 0
    assert two["stepUs"] - one["stepUs"] == pytest.approx(2 * 64 * 4.3 * 2.5)
    assert two["tokenUs"] == pytest.approx(2 * 64 * 5120 * 2 / 334e9 * 1e6)


def test_the_engines_own_time_and_the_launches_are_in_every_step() -> None:
    f = facts("{name: v, accelerator: nvidia-h100}")
    assert f["stepUs"] == pytest.approx(890 + 32 * 4.7)
    assert (f["sequenceUs"], f["requestUs"]) == (9.6, 5200)


def test_experts_are_apart_and_a_token_visits_a_few() -> None:
    f = facts("{name: v, accelerator: nvidia-h100}", uri=GPT_OSS)
    assert (f["experts"], f["expertsPerToken"]) == (32, 4)
    weights = 24 * 32 * (2880 * 5760 + 2880 * 2880) * 17 / 32
    assert f["expertBytes"] == pytest.approx(weights + 24 * 32 * (5760 + 2880) * 2)
    assert f["weightBytes"] < 2.5e9
    assert f["flopsPerToken"] < 2 * 3.6e9
    assert f["windowTokens"] == 128
    assert f["attentionFlopsPerPair"] == f["windowAttentionFlopsPerPair"] == 4 * 64 * 64 * 12


def test_weights_that_the_device_cannot_compute_with_are_unpacked() -> None:
    """MXFP4 on a device without fp4: read packed, computed in bf16."""
    f = facts("{name: v, accelerator: nvidia-h100}", uri=GPT_OSS)
    assert f["gemmFlops"] == pytest.approx(989e12 * 0.78)
    assert f["weightBandwidth"] == pytest.approx(3.35e12 * 0.60)


def test_what_stood_in_for_a_missing_figure_is_said() -> None:
    variant = planned(
        "{name: v, accelerator: google-tpu-v6e}", uri=GPT_OSS, model="maxModelLen: 4096"
    )
    assert (
        "speed of reading weights of mxfp4 is not known: that of bf16 is taken" in variant.reasons
    )


def test_null_overheads_count_as_nothing_and_that_is_said() -> None:
    variant = planned(
        "{name: v, accelerator: google-tpu-v6e, parallelism: {tensor: 2}}",
        model="maxModelLen: 4096",
    )
    assert variant.facts is not None
    assert variant.facts["stepUs"] == pytest.approx(890 + 32 * 4.7)
    said = "the least time of an exchange between devices is not known: counted as 0"
    assert said in variant.reasons


def test_confidence_is_that_of_the_least_sure_figure() -> None:
    assert (
        facts("{name: v, accelerator: nvidia-l4}", model="maxModelLen: 4096")["confidence"]
        == "medium"
    )
    for accelerator in ("amd-mi300x", "google-tpu-v6e", "intel-gaudi3"):
        variant = f"{{name: v, accelerator: {accelerator}}}"
        assert facts(variant, model="maxModelLen: 4096")["confidence"] == "low"


def test_settings_reach_the_facts() -> None:
    f = facts(
        "{name: v, accelerator: nvidia-h100, engineArgs: {maxNumSeqs: 7, blockSize: 32, "
        "maxNumBatchedTokens: 999, enablePrefixCaching: false, kvCacheDtype: fp8}}"
    )
    assert (f["maxSequences"], f["blockSize"], f["maxBatchedTokens"]) == (7, 32, 999)
    assert f["prefixCaching"] is False
    assert f["kvBytesPerToken"] == 65_536


def test_capacity_is_what_perf_says_of_the_facts() -> None:
    variant = planned("{name: v, accelerator: nvidia-h100}")
    assert variant.facts is not None
    assert variant.capacity is not None
    replica = perf.ReplicaFacts.from_json(variant.facts)
    found = perf.capacity(replica, 1024, 256)
    assert (
        variant.capacity.itl_us
        == found.itl_us
        == perf.itl_us(replica, found.batch, found.batch * 1152)
    )
    assert variant.capacity.tokens_per_second == found.tokens_per_second
    assert variant.capacity.ttft_us == perf.request_us(replica) + perf.prefill_us(replica, 1024)
    workload = variant.capacity.workload
    assert (workload.prompt_tokens, workload.output_tokens) == (1024, 256)


def test_a_short_context_is_measured_by_a_workload_that_it_takes() -> None:
    capacity = planned("{name: v, accelerator: nvidia-h100, maxModelLen: 100}").capacity
    assert capacity is not None
    assert (capacity.workload.prompt_tokens, capacity.workload.output_tokens) == (80, 20)
    assert capacity.tokens_per_second > 0


def test_swapping_the_figures_of_two_accelerators_swaps_their_capacities() -> None:
    """Nothing in the plan knows an accelerator by name."""
    import json
    from pathlib import Path

    import llmd_ctl.profiles
    from llmd_ctl.spec.compose import compose
    from llmd_ctl.spec.findings import Findings
    from llmd_ctl.spec.source import read_source

    root = Path(llmd_ctl.profiles.__file__).parent
    paths = {"nvidia-h100": "nvidia", "google-tpu-v6e": "tpu"}
    bodies = {}
    for name, folder in paths.items():
        (document,) = compose(Findings(read_source(root / folder / f"{name}.yaml")))
        bodies[name] = document.root.plain()
    one, two = bodies["nvidia-h100"], bodies["google-tpu-v6e"]
    for key in ("spec", "extends"):
        one[key], two[key] = two[key], one[key]
    mine = "---\n".join(json.dumps(document) + "\n" for document in (one, two))
    text = fleet_text(
        "- {name: a, accelerator: nvidia-h100}\n- {name: b, accelerator: google-tpu-v6e}",
        model="maxModelLen: 8192",
    )
    before, after = (
        plan_text(text).models[0].variants,
        plan_text(text, profiles=[mine]).models[0].variants,
    )
    assert before[0].capacity != before[1].capacity
    for number in (0, 1):
        old, new = before[number], after[1 - number]
        assert new.capacity == old.capacity
        assert new.facts == old.facts
        assert new.fit == old.fit
        assert new.price_per_hour == old.price_per_hour


def test_a_profile_without_link_bandwidth_counts_bytes_of_collectives_as_free_and_says_so() -> None:
    mine = (
        f"{HEAD}metadata: {{name: mine}}\nextends: nvidia-h100\nspec:\n"
        "  overhead: {collectives: {'2': {floorUs: {value: 1, unit: us}, "
        "bandwidth: {value: null, unit: GB/s}}}}\n"
    )
    text = fleet_text("- {name: v, accelerator: mine, parallelism: {tensor: 2}}")
    variant = plan_text(text, profiles=[mine]).models[0].variants[0]
    assert variant.facts is not None
    assert variant.facts["tokenUs"] == 0
    assert any("counted as free" in reason for reason in variant.reasons)


@pytest.mark.parametrize(
    ("figures", "code"),
    [
        ("flops: {bf16: {value: null, unit: TFLOP/s}}", "LC2008"),
        ("memoryBytes: {value: null, unit: GB}", "LC3018"),
    ],
)
def test_a_figure_that_nothing_stands_in_for_refuses_the_plan(figures: str, code: str) -> None:
    mine = f"{HEAD}metadata: {{name: mine}}\nextends: nvidia-h100\nspec:\n  {figures}\n"
    text = fleet_text("- {name: v, accelerator: mine}")
    exit_code = 65 if code.startswith("LC20") else 66
    (problem,) = problems_of(text, code=exit_code, profiles=[mine])
    assert problem.code == code


@pytest.mark.parametrize(
    ("accelerator", "flops"), [("nvidia-h100", 1978e12 * 0.50), ("google-tpu-v6e", 918e12 * 0.745)]
)
def test_fp8_weights_are_computed_in_fp8_only_where_the_device_has_it(
    accelerator: str, flops: float
) -> None:
    mine = (
        HEAD.replace("Accelerator", "Model")
        + "metadata: {name: acme/fp8}\nextends: meta-llama/Llama-3.1-8B\n"
        + "spec: {config: {quantization_config: {quant_method: fp8}}}\n"
    )
    text = fleet_text(f"- {{name: v, accelerator: {accelerator}}}", uri="hf://acme/fp8")
    found = plan_text(text, profiles=[mine]).models[0].variants[0].facts
    assert found is not None
    assert found["gemmFlops"] == pytest.approx(flops)


def test_float32_without_a_rate_of_its_own_says_that_it_is_planned_too_fast() -> None:
    variant = planned("{name: v, accelerator: nvidia-h100, engineArgs: {dtype: float32}}")
    assert (
        "computing speed of fp32 is not known: that of bf16 is taken, which is too fast"
        in variant.reasons
    )
    half = planned("{name: v, accelerator: nvidia-h100, engineArgs: {dtype: float16}}")
    assert not any("too fast" in line for line in half.reasons)


def test_float32_computes_and_attends_at_its_own_rate_where_that_is_known() -> None:
    profile = (
        HEAD + "metadata: {name: mine}\nextends: nvidia-h100\n"
        "spec: {flops: {fp32: {value: 60, unit: TFLOP/s, source: a test, confidence: low}}}\n"
    )
    text = fleet_text("- {name: v, accelerator: mine, engineArgs: {dtype: float32}}")
    variant = plan_text(text, profiles=[profile]).models[0].variants[0]
    assert variant.facts is not None
    assert variant.facts["gemmFlops"] == pytest.approx(60e12 * 0.78)
    assert variant.facts["attentionFlops"] == pytest.approx(60e12 * 0.53)
    assert not any("too fast" in line for line in variant.reasons)
