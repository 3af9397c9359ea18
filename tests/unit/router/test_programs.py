"""Router and simulated engine as programs: their arguments arrive, their exit codes come back."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("program", ["router", "sim"])
def test_a_configuration_that_is_not_there_is_said_with_its_path(
    program: str, tmp_path: Path
) -> None:
    argv = [sys.executable, "-m", f"llmd_ctl.{program}", "--config", str(tmp_path / "nosuch")]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 65
    assert done.stderr.startswith("error: ")
    assert str(tmp_path / "nosuch") in done.stderr
