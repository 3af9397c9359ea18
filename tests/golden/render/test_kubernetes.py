"""Whole folders of manifests, reviewed as text: one fleet for each vendor, in both formats."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from llmd_ctl.plan import Observed, Plan, plan
from llmd_ctl.profiles import Catalog
from llmd_ctl.render.targets import FORMATS, render_target
from llmd_ctl.spec import load_fleets

HERE = Path(__file__).parent
CASES = ("amd", "claims", "cpu", "gaudi", "llm-d", "nvidia", "tpu")
# What a machine that plans knows of itself; only engines on processors ask.
MACHINE = Observed(memory_bytes=256 << 30, cores=64)


def planned(name: str, monkeypatch: pytest.MonkeyPatch) -> Plan:
    monkeypatch.chdir(HERE / f"{name}-kubernetes")  # so that no place names this machine's folders
    (loaded,) = load_fleets(["fleet.yaml"])
    return replace(plan(loaded, Catalog.load(), MACHINE, None), spec_hash="0" * 64)


@pytest.mark.parametrize("form", FORMATS["kubernetes"])
@pytest.mark.parametrize("name", CASES)
def test_the_manifests_are_the_reviewed_ones(
    name: str, form: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    whole = planned(name, monkeypatch)
    files = {file.path: file.text for file in render_target(whole, whole.targets[0].name, form)}
    expected = HERE / f"{name}-kubernetes" / form
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
    folders = sorted(path.name for path in HERE.glob("*-kubernetes"))
    assert folders == sorted(f"{name}-kubernetes" for name in CASES)
