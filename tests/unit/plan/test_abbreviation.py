"""Flags that are not written out, and flags that are gone."""

from typing import cast

from llmd_ctl.plan.abbreviation import completed
from llmd_ctl.plan.flags import FlagReader
from llmd_ctl.plan.report import Report
from llmd_ctl.profiles.catalog import Catalog
from llmd_ctl.profiles.engine import argument_name, flag_name
from tests.unit.profiles.rules.lines import Heard

VLLM = Catalog.load().engine("vllm")
LLAMACPP = Catalog.load().engine("llamacpp")


def read(*words: str) -> tuple[list[str], Heard]:
    heard = Heard()
    given = FlagReader(VLLM, cast(Report, heard)).raw(words, ())
    return [each.flag for each in given], heard


def test_a_beginning_that_one_flag_has_stands_for_it_and_is_warned_of() -> None:
    flags, heard = read("--max-num-batched-token", "4096")
    assert flags == ["--max-num-batched-tokens"]
    assert heard.problems == []
    assert heard.told == [
        "V04: --max-num-batched-token stands for --max-num-batched-tokens"
        " only while no other flag begins so"
    ]


def test_a_beginning_that_several_flags_have_stands_for_none() -> None:
    assert completed(VLLM, "--max-num") == (None, False)
    assert completed(VLLM, "--no-enable-chunked") == ("--enable-chunked-prefill", True)


def test_an_engine_that_does_not_complete_flags_is_left_alone() -> None:
    assert completed(LLAMACPP, "--ctx-siz") == (None, False)


def test_a_flag_that_is_reserved_stays_so_when_it_is_cut_short() -> None:
    flags, heard = read("--served-model-nam", "other")
    assert flags == []
    assert any("not yours to set" in problem for problem in heard.problems)


def test_a_flag_that_is_gone_says_so() -> None:
    flags, heard = read("--swap-space", "4")
    assert flags == []
    assert heard.problems == ["LC2020: vllm 0.32.0 has no flag --swap-space"]


def test_what_is_gone_is_not_there_and_names_what_is() -> None:
    spec = VLLM.spec
    assert not set(spec.removed) & {*VLLM.by_spelling, *spec.variables}


def test_the_name_of_an_argument_gives_back_its_flag() -> None:
    assert all(flag_name(argument_name(flag)) == flag for flag in spec_flags())


def spec_flags() -> list[str]:
    return [flag for flag in VLLM.spec.flags if "_" not in flag and not flag[-1].isdigit()]
