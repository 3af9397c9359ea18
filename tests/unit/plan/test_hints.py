"""What a refused plan tells to do can be done, and was tried before it is told."""

import re
from pathlib import Path

import pytest

from llmd_ctl.errors import render_problem
from llmd_ctl.plan import Observed
from tests.unit.plan.fleets import fleet_text, plan_text, planned, problems_of, refused, tiny

H100 = "name: v, accelerator: nvidia-h100"
QWEN = "hf://Qwen/Qwen3-32B"
GPT_OSS = "hf://openai/gpt-oss-20b"


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("engineArgs: {maxNumSeq: 3}", "Write maxNumSeqs, or remove it."),
        ("engineArgs: {foo: 1}", "maxNumSeqs stands for --max-num-seqs."),
        ("extraArgs: [--foo]", "--max-num-seqs is one."),
        ("engineArgs: {maxNumSeqs: -5}", "Write 1 to 1048576, or leave it out for the default."),
        ("engineArgs: {maxNumSeqs: many}", "Write digits alone, without quotes or unit."),
        ("engineArgs: {maxModelLen: 16k}", "Write 16384 or 16000, without quotes or unit."),
        ("engineArgs: {kvCacheMemoryBytes: 8GiB}", "Write 8589934592, without quotes or unit."),
        ("engineArgs: {kvCacheMemoryBytes: 8 GB}", "Write 8000000000, without quotes or unit."),
        ("engineArgs: {gpuMemoryUtilization: 90%}", "Write 0.9, without quotes or unit."),
        ("engineArgs: {gpuMemoryUtilization: '0.9'}", "Write 0.9, without quotes or unit."),
        ("engineArgs: {gpuMemoryUtilization: 1.5}", "Write 0.92 for 92 %"),
        ("engineArgs: {enforceEager: 'true'}", "Write true, without quotes."),
        ("engineArgs: {gpuMemoryUtilization: 90}", "Write 0.9, or leave it out"),
        ("engineArgs: {gpuMemoryUtilization: 9}", "Write 0.9, or leave it out"),
        ("engineArgs: {gpuMemoryUtilization: 9.5}", "Write 0.95, or leave it out"),
        ("engineArgs: {gpuMemoryUtilization: 10}", "Write 0.1, or leave it out"),
        ("engineArgs: {gpuMemoryUtilization: 100}", "Write 1, or leave it out"),
        ("engineArgs: {cpuOffloadGb: 20GB}", "Write 20, without quotes or unit."),
        ("extraArgs: [--cpu-offload-gb, 20 GiB]", "Write 20, without quotes or unit."),
        ("engineArgs: {noEnablePrefixCaching: true}", "Write enablePrefixCaching: false."),
        ("engineArgs: {noEnablePrefixCaching: false}", "Write enablePrefixCaching: true."),
        ("engineArgs: {noEnforceEager: 'true'}", "Write enforceEager: false."),
        ("engineArgs: {noGrpc: true}", "Remove it: grpc is off where it is left out."),
        ("engineArgs: {noMaxNumSeqs: true}", "Write maxNumSeqs, or remove it."),
        ("engineArgs: {kvEventsConfig: '{'}", "Write it as JSON in single quotes"),
        ("extraArgs: [--max-num-seqs]", "Write a whole number as the next item"),
        ("extraArgs: [--enforce-eager=1]", "Write --enforce-eager alone, or write --no-enforce"),
        ("extraArgs: [--enforce-eager, 'true']", "Remove it: --enforce-eager takes no value."),
        ("extraArgs: [--seed=1, '2']", "Remove it: --seed has its value already."),
        ("extraArgs: ['2']", "Write the flag as an item of its own"),
        ("engineArgs: {enableLora: true}", "endpoint: {url: …}"),
    ],
)
def test_a_wrong_word_for_an_engine_is_answered_with_the_right_one(words: str, hint: str) -> None:
    assert hint in refused(f"{{{H100}, {words}}}", code=65).remedy


@pytest.mark.parametrize(
    ("accelerator", "hint"),
    [
        ("nvidia-h100", "To keep KV in main memory (OffloadingConnector) write kvOffloadingSize"),
        ("google-tpu-v6e", "takes TPUOffloadConnector here, of an engine that you start yourself"),
        ("cpu-x86, engine: {name: vllm}", "In main memory KV is not kept here."),
    ],
)
def test_a_connector_is_answered_with_what_is_written_instead(accelerator: str, hint: str) -> None:
    words = 'engineArgs: {kvTransferConfig: \'{"kv_connector": "OffloadingConnector"}\'}'
    text = fleet_text(f"- {{name: v, accelerator: {accelerator}, {words}}}")
    (problem,) = (found for found in problems_of(text, code=65) if found.code == "LC2023")
    assert problem.remedy.startswith("For prefill and decode apart give variants their role.")
    assert hint in problem.remedy


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("engineArgs: {enableAutotuner: true}", "A key of the YAML file that --config names"),
        ("extraArgs: [--moe_config.backend, CUTLASS]", "A key of the YAML file that --config"),
        ("engineArgs: {kvCacheConfig: '{}'}", "Write kvCacheDtype and freeGpuMemoryFraction"),
        ("extraArgs: [--max_input_len, '5']", "Write --max_num_tokens"),
        ("engineArgs: {maxInputLen: 5}", "Write --max_num_tokens"),
    ],
)
def test_what_has_no_flag_of_tensorrt_llm_is_told_where_it_belongs(words: str, hint: str) -> None:
    trtllm = "accelerator: nvidia-h100, engine: {name: trtllm}"
    assert hint in refused(f"{{name: v, {trtllm}, {words}}}", code=65).remedy
    plain = refused(f"{{{H100}, engineArgs: {{enableAutotuner: true}}}}", code=65)
    assert "YAML" not in plain.remedy


def test_an_engine_that_no_profile_has_there_is_not_said_to_be_unable_to_run() -> None:
    problem = refused(f"{{{H100}, engine: {{name: llamacpp}}}}", code=65)
    assert problem.message == "no profile says how llamacpp runs on nvidia-h100"
    assert "endpoint" in problem.remedy


def test_the_name_of_a_flag_that_is_turned_off_is_not_near_the_flag_itself() -> None:
    problem = refused(f"{{{H100}, engineArgs: {{noEnablePrefixCaching: true}}}}", code=65)
    assert problem.suggestion is None


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("mi300", "amd-mi300x"),
        ("a100-80gb", "nvidia-a100"),
        ("a100-40gb", "nvidia-a100-40"),
        ("h100-sxm", "nvidia-h100"),
        ("l40", "nvidia-l40s"),
    ],
)
def test_an_accelerator_named_as_its_vendor_does_is_answered_with_its_profile(
    word: str, meant: str
) -> None:
    problem = refused(f"{{name: v, accelerator: {word}}}", code=65)
    assert (problem.code, problem.remedy) == ("LC2010", f"Write {meant}.")


def test_of_many_accelerators_the_likely_ones_are_shown_and_where_all_are() -> None:
    shown = render_problem(refused("{name: v, accelerator: nvidia-b100}", code=65))
    (line,) = (line for line in shown.splitlines() if "allowed: " in line)
    words = line.split("allowed: ")[1].split(", ")
    assert all(word.startswith("nvidia-") for word in words[:10])
    assert {"nvidia-b200", "nvidia-b300", "nvidia-h100"} <= set(words[:6])
    assert line.endswith("more (all of them: --output json)")


@pytest.mark.parametrize(
    ("said", "uri", "legal"),
    [
        ("expert: 3", GPT_OSS, ("1", "2", "4", "8")),
        ("tensor: 2, expert: 4", GPT_OSS, ("1", "2")),
        ("expert: 2", QWEN, ("1",)),
    ],
)
def test_an_impossible_expert_parallelism_names_the_possible_ones(
    said: str, uri: str, legal: tuple[str, ...]
) -> None:
    problem = refused(f"{{{H100}, parallelism: {{{said}}}}}", uri=uri)
    assert (problem.code, problem.allowed) == ("LC3011", legal)


def test_a_pipeline_longer_than_the_model_names_how_long_it_may_be() -> None:
    problem = refused(f"{{{H100}, parallelism: {{pipeline: 33}}}}")
    assert problem.allowed == ("1 to 32",)


# --- a context that is too long ---


def test_only_of_a_local_model_one_is_told_to_change_its_config(tmp_path: Path) -> None:
    rope = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048}
    variant = "{name: v, accelerator: nvidia-h100, maxModelLen: 32768}"
    text = fleet_text(f"- {variant}", uri="./tiny")
    (local,) = problems_of(text, observed=tiny(tmp_path, rope_scaling=rope))
    assert local.remedy.endswith("Raise that in the model's config.json where it is not.")
    for uri in (GPT_OSS, QWEN):
        hub = refused("{name: v, accelerator: nvidia-h100, maxModelLen: 999999}", uri=uri)
        assert hub.code == "LC3012"
        assert "config.json" not in hub.remedy
        assert hub.remedy.startswith("Lower maxModelLen, or leave it out for all that the model")
        assert "VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 in env takes more" in hub.remedy


# --- what does not fit ---


def proposed(remedy: str) -> str:
    """The change that a hint proposes, as keys of a variant."""
    found = re.search(r"(parallelism: \{[^}]*\}|\b(\w+): \d+)[ .]", remedy)
    return "" if found is None else found[1]


@pytest.mark.parametrize(
    ("accelerator", "uri", "spec"),
    [
        ("nvidia-l4", "hf://meta-llama/Llama-3.1-8B", ""),
        ("nvidia-l4", "hf://meta-llama/Llama-3.1-8B", "one"),
        ("google-tpu-v5e", "hf://meta-llama/Llama-3.1-8B", ""),
        ("google-tpu-v5e", QWEN, ""),
        ("google-tpu-v6e", QWEN, ""),
        ("intel-arc-b60", QWEN, ""),
        ("nvidia-h100", "hf://meta-llama/Llama-3.1-405B-Instruct", ""),
        ("google-tpu-v6e", "hf://meta-llama/Llama-3.1-405B-Instruct", ""),
    ],
)
def test_the_way_out_of_a_replica_that_does_not_fit_can_be_gone(
    accelerator: str, uri: str, spec: str
) -> None:
    inventory = f"inventory: [{{accelerator: {accelerator}, devicesPerNode: 1}}]" if spec else ""
    said = "" if spec else ", parallelism: {tensor: 1}"
    variant = f"name: v, accelerator: {accelerator}"
    problem = refused(f"{{{variant}{said}}}", uri=uri, spec=inventory)
    assert problem.code == "LC3010"
    change = proposed(problem.remedy)
    if not change:
        assert problem.remedy == "Use an accelerator with more memory, or a smaller model."
        return
    kept = "" if change.startswith("parallelism") else said
    assert plan_text(
        fleet_text(f"- {{{variant}{kept}, {change}}}", uri=uri, spec=inventory)
    ).summary.fits


def test_a_slice_is_proposed_that_the_cloud_hands_out() -> None:
    model = "hf://Qwen/Qwen3-8B"
    variant = "{name: v, accelerator: google-tpu-v5e, maxModelLen: 4096, parallelism: {tensor: %d}}"
    assert planned(variant % 2, uri=model).fit
    assert refused(variant % 1, uri=model).remedy == "parallelism: {tensor: 4} fits."


def test_stages_are_proposed_where_one_machine_is_too_small_and_the_engine_has_them() -> None:
    large = "hf://meta-llama/Llama-3.1-405B-Instruct"
    problem = refused("{name: v, accelerator: nvidia-h100}", uri=large)
    assert problem.remedy == "It fits on 16 devices with parallelism: {tensor: 8, pipeline: 2}."
    assert "pipeline" not in refused("{name: v, accelerator: intel-gaudi2}", uri=large).remedy
    item = "inventory: [{accelerator: nvidia-h100, devicesPerNode: 8, nodes: %d}]"
    one, two = (
        refused("{name: v, accelerator: nvidia-h100}", uri=large, spec=item % nodes)
        for nodes in (1, 2)
    )
    assert ("pipeline" in one.remedy, "pipeline" in two.remedy) == (False, True)
    here = Observed(accelerators={"nvidia-h100": 8})
    text = fleet_text("- {name: v, accelerator: nvidia-h100}", uri=large)
    assert "pipeline" not in problems_of(text, simulate=None, observed=here)[0].remedy


def test_the_hint_names_the_argument_that_set_the_split() -> None:
    for said, hint in (
        ("engineArgs: {tensorParallelSize: 1}", "tensorParallelSize: 2 fits."),
        ("extraArgs: [-tp, '1']", "Tensor parallelism 2 fits, instead of 1."),
    ):
        assert refused(f"{{name: v, accelerator: nvidia-l4, {said}}}").remedy == hint


def test_on_the_machine_itself_no_other_accelerator_is_proposed(tmp_path: Path) -> None:
    problem = refused("{name: v, accelerator: cpu-x86}", uri="hf://meta-llama/Llama-3.1-8B")
    assert problem.code == "LC3010"
    assert problem.remedy == (
        "Use a smaller model or a machine with more memory: "
        "engines get 12.80 GiB of this machine's memory."
    )
    asked = "{name: v, accelerator: cpu-x86, engineArgs: {kvCacheMemoryBytes: 99000000000}}"
    (problem,) = problems_of(fleet_text(f"- {asked}", uri="./tiny"), observed=tiny(tmp_path))
    change = proposed(problem.remedy)
    assert change.startswith("kvCacheMemoryBytes: ")
    fits = f"- {{name: v, accelerator: cpu-x86, engineArgs: {{{change}}}}}"
    assert plan_text(fleet_text(fits, uri="./tiny"), observed=tiny(tmp_path)).summary.fits


def test_slots_of_llama_cpp_share_the_context_that_is_proposed(tmp_path: Path) -> None:
    huge = tiny(tmp_path, max_position_embeddings=100_000_000)
    variant = "name: v, accelerator: cpu-x86, engine: {name: llamacpp}"
    (problem,) = problems_of(fleet_text(f"- {{{variant}}}", uri="./tiny"), observed=huge)
    change = proposed(problem.remedy)
    assert change.startswith("maxModelLen: ")
    text = fleet_text(f"- {{{variant}, {change}}}", uri="./tiny")
    assert plan_text(text, observed=huge).summary.fits
    longer = f"maxModelLen: {int(change.split()[1]) + 1}"
    assert problems_of(fleet_text(f"- {{{variant}, {longer}}}", uri="./tiny"), observed=huge)
