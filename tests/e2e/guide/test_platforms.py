"""The guides for platforms that this machine does not have: every `sh` block of each, in order."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.e2e.guide.test_quickstart import blocks, run_guide

# What each guide has to have shown at its end: that nothing of it was quietly skipped.
SHOWN = {
    "02-four-vendors": ("SIMULATED", "is deleted", "chat/v6e"),
    "nvidia": ("nvidia.com/gpu", "CUDA_VISIBLE_DEVICES=4,5,6,7"),
    "amd": ("/dev/kfd", "amd.com/gpu"),
    "tpu": ("gke-tpu-topology", "LeaderWorkerSet"),
    "gaudi": ("HABANA_VISIBLE",),
}


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", SHOWN)
def test_every_command_of_the_guide_works(
    name: str, repo_root: Path, tmp_path: Path, kubectl: Path, state_home: Path
) -> None:
    folder = tmp_path / "guides" / name
    shutil.copytree(repo_root / "guides" / name, folder)
    path = f"{kubectl.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    shown = "".join(run_guide(folder, path))
    assert [words for words in SHOWN[name] if words not in shown] == []


@pytest.mark.parametrize("name", SHOWN)
def test_the_guide_says_what_was_not_tried(name: str, repo_root: Path) -> None:
    text = (repo_root / "guides" / name / "README.md").read_text()
    assert "## What was not tried" in text
    assert len(blocks(text)) >= 3


def test_every_guide_is_run(repo_root: Path) -> None:
    found = {path.name for path in (repo_root / "guides").iterdir() if path.is_dir()}
    assert found == {*SHOWN, "01-quickstart-cpu"}
