"""Programs in benchmarks/ say what they do before they do it, and make only what they need."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import router
from benchmarks.routers.subject import subjects

PROGRAMS = ("control_plane", "pick", "router")


def test_these_are_all(repo_root: Path) -> None:
    assert sorted(file.stem for file in (repo_root / "benchmarks").glob("*.py")) == list(PROGRAMS)


@pytest.mark.parametrize("name", PROGRAMS)
def test_help_is_told_at_once_and_strange_words_are_refused(name: str, repo_root: Path) -> None:
    def run(word: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", f"benchmarks.{name}", word]
        return subprocess.run(argv, cwd=repo_root, capture_output=True, text=True, timeout=30)

    text = (repo_root / "benchmarks" / f"{name}.py").read_text()
    told = run("--help")
    assert told.returncode == 0
    assert text.split('"""')[1].splitlines()[0] in told.stdout
    assert run("--strange").returncode == 2


FOLDER = Path("/nowhere/dist")


def made(monkeypatch: pytest.MonkeyPatch, only: str) -> list[list[str]]:
    """The commands that make what a run of these subjects needs."""
    commands: list[list[str]] = []

    def note(argv: list[Any], **_: object) -> None:
        commands.append([Path(word).name if i == 0 else str(word) for i, word in enumerate(argv)])

    monkeypatch.setattr("benchmarks.router.subprocess.run", note)
    wanted = router.picked(only, subjects(FOLDER / "llmd-router"))
    router.build(wanted, FOLDER)
    router.make_peers(wanted)
    return commands


BUILD = ["cargo", "build", "--quiet", "--profile", "dist", "-p", "llmd-bench"]


@pytest.mark.parametrize(
    ("only", "commands"),
    [
        ("llmd-router", [[*BUILD, "-p", "llmd-router"]]),
        ("nginx,nginx (buffers as shipped)", [BUILD, ["peers", "nginx"]]),
        (
            "envoy,llmd-router (no traces)",
            [[*BUILD, "-p", "llmd-router"], ["peers", "envoy"]],
        ),
        (
            "",
            [
                [*BUILD, "-p", "llmd-router"],
                ["peers", "envoy", "haproxy", "nginx", "sglang-router", "vllm-router"],
            ],
        ),
    ],
)
def test_only_what_takes_part_is_made(
    only: str, commands: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert made(monkeypatch, only) == commands


def test_a_name_that_nobody_has_is_refused() -> None:
    with pytest.raises(SystemExit, match=r"nothing is named nope; there are: llmd-router, "):
        router.picked("nginx,nope", subjects(FOLDER / "llmd-router"))


def test_a_peer_that_nobody_knows_is_refused(repo_root: Path) -> None:
    argv = [str(repo_root / "ci" / "peers"), "nope"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stderr) == (64, "ci/peers: there is no peer nope\n")
