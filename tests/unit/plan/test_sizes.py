"""Sizes with a letter, and `auto`, as engines read them on a command line."""

from __future__ import annotations

import pytest

from llmd_ctl.plan import Observed
from llmd_ctl.profiles.engine import Flag
from llmd_ctl.profiles.flag_value import whole_of
from tests.unit.plan.fleets import fleet_text, plan_text, problems_of

SIZED = Flag("int", suffixes=True)
LENGTH = Flag("int", suffixes=True, auto=True)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("7", 7),
        ("-1", -1),
        ("16k", 16_000),
        ("16K", 16_384),
        ("25.6k", 25_600),
        ("2m", 2_000_000),
        ("2M", 2 * 1024**2),
        ("8G", 8 * 1024**3),
        ("1t", 10**12),
        ("1.5K", None),
        ("16 k", None),
        ("16kb", None),
        ("-1k", None),
        ("k", None),
        ("", None),
        ("auto", None),
    ],
)
def test_a_size_is_read_as_the_engine_reads_it(text: str, read: int | None) -> None:
    assert whole_of(SIZED, text) == read


def test_only_flags_that_take_sizes_and_auto_do() -> None:
    assert whole_of(Flag("int"), "16k") is None
    assert whole_of(LENGTH, "auto") == whole_of(LENGTH, "AUTO") == -1


def variant(words: str) -> str:
    return fleet_text(f"- {{name: v, accelerator: nvidia-h100, extraArgs: [{words}]}}")


def test_a_size_counts_and_goes_on_as_it_was_written() -> None:
    here = Observed(accelerators={"nvidia-h100": 1})
    text = variant("--max-num-batched-tokens, 4K")
    planned = plan_text(text, simulate=None, observed=here).models[0].variants[0]
    assert planned.facts is not None
    assert planned.facts["maxBatchedTokens"] == 4096
    at = planned.command.index("--max-num-batched-tokens")
    assert planned.command[at + 1] == "4K"


def test_what_is_no_size_is_refused() -> None:
    (problem,) = problems_of(variant("--max-num-seqs, 4K"), code=65)
    assert (problem.code, problem.found) == ("LC2021", "4K")
