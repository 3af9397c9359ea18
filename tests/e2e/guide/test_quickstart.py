"""The quickstart guide, word for word: every `sh` block of it in one shell, in order."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

GUIDE = "guides/01-quickstart-cpu"
MARK = "=== block"


def blocks(text: str) -> list[str]:
    """The commands of a guide."""
    return re.findall(r"^```sh\n(.*?)^```$", text, re.M | re.S)


def run_guide(folder: Path, path: str) -> list[str]:
    """Run all blocks in one shell that stops at the first failure; what each printed."""
    parts = [f"echo '{MARK}'\n{block}" for block in blocks((folder / "README.md").read_text())]
    script = "set -euo pipefail\n" + "".join(parts)
    done = subprocess.run(
        ["bash", "-c", script], cwd=folder, capture_output=True, text=True, check=False,
        env={**os.environ, "PATH": path}, timeout=900,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout.split(MARK)[1:]


@pytest.fixture
def guide(repo_root: Path, tmp_path: Path, tiny_model: Path) -> Path:
    """The guide's folder with a model in it."""
    folder = tmp_path / "guide"
    shutil.copytree(repo_root / GUIDE, folder, ignore=shutil.ignore_patterns("model"))
    (folder / "model").symlink_to(tiny_model)
    return folder


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_every_command_of_the_guide_works(
    guide: Path, vllm_executable: Path, tmp_path: Path, state_home: Path
) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "vllm").symlink_to(vllm_executable)
    path = f"{tools}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    shown = run_guide(guide, path)
    whole = "".join(shown)
    assert "quickstart is valid" in whole
    assert "serves tiny at http://127.0.0.1:" in whole
    assert '"chat.completion"' in whole
    assert "data: [DONE]" in whole
    assert "SIMULATED" not in whole
    assert "scale tiny/llamacpp" in whole
    assert "No changes." in whole
    assert "is deleted" in shown[-1]


def test_the_guide_names_its_installs_and_what_the_test_ran(repo_root: Path) -> None:
    text = (repo_root / GUIDE / "README.md").read_text()
    assert "pip install 'llmd-ctl[llamacpp]'" in text
    assert "docs.vllm.ai" in text
    assert "The test ran" in text
    assert "python ../../ci/engines model" in text
    assert len(blocks(text)) >= 8
