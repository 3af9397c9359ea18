"""Whole folders for hosts, containers and this machine, reviewed as text: a fleet a vendor."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from llmd_ctl.plan import Observed, Plan, plan
from llmd_ctl.profiles import Catalog
from llmd_ctl.render.targets import render_target
from llmd_ctl.spec import load_fleets

HERE = Path(__file__).parent
CASES = (
    *(f"{vendor}-{kind}" for kind in ("systemd", "compose") for vendor in (
        "nvidia", "amd", "tpu", "gaudi",
    )),
    "local",
)  # fmt: skip
MACHINE = Observed(accelerators={"nvidia-h100": 8}, memory_bytes=256 << 30, cores=64)


def planned(name: str, monkeypatch: pytest.MonkeyPatch) -> Plan:
    monkeypatch.chdir(HERE / name)  # so that no place names this machine's folders
    (loaded,) = load_fleets(["fleet.yaml"])
    return replace(plan(loaded, Catalog.load(), MACHINE, None), spec_hash="0" * 64)


@pytest.mark.parametrize("name", CASES)
def test_the_files_are_the_reviewed_ones(
    name: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    whole = planned(name, monkeypatch)
    files = {file.path: file.text for file in render_target(whole, whole.targets[0].name)}
    expected = HERE / name / "out"
    if request.config.getoption("--update-golden", default=False):
        shutil.rmtree(expected, ignore_errors=True)
        for path, text in files.items():
            (expected / path).parent.mkdir(parents=True, exist_ok=True)
            (expected / path).write_text(text)
    found = {
        str(path.relative_to(expected)): path.read_text()
        for path in expected.rglob("*")
        if path.is_file()
    }
    assert sorted(files) == sorted(found)
    for path, text in files.items():
        assert text == found[path], path


def test_every_fleet_here_is_a_case() -> None:
    folders = {path.parent.name for path in HERE.glob("*/fleet.yaml")}
    assert {name for name in folders if not name.endswith("-kubernetes")} == set(CASES)
