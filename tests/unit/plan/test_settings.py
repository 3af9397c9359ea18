"""Who decides a flag, and which words for an engine are refused."""

import itertools
from pathlib import Path
from typing import cast

import pytest

from llmd_ctl.plan import PlannedVariant
from llmd_ctl.plan.report import Report
from llmd_ctl.plan.settings import Settings
from llmd_ctl.profiles import Catalog
from tests.unit.plan.fleets import (
    fleet_text,
    plan_text,
    planned,
    problems_of,
    refused,
    tiny,
    warned,
)

H100 = "name: v, accelerator: nvidia-h100"


def test_what_no_user_wrote_is_named_by_who_set_it() -> None:
    catalog = Catalog.load()
    engine, accelerator = catalog.engine("vllm"), catalog.accelerator("nvidia-h100")
    report = cast(Report, None)  # nothing is wrong, and so nothing is reported
    settings = Settings(engine, accelerator, accelerator.spec.engines["vllm"], report, None)
    settings.field("maxSequences", 7, "engineArgs", ("here",))
    settings.decide("tensor", 2)
    others = settings.others()
    assert "--max-num-seqs" not in others
    assert others["--dtype"] == "the engine's default"
    assert others["--block-size"] == "set by profile nvidia-h100"
    assert others["--tensor-parallel-size"] == "set by the plan"


def setting(variant: PlannedVariant, flag: str) -> tuple[object, str]:
    found = variant.settings[flag]
    return found.value, found.set_by


# The levels of --max-num-seqs from low to high, each with what it sets: (fleet, model, variant).
LEVELS = [
    ("profile nvidia-h100", 1024, ("", "", "")),
    ("defaults", 11, ("defaults: {engineArgs: {maxNumSeqs: 11}}", "", "")),
    ("model chat", 12, ("", "engineArgs: {maxNumSeqs: 12}", "")),
    ("engineArgs", 13, ("", "", ", engineArgs: {maxNumSeqs: 13}")),
    ("extraArgs", 14, ("", "", ", extraArgs: [--max-num-seqs, '14']")),
]


@pytest.mark.parametrize(("low", "high"), list(itertools.combinations(range(len(LEVELS)), 2)))
def test_the_higher_level_decides_and_names_whom_it_overruled(low: int, high: int) -> None:
    below, above = LEVELS[low], LEVELS[high]
    spec, model, variant = (a + b for a, b in zip(below[2], above[2], strict=True))
    found = planned(f"{{{H100}{variant}}}", spec=spec, model=model).settings["--max-num-seqs"]
    assert (found.value, found.set_by) == (above[1], above[0])
    assert f"{below[0]}: {below[1]}" in found.overruled


def test_a_field_of_the_variant_overrules_the_models_arguments() -> None:
    variant = planned(
        f"{{{H100}, maxModelLen: 1000}}", model="maxModelLen: 3000\nengineArgs: {maxModelLen: 2000}"
    )
    assert setting(variant, "--max-model-len") == (1000, "variant v")
    assert variant.max_model_len == 1000
    assert variant.facts is not None
    assert variant.facts["maxModelLen"] == 1000


def test_the_engines_own_default_is_lowest_and_is_no_word_of_the_command() -> None:
    variant = planned(f"{{{H100}, extraArgs: [--gpu-memory-utilization, '0.5']}}")
    assert setting(variant, "--gpu-memory-utilization") == (0.5, "extraArgs")
    assert variant.settings["--gpu-memory-utilization"].overruled == ()
    assert setting(variant, "--dtype") == ("auto", "engine default")


def test_what_nobody_says_the_plan_decides() -> None:
    variant = planned("{name: v, accelerator: nvidia-l4}", model="maxModelLen: 32768")
    assert setting(variant, "--tensor-parallel-size") == (2, "plan")


@pytest.mark.parametrize(
    ("argument", "code"),
    [
        ("maxNumSeq: 3", "LC2020"),
        ("maxNumSeqs: many", "LC2021"),
        ("maxNumSeqs: 1.5", "LC2021"),
        ("maxNumSeqs: true", "LC2021"),
        ("maxNumSeqs: 0", "LC2021"),
        ("maxNumSeqs: -1", "LC2021"),
        ("maxNumSeqs: 9000000000000", "LC2021"),
        ("blockSize: 0", "LC2021"),
        ("enforceEager: 1", "LC2021"),
        ("gpuMemoryUtilization: '0.9'", "LC2021"),
        ("gpuMemoryUtilization: 1.5", "LC2021"),
        ("kvEventsConfig: '{'", "LC2021"),
        (f"kvEventsConfig: '{'[' * 3000}{']' * 3000}'", "LC2021"),
        ("dtype: int3", "LC2022"),
        ("port: 1", "LC2023"),
        ("servedModelName: x", "LC2023"),
        ("enableLora: true", "LC2025"),
    ],
)
def test_a_wrong_argument_is_refused_at_its_value(argument: str, code: str) -> None:
    problem = refused(f"{{{H100}, engineArgs: {{{argument}}}}}", code=65)
    assert problem.code == code
    assert problem.place is not None
    assert problem.place.path.endswith("engineArgs." + argument.split(":")[0])


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("--max-num-sequences, '3'", "LC2020"),
        ("-x", "LC2020"),
        ("--no-max-num-seqs", "LC2020"),
        ("--max-num-seqs", "LC2021"),
        ("--max-num-seqs, --enforce-eager", "LC2021"),
        ("--max-num-seqs=many", "LC2021"),
        (f"--max-num-seqs={'9' * 5000}", "LC2021"),
        ("--enforce-eager=1", "LC2021"),
        ("--kv-events-config, '{'", "LC2021"),
        ("--additional-config, sharding", "LC2021"),
        ("--dtype=int3", "LC2022"),
        ("--host, 0.0.0.0", "LC2023"),
        ("--api-key, secret", "LC2023"),
        ("--data-parallel-rank, '2'", "LC2023"),
        ("-dpl, '2'", "LC2023"),
        ("--enable-lora", "LC2025"),
        ("'128'", "LC2026"),
        ("--enforce-eager, 'true'", "LC2026"),
    ],
)
def test_a_wrong_raw_flag_is_refused_once(words: str, code: str) -> None:
    assert refused(f"{{{H100}, extraArgs: [{words}]}}", code=65).code == code


@pytest.mark.parametrize(
    ("words", "flag", "value"),
    [
        ("--max-num-seqs, '7'", "--max-num-seqs", 7),
        ("--max-num-seqs=7", "--max-num-seqs", 7),
        ("--max_num_seqs=7", "--max-num-seqs", 7),
        ("-tp, '2'", "--tensor-parallel-size", 2),
        ("--enforce-eager", "--enforce-eager", True),
        ("--no-enable-prefix-caching", "--enable-prefix-caching", False),
        ("--gpu-memory-utilization, '.5'", "--gpu-memory-utilization", 0.5),
        ("--device-memory-utilization, '.5'", "--gpu-memory-utilization", 0.5),
        ("--attention-config.backend, TRITON_ATTN", "--attention-config.backend", "TRITON_ATTN"),
        ("--additional-config.sharding.x, '2'", "--additional-config.sharding.x", "2"),
        ("--seed, '-1'", "--seed", -1),
        ("--max-num-seqs=7, --max-num-seqs=9", "--max-num-seqs", 9),
    ],
)
def test_raw_flags_are_read_as_the_engine_reads_them(words: str, flag: str, value: object) -> None:
    assert planned(f"{{{H100}, extraArgs: [{words}]}}").settings[flag].value == value


def test_a_flag_that_takes_several_values_takes_all_of_them() -> None:
    words = "extraArgs: [--cudagraph-capture-sizes, '1', '2', --enforce-eager]"
    settings = planned(f"{{{H100}, {words}}}").settings
    assert settings["--cudagraph-capture-sizes"].value == "1 2"
    assert settings["--enforce-eager"].value is True


def test_a_misspelt_flag_is_answered_with_the_nearest_ones_that_may_be_set() -> None:
    problem = refused(f"{{{H100}, engineArgs: {{maxNumSeq: 3}}}}", code=65)
    assert problem.suggestion == "maxNumSeqs"
    assert len(problem.allowed) <= 5
    assert "--port" not in refused(f"{{{H100}, extraArgs: [--prt, '1']}}", code=65).allowed


def test_the_same_fault_in_the_defaults_is_told_once() -> None:
    text = fleet_text(
        f"- {{{H100}}}\n- {{name: w, accelerator: amd-mi300x}}",
        spec="defaults: {engineArgs: {maxNumSeq: 3}}",
    )
    assert len(problems_of(text, code=65)) == 1


# --- what a profile says must be ---


def test_a_value_that_must_be_is_refused_when_changed() -> None:
    problem = refused("{name: v, accelerator: intel-gaudi3, engineArgs: {blockSize: 64}}", code=65)
    assert problem.code == "LC2024"
    assert problem.allowed == ("128",)
    assert "unsafe" in problem.remedy


def test_unsafe_insists_and_is_warned_of() -> None:
    variant = "{name: v, accelerator: intel-gaudi3, engineArgs: {blockSize: 64}, unsafe: true}"
    assert planned(variant).settings["--block-size"].value == 64
    assert warned(variant) == ("LC2028",)


def test_unsafe_that_overrules_nothing_is_warned_of_where_it_stands() -> None:
    text = fleet_text("- {name: v, accelerator: intel-gaudi3, unsafe: true}")
    (warning,) = plan_text(text).warnings
    assert warning.code == "LC2029"
    assert warning.place is not None
    assert warning.place.path.endswith("unsafe")


@pytest.mark.parametrize(
    "words",
    [
        "extraArgs: [--disable-log-stats]",
        "engineArgs: {disableLogStats: true}",
        "extraArgs: [--load-format, dummy]",
        "engineArgs: {loadFormat: dummy}",
        "extraArgs: [--runner=pooling]",
        "extraArgs: [--convert, embed]",
        "engineArgs: {skipTokenizerInit: true}",
    ],
)
def test_a_flag_that_would_break_serving_is_refused_unless_unsafe_insists(words: str) -> None:
    problem = refused(f"{{{H100}, {words}}}", code=65)
    assert problem.code == "LC2030"
    assert "would break serving: " in problem.message
    assert warned(f"{{{H100}, {words}, unsafe: true}}") == ("LC2028",)


@pytest.mark.parametrize(
    "words",
    [
        "engineArgs: {disableLogStats: false}",
        "engineArgs: {loadFormat: safetensors}",
        "engineArgs: {runner: generate}",
        "extraArgs: [--convert, none]",
        "engineArgs: {enforceEager: false}",
        "extraArgs: [--enable-chunked-prefill]",
        "extraArgs: [--stream-interval, '1']",
    ],
)
def test_a_value_that_breaks_and_changes_nothing_is_taken(words: str) -> None:
    assert warned(f"{{{H100}, {words}}}") == ()


def test_saying_what_must_be_is_no_fault() -> None:
    variant = "{name: v, accelerator: intel-gaudi3, engineArgs: {blockSize: 128}}"
    assert planned(variant).settings["--block-size"].set_by == "engineArgs"


@pytest.mark.parametrize(("size", "good"), [(32, True), (96, True), (16, False), (48, False)])
def test_where_multiples_are_as_good_a_multiple_is_taken(
    tmp_path: Path, size: int, *, good: bool
) -> None:
    variant = f"- {{name: v, accelerator: cpu-x86, engineArgs: {{blockSize: {size}}}}}"
    text, here = fleet_text(variant, uri="./tiny"), tiny(tmp_path)
    if good:
        found = plan_text(text, observed=here).models[0].variants[0]
        assert found.settings["--block-size"].value == size
    else:
        (problem,) = problems_of(text, code=65, observed=here)
        assert problem.code == "LC2024"


@pytest.mark.parametrize(
    "words",
    [
        "engineArgs: {quantization: fp8}",
        "engineArgs: {enforceEager: true}",
        "engineArgs: {maxNumActiveSeqs: 4}",
        "extraArgs: [--quantization-config, '{}']",
        "extraArgs: [--no-enable-chunked-prefill, --max-model-len, '8192']",
        """extraArgs: [--speculative-config, '{"method": "ngram", "num_speculative_tokens": 3}']""",
        "extraArgs: [--speculative-config.method, suffix]",
        "extraArgs: [--speculative-config.method=suffix]",
    ],
)
def test_a_flag_whose_effect_no_plan_counts_is_warned_of(words: str) -> None:
    assert warned(f"{{{H100}, {words}}}") == ("LC2027",)


def test_a_key_of_a_json_flag_that_must_be_is_refused_as_the_flag_is() -> None:
    profile = """apiVersion: fleet.llmd-ctl.dev/v1alpha1
kind: AcceleratorProfile
metadata: {name: mine}
extends: nvidia-h100
spec:
  engines:
    vllm:
      settings:
        --attention-config: {value: '{"backend": "FLASHINFER"}', reason: its own, must: true}
"""
    text = fleet_text(
        "- {name: v, accelerator: mine, extraArgs: [--attention-config.backend, FLASH_ATTN]}"
    )
    (problem,) = problems_of(text, code=65, profiles=[profile])
    assert problem.code == "LC2024"


@pytest.mark.parametrize(
    ("words", "at"),
    [
        ("--seed, '1', --kv-events-config, '{'", 3),
        ("--max-num-seqs, many", 1),
        ("--max-num-seqs=many", 0),
        ("--dtype, int3", 1),
        ("--cudagraph-capture-sizes, '1', x", 2),
    ],
)
def test_a_wrong_value_is_told_at_the_word_that_holds_it(words: str, at: int) -> None:
    problem = refused(f"{{{H100}, extraArgs: [{words}]}}", code=65)
    assert problem.place is not None
    assert problem.place.path.endswith(f"extraArgs[{at}]")


def test_arguments_for_another_engine_are_left_out_and_that_is_said() -> None:
    text = fleet_text(
        f"- {{{H100}}}\n- {{name: s, accelerator: nvidia-h100, engine: {{name: sim}}}}",
        spec="defaults: {engineArgs: {enforceEager: true}}",
    )
    real, simulated = plan_text(text, simulate=1.0).models[0].variants
    assert real.settings["--enforce-eager"].value is True
    assert "--enforce-eager" not in simulated.settings
    assert any("defaults.engineArgs is for vllm" in line for line in simulated.reasons)


def test_the_simulated_engine_refuses_flags_that_it_would_not_heed() -> None:
    variant = f"{{{H100}, engine: {{name: sim}}, engineArgs: {{enforceEager: true}}}}"
    assert refused(variant, code=65).code == "LC2020"
