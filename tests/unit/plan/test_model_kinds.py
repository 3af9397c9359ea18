"""Models of every kind, planned: what fits, what goes down to the router, and what is said."""

from typing import Any

import pytest

from tests.unit.plan.fleets import fleet_text, plan_text, planned, problems_of, refused

NANO = "hf://nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16"
QWEN = "hf://Qwen/Qwen3.5-27B"
V3 = "hf://deepseek-ai/DeepSeek-V3"
V32 = "hf://deepseek-ai/DeepSeek-V3.2"
H100 = "{name: v, accelerator: nvidia-h100}"
EIGHT = "{name: v, accelerator: amd-mi300x, parallelism: {tensor: 8}}"


def facts(variant: str, **more: str) -> dict[str, Any]:
    found = planned(variant, **more).facts
    assert found is not None
    return dict(found)


def test_a_latent_is_counted_whole_on_each_of_eight_devices() -> None:
    variant = planned(EIGHT, uri=V3)
    assert variant.fit is not None
    assert variant.fit.kv_bytes_per_token == 61 * 1152
    assert facts(EIGHT, uri=V3)["kvBytesPerToken"] == 61 * 1152
    assert variant.fit.kv_tokens == variant.fit.kv_bytes_free // (61 * 1152)
    assert any("MTP" in line for line in variant.reasons)
    assert any("1.9 GiB that decoding copies" in line for line in variant.reasons)


def test_a_state_is_taken_from_the_room_of_every_request() -> None:
    fit = planned(H100, uri=NANO, model="maxModelLen: 65536").fit
    assert fit is not None
    assert fit.state_bytes_per_request > 2 * 24 * 2_134_016 * 0.99  # two states where prefixes stay
    request = 65536 * fit.kv_bytes_per_token + fit.state_bytes_per_request
    assert fit.kv_tokens == fit.kv_bytes_free * 65536 // request
    assert "state a request" in " ".join(fit.lines)
    plain = planned(
        "{name: v, accelerator: nvidia-h100, engineArgs: {enablePrefixCaching: false}}",
        uri=NANO, model="maxModelLen: 65536",
    ).fit  # fmt: skip
    assert plain is not None
    assert plain.state_bytes_per_request * 2 == fit.state_bytes_per_request
    assert plain.kv_tokens > fit.kv_tokens


def test_no_more_requests_run_at_once_than_states_find_room() -> None:
    variant = planned(H100, uri=NANO, model="maxModelLen: 65536")
    assert variant.fit is not None
    assert variant.facts is not None
    block = 2 * 2 * 128 * 2 * 2096  # bytes of a block in one layer
    most = variant.fit.kv_bytes_free // (24 * block + 6 * block)
    assert variant.facts["maxSequences"] == most < variant.fit.max_sequences
    assert f"there is room for the states of {most} requests at once" in variant.reasons
    assert facts(H100)["maxSequences"] == 1024


def test_prefixes_of_a_model_with_states_are_found_in_its_long_blocks() -> None:
    f = facts(H100, uri=QWEN, model="maxModelLen: 32768")
    assert f["blockSize"] == 784
    reasons = planned(H100, uri=QWEN, model="maxModelLen: 32768").reasons
    (line,) = [reason for reason in reasons if "prefix caching keeps a state" in reason]
    assert "147.0 MiB for each block of 784 tokens: 4.0 times" in line


def test_a_state_is_read_and_written_in_every_step() -> None:
    f = facts(H100, uri=QWEN, model="maxModelLen: 32768")
    dense = facts(H100, uri="hf://Qwen/Qwen3-14B")
    more = f["sequenceUs"] - dense["sequenceUs"]
    assert more == pytest.approx(2 * 153_944_064 / f["kvBandwidth"] * 1e6)


def test_an_index_reads_all_of_its_keys_and_the_best_of_the_latents() -> None:
    f = facts(EIGHT, uri=V32)
    assert f["kvBytesPerToken"] == 61 * 132
    assert (f["windowTokens"], f["windowKvBytesPerToken"]) == (2048, 61 * 1152)
    assert f["attentionFlopsPerPair"] == 61 * 2 * 64 * 128 / 8
    assert f["windowAttentionFlopsPerPair"] == 61 * 2 * 128 * (192 + 128) / 8


def test_windows_of_several_widths_are_brought_to_the_widest() -> None:
    """DeepSeek V4: entries of four tokens, of which 512 are read, beside a window of 128."""
    f = facts(EIGHT, uri="hf://deepseek-ai/DeepSeek-V4-Flash", model="maxModelLen: 65536")
    assert f["windowTokens"] == 512 * 4
    waiting = 21 * (8192 + 2048) * 8 + 20 * 4096 * 128
    inside = (43 * 584 * 128 + waiting) / 2048 + 21 * 584 / 4
    assert f["windowKvBytesPerToken"] == pytest.approx(inside)
    assert f["kvBytesPerToken"] == pytest.approx(20 * 584 / 128 + 21 * 132 / 4)


def test_shared_experts_and_dense_layers_are_read_in_every_step() -> None:
    f = facts(EIGHT, uri=V3)
    experts = 58 * 256 * 3 * 7168 * 2048 * (1 + 4 / 128**2) / 8
    assert f["expertBytes"] == pytest.approx(experts)
    assert (f["experts"], f["expertsPerToken"]) == (256, 8)
    always = 58 * 3 * 7168 * 2048 + 3 * 3 * 7168 * 18432
    assert f["flopsPerToken"] > 2 * always / 8


def test_what_is_not_confirmed_of_a_model_is_said() -> None:
    variant = planned(
        "{name: v, accelerator: amd-mi300x, parallelism: {tensor: 4}}",
        uri="hf://stepfun-ai/Step-3.7-Flash",
    )
    assert any("not confirmed of the model's config (low)" in line for line in variant.reasons)
    assert not any("not confirmed" in line for line in planned(H100).reasons)


@pytest.mark.parametrize(
    ("first", "fits"),
    [("0.33.0", False), ("9" * 5000, False), ("0.100.0", False), ("0.32.0", True), ("0.9.1", True)],
)
def test_an_engine_older_than_the_first_that_serves_a_model_is_refused(
    first: str, *, fits: bool
) -> None:
    profile = (
        "apiVersion: fleet.llmd-ctl.dev/v1alpha1\nkind: ModelProfile\n"
        "metadata: {name: Qwen/Qwen3-8B}\nextends: Qwen/Qwen3-8B\n"
        f'spec: {{minVersion: {{vllm: "{first}"}}}}\n'
    )
    text = fleet_text(f"- {H100}", uri="hf://Qwen/Qwen3-8B")
    if fits:
        assert plan_text(text, profiles=[profile]).summary.fits
        return
    (problem,) = problems_of(text, profiles=[profile])
    assert (problem.code, problem.found) == ("LC3029", "0.32.0")
    assert problem.allowed == (f"{first} or newer",)


def test_a_split_that_a_kind_of_layer_cannot_take_is_refused() -> None:
    problem = refused("{name: v, accelerator: nvidia-h100, parallelism: {tensor: 3}}", uri=QWEN)
    assert (problem.code, problem.allowed) == ("LC3011", ("1", "2", "4", "8"))


def test_rows_packed_for_an_index_are_no_cache_of_a_plain_model() -> None:
    problem = refused("{name: v, accelerator: nvidia-h100, engineArgs: {kvCacheDtype: fp8_ds_mla}}")
    assert problem.code == "LC3040"
    assert "fp8_ds_mla" not in problem.allowed
