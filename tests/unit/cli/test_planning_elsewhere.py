"""A preview of what runs elsewhere asks this machine for nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmd_ctl.cli.planning import load_one, make_plan, missing_here

FLEET = """apiVersion: fleet.llmd-ctl.dev/v1alpha1
kind: Fleet
metadata: {name: test}
spec:
  targets: [{name: there, kind: KIND}]
  models:
  - name: chat
    uri: hf://meta-llama/Llama-3.1-8B-Instruct
    maxModelLen: 1024
    variants:
    - {accelerator: cpu-x86, engine: {name: vllm, executable: no-such-program}}
"""


@pytest.mark.parametrize(("kind", "told"), [("local", 1), ("kubernetes", 0)])
def test_programs_are_looked_for_only_where_they_would_start(
    kind: str, told: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text(FLEET.replace("KIND", kind))
    assert len(missing_here(make_plan(load_one(str(fleet)), None))) == told
