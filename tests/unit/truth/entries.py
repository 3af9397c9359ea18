"""The entries of the truth sets, and what the rules say of one.

Called by the tests beside it. An entry is not known where its engine, version or model has no
profile, or where the engine has none for the accelerator; no rule can be asked then.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from llmd_ctl.profiles.catalog import UnknownProfile
from tests.unit.profiles.rules.lines import CATALOG, Judged, judged, knows

Entry = dict[str, Any]

FIRST = Path(__file__).parents[2] / "fixtures" / "truth"
LATER = FIRST.with_name("truth_later")
LATER_FROM = 501  # the numbers of the later set begin here
# An id of the set that stands for several profiles.
STANDS_FOR = {"intel-xpu": "intel-arc-b60"}


def entries(folder: Path) -> list[Entry]:
    """Return every entry of a set, in the order of its files."""
    return [
        entry
        for file in sorted(folder.glob("*.yaml"))
        for entry in yaml.safe_load(file.read_text())
    ]


def known(folder: Path, *, held_out: bool) -> Iterator[Entry]:
    """Give the entries of a part of a set that a rule can be asked about."""
    for entry in entries(folder):
        if entry["held_out"] is held_out and _is_known(entry):
            yield entry


def _is_known(entry: Entry) -> bool:
    try:
        accelerator = CATALOG.accelerator(_accelerator(entry))
        CATALOG.engine(entry["engine"], entry["version"])
    except UnknownProfile:
        return False
    return entry["engine"] in accelerator.spec.engines and knows(_model(entry))


def judge(entry: Entry) -> Judged:
    """Ask the rules about an entry."""
    return judged(
        _accelerator(entry),
        _model(entry),
        entry["argv"],
        engine=entry["engine"],
        version=entry["version"],
        env=entry.get("env"),
        devices=_devices(entry),
    )


def is_right(entry: Entry) -> bool:
    """Whether a legal line is kept, an illegal one refused, and one that is ignored told."""
    found = judge(entry)
    return {
        "legal": not found.errors,
        "illegal": bool(found.errors),
        "ignored": bool(found.errors or found.warnings),
    }[entry["expect"]]


def _model(entry: Entry) -> str:
    return str(entry["model"]).removeprefix("hf://")


def _accelerator(entry: Entry) -> str:
    name = str(entry["accelerator"])
    return STANDS_FOR.get(name, name)


def _devices(entry: Entry) -> int:
    """Return how many devices it has as profiles count them; the first set counts chips of v7x."""
    of_first = int(entry["id"].rpartition("-")[2]) < LATER_FROM
    each = 2 if entry["accelerator"] == "google-tpu-v7x" and of_first else 1
    return int(entry["devices"]) * each
