"""`validate --manifests DIR`: exit codes, JSON and SARIF, and what is no folder of manifests."""

from __future__ import annotations

import json
import os
from pathlib import Path

import jsonschema
import pytest

from llmd_ctl.cli.boundary import run
from tests.unit.cli.test_boundary import FLEET
from tests.unit.plan.manifests.folders import CLEAN

SCHEMA = Path(__file__).parents[3] / "llmd_ctl" / "cli" / "schema" / "validate-v1.json"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, text in (
        ("clean", CLEAN),
        ("broken", CLEAN.replace("gpu: 2", "gpu: 16")),
        ("twice", CLEAN + "metadata: {name: other}\n"),
    ):
        (tmp_path / name / "deep").mkdir(parents=True)
        (tmp_path / name / "deep" / "chat.yaml").write_text(text)
    (tmp_path / "fleet.yaml").write_text(FLEET)
    (tmp_path / "empty").mkdir()
    return tmp_path


@pytest.mark.parametrize(("folder", "code"), [("clean", 0), ("broken", 66), ("twice", 65)])
def test_the_exit_code_says_what_kind_of_wrong_it_is(here: Path, folder: str, code: int) -> None:
    assert here
    assert run(["validate", "--manifests", folder]) == code


def test_json_names_the_engines_and_keeps_to_its_schema(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["validate", "fleet.yaml", "--manifests", "broken", "--output", "json"]) == 66
    document = json.loads(capsys.readouterr().out)
    jsonschema.validate(document, json.loads(SCHEMA.read_text()))
    assert document["manifests"]["objects"] == 1
    assert document["manifests"]["engines"][0]["accelerators"] == ["nvidia-h100"]
    place = document["problems"][0]["place"]
    assert (place["file"], place["line"]) == ("broken/deep/chat.yaml", 17)


def test_sarif_points_into_the_manifest(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(["validate", "--manifests", "broken", "--output", "sarif"])
    (first, *_) = json.loads(capsys.readouterr().out)["runs"][0]["results"]
    assert first["ruleId"] == "LC3070"
    assert first["message"]["text"].startswith("Q11: ")
    region = first["locations"][0]["physicalLocation"]
    assert region["artifactLocation"]["uri"] == "broken/deep/chat.yaml"


def test_a_clean_folder_is_told_engine_by_engine(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["validate", "--manifests", "clean"]) == 0
    told = capsys.readouterr().out
    assert told == "clean/deep/chat.yaml: Deployment chat/engine: vllm 0.32.0 on nvidia-h100\n"


def test_a_pipe_in_the_folder_is_not_waited_for(here: Path) -> None:
    os.mkfifo(here / "clean" / "pipe.yaml")
    assert run(["validate", "--manifests", "clean"]) == 0


@pytest.mark.parametrize(
    "words",
    [[], ["--manifests", "empty"], ["--manifests", "fleet.yaml"], ["--manifests", ""]],
)
def test_what_is_no_folder_of_manifests_is_a_wrong_command(here: Path, words: list[str]) -> None:
    assert here
    assert run(["validate", *words]) == 64
