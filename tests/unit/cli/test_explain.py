"""`explain`, kind by kind: what is told is what the types, profiles and rules hold."""

import io
import re

import pytest
from rich.console import Console

from llmd_ctl.cli.explain.ask import KINDS
from llmd_ctl.cli.explain.figure import shortest
from llmd_ctl.cli.explain.page import document
from llmd_ctl.cli.explain.reference import explained
from llmd_ctl.cli.explain.view import explain_view
from llmd_ctl.errors import UsageError, codes
from llmd_ctl.profiles import Catalog
from llmd_ctl.profiles.number import Memory, dimension
from llmd_ctl.profiles.rules import RULES, Rule
from llmd_ctl.spec.not_yet import NOT_YET
from llmd_ctl.spec.shape import SHAPE
from tests.e2e.cli.published import check
from tests.unit.cli.explaining import facts, page

CATALOG = Catalog.load()
ACCELERATORS = CATALOG.names("AcceleratorProfile")
MODELS = CATALOG.names("ModelProfile")


def refused(*words: str, accelerator: str | None = None) -> UsageError:
    with pytest.raises(UsageError) as raised:
        page(*words, accelerator=accelerator)
    return raised.value


# --- all of each kind ---


@pytest.mark.parametrize("kind", KINDS)
def test_every_name_that_a_kind_lists_has_a_page_that_keeps_the_schema(kind: str) -> None:
    listed = page(kind)
    names = [fact.name for fact in listed.sections[0].facts]
    assert len(names) >= 3
    check(document(listed), "llmd-ctl/explain/v1")
    for name in names:
        found = page(kind, name)
        assert found.title, name
        assert found.sections, name
        check(document(found), "llmd-ctl/explain/v1")
        for words in found.see:
            assert page(*words.partition(" --")[0].split()), words


def test_the_overview_names_every_kind_by_an_example_that_works() -> None:
    examples = [fact.name.split()[1:] for fact in page().sections[0].facts]
    assert len(examples) == len(KINDS)
    for words in examples:
        assert page(*[word for word in words if "@" not in word][: 2 if "flag" in words else 3])


@pytest.mark.parametrize("width", [40, 80, 160])
def test_no_line_is_wider_than_what_it_is_written_on(width: int) -> None:
    backend = page("flag", "--attention-backend", accelerator="amd-mi355x")
    pages = [page(), page("rule"), page("accelerator", "nvidia-l4"), backend]
    out = io.StringIO()
    for each in pages:
        Console(file=out, width=width, highlight=False).print(*explain_view(each), sep="\n")
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    words = {word for each in pages for section in each.sections for word in section.title.split()}
    assert words <= set(out.getvalue().split())


# --- fields ---


@pytest.mark.parametrize("path", SHAPE)
def test_a_field_has_its_meaning_type_and_default(path: str) -> None:
    told = facts(page(path), "field")
    assert told["type"].text
    assert told["default"].text
    assert (told["default"].text.startswith("none")) == (
        SHAPE[path].info.is_required() or SHAPE[path].default is None
    )
    assert len(explained(path).meaning) > 10


def test_allowed_words_and_ranges_are_those_of_the_types() -> None:
    role = facts(page("spec.models[].variants[].role"), "field")
    assert role["allowed"].value == ["both", "prefill", "decode"]
    replicas = facts(page("spec.models[].variants[].replicas"), "field")
    assert (replicas["type"].text, replicas["allowed"].text) == ("a whole number", "0 to 10000")
    assert replicas["default"].value == 1


@pytest.mark.parametrize(
    "written",
    ["spec.models[].variants[].replicas", "spec.models.variants.replicas",
     "models[0].variants[h100].replicas", "field spec.models[chat].variants.replicas"],
)  # fmt: skip
def test_a_path_may_be_written_in_several_ways(written: str) -> None:
    assert page(*written.split()).name == "spec.models[].variants[].replicas"


def test_a_key_of_the_users_own_may_have_dots() -> None:
    found = page("spec.defaults.nodeSelector.cloud.google.com/gke-nodepool")
    assert found.name == "spec.defaults.nodeSelector.cloud.google.com/gke-nodepool"


def test_a_section_that_stands_as_another_is_explained_where_it_first_stands() -> None:
    assert "vllm" in page("spec.models[].engine.name").title + str(
        facts(page("spec.models[].engine.name"), "field")["allowed"].value
    )
    assert facts(page("spec.router.env"), "field")["spec.targets[].env"].text.startswith("Env")


def test_what_is_not_built_yet_says_so() -> None:
    for home, keys in NOT_YET.items():
        for key, what in keys.items():
            found = page(f"{home}.{key}")
            assert found.title == what
            assert "LC1050" in found.sections[0].facts[0].text
    assert "slurm" in facts(page("spec.targets[].kind"), "field")


def test_what_a_target_cannot_carry_out_is_told_of_the_field_and_of_what_is_in_it() -> None:
    gaps = facts(page("spec.models[].variants[].cache.claim"), "not everywhere")
    assert gaps["target kind local"].value == "ignored"
    assert gaps["target kind compose"].value == "refused"
    assert facts(page("spec.router.tls.keyFile"), "not everywhere")["router kind llm-d"]
    assert not facts(page("spec.models[].uri"), "not everywhere")


@pytest.mark.parametrize(
    ("wrong", "suggestion", "hint"),
    [
        ("spec.models[].variants[].replica", "spec.models[].variants[].replicas", None),
        ("spec.models[].variants[].gpus", None, "parallelism: {tensor"),
        ("replicas", None, "Write spec.models[].variants[].replicas or spec.router.replicas."),
        ("spec.router.port", None, "no port can be set"),
        ("spec..models", None, None),
        ("spec.router[0].tls", "spec.router.tls", None),
    ],
)
def test_a_wrong_path_is_answered(wrong: str, suggestion: str | None, hint: str | None) -> None:
    (problem,) = refused(wrong).problems
    assert problem.code == "LC6012"
    if suggestion is not None:
        assert problem.suggestion == suggestion
    if hint is not None:
        assert hint in problem.remedy


# --- flags ---


def test_legal_attention_backends_are_those_of_the_table() -> None:
    told = facts(
        page("flag", "--attention-backend", accelerator="amd-mi355x"), "legal on amd-mi355x"
    )
    engine = CATALOG.engine("vllm")
    here = {name for name in engine.spec.attention if engine.kernel(name, "gfx950") is not None}
    assert here <= set(told)
    assert set(told["not for gfx950"].value) == set(engine.spec.attention) - here
    assert told["TRITON_ATTN"].source
    assert told["the engine's order, dense"].text.startswith("order ROCM_ATTN")


def test_an_engine_without_a_table_of_backends_has_its_order_told() -> None:
    found = page("flag", "--attention-backend", accelerator="nvidia-l4", engine="sglang")
    assert list(facts(found, "legal on nvidia-l4")) == [
        "the engine's order, dense", "the engine's order, sinks",
    ]  # fmt: skip


def test_legal_kv_dtypes_are_the_accelerators() -> None:
    told = facts(
        page("flag", "--kv-cache-dtype", accelerator="intel-gaudi3"), "legal on intel-gaudi3"
    )
    on = CATALOG.accelerator("intel-gaudi3").spec.engines["vllm"]
    assert told["values"].value == list(on.kv_dtypes)


def test_what_a_profile_sets_comes_with_its_reason_and_whether_it_must() -> None:
    (told,) = facts(
        page("flag", "--block-size", accelerator="intel-gaudi3"), "what profiles set"
    ).values()
    setting = CATALOG.accelerator("intel-gaudi3").spec.engines["vllm"].settings["--block-size"]
    assert told.value == setting.value
    assert told.note == f"must be so: {setting.reason}"


def test_the_rules_of_a_flag_are_those_that_stand_at_it() -> None:
    told = facts(page("flag", "--block-size"), "rules that speak of it")
    assert set(told) == {
        rule.id for rule in RULES if rule.engine == "vllm" and "--block-size" in rule.at
    }
    on_cpu = facts(page("flag", "--block-size", accelerator="cpu-x86"), "rules that speak of it")
    assert "C01" in on_cpu
    assert "G01" not in on_cpu


@pytest.mark.parametrize("word", ["--max-num-seqs", "max-num-seqs", "maxNumSeqs"])
def test_a_flag_is_found_by_each_of_its_names(word: str) -> None:
    assert page("flag", word).name == "--max-num-seqs"


def test_an_alias_and_a_negation_mean_their_flag() -> None:
    assert page("flag", "-tp").name == "--tensor-parallel-size"
    assert page("flag", "--no-enable-prefix-caching").name == "--enable-prefix-caching"


def test_keys_inside_a_flag_are_told_with_their_limits() -> None:
    keys = facts(page("flag", "--attention-config"), "what is inside")
    assert keys["flash_attn_version"].text == "2, 3, 4"
    assert facts(page("flag", "--attention-config.flash_attn_version"), "what is inside")["value"]
    (problem,) = refused("flag", "--attention-config.flash_version").problems
    assert problem.suggestion == "flash_attn_version"


def test_flags_that_are_gone_ours_or_not_yet_say_what_to_do() -> None:
    assert "nothing is swapped" in page("flag", "--swap-space").sections[0].facts[0].text
    assert facts(page("flag", "--port"), "flag")["llmd-ctl's own"].text
    assert "in a fleet" not in facts(page("flag", "--port"), "flag")
    assert facts(page("flag", "--enable-lora"), "flag")["not built yet"].text


def test_an_argument_of_a_fleet_is_explained_as_its_flag() -> None:
    found = page("spec.defaults.engineArgs.maxNumSeqs")
    assert facts(found, "flag")["type"].text == "a whole number"
    (problem,) = refused("spec.defaults.engineArgs.maxNumSeq").problems
    assert problem.suggestion == "maxNumSeqs"


# --- accelerators ---


@pytest.mark.parametrize("name", ACCELERATORS)
def test_every_figure_has_its_source_and_every_unknown_its_effect(name: str) -> None:
    found = page("accelerator", name)
    figures = facts(found, "figures")
    spec = CATALOG.accelerator(name).spec
    assert figures["memoryBandwidth"].source == spec.memory_bandwidth.source
    assert figures["memoryBandwidth"].confidence == spec.memory_bandwidth.confidence
    for fact in (fact for section in found.sections for fact in section.facts):
        if fact.text == "not known" and fact.confidence:
            assert fact.source, fact.name
    for fact in facts(found, "not known").values():
        assert fact.note, fact.name


def test_a_null_figure_is_unknown_and_never_zero() -> None:
    figures = facts(page("accelerator", "intel-gaudi3"), "figures")
    spec = CATALOG.accelerator("intel-gaudi3").spec
    assert spec.price_per_device_hour.value is None
    assert figures["pricePerDeviceHour"].value is None
    assert figures["pricePerDeviceHour"].text == "not known"
    assert "unknown" in figures["pricePerDeviceHour"].note


def test_a_figure_is_written_in_the_unit_that_reads_shortest() -> None:
    memory = dimension(Memory)
    assert shortest(288e9, memory) == "288 GB"
    assert shortest(3.5 * 2**30, memory) == "3.5 GiB"
    assert shortest(0.0, memory) == "0 B"


def test_every_engine_of_an_accelerator_has_a_section() -> None:
    for name in ACCELERATORS:
        titles = {section.title for section in page("accelerator", name).sections}
        engines = CATALOG.accelerator(name).spec.engines
        assert {f"engine {engine}" for engine in engines} <= titles, name


def test_what_vendors_call_an_accelerator_is_answered_with_its_name() -> None:
    (problem,) = refused("accelerator", "A100-80GB").problems
    assert "nvidia-a100" in problem.remedy
    (problem,) = refused("flag", "--block-size", accelerator="mi300").problems
    assert problem.suggestion == "amd-mi300x"


# --- models, engines, rules, codes ---


@pytest.mark.parametrize("name", MODELS)
def test_a_model_has_its_weights_and_what_it_keeps(name: str) -> None:
    found = page("model", f"hf://{name}")
    assert facts(found, "weights")["all"].value > 0
    kept = facts(found, "kept for each token and request, on one device")
    assert "group 1" in kept
    assert any(re.match("a token of context, ", fact) for fact in kept)


def test_the_bytes_of_a_token_are_the_known_ones() -> None:
    """64 layers, 8 KV heads of 128 with keys and values, 2 bytes each."""
    kept = facts(page("model", "Qwen/Qwen3-32B"), "kept for each token and request, on one device")
    assert kept["a token of context, bf16"].value == 64 * 8 * 128 * 2 * 2
    assert kept["a token of context, fp8"].value == 64 * 8 * 128 * 2


def test_a_state_and_a_window_are_told_apart_from_tokens() -> None:
    kept = facts(
        page("model", "Qwen/Qwen3.5-27B"), "kept for each token and request, on one device"
    )
    assert kept["a request's state, bf16"].value > 0
    kept = facts(
        page("model", "google/gemma-3-27b-it"), "kept for each token and request, on one device"
    )
    assert "the last 1,024 tokens" in kept["group 1"].text


def test_an_engine_without_a_version_is_the_best_known() -> None:
    assert page("engine", "vllm").name == f"vllm@{CATALOG.engine('vllm').spec.version}"
    (problem,) = refused("engine", "vllm@0.1.0").problems
    assert f"vllm@{CATALOG.engine('vllm').spec.version}" in problem.allowed


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_rule_has_its_title_message_remedy_and_source(rule: Rule) -> None:
    found = page("rule", rule.id.lower())
    told = facts(found, "rule")
    assert found.title == rule.title
    assert told["source"].text == rule.source
    assert "{" not in told["message"].text.replace("{}", "")


def test_a_code_needs_no_kind() -> None:
    found = page("lc3040")
    assert (found.kind, found.title) == ("error", codes()["LC3040"].meaning)
    (problem,) = refused("LC9999").problems
    assert problem.found == "LC9999"


def test_a_name_alone_is_enough_where_it_has_one_kind() -> None:
    kinds = {word: page(word).kind for word in ("V07", "nvidia-h100", "vllm@0.32.0", "--dtype")}
    assert list(kinds.values()) == ["rule", "accelerator", "engine", "flag"]
    assert page("hf://Qwen/Qwen3-32B").kind == "model"


def test_two_names_and_no_name_are_told() -> None:
    assert refused("rule", "V06", "V07").problems[0].code == "LC6004"
    (problem,) = refused("acelerator").problems
    assert problem.suggestion == "accelerator"
