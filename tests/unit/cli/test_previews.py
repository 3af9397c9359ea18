"""What `diff`, `--dry-run` and the question before an apply show of what would happen."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from llmd_ctl.apply import ApplyResult
from llmd_ctl.apply.records import Desired
from llmd_ctl.cli import output
from llmd_ctl.cli.boundary import run
from llmd_ctl.cli.planning import folder_of
from llmd_ctl.plan import Plan
from tests.unit.cli.test_boundary import FLEET
from tests.unit.plan.fleets import TINY

ALIASED = FLEET.replace("- name: chat", "- name: chat\n    aliases: [al]")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with fleet.yaml, its plan file, and that plan as the desired one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("llmd_ctl.cli.planning._running", lambda _observed: None)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "fleet.yaml").write_text(FLEET)
    assert run(["plan", "fleet.yaml", "--simulate", "-o", "plan.json"]) == 0
    document = json.loads((tmp_path / "plan.json").read_text())
    del document["changes"], document["summary"]["changes"]
    folder = folder_of("small")
    folder.prepare()
    plan = Plan.from_json(document).to_json()
    folder.write_desired(Desired(1, deleted=False, plan=plan))
    return tmp_path


def edited(place: Path, **values: Any) -> None:
    file = place / "plan.json"
    document = json.loads(file.read_text())
    document["models"][0]["variants"][0].update(values)
    file.write_text(json.dumps(document))


def test_an_alias_is_shown_with_the_engines_that_it_restarts(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    (place / "fleet.yaml").write_text(ALIASED)
    assert run(["diff", "fleet.yaml", "--simulate", "--output", "json"]) == 1
    changes = json.loads(capsys.readouterr().out)["changes"]
    assert [(c["variant"], c["restarts"]) for c in changes] == [(None, 0), ("h100", 1)]


@pytest.mark.parametrize("verb", [("diff",), ("apply", "--dry-run")], ids="-".join)
@pytest.mark.parametrize("speed", [None, 0.5])
def test_what_would_be_simulated_is_said(
    verb: tuple[str, ...],
    speed: float | None,
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(place / "fresh"))
    text = FLEET if speed else FLEET.replace("uri:", "engine: {name: sim}\n    uri:")
    (place / "fleet.yaml").write_text(text)
    argv = [*verb, "fleet.yaml", *([f"--simulate={speed}"] if speed else [])]
    capsys.readouterr()
    run(argv)
    said = capsys.readouterr().out
    assert "add chat/h100: 1 × nvidia-h100, simulated" in said
    assert ("Fleet small - SIMULATED engines at 0.5 × the planned speed" in said) == bool(speed)
    run([*argv, "--output", "json"])
    document = json.loads(capsys.readouterr().out)
    assert document["simulate"] == ({"speed": speed} if speed else None)
    assert "simulated" in document["changes"][0]["reasons"][0]


def test_what_restarts_is_asked_for_where_somebody_can_answer(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []

    def no(question: str) -> bool:
        asked.append(question)
        return False

    monkeypatch.setattr(output, "can_ask", lambda: True)
    monkeypatch.setattr(output, "ask", no)
    (place / "fleet.yaml").write_text(ALIASED)
    assert run(["apply", "fleet.yaml", "--simulate"]) == 130
    assert asked == ["Go on?"]
    assert "change chat/h100 (restarts 1 replica): aliases: nothing → al" in capsys.readouterr().err


@pytest.mark.parametrize("file", ["fleet.yaml", "plan.json"])
def test_a_removal_without_a_terminal_needs_yes(
    file: str, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    applied: list[Plan] = []

    def apply(plan: Plan, **_: object) -> ApplyResult:
        applied.append(plan)
        return ApplyResult(2, (), waited=False, url=None, admin_url=None)

    monkeypatch.setattr("llmd_ctl.cli.apply.run", apply)
    monkeypatch.setattr(output, "can_ask", lambda: False)
    (place / "fleet.yaml").write_text(FLEET.replace("name: h100", "name: other"))
    simulate = ["--simulate"] if file == "fleet.yaml" else []
    if file == "plan.json":
        assert run(["plan", "fleet.yaml", "--simulate", "-o", "plan.json"]) == 0
    capsys.readouterr()
    assert run(["apply", file, *simulate]) == 64
    shown = capsys.readouterr().err
    assert "error[LC6004]: removing chat/h100 must be confirmed" in shown
    assert "Add --yes" in shown
    assert not applied
    assert run(["apply", file, *simulate, "--yes"]) == 0
    (place / "fleet.yaml").write_text(ALIASED)
    assert run(["apply", "fleet.yaml", "--simulate"]) == 0, "a restart takes nothing away for good"
    assert len(applied) == 2


@pytest.mark.parametrize("argv", [["plan"], ["apply", "--dry-run"]], ids="-".join)
def test_a_program_that_is_not_here_is_warned_of(
    argv: list[str], place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = "engine: {name: vllm, executable: no-such-engine}, accelerator: cpu-x86"
    text = FLEET.replace("accelerator: nvidia-h100", own)
    (place / "fleet.yaml").write_text(text.replace("hf://meta-llama/Llama-3.1-8B-Instruct", "./m"))
    (place / "m").mkdir()
    (place / "m" / "config.json").write_text(json.dumps(TINY))
    capsys.readouterr()
    assert run([*argv, "fleet.yaml"]) == 0
    shown = capsys.readouterr().err
    assert "warning[LC4011]: chat/h100: `no-such-engine` is not on this machine" in shown
    assert "leave the variant out" in " ".join(shown.split())
    assert run([*argv, "fleet.yaml", "--simulate"]) == 0
    assert "LC4011" not in capsys.readouterr().err


def test_the_way_out_of_several_accelerators_that_are_not_here_is_told_once(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = "nvidia-h100}, {name: other, accelerator: amd-mi300x}"
    (place / "fleet.yaml").write_text(FLEET.replace("nvidia-h100}", more))
    capsys.readouterr()
    assert run(["plan", "fleet.yaml", "--output", "json"]) == 66
    shown = capsys.readouterr()
    assert shown.err.count("error[LC3014]") == 2
    assert shown.err.count("hint: --simulate plans and runs it anyway") == 1
    assert shown.err.index("hint: ") > shown.err.rindex("error[LC3014]")
    problems = json.loads(shown.out)["problems"]
    assert all("--simulate" in problem["hint"] for problem in problems)


def test_an_edited_command_is_shown_by_a_dry_run(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edited(place, command=["sh", "-c", "echo evil"])
    capsys.readouterr()
    assert run(["apply", "plan.json", "--dry-run", "--detailed-exitcode"]) == 2
    shown = capsys.readouterr()
    assert "sh -c 'echo evil'" in shown.out
    assert "(restarts 1 replica)" in shown.out
    assert "chat/h100 runs: sh -c 'echo evil'" in shown.err


def test_the_command_of_a_first_apply_of_a_plan_file_is_shown(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(place / "fresh"))
    edited(place, command=["sh", "-c", "echo evil"], env={"LD_PRELOAD": "x.so"})
    capsys.readouterr()
    assert run(["apply", "plan.json", "--dry-run"]) == 0
    assert "chat/h100 runs: LD_PRELOAD=x.so sh -c 'echo evil'" in capsys.readouterr().err


def test_a_plan_file_that_names_a_path_as_fleet_writes_nowhere(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = json.loads((place / "plan.json").read_text())
    (place / "plan.json").write_text(json.dumps({**document, "fleet": "../../evil"}))
    before = sorted(place.rglob("*"))
    assert run(["apply", "plan.json", "--yes"]) == 65
    assert "error[LC3001]: the plan cannot be used: .fleet: " in capsys.readouterr().err
    assert sorted(place.rglob("*")) == before


@pytest.mark.parametrize("name", ["desired.json", "observed.json"])
@pytest.mark.parametrize("content", ["", "{", "[]", '{"version": 1}', "\0", "[" * 3000])
def test_an_unreadable_document_is_nothing_known_and_a_warning(
    name: str, content: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder_of("small").path / name).write_text(content)
    capsys.readouterr()
    for argv, code in (
        (["plan", "fleet.yaml", "--simulate"], 0),
        (["diff", "fleet.yaml", "--simulate"], 1 if name == "desired.json" else 0),
        (["apply", "fleet.yaml", "--simulate", "--dry-run"], 0),
    ):
        assert run(argv) == code
        shown = capsys.readouterr()
        assert "warning[LC4002]" in shown.err
        assert ("add chat/h100" in shown.out) == (name == "desired.json")


def test_json_that_is_nested_without_end_is_no_plan(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "plan.json").write_text("[" * 200_000)
    assert run(["diff", "plan.json"]) == 65
    assert "error[LC3001]" in capsys.readouterr().err


def test_a_change_says_where_in_the_file_it_stands_and_a_document_does_not(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edited_text = ALIASED.replace("- name: chat", "- name: chat\n    slo: {itl: {p95: 50ms}}")
    more = "  router:\n    resilience:\n      checks: {interval: 2s}\n"
    (place / "fleet.yaml").write_text(f"{edited_text.rstrip()}\n{more}")
    lines = (place / "fleet.yaml").read_text().splitlines()
    capsys.readouterr()
    assert run(["diff", "fleet.yaml", "--simulate"]) == 1
    shown = capsys.readouterr().out
    for key, reason in (
        ("aliases", "aliases: nothing → al"),
        ("slo", "slo.itl: nothing → 50ms"),
        ("checks", "spec.router.resilience.checks.interval: nothing → 2s"),
    ):
        line = next(n for n, text in enumerate(lines, 1) if text.strip().startswith(key))
        assert f"{reason}  (fleet.yaml:{line})" in shown
    assert run(["diff", "fleet.yaml", "--simulate", "--output", "json"]) == 1
    assert "fleet.yaml" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "speed"),
    [
        (["--simulate", "0.1", "fleet.yaml"], 0.1),
        (["fleet.yaml", "--simulate", "2"], 2.0),
        (["--simulate", "fleet.yaml"], 1.0),
        (["fleet.yaml", "--simulate=.5"], 0.5),
    ],
)
def test_a_speed_may_follow_simulate_as_a_word_of_its_own(
    place: Path, capsys: pytest.CaptureFixture[str], words: list[str], speed: float
) -> None:
    capsys.readouterr()
    assert run(["plan", *words, "--output", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["simulate"]["speed"] == speed
