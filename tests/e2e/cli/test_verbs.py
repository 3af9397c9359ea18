"""The verbs as a user types them, on a simulated fleet: documents, exit codes, streams, Ctrl-C."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.e2e.cli.command import document, run, start

# By then a command has loaded and waits, also on a machine that is busy with other tests.
START_SECONDS = 4.0
FLEET = """\
apiVersion: fleet.llmd-ctl.dev/v1alpha1
kind: Fleet
metadata: {name: small}
spec:
  targets: [{name: here, kind: local}]
  models:
  - name: chat
    uri: hf://meta-llama/Llama-3.1-8B-Instruct
    maxModelLen: 8192
    variants:
    - {name: h100, accelerator: nvidia-h100, replicas: 1}
    - {name: gaudi, accelerator: intel-gaudi3, replicas: 1}
"""


@pytest.fixture
def fleet(tmp_path: Path, state_home: Path) -> Path:
    path = tmp_path / "fleet.yaml"
    path.write_text(FLEET)
    return path


@pytest.fixture
def applied(fleet: Path) -> Iterator[dict[str, Any]]:
    """The small fleet, simulated at full speed; deleted afterwards."""
    yield document("apply", fleet, "--simulate")
    run("delete", fleet, "--yes")


# --- without anything running ----------------------------------------------------------------


def test_validate_tells_every_problem_of_every_file(fleet: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text(FLEET.replace("replicas: 1", "replica: 1").replace("small", "other"))
    found = document("validate", fleet, bad, code=65)
    assert not found["valid"]
    assert len(found["problems"]) == 2
    assert all(p["place"]["file"] == str(bad) for p in found["problems"])
    assert all(p["didYouMean"] == "replicas" for p in found["problems"])


def test_validate_reads_standard_input_and_says_it_is_valid(state_home: Path) -> None:
    assert "fleet small is valid" in run("validate", "-", given=FLEET).stdout


def test_validate_writes_sarif_with_places(tmp_path: Path, fleet: Path) -> None:
    fleet.write_text(FLEET.replace("maxModelLen", "maxModelLength"))
    found = json.loads(run("validate", fleet, "--output", "sarif", code=65).stdout)
    assert found["version"] == "2.1.0"
    [result] = found["runs"][0]["results"]
    [rule] = found["runs"][0]["tool"]["driver"]["rules"]
    assert result["ruleId"] == rule["id"]
    region = result["locations"][0]["physicalLocation"]["region"]
    assert region == {"startLine": 9, "startColumn": 5}


def test_plan_is_a_table_with_the_arithmetic_and_a_document(fleet: Path) -> None:
    shown = run("plan", fleet, "--simulate").stdout
    for words in ("h100", "1 × nvidia-h100", "SIMULATED", "weights", "/h", "add chat/h100"):
        assert words in shown
    found = document("plan", fleet, "--simulate")
    assert found["summary"]["fits"] is True
    assert found["summary"]["changes"] == len(found["changes"]) == 2
    assert found["models"][0]["variants"][0]["command"]
    as_yaml = run("plan", fleet, "--simulate", "--output", "yaml").stdout
    assert yaml.safe_load(as_yaml) == found


def test_a_plan_file_is_what_apply_takes(fleet: Path, tmp_path: Path) -> None:
    out = tmp_path / "plan.json"
    run("plan", fleet, "--simulate=0.5", "-o", out)
    found = document("apply", out, "--dry-run", name="plan")
    assert found["simulate"] == {"speed": 0.5}
    run("apply", out, "--dry-run", "--simulate", code=64)


def test_an_accelerator_that_is_not_here_is_refused_with_the_way_out(fleet: Path) -> None:
    for verb in ("plan", "apply"):
        err = run(verb, fleet, code=66).stderr
        assert "nvidia-h100" in err
        assert "--simulate" in err


def test_what_does_not_fit_is_refused_with_its_numbers(fleet: Path) -> None:
    small = "nvidia-l4, parallelism: {tensor: 1}"
    fleet.write_text(FLEET.replace("8192", "131072").replace("nvidia-h100", small))
    for verb in ("validate", "plan"):
        flags = ["--simulate"] if verb == "plan" else []
        err = run(verb, fleet, *flags, code=66).stderr
        assert "error[LC3" in err
        assert "GiB" in err


def test_dry_run_changes_nothing_and_can_exit_2(fleet: Path, state_home: Path) -> None:
    run("apply", fleet, "--simulate", "--dry-run")
    run("apply", fleet, "--simulate", "--dry-run", "--detailed-exitcode", code=2)
    assert not list(state_home.rglob("desired.json"))


@pytest.mark.slow
def test_delete_without_a_terminal_needs_yes(applied: dict[str, Any], fleet: Path) -> None:
    assert "--yes" in run("delete", fleet, code=64).stderr
    assert document("status", fleet)["models"][0]["variants"][0]["ready"] == 1


# --- applied ---------------------------------------------------------------------------------


def test_the_life_of_a_fleet(fleet: Path) -> None:
    first = document("apply", fleet, "--simulate")
    assert (first["simulated"], first["waited"]) == (True, True)
    try:
        status = document("status", fleet)
        assert status["converged"] is True
        assert all(v["simulated"] and v["ready"] == 1 for v in status["models"][0]["variants"])
        body = {"model": "chat", "max_tokens": 4, "messages": [{"role": "user", "content": "Hi"}]}
        answer = httpx.post(f"{first['router']['url']}/v1/chat/completions", json=body)
        assert answer.headers["x-llmd-ctl-simulated"] == "true"
        assert document("diff", fleet, "--simulate")["changes"] == []
        assert document("apply", fleet, "--simulate")["changes"] == []
        fleet.write_text(FLEET.replace("nvidia-h100, replicas: 1", "nvidia-h100, replicas: 2"))
        [change] = document("diff", fleet, "--simulate", code=1)["changes"]
        assert (change["kind"], change["variant"], change["restarts"]) == ("scale", "h100", 0)
        pids = {r["pid"] for v in status["models"][0]["variants"] for r in v["replicas"]}
        document("apply", fleet, "--simulate")
        now = document("status", fleet)["models"][0]["variants"]
        assert pids < {r["pid"] for v in now for r in v["replicas"]}
        [listed] = document("status", name="fleets")["fleets"]
        assert listed["fleet"] == "small"
        assert "chat" in run("router", "config", "small").stdout
    finally:
        deleted = document("delete", "small", "--yes")
    assert deleted["existed"] is True
    assert document("delete", "small", "--yes")["existed"] is False


@pytest.mark.slow
def test_status_says_simulated_and_has_no_colour_in_a_pipe(applied: dict[str, Any]) -> None:
    shown = run("status", "small").stdout
    assert "simulated" in shown
    assert "\x1b" not in shown


@pytest.mark.slow
def test_a_load_keeps_its_raw_log_and_its_schema(applied: dict[str, Any], tmp_path: Path) -> None:
    log = tmp_path / "load.jsonl"
    url = applied["router"]["url"]
    load = ("load", url, "--model", "chat", "--rate", 20, "--seconds", 2, "--log", log)
    found = document(*load)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert found["requests"] == len(lines) > 10
    assert found["ended"]["done"] == len(lines)
    for line in lines:
        assert line["startUs"] <= (line["firstTokenUs"] or line["endUs"]) <= line["endUs"]
        assert line["completionTokens"] > 0
        assert line["chunkUs"] == sorted(line["chunkUs"])


@pytest.mark.slow
def test_a_load_of_a_model_that_is_not_served_is_1_and_counted(applied: dict[str, Any]) -> None:
    load = ("load", applied["router"]["url"], "--model", "nobody", "--seconds", 1, "--rate", 5)
    found = document(*load, code=1)
    assert found["ended"]["refused"] == found["requests"]


# --- Ctrl-C ----------------------------------------------------------------------------------


def interrupted(at: str, *argv: object) -> subprocess.CompletedProcess[str]:
    """Press Ctrl-C when a line with `at` was shown, on either stream."""
    process = start(*argv, bufsize=1)
    assert process.stderr is not None
    assert process.stdout is not None
    shown = process.stdout if at.startswith("Fleet") else process.stderr
    lines: list[str] = []
    while at not in (lines[-1] if lines else ""):
        lines.append(shown.readline())
        assert lines[-1], lines
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert "Traceback" not in err
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


@pytest.mark.slow
def test_ctrl_c_of_an_apply_says_what_state_things_are_in(fleet: Path) -> None:
    done = interrupted("is desired", "apply", fleet, "--simulate")
    try:
        assert done.returncode == 130
        assert "error[LC4008]" in done.stderr
        assert "Revision 1 stays desired" in done.stderr
        assert document("apply", fleet, "--simulate")["revision"] == 1
    finally:
        run("delete", fleet, "--yes")


@pytest.mark.slow
def test_ctrl_c_before_anything_was_done_says_so(fleet: Path) -> None:
    process = start("plan", "-")
    time.sleep(START_SECONDS)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err == "Interrupted before anything was changed.\n"


@pytest.mark.slow
def test_ctrl_c_of_a_watch_and_of_a_load_is_130(applied: dict[str, Any], fleet: Path) -> None:
    assert interrupted("Fleet small", "status", fleet, "--watch").returncode == 130
    load = start("load", applied["router"]["url"], "--model", "chat", "--seconds", 60)
    time.sleep(START_SECONDS)
    load.send_signal(signal.SIGINT)
    _, err = load.communicate(timeout=60)
    assert load.returncode == 130
    assert "Traceback" not in err


@pytest.mark.slow
def test_two_applies_at_once_do_not_both_go_on(fleet: Path) -> None:
    processes = [start("apply", fleet, "--simulate") for _ in range(2)]
    codes = []
    for process in processes:
        _, err = process.communicate(timeout=100)
        codes.append(process.returncode)
        assert "Traceback" not in err
    run("delete", fleet, "--yes")
    assert 0 in codes
    assert set(codes) <= {0, 75}


def test_no_color_is_honoured_on_a_terminal(fleet: Path) -> None:
    import pty

    def colours(**environment: str) -> bool:
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            [sys.executable, "-m", "llmd_ctl", "plan", str(fleet), "--simulate"],
            stdout=theirs, stderr=theirs, stdin=theirs,
            env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "160", **environment},
        )  # fmt: skip
        os.close(theirs)
        shown = b""
        try:
            while part := os.read(ours, 65536):
                shown += part
        except OSError:
            pass  # the other end is closed
        process.wait(timeout=30)
        os.close(ours)
        assert b"h100" in shown
        return b"\x1b" in shown

    assert colours()
    assert not colours(NO_COLOR="1")
