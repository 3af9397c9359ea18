"""A command that only looks starts soon: it reads and makes nothing that it does not need."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import llmd_ctl
from llmd_ctl.cli import STARTS_NOTHING
from llmd_ctl.cli.app import GROUPS, VERBS

PROGRAM = """
import importlib.metadata, os, sys

def read(**_named):
    raise SystemExit("plugins were looked for")

importlib.metadata.entry_points = read
from llmd_ctl.cli import main
try:
    main()
finally:
    print(os.environ.get("PYDANTIC_DISABLE_PLUGINS", "unset"), file=sys.stderr)
"""
FLEET = """
apiVersion: fleet.llmd-ctl.dev/v1alpha1
kind: Fleet
metadata: {name: small}
spec:
  targets: [{name: here, kind: local}]
  models:
  - name: chat
    uri: hf://Qwen/Qwen3-8B
    variants: [{name: a, accelerator: nvidia-h100}]
"""


def run(folder: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    (folder / "fleet.yaml").write_text(FLEET)
    env = {**os.environ, "XDG_STATE_HOME": str(folder / "state"), **more}
    argv = [sys.executable, "-c", PROGRAM, *words]
    return subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("words", [("validate",), ("plan", "--simulate")])
def test_no_plugins_are_looked_for(words: tuple[str, ...], tmp_path: Path) -> None:
    done = run(tmp_path, *words, "fleet.yaml")
    assert done.returncode == 0, done.stderr


def test_no_record_is_made_by_running_source_text() -> None:
    found = [
        file.name
        for file in Path(llmd_ctl.__file__).parent.rglob("*.py")
        if re.search(r"^ *(from|import) dataclasses", file.read_text("utf-8"), re.M)
    ]
    assert found == [], "see STYLE.md: msgspec.Struct"


def test_what_the_user_says_of_plugins_holds(tmp_path: Path) -> None:
    done = run(tmp_path, "validate", "fleet.yaml", PYDANTIC_DISABLE_PLUGINS="none-of-them")
    assert "plugins were looked for" in done.stderr


def test_engines_get_the_environment_as_it_is(tmp_path: Path) -> None:
    done = run(tmp_path, "status")
    assert "unset\n" in done.stderr
    assert {"apply", "delete", "demo", "load", "status"} | set(GROUPS) == (
        {*VERBS, *GROUPS} - STARTS_NOTHING
    )
