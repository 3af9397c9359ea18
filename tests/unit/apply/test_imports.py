"""What a command loads: looking at a fleet needs no HTTP client."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("verb", ["validate", "plan"])
def test_an_http_client_is_not_loaded_to_validate_or_plan(
    verb: str, repo_root: Path, state_home: Path
) -> None:
    fleet = repo_root / "llmd_ctl" / "cli" / "demo" / "fleet.yaml"
    command = [sys.executable, "-X", "importtime", "-m", "llmd_ctl", verb, str(fleet)]
    more = ["--simulate"] if verb == "plan" else []
    done = subprocess.run([*command, *more], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr[-2000:]
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "llmd_ctl.cli.planning" in loaded
    assert not loaded & {"httpx", "httpcore", "anyio"}
    assert not list(state_home.iterdir())
