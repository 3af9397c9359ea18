"""The form of the truth set: what the entries of tests/fixtures/truth have and how many there are.

Nothing calls it but pytest. It never asks a rule for its verdict, nor an engine: whether the labels
are right is in the sources that they cite.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

Entry = dict[str, Any]

FOLDER = Path(__file__).parents[2] / "fixtures" / "truth"
FIELDS = {
    *("id", "held_out", "accelerator", "engine", "version", "model", "devices"),
    *("argv", "expect", "because", "source", "confidence"),
}
VENDORS = {
    "nvidia": "nvidia-",
    "amd": "amd-",
    "tpu": "google-tpu-",
    "gaudi": "intel-gaudi",
    "xpu": "intel-xpu",
    "cpu": "cpu-",
    "others": ("ascend-", "aws-", "rebellions-"),
}
MINIMUM = {"nvidia": 60, "amd": 50, "tpu": 45, "gaudi": 45, "xpu": 12, "cpu": 12, "others": 25}
ENGINE_MINIMUM = {"vllm": 200, "sglang": 30, "trtllm": 15}
TOTAL = 320


@pytest.fixture(scope="module")
def files() -> dict[str, list[Entry]]:
    return {path.stem: yaml.safe_load(path.read_text("utf-8")) for path in FOLDER.glob("*.yaml")}


@pytest.fixture(scope="module")
def entries(files: dict[str, list[Entry]]) -> list[Entry]:
    return [entry for name in sorted(files) for entry in files[name]]


def vendor(entry: Entry) -> str:
    return str(entry["id"].rpartition("-")[0])


def test_a_file_holds_one_vendor(files: dict[str, list[Entry]]) -> None:
    vendors = {name: {vendor(entry) for entry in inside} for name, inside in files.items()}
    assert vendors == {name: {name.split("-")[0]} for name in files}


def test_a_file_stays_readable() -> None:
    lines = {path.name: path.read_text("utf-8").count("\n") for path in FOLDER.glob("*.yaml")}
    assert {name: count for name, count in lines.items() if count > 500} == {}


def wrong_fields(entry: Entry) -> set[str]:
    """The fields of an entry that do not have the form that the README promises."""
    if odd := (set(entry) - {"env"}) ^ FIELDS:
        return odd
    words = [*entry["argv"], *(word for pair in entry.get("env", {}).items() for word in pair)]
    good = {
        "id": re.fullmatch(r"[a-z]+-\d{3}", entry["id"]),
        "held_out": isinstance(entry["held_out"], bool),
        "accelerator": entry["accelerator"].startswith(VENDORS[vendor(entry)]),
        "engine": entry["engine"] in ENGINE_MINIMUM,
        "version": re.fullmatch(r"\d+\.\d+\.\d+(\.post\d+)?", entry["version"]),
        "model": re.fullmatch(r"hf://[\w.-]+/[\w.-]+", entry["model"]),
        "devices": isinstance(entry["devices"], int) and entry["devices"] >= 1,
        "argv": all(isinstance(word, str) for word in words),
        "expect": entry["expect"] in {"legal", "illegal", "ignored"},
        "because": entry["because"].endswith("."),
        "source": cites_a_place(entry["source"]),
        "confidence": entry["confidence"] in {"high", "medium", "low"},
    }
    return {name for name, holds in good.items() if not holds}


def cites_a_place(source: dict[str, Any]) -> bool:
    """A line, or where a file was read in pieces the name of what decides."""
    place = set(source) - {"repo", "version", "path"}
    return bool(
        re.fullmatch(r"[\w.-]+/[\w.-]+", source["repo"])
        and re.fullmatch(r"v\d[\w.]*|[0-9a-f]{40}", source["version"])
        and re.search(r"\.(py|md)$", source["path"])
        and place in ({"line"}, {"symbol"})
        and source.get("line", 1) >= 1
    )


def test_entries_are_complete(entries: list[Entry]) -> None:
    assert {entry["id"]: wrong for entry in entries if (wrong := wrong_fields(entry))} == {}


def test_only_a_line_makes_a_label_certain(entries: list[Entry]) -> None:
    high = [entry for entry in entries if entry["confidence"] == "high"]
    assert [entry["id"] for entry in high if "line" not in entry["source"]] == []


def test_ids_are_unique_and_no_two_entries_ask_the_same(entries: list[Entry]) -> None:
    asked = Counter(
        json.dumps(
            [entry[key] for key in ("accelerator", "engine", "version", "model", "devices", "argv")]
            + [entry.get("env", {})]
        )
        for entry in entries
    )
    assert len({entry["id"] for entry in entries}) == len(entries)
    assert [question for question, times in asked.items() if times > 1] == []


def test_a_third_is_held_out_by_the_hash_of_the_id(entries: list[Entry]) -> None:
    def shuffled(entry: Entry) -> str:
        return hashlib.sha256(entry["id"].encode()).hexdigest()

    by_hash = sorted(entries, key=shuffled)
    third = {entry["id"] for entry in by_hash[::3]}
    assert {entry["id"] for entry in entries if entry["held_out"]} == third
    assert len(third) * 3 == len(entries)


def test_every_vendor_and_engine_has_its_share(entries: list[Entry]) -> None:
    vendors = Counter(vendor(entry) for entry in entries)
    engines = Counter(entry["engine"] for entry in entries)
    assert len(entries) >= TOTAL
    assert {name for name, least in MINIMUM.items() if vendors[name] < least} == set()
    assert vendors["xpu"] + vendors["cpu"] >= 25
    assert {name for name, least in ENGINE_MINIMUM.items() if engines[name] < least} == set()
    assert set(engines) == set(ENGINE_MINIMUM)


@pytest.mark.parametrize("held_out", [False, True])
def test_the_labels_are_balanced(entries: list[Entry], held_out: bool) -> None:
    labels = Counter(entry["expect"] for entry in entries if entry["held_out"] is held_out)
    assert 0.35 <= labels["legal"] / labels.total() <= 0.65
    assert labels["ignored"] >= 15


def test_each_vendor_has_lines_that_are_legal_and_lines_that_are_not(entries: list[Entry]) -> None:
    labels = Counter((vendor(entry), entry["expect"] == "legal") for entry in entries)
    few = {name for name in VENDORS if min(labels[name, True], labels[name, False]) < 10}
    assert few == set()
