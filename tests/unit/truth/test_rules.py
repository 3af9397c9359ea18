"""The rules against the open part of the truth set, both ways.

None refuses what an engine takes; what it refuses, or takes and ignores, is told. What is held out
is not read here. Entries of engines, versions and models that are not known yet are left out.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from llmd_ctl.profiles.catalog import UnknownProfile
from tests.unit.profiles.rules.lines import CATALOG, Judged, judged, knows

FOLDER = Path(__file__).parents[2] / "fixtures" / "truth"


# Rules that warn of lines which the engine takes as they are said: K09 of what a later version will
# refuse, K24 of the memory that follows.
TAKEN = {"K09", "K24"}
# An id of the set that stands for several profiles.
STANDS_FOR = {"intel-xpu": "intel-arc-b60"}


def accelerator_of(entry: dict[str, Any]) -> str:
    """Return the profile of an entry's accelerator."""
    name = str(entry["accelerator"])
    return STANDS_FOR.get(name, name)


def devices_of(entry: dict[str, Any]) -> int:
    """Return how many devices it has as profiles count them; the set counts chips of a TPU."""
    each = 2 if entry["accelerator"] == "google-tpu-v7x" else 1
    return int(entry["devices"]) * each


def _entries() -> list[dict[str, Any]]:
    found = [
        entry
        for file in sorted(FOLDER.glob("*.yaml"))
        for entry in yaml.safe_load(file.read_text())
    ]
    return [entry for entry in found if not entry["held_out"] and _is_known(entry)]


def _is_known(entry: dict[str, Any]) -> bool:
    try:
        CATALOG.accelerator(accelerator_of(entry))
        CATALOG.engine(entry["engine"], entry["version"])
    except UnknownProfile:
        return False
    return knows(entry["model"].removeprefix("hf://"))


ENTRIES = _entries()


def _judge(entry: dict[str, Any]) -> Judged:
    return judged(
        accelerator_of(entry),
        entry["model"].removeprefix("hf://"),
        entry["argv"],
        engine=entry["engine"],
        version=entry["version"],
        env=entry.get("env"),
        devices=devices_of(entry),
    )


def _expecting(*verdicts: str) -> list[Any]:
    return [pytest.param(e, id=str(e["id"])) for e in ENTRIES if e["expect"] in verdicts]


@pytest.mark.parametrize("entry", _expecting("legal"))
def test_what_an_engine_takes_no_rule_refuses(entry: dict[str, Any]) -> None:
    found = _judge(entry)
    told = [words for words in found.warnings if words.partition(":")[0] not in TAKEN]
    assert (found.errors, told) == ([], []), entry["because"]


@pytest.mark.parametrize("entry", _expecting("illegal"))
def test_what_an_engine_refuses_is_refused(entry: dict[str, Any]) -> None:
    assert _judge(entry).errors, entry["because"]


@pytest.mark.parametrize("entry", _expecting("ignored"))
def test_what_an_engine_takes_and_ignores_is_told(entry: dict[str, Any]) -> None:
    found = _judge(entry)
    assert found.errors or found.warnings, entry["because"]


def test_so_many_entries_are_judged() -> None:
    assert len(ENTRIES) == 329  # of 440; each engine, version and model that comes adds to them
