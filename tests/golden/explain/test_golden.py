"""Explanations as people read them, 100 columns wide, against reviewed files.

A page that changes with its data is written anew by `--update-golden` and reviewed as a text.
"""

from pathlib import Path

import pytest

from llmd_ctl.cli.boundary import run

FOLDER = Path(__file__).parent
FLEET = "mixed.fleet.yaml"
PAGES = {
    "overview": "",
    "field": "spec.models[].variants[].role",
    "field-section": "spec.router.tls",
    "field-not-yet": "spec.router.mode",
    "field-in-fleet": f"spec.models[chat].variants[].replicas {FLEET}",
    "argument-in-fleet": f"spec.models[0].variants[h100].engineArgs.maxNumSeqs --file {FLEET}",
    "env-in-fleet": f"spec.targets[].env --file {FLEET}",
    "flag-attention": "flag --attention-backend --accelerator amd-mi355x --engine vllm@0.32.0",
    "flag-must": "flag --block-size --accelerator intel-gaudi3",
    "flag-removed": "flag --swap-space",
    "accelerator": "accelerator nvidia-l4",
    "engine": "engine llamacpp",
    "model": "model hf://Qwen/Qwen3-32B",
    "model-windows": "model google/gemma-3-27b-it",
    "rule": "rule V07",
    "error": "LC3040",
}


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_the_reviewed_one(
    name: str,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(FOLDER)
    monkeypatch.setenv("COLUMNS", "100")
    assert run(["explain", *PAGES[name].split()]) == 0
    shown = capsys.readouterr().out
    assert all(len(line) <= 100 for line in shown.splitlines())
    file = FOLDER / f"{name}.txt"
    if request.config.getoption("--update-golden", default=False):
        file.write_text(shown)
    assert shown == file.read_text()
