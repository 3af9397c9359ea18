"""The rules against the truth set, both ways.

None refuses what an engine takes; what it refuses, or takes and ignores, is told.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.truth.entries import FIRST, Entry, judge, known

# Rules that warn of lines which the engine takes as they are said: K09 of what a later version will
# refuse, K24 of the memory that follows, V60 of a length that the model was not trained for, V04 of
# an abbreviation that the next version may not complete, T06 of an image that may come.
TAKEN = {"K09", "K24", "V60", "V04", "T06"}
# What no rule of lines can see, with what sees it: the devices that a pod makes visible, and blocks
# that grow with the state that a plan reckons.
SEEN_ELSEWHERE = {"nvidia-092": "Q11", "nvidia-191": "LC3019"}

PARTS = ((FIRST, False), (FIRST, True))
ENTRIES = [
    entry
    for folder, held_out in PARTS
    for entry in known(folder, held_out=held_out)
    if entry["id"] not in SEEN_ELSEWHERE
]


def _expecting(*verdicts: str) -> list[Any]:
    return [pytest.param(e, id=str(e["id"])) for e in ENTRIES if e["expect"] in verdicts]


@pytest.mark.parametrize("entry", _expecting("legal"))
def test_what_an_engine_takes_no_rule_refuses(entry: Entry) -> None:
    found = judge(entry)
    told = [words for words in found.warnings if words.partition(":")[0] not in TAKEN]
    assert (found.errors, told) == ([], []), entry["because"]


@pytest.mark.parametrize("entry", _expecting("illegal"))
def test_what_an_engine_refuses_is_refused(entry: Entry) -> None:
    assert judge(entry).errors, entry["because"]


@pytest.mark.parametrize("entry", _expecting("ignored"))
def test_what_an_engine_takes_and_ignores_is_told(entry: Entry) -> None:
    found = judge(entry)
    assert found.errors or found.warnings, entry["because"]


@pytest.mark.parametrize(("held_out", "count"), [(False, 328), (True, 159)])  # of 440 and 220
def test_so_many_entries_are_judged(held_out: bool, count: int) -> None:
    assert sum(1 for _ in known(FIRST, held_out=held_out)) == count
