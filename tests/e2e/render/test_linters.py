"""Containerfiles and workflows, judged by the linters of their readers (tests/linters).

BuildKit's is what `docker build --check` runs; actionlint knows what GitHub Actions takes.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from ci import images
from tests.e2e.render.conftest import made_by_cluster

pytestmark = pytest.mark.cluster

WORKFLOWS = images.ROOT / ".github" / "workflows"
Lint = Callable[[str, Path], Any]


@pytest.fixture(scope="session")
def lint(repo_root: Path) -> Lint:
    """What a linter finds in a file; text where it is no such file at all."""
    program = made_by_cluster(repo_root, "linters") / "lint"

    def run(kind: str, file: Path) -> Any:
        argv = [str(program), kind, str(file)]
        done = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=100)
        return json.loads(done.stdout) if done.returncode == 0 else done.stderr

    return run


@pytest.mark.parametrize("name", sorted(path.name for path in images.FOLDER.iterdir()))
def test_a_containerfile_is_clean(name: str, lint: Lint) -> None:
    assert lint("containerfile", images.FOLDER / name / "Containerfile") == []


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("ENV A b", "LegacyKeyValueFormat"),
        ("ENV HF_TOKEN=hf_x", "SecretsUsedInArgOrEnv"),
        ("CMD vllm serve", "JSONArgsRecommended"),
        ("ENV PATH=$PHAT:/opt", "UndefinedVar"),
        ("run true", "ConsistentInstructionCasing"),
    ],
)
def test_what_docker_warns_of_is_found(line: str, rule: str, lint: Lint, tmp_path: Path) -> None:
    text = (images.FOLDER / "nvidia" / "Containerfile").read_text()
    (tmp_path / "Containerfile").write_text(f"{text}{line}\n")
    (found,) = lint("containerfile", tmp_path / "Containerfile")
    assert (found["rule"], found["line"]) == (rule, len(text.splitlines()) + 1)


def test_what_is_no_containerfile_is_refused(lint: Lint, tmp_path: Path) -> None:
    (tmp_path / "Containerfile").write_text("FROM a\nRUNN true\n")
    assert "unknown instruction: RUNN" in lint("containerfile", tmp_path / "Containerfile")


@pytest.mark.parametrize("name", ["images.yaml", "test.yaml"])
def test_a_workflow_is_clean(name: str, lint: Lint) -> None:
    assert lint("workflow", WORKFLOWS / name) == []


def test_there_is_no_other_workflow() -> None:
    assert sorted(path.name for path in WORKFLOWS.iterdir()) == ["images.yaml", "test.yaml"]


def with_matrix(folder: Path, **more: Any) -> Path:
    """The workflow of images with the whole matrix in place of the part that is chosen of it."""
    workflow = yaml.safe_load((WORKFLOWS / "images.yaml").read_text())
    workflow["on"] = workflow.pop(True)  # YAML 1.1's word for it
    strategy = yaml.safe_load(images.FILE.read_text())
    strategy["matrix"]["include"] = [{**row, **more} for row in strategy["matrix"]["include"]]
    workflow["jobs"]["image"]["strategy"] = strategy
    file = folder / "images.yaml"
    file.write_text(yaml.safe_dump(workflow, sort_keys=False, width=10_000))
    return file


def test_the_matrix_is_one_that_the_workflow_reads(lint: Lint, tmp_path: Path) -> None:
    """So every key of a row that the workflow asks for is there, and of a kind that it takes."""
    assert lint("workflow", with_matrix(tmp_path)) == []


def test_a_key_that_no_row_has_is_found(lint: Lint, tmp_path: Path) -> None:
    file = with_matrix(tmp_path)
    file.write_text(file.read_text().replace("matrix.options", "matrix.optoins"))
    (found,) = lint("workflow", file)
    assert found["rule"] == "expression"
    assert '"optoins" is not defined' in found["text"]


def test_a_runner_that_nobody_has_is_found(lint: Lint, tmp_path: Path) -> None:
    file = with_matrix(tmp_path, runner="ubuntu-24.40")
    found = lint("workflow", file)
    assert {each["rule"] for each in found} == {"runner-label"}
