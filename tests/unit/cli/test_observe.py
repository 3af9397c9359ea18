"""Which accelerators of this machine are found: what the driver's own tool lists."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from llmd_ctl.cli.observe import observe
from llmd_ctl.profiles import Catalog
from llmd_ctl.spec import LoadedFleet, load_fleets
from tests.unit.plan.fleets import fleet_text

H100 = "NVIDIA H100 80GB HBM3"
MINE = (
    "apiVersion: fleet.llmd-ctl.dev/v1alpha1\nkind: AcceleratorProfile\n"
    "metadata: {name: mine}\nextends: nvidia-h100\nspec: {description: mine}\n"
)


@pytest.fixture
def loaded(tmp_path: Path) -> LoadedFleet:
    (tmp_path / "fleet.yaml").write_text(fleet_text("- {name: v, accelerator: nvidia-h100}"))
    return load_fleets([tmp_path / "fleet.yaml"])[0]


def lists(monkeypatch: pytest.MonkeyPatch, folder: Path, text: str, code: int = 0) -> None:
    """Put a tool on the PATH that says this."""
    tool = folder / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\nprintf '{text}'\nexit {code}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_devices_are_counted_by_the_profile_that_has_their_name(
    loaded: LoadedFleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lists(
        monkeypatch, tmp_path, "\\n".join([H100, "NVIDIA L4", H100, "NVIDIA H100 PCIe", "Tesla T4"])
    )
    (tmp_path / "mine.yaml").write_text(MINE)
    catalog = Catalog.load([tmp_path / "mine.yaml"])
    found = observe(loaded, catalog, devices=True).accelerators
    nvidia = {"nvidia-h100": 2, "nvidia-l4": 1, "nvidia-h100-pcie": 1}
    assert found == {"cpu-x86": 1, **nvidia}
    assert observe(loaded, catalog, devices=False).accelerators == {"cpu-x86": 1}


def test_a_tool_that_fails_or_is_not_there_finds_nothing(
    loaded: LoadedFleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lists(monkeypatch, tmp_path, H100, code=9)
    assert observe(loaded, Catalog.load(), devices=True).accelerators == {"cpu-x86": 1}
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    assert observe(loaded, Catalog.load(), devices=True).accelerators == {"cpu-x86": 1}


@pytest.mark.parametrize(
    ("machine", "profile"), [("x86_64", "cpu-x86"), ("aarch64", "cpu-arm"), ("arm64", "cpu-arm")]
)
def test_the_machine_itself_is_of_its_processors_kind(
    loaded: LoadedFleet, monkeypatch: pytest.MonkeyPatch, machine: str, profile: str
) -> None:
    monkeypatch.setattr("os.uname", lambda: SimpleNamespace(machine=machine))
    assert observe(loaded, Catalog.load(), devices=False).accelerators == {profile: 1}
