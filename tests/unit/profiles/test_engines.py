"""Engines as data: their tables, version by version, held to what was read by hand."""

import pytest

from llmd_ctl.profiles import Catalog
from llmd_ctl.profiles.engine import Engine, argument_name

CATALOG = Catalog.load()
TABLED = ("vllm@0.23.0", "vllm@0.32.0", "vllm@0.33.0", "sglang@0.5.23", "trtllm@1.4.0rc1")


def engine(title: str) -> Engine:
    name, _, version = title.partition("@")
    return CATALOG.engine(name, version or None)


def test_these_are_all_engines_with_a_table() -> None:
    found = {name for name in CATALOG.names("EngineProfile") if "@" in name}
    assert found - {"sim@1", "llamacpp@2026.10.11549"} == set(TABLED)


def test_a_version_that_nobody_names_is_the_one_known_best() -> None:
    assert [engine(name).spec.version for name in ("vllm", "sglang", "trtllm")] == [
        "0.32.0", "0.5.23", "1.4.0rc1",
    ]  # fmt: skip


@pytest.mark.parametrize("title", TABLED)
def test_a_profile_speaks_only_of_flags_that_there_are(title: str) -> None:
    spec = engine(title).spec
    later = set(spec.removed)  # what a profile says for all versions, and this one has not
    named = {*spec.roles.values(), *spec.defaults, *spec.reserved, *spec.breaks, *spec.inert}
    named |= {*spec.not_yet, *spec.uncounted}
    assert named - later <= set(spec.flags)
    assert set(spec.inert) <= {*spec.breaks, *spec.uncounted}


@pytest.mark.parametrize("title", TABLED)
def test_what_is_gone_or_not_there_yet_is_not_in_the_tables(title: str) -> None:
    found = engine(title)
    assert not set(found.spec.removed) & {*found.by_spelling, *found.spec.variables}


@pytest.mark.parametrize("title", TABLED)
def test_each_flag_has_one_name_in_engine_args(title: str) -> None:
    found = engine(title)
    assert len(found.by_argument) == len(found.spec.flags)


@pytest.mark.parametrize(
    ("title", "flag", "kind", "aliases"),
    [
        ("sglang", "--tp-size", "int", ("--tensor-parallel-size",)),
        ("sglang", "--context-length", "int", ()),
        ("sglang", "--mem-fraction-static", "float", ()),
        ("sglang", "--disable-radix-cache", "bool", ()),
        ("sglang", "--radix-eviction-policy-config", "json", ()),
        ("trtllm", "--max_seq_len", "int", ()),
        ("trtllm", "--moe_expert_parallel_size", "int", ("--ep_size",)),
        ("vllm@0.23.0", "--max-num-seqs", "int", ()),
        ("vllm@0.33.0", "--watchdog-config", "json", ()),
    ],
)
def test_a_flag_is_as_its_parser_has_it(
    title: str, flag: str, kind: str, aliases: tuple[str, ...]
) -> None:
    known = engine(title).spec.flags[flag]
    assert (known.type, known.aliases) == (kind, aliases)


def test_choices_are_those_of_the_parser() -> None:
    kv = engine("sglang").spec.flags["--kv-cache-dtype"].choices
    assert set(kv) == {
        "auto", "bf16", "bfloat16", "fp8_e5m2", "fp8_e4m3", "mxfp8", "nvfp4", "fp4_mx_block16",
    }  # fmt: skip
    assert {"fa3", "aiter", "trtllm_mla"} <= set(
        engine("sglang").spec.flags["--attention-backend"].choices
    )
    assert engine("trtllm").spec.flags["--kv_cache_dtype"].choices == ("auto", "fp8", "nvfp4")


def test_a_version_has_its_own_flags_and_tells_of_the_others() -> None:
    old, new = engine("vllm@0.23.0").spec, engine("vllm@0.33.0").spec
    best = engine("vllm@0.32.0").spec
    assert "--calculate-kv-scales" in old.flags
    assert "--calculate-kv-scales" in best.removed
    assert set(best.flags) - set(old.flags) <= set(old.removed)
    assert set(old.flags) - set(best.flags) <= set(best.removed)
    assert set(new.flags) - set(best.flags) <= set(best.removed)
    assert old.removed["--max-num-active-seqs"] == "Write --max-num-seqs."


def test_a_version_has_its_own_attention_backends() -> None:
    old, best, new = (engine(f"vllm@{v}").spec.attention for v in ("0.23.0", "0.32.0", "0.33.0"))
    assert "HPC_ATTN" in best
    assert "HPC_ATTN" not in old
    assert set(old) < set(best) < set(new)
    assert all("int4_per_token_head" not in row.kv_dtypes for row in old["TRITON_ATTN"])


def test_the_opposite_of_a_switch_is_no_other_name_of_it() -> None:
    new = engine("vllm@0.33.0")
    assert new.by_opposite["--enable-sliding-window"] == "--disable-sliding-window"
    assert "--enable-sliding-window" not in new.by_spelling


def test_underscores_part_words_as_dashes_do() -> None:
    assert argument_name("--max_seq_len") == "maxSeqLen"
    assert argument_name("--generation-config") == "generationConfig"
