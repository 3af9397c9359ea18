"""How every command ends: exit codes, what goes to stdout and what to stderr, no traceback."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from llmd_ctl.cli import output
from llmd_ctl.cli.app import command as command_of
from llmd_ctl.cli.boundary import run
from llmd_ctl.errors import (
    ApplyFailed,
    DoesNotFit,
    Interrupted,
    LlmdError,
    Locked,
    RolledBack,
    SpecInvalid,
    TargetUnreachable,
    UsageError,
)

VERBS = (
    "validate",
    "plan",
    "render",
    "diff",
    "apply",
    "explain",
    "status",
    "delete",
    "controller",
    "router",
    "load",
    "demo",
)
BAD_COMMANDS = [
    [],
    ["nosuchverb"],
    ["plan"],
    ["plan", "--bogus", "x"],
    ["plan", "x", "--output", "toml"],
    ["plan", "fleet.yaml", "--simulate=fast"],
    ["plan", "fleet.yaml", "--simulate=-1"],
    ["plan", "fleet.yaml", "--simulate=nan"],
    ["load", "http://127.0.0.1:1"],
    ["load", "ftp://x", "--model", "m"],
    ["load", "http://[", "--model", "m"],
    ["load", "http://127.0.0.1:1", "--model", "m", "--rate", "0"],
    ["load", "http://127.0.0.1:1", "--model", "m", "--mix", "odd=1"],
    ["load", "http://127.0.0.1:1", "--model", "m", "--mix", "short"],
    ["load", "http://127.0.0.1:1", "--model", "m", "--log", "/nosuch/folder/x"],
    ["demo", "--seconds", "1"],
    ["status", "nosuchfleet"],
    ["delete", "nosuchfleet", "--yes"],
    ["controller", "run", "nosuchfleet"],
    ["controller", "run", "../evil"],
    ["delete", "..", "--yes"],
]


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (["plan", "x", "--output", "sarif"], "'sarif' is not one of 'text', 'json', 'yaml'"),
        (["load", "http://x", "--model", "m", "--rate", "abc"], "'abc' is not a number"),
    ],
)
def test_a_wrong_value_is_told_in_words_of_the_command_line(
    command: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(command) == 64
    head = " ".join(capsys.readouterr().err.partition("  hint:")[0].split())
    assert head == f"error[LC6001]: Invalid value for '{command[-2]}': {told}"


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_every_verb_is_one_screen(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([verb, "--help"]) == 0
    shown = capsys.readouterr().out
    assert f"Usage: llmd-ctl {verb}" in shown
    assert len(shown.splitlines()) <= 40


def test_help_of_status_says_how_its_two_addresses_differ(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["status", "--help"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "Text shows it with the /v1" in said
    assert "router.url in JSON is without" in said


def test_the_list_of_verbs_is_complete_and_not_cut(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    shown = capsys.readouterr().out
    assert "..." not in shown.partition("Commands:")[2]
    listed = [
        line.split()[0]
        for line in shown.splitlines()
        if line.startswith("  ") and line[2:3].isalpha()
    ]
    assert {word for word in listed if word[0].islower()} - {"fit", "rolled"} == set(VERBS)


@pytest.mark.parametrize("argv", BAD_COMMANDS, ids=" ".join)
def test_a_wrong_command_line_is_64_with_a_reason_on_stderr(
    argv: list[str],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fleet.yaml").write_text(FLEET)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert run(argv) == 64
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("error[LC600") or (not argv and "Usage: llmd-ctl" in shown.err)


FLEET = """\
apiVersion: fleet.llmd-ctl.dev/v1alpha1
kind: Fleet
metadata: {name: small}
spec:
  targets: [{name: here, kind: local}]
  models:
  - name: chat
    uri: hf://meta-llama/Llama-3.1-8B-Instruct
    variants: [{name: h100, accelerator: nvidia-h100}]
"""


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (LlmdError, 1), (UsageError, 64), (SpecInvalid, 65), (DoesNotFit, 66),
        (TargetUnreachable, 69), (RolledBack, 70), (ApplyFailed, 71), (Locked, 75),
        (Interrupted, 130),
    ],
)  # fmt: skip
def test_each_error_has_its_exit_code(
    error: type[LlmdError],
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(*_: object) -> None:
        raise error.of("LC6004", "it went wrong")

    monkeypatch.setattr("llmd_ctl.cli.planning.known_fleets", fail)
    assert run(["status"]) == code
    assert capsys.readouterr().err.startswith("error[LC6004]: it went wrong")


def test_an_error_is_wrapped_at_the_usual_width_and_the_line_of_the_file_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)
    line = f"    variants: [{{name: h100, accelerator: nvidia-h10}}]  # {'x' * 30}"
    text = FLEET.replace("    variants: [{name: h100, accelerator: nvidia-h100}]", line)
    (tmp_path / "fleet.yaml").write_text(text)
    assert run(["plan", "fleet.yaml", "--simulate"]) == 65
    shown = capsys.readouterr().err.splitlines()
    assert max(len(one) for one in shown if line.strip() not in one) <= 80
    assert any(line in one for one in shown)


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_a_failure_is_a_document_too_when_one_was_asked_for(
    form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["plan", "/nosuch.yaml", "--output", form]) == 65
    shown = capsys.readouterr()
    assert "llmd-ctl/problems/v1" in shown.out
    assert "error[LC1001]" in shown.err
    if form == "json":
        assert json.loads(shown.out)["problems"][0]["code"] == "LC1001"


def command(*argv: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "llmd_ctl", *argv],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_a_reader_that_went_away_is_no_error() -> None:
    process = command("validate", "/nosuch.yaml", "--output", "json")
    assert process.stdout is not None
    process.stdout.close()
    _, err = process.communicate(timeout=30)
    assert process.returncode == 65
    assert "Traceback" not in err
    assert "BrokenPipe" not in err


def test_a_bug_is_one_line_on_screen_and_a_traceback_in_a_file(tmp_path: Path) -> None:
    program = (
        "from llmd_ctl.cli import main, planning\n"
        "def fail(): raise RuntimeError('odd')\n"
        "planning.known_fleets = fail\n"
        "main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "status"], capture_output=True, text=True, check=False,
        env={**os.environ, "XDG_STATE_HOME": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stdout == ""
    assert "error[LC6000]: this is a bug in llmd-ctl: RuntimeError: odd" in done.stderr
    assert "Traceback" not in done.stderr
    [file] = (tmp_path / "llmd-ctl" / "bugs").iterdir()
    assert "RuntimeError: odd" in file.read_text()


def test_what_is_piped_has_no_colour_and_is_not_cut(capsys: pytest.CaptureFixture[str]) -> None:
    from rich.table import Table

    table = Table()
    table.add_row("x" * 120)
    output.show([table])
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "x" * 120 in shown


# --- what any system may answer -------------------------------------------------------------


def shell(line: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `llmd-ctl` with redirections as a shell makes them."""
    (folder / "fleet.yaml").write_text(FLEET)
    settings = {"XDG_STATE_HOME": str(folder / "state"), **environment}
    done = subprocess.run(
        ["sh", "-c", f"{sys.executable} -m llmd_ctl {line}"], cwd=folder, check=False,
        capture_output=True, env={**os.environ, **settings},
    )  # fmt: skip
    out, err = done.stdout.decode(), done.stderr.decode()
    assert "LC6000" not in err
    assert "Traceback" not in err
    return subprocess.CompletedProcess(done.args, done.returncode, out, err)


PLAN_LINES = [
    "--help", "--version", "plan fleet.yaml --simulate", "plan fleet.yaml --simulate --output json",
    "plan fleet.yaml --simulate --output yaml", "validate fleet.yaml", "validate fleet.yaml --help",
]  # fmt: skip


@pytest.mark.parametrize("line", PLAN_LINES)
def test_a_full_disk_behind_stdout_is_an_error_with_a_code(line: str, tmp_path: Path) -> None:
    done = shell(f"{line} >/dev/full", tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith(("error[LC6008]", "error[LC6009]"))
    assert "No space left on device" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("line", PLAN_LINES[:4])
def test_a_closed_stream_is_no_error(line: str, closed: str, tmp_path: Path) -> None:
    assert shell(f"{line} {closed}", tmp_path).returncode == 0


def test_a_closed_stderr_does_not_get_into_a_file(tmp_path: Path) -> None:
    assert shell("plan fleet.yaml --simulate -o plan.json 2>&-", tmp_path).returncode == 0
    assert json.loads((tmp_path / "plan.json").read_text())["fleet"] == "small"


@pytest.mark.parametrize("line", [line for line in PLAN_LINES if "--help" not in line])
def test_an_ascii_terminal_is_no_error(line: str, tmp_path: Path) -> None:
    done = shell(line, tmp_path, PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert done.stdout.isascii()


@pytest.mark.parametrize("form", ["json", "yaml", "text"])
def test_half_of_a_character_is_spelled_out(form: str, tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m/config.json").write_text('{"model_type": "\\ud800"}')
    (tmp_path / "odd.yaml").write_text(re.sub("uri: .*", "uri: ./m", FLEET))
    done = shell(f"validate odd.yaml --output {form}", tmp_path)
    assert done.returncode == 65
    assert "\\ud800" in done.stdout + done.stderr
    if form == "json":
        (problem,) = json.loads(done.stdout)["problems"]
        assert problem["found"] == "\\ud800"


def test_a_document_loses_nothing_in_ascii(tmp_path: Path) -> None:
    line = "plan fleet.yaml --simulate --output json"
    plain, ascii_only = (
        json.loads(shell(line, tmp_path, PYTHONIOENCODING=name).stdout)
        for name in ("utf-8", "ascii")
    )
    assert plain == ascii_only
    assert "×" in json.dumps(plain, ensure_ascii=False)


def test_a_state_folder_that_is_a_file_is_told_with_its_path(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    place = str(tmp_path / "file")
    done = shell("apply fleet.yaml --simulate", tmp_path, XDG_STATE_HOME=place)
    assert done.returncode == 1
    assert f"error[LC6009]: {place}" in done.stderr
    assert "Set XDG_STATE_HOME" in done.stderr
    assert shell("plan fleet.yaml --simulate", tmp_path, XDG_STATE_HOME=place).returncode == 0


@pytest.mark.parametrize(
    "error", [PermissionError(13, "Permission denied", "/x/y"), OSError(28, "No space left")]
)
def test_what_the_system_refuses_is_no_bug(
    error: OSError, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr("llmd_ctl.cli.output.discard", lambda _stream: None)
    monkeypatch.setattr("llmd_ctl.cli.planning.known_fleets", fail)
    assert run(["status"]) == 1
    assert capsys.readouterr().err.startswith("error[LC6009]")


def test_an_error_of_the_system_that_nobody_foresaw_stays_a_bug(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail() -> None:
        raise ConnectionResetError(104, "reset")

    monkeypatch.setattr("llmd_ctl.cli.planning.known_fleets", fail)
    with pytest.raises(ConnectionResetError):
        run(["status"])


def test_a_traceback_that_cannot_be_kept_is_shown_above(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    program = (
        "from llmd_ctl.cli import main, planning\n"
        "def fail(): raise RuntimeError('odd')\n"
        "planning.known_fleets = fail\n"
        "main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "status"], capture_output=True, text=True, check=False,
        env={**os.environ, "XDG_STATE_HOME": str(tmp_path / "file")},
    )  # fmt: skip
    assert "RuntimeError: odd" in done.stderr
    assert "  The traceback is above. Please report it" in done.stderr


def test_a_run_that_names_its_verb_builds_no_other() -> None:
    whole = command_of("")
    assert list(command_of("--help").commands) == list(command_of("plam").commands)
    for name in whole.commands:
        alone = command_of(name)
        assert list(alone.commands) == [name]
        assert help_of(alone, name) == help_of(whole, name)


def help_of(program: Any, verb: str) -> str:
    context = program.make_context("llmd-ctl", [], resilient_parsing=True)
    text: str = program.commands[verb].get_help(context)
    return text
