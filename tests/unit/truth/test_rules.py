"""The rules against the open part of the truth set: what an engine takes, no rule may refuse.

What is held out is not read here. Entries of engines, versions and models that are not known yet
are left out, and counted.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from llmd_ctl.profiles.catalog import UnknownProfile
from tests.unit.profiles.rules.lines import CATALOG, judged, knows

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


@pytest.mark.parametrize(
    "entry", [e for e in ENTRIES if e["expect"] == "legal"], ids=lambda e: str(e["id"])
)
def test_what_an_engine_takes_no_rule_refuses(entry: dict[str, Any]) -> None:
    model = entry["model"].removeprefix("hf://")
    found = judged(
        accelerator_of(entry), model, entry["argv"],
        engine=entry["engine"], version=entry["version"], env=entry.get("env"),
        devices=devices_of(entry),
    )  # fmt: skip
    told = [words for words in found.warnings if words.partition(":")[0] not in TAKEN]
    assert (found.errors, told) == ([], []), entry["because"]
