"""Engines beside vLLM 0.32.0: their command lines, what their shares mean, and what is refused."""

import pytest

from llmd_ctl.plan import Observed, Plan, PlannedVariant
from llmd_ctl.plan.fit import Device, budget_of, bytes_left
from llmd_ctl.profiles.catalog import Catalog
from tests.unit.plan.fleets import GIB, fleet_text, plan_text, refused

MACHINE = Observed(accelerators={"nvidia-h100": 8}, memory_bytes=16 * GIB, cores=2)
EXPERTS = "hf://Qwen/Qwen3-30B-A3B"


def plan_of(variant: str, *, uri: str = EXPERTS, model: str = "") -> Plan:
    text = fleet_text(f"- {{name: v, accelerator: nvidia-h100, {variant}}}", uri=uri, model=model)
    return plan_text(text, simulate=None, observed=MACHINE)


def real(variant: str, *, uri: str = EXPERTS, model: str = "") -> PlannedVariant:
    return plan_of(variant, uri=uri, model=model).models[0].variants[0]


def test_sglang_is_started_with_its_own_words() -> None:
    variant = real("engine: {name: sglang}, maxModelLen: 8192, parallelism: {tensor: 2}")
    assert " ".join(variant.command) == (
        "sglang serve --model-path Qwen/Qwen3-30B-A3B --served-model-name chat --host {host} "
        "--port {port} --enable-metrics --chunked-prefill-size 8192 --context-length 8192 "
        "--max-running-requests 256 --mem-fraction-static 0.81 --tp-size 2"
    )


def test_tensorrt_llm_is_started_with_its_own_words() -> None:
    variant = real("engine: {name: trtllm}, maxModelLen: 8192, parallelism: {tensor: 2}")
    assert " ".join(variant.command) == (
        "trtllm-serve serve Qwen/Qwen3-30B-A3B --served_model_name chat --host {host} "
        "--port {port} --max_seq_len 8192 --tensor_parallel_size 2"
    )


@pytest.mark.parametrize(
    ("engine", "flag"), [("sglang", "--ep-size"), ("trtllm", "--moe_expert_parallel_size")]
)
def test_experts_are_dealt_out_by_their_number_where_the_engine_counts(
    engine: str, flag: str
) -> None:
    variant = real(f"engine: {{name: {engine}}}, parallelism: {{tensor: 4, expert: 4}}")
    at = variant.command.index(flag)
    assert variant.command[at + 1] == "4"
    assert variant.parallelism.expert == 4


def test_experts_are_counted_from_a_flag_too() -> None:
    said = "engine: {name: sglang}, parallelism: {tensor: 4}, engineArgs: {epSize: 4}"
    assert real(said).parallelism.expert == 4
    said = "{name: v, accelerator: nvidia-h100, engine: {name: sglang}, parallelism: {tensor: 4}, "
    problem = refused(said + "engineArgs: {epSize: 2}}", uri=EXPERTS)
    assert (problem.code, problem.found) == ("LC3011", "2")


def test_a_share_for_weights_and_kv_leaves_a_step_what_is_beside_it() -> None:
    fit = real("engine: {name: sglang}, parallelism: {tensor: 2}").fit
    assert fit is not None
    beside = fit.reserve_bytes + fit.activation_bytes + fit.window_in_flight_bytes
    assert fit.budget_bytes == int(80 * GIB * 0.81) + beside
    assert bytes_left(fit) == int(80 * GIB * 0.81) - fit.weight_bytes


def test_a_share_for_weights_and_kv_never_takes_what_a_step_needs() -> None:
    fit = real(
        "engine: {name: sglang}, parallelism: {tensor: 2}, engineArgs: {memFractionStatic: 0.99}"
    ).fit
    assert fit is not None
    assert fit.budget_bytes == 80 * GIB
    assert budget_of(fit, Device(80 * GIB, 0.99, 0, 0, "static")) == 80 * GIB


def test_a_share_of_what_is_free_is_taken_of_that() -> None:
    fit = real("engine: {name: trtllm}, parallelism: {tensor: 2}").fit
    assert fit is not None
    taken = fit.weight_bytes + fit.reserve_bytes + fit.activation_bytes
    assert bytes_left(fit) == int((80 * GIB - taken) * 0.9)


def test_the_plan_says_what_a_share_is_of() -> None:
    reasons = real("engine: {name: trtllm}, parallelism: {tensor: 2}").reasons
    assert any(line.startswith("--free_gpu_memory_fraction 0.9 is the share") for line in reasons)


def test_an_engine_with_one_name_is_asked_by_it() -> None:
    assert real("engine: {name: sglang}", model="aliases: [x]").served_name == "chat"
    assert real("engine: {name: sglang}").served_name is None
    assert real("engine: {name: vllm}", model="aliases: [x]").served_name is None


@pytest.mark.parametrize(
    ("engine", "argument", "meant"),
    [
        ("{name: sglang}", "memFractionStatc: 0.8", "memFractionStatic"),
        ("{name: trtllm}", "maxBatchSiz: 8", "maxBatchSize"),
        ("{name: vllm, version: 0.23.0}", "maxNumSeq: 8", "maxNumSeqs"),
        ("{name: vllm, version: 0.33.0}", "sleepModeBackends: a", "sleepModeBackend"),
    ],
)
def test_a_misspelt_argument_is_told_the_one_that_is_meant(
    engine: str, argument: str, meant: str
) -> None:
    said = f"{{name: v, accelerator: nvidia-h100, engine: {engine}, engineArgs: {{{argument}}}}}"
    problem = refused(said, code=65)
    assert (problem.code, problem.suggestion) == ("LC2020", meant)


@pytest.mark.parametrize(
    ("engine", "word", "message"),
    [
        ("{name: trtllm}", "--max_batch_siz", "trtllm 1.4.0rc1 has no flag --max_batch_siz"),
        ("{name: trtllm}", "--kv_cache_dtype=int8", "--kv_cache_dtype has no value int8"),
        ("{name: sglang}", "--attention-backend=fa9", "--attention-backend has no value fa9"),
        (
            "{name: sglang}",
            "--radix-eviction-policy-config.a=1",
            "sglang 0.5.23 has no flag --radix-eviction-policy-config.a",
        ),
    ],
)
def test_a_raw_word_that_the_engine_would_refuse_is_refused(
    engine: str, word: str, message: str
) -> None:
    said = f"{{name: v, accelerator: nvidia-h100, engine: {engine}, extraArgs: ['{word}']}}"
    assert refused(said, code=65).message == message


@pytest.mark.parametrize(
    ("version", "word", "hint"),
    [
        ("0.23.0", "--max-num-active-seqs=8", "Write --max-num-seqs."),
        ("0.23.0", "--aux-output-config={}", "Remove it, or run a later version"),
        ("0.32.0", "--calculate-kv-scales", "Remove it: scales are the checkpoint's, or 1."),
        ("0.32.0", "--watchdog-config={}", "Remove it, or run a later version"),
    ],
)
def test_a_flag_of_another_version_is_told_what_to_do(version: str, word: str, hint: str) -> None:
    said = f"engine: {{name: vllm, version: {version}}}, extraArgs: ['{word}']"
    problem = refused(f"{{name: v, accelerator: nvidia-h100, {said}}}", code=65)
    assert problem.code == "LC2020"
    assert problem.hint is not None
    assert problem.hint.startswith(hint)


def test_the_opposite_of_a_switch_turns_it_off() -> None:
    said = "engine: {name: vllm, version: 0.33.0}, extraArgs: [--enable-custom-all-reduce]"
    assert "--no-disable-custom-all-reduce" in real(said).command


def test_keys_inside_a_flag_are_judged_by_the_version_that_runs() -> None:
    said = (
        "{name: v, accelerator: nvidia-h100, engine: {name: vllm, version: 0.23.0}, "
        "extraArgs: ['--compilation-config', '{\"modes\": 3}']}"
    )
    assert refused(said, code=66).message.startswith("V55: ")


@pytest.mark.parametrize(
    ("engine", "accelerator", "why"),
    [
        ("trtllm", "amd-mi300x", "TensorRT-LLM runs on NVIDIA GPUs alone"),
        ("sglang", "google-tpu-v6e", "there SGLang is another program, sglang-jax"),
        ("sglang", "rebellions-atom", "SGLang has no code for it"),
    ],
)
def test_an_accelerator_that_an_engine_does_not_run_on_is_refused_with_the_reason(
    engine: str, accelerator: str, why: str
) -> None:
    problem = refused(
        f"{{name: v, accelerator: {accelerator}, engine: {{name: {engine}}}}}", code=65
    )
    assert problem.code == "LC2013"
    assert problem.message.startswith(f"{engine} does not run on {accelerator}: {why}")


def test_a_prompt_that_is_not_cut_takes_a_step_as_long_as_the_context() -> None:
    said = "engine: {name: sglang}, maxModelLen: 8192, parallelism: {tensor: 2}"
    whole = real(f"{said}, engineArgs: {{chunkedPrefillSize: -1}}").fit
    cut = real(f"{said}, engineArgs: {{chunkedPrefillSize: 8192}}").fit
    assert whole is not None
    assert cut is not None
    assert whole.activation_bytes == cut.activation_bytes


CATALOG = Catalog.load()
ENGINES = ("vllm", "sglang", "trtllm", "llamacpp")
ABSENT = [
    (engine, name)
    for name in CATALOG.names("AcceleratorProfile")
    for engine in ENGINES
    if engine not in CATALOG.accelerator(name).spec.engines
]


@pytest.mark.parametrize(("engine", "accelerator"), ABSENT)
def test_an_engine_that_an_accelerator_lacks_is_refused_there(
    engine: str, accelerator: str
) -> None:
    variant = f"{{name: v, accelerator: {accelerator}, engine: {{name: {engine}}}}}"
    problem = refused(variant, code=65)
    assert (problem.code, problem.found) == ("LC2013", engine)
