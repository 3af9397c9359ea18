"""What a command loads: looking at a sound fleet needs no HTTP client, and no words for faults."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

NOT_NEEDED = {
    *("httpx", "httpcore", "anyio", "rich"),
    *("llmd_ctl.spec.translate", "llmd_ctl.spec.syntax", "llmd_ctl.spec.unknown"),
    *("llmd_ctl.apply.apply", "llmd_ctl.apply.status"),
}


@pytest.mark.parametrize("verb", ["validate", "plan"])
def test_what_a_sound_fleet_does_not_need_is_not_loaded(
    verb: str, repo_root: Path, state_home: Path
) -> None:
    fleet = repo_root / "llmd_ctl" / "cli" / "demo" / "fleet.yaml"
    command = [sys.executable, "-X", "importtime", "-m", "llmd_ctl", verb, str(fleet)]
    more = ["--simulate", "--output", "json"] if verb == "plan" else []
    done = subprocess.run([*command, *more], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr[-2000:]
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "llmd_ctl.cli.planning" in loaded
    assert not loaded & NOT_NEEDED
    assert not list(state_home.iterdir())
