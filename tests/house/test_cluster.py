"""ci/cluster says what it makes, refuses what it does not know, and leaves no half-made parts."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def program(repo_root: Path, tmp_path: Path) -> ModuleType:
    """The program as a module, with a cache of this test's own."""
    file = repo_root / "ci" / "cluster" / "__main__.py"
    spec = importlib.util.spec_from_file_location("ci_cluster", file)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    vars(module)["CACHE"] = tmp_path
    return module


def test_an_unknown_part_is_refused_with_the_known_ones(repo_root: Path) -> None:
    argv = [sys.executable, str(repo_root / "ci" / "cluster"), "kwok"]
    done = subprocess.run(argv, check=False, capture_output=True, text=True)
    assert done.returncode == 2
    assert "clients, crds, decoders, linters, programs, registry" in done.stderr


def test_a_run_that_is_cut_short_leaves_what_was_there(program: ModuleType, tmp_path: Path) -> None:
    with program.made_once("part", "one") as folder:
        (folder / "whole").touch()

    def cut_short() -> None:
        with program.made_once("part", "two") as folder:
            (folder / "half").touch()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cut_short()
    assert [path.name for path in (tmp_path / "part").iterdir()] == ["whole"]
    with program.made_once("part", "two") as folder:
        assert list(folder.iterdir()) == []


def test_what_is_up_to_date_is_not_made_again(program: ModuleType) -> None:
    with program.made_once("part", "one") as folder:
        assert folder
    with program.made_once("part", "one") as folder:
        assert folder is None
    with program.made_once("part", "two") as folder:
        assert folder


def test_a_module_with_another_checksum_is_refused(
    program: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = tmp_path / "go"
    go.write_text('#!/bin/sh\necho \'{"Sum": "h1:other", "Dir": "/nowhere"}\'\n')
    go.chmod(0o755)
    monkeypatch.setattr(program, "go", lambda: str(go))
    with pytest.raises(SystemExit, match="h1:other instead of h1:pinned"):
        program.fetched("example.com/module@v1.0.0", "h1:pinned")


def test_without_go_it_says_where_to_get_it(
    program: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SystemExit, match=r"install Go 1\.26 or newer: https://go\.dev/dl"):
        program.go()
