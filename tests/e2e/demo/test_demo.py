"""The demo as a user runs it: its numbers are computed, not prepared, and it cleans up."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

import llmd_ctl
from tests.e2e.cli.published import check
from tests.recompute.recompute import recompute

SECONDS = 8
PROFILES = Path(llmd_ctl.__file__).parent / "profiles"
SWAPPED = {
    "nvidia-h100": "tpu/google-tpu-v6e.yaml",
    "google-tpu-v6e": "nvidia/nvidia-h100.yaml",
}  # the fastest and the slowest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


def demo(*argv: object) -> list[str]:
    """The command line of a short demo."""
    options = map(str, argv)
    return [sys.executable, "-m", "llmd_ctl", "demo", "--seconds", str(SECONDS), *options]


def numbers(folder: Path, *argv: object) -> dict[str, Any]:
    """Run a short demo that keeps its logs in `folder`; its document."""
    done = subprocess.run(
        demo("--keep", folder, "--output", "json", *argv),
        capture_output=True, text=True, check=False, timeout=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of one demo's logs; its document is in summary.json."""
    folder = tmp_path_factory.mktemp("demo") / "kept"
    numbers(folder)
    return folder


@pytest.fixture(scope="module")
def document(kept: Path) -> dict[str, Any]:
    """What that demo printed."""
    found: dict[str, Any] = json.loads((kept / "summary.json").read_text())
    return found


def test_the_document_keeps_to_its_schema_and_says_simulated(document: dict[str, Any]) -> None:
    check(document, "llmd-ctl/demo/v1")
    check(document["plan"], "llmd-ctl/plan/v1")
    assert document["plan"]["simulate"]["speed"] == document["speed"]


def test_a_second_program_computes_the_same_numbers(kept: Path, document: dict[str, Any]) -> None:
    assert recompute(kept) == document["runs"]


def test_every_request_came_to_a_known_end(document: dict[str, Any]) -> None:
    for run in document["runs"]:
        ended = run["ended"]
        assert run["silentEnds"] == 0
        assert ended["nonStreams"]["error-event"] == 0
        lost = [ended[p][k] for p in ended for k in ("refused", "client-error")]
        assert lost == [0, 0, 0, 0]
        assert run["requests"] > 30
        done = ended["streams"]["done"] + ended["nonStreams"]["done"]
        assert run["all"]["requests"] == done  # each was finished by one engine, in this run


def test_all_four_variants_have_their_part(document: dict[str, Any]) -> None:
    ours, round_robin = document["runs"]
    assert (ours["scheduler"], round_robin["scheduler"]) == ("expected-finish", "round-robin")
    for run in document["runs"]:
        for part in ("tokenShare", "capacityShare"):
            assert sum(row[part] for row in run["variants"]) == pytest.approx(1)
    assert [row["requests"] > 0 for row in round_robin["variants"]] == [True] * 4


def test_both_runs_got_the_same_requests(kept: Path) -> None:
    def asked(name: str) -> set[tuple[str, int, int]]:
        text = (kept / "runs" / name / "load.jsonl").read_text()
        lines = map(json.loads, text.splitlines())
        return {(x["requestId"], x["promptBytes"], x["maxTokens"]) for x in lines}

    assert asked("expected-finish") == asked("round-robin")


def test_an_engine_was_killed_and_the_trace_is_a_tree(document: dict[str, Any]) -> None:
    assert len(document["killed"]) == 2
    trace = document["trace"]
    [root] = trace["spans"]
    assert root["name"] == "llmd_router.request"
    below = {child["name"] for child in root["children"]}
    assert {"parse", "pick", "forward"} <= below


# --- not prepared ----------------------------------------------------------------------------


def swapped_profiles(path: Path) -> Path:
    """A profile file in which two accelerators have each other's numbers."""
    documents = []
    for name, file in SWAPPED.items():
        other = yaml.safe_load((PROFILES / file).read_text())
        documents.append({**other, "metadata": {"name": name}})
    path.write_text(yaml.safe_dump_all(documents))
    return path


def by_accelerator(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {row["accelerator"]: row for row in rows}


def test_swapped_profiles_swap_plan_speeds_and_shares(
    document: dict[str, Any], tmp_path: Path
) -> None:
    other = numbers(tmp_path / "kept", "--profile", swapped_profiles(tmp_path / "swapped.yaml"))
    fast, slow = SWAPPED
    planned, replanned = (
        by_accelerator(d["plan"]["models"][0]["variants"]) for d in (document, other)
    )
    for one, two in ((fast, slow), (slow, fast)):
        assert replanned[one]["capacity"] == planned[two]["capacity"]
        assert replanned[one]["fit"]["memoryBytes"] == planned[two]["fit"]["memoryBytes"]
    assert planned[fast]["capacity"] != planned[slow]["capacity"]

    def rows(found: dict[str, Any], run: int) -> tuple[dict[str, Any], dict[str, Any]]:
        listed = by_accelerator(found["runs"][run]["variants"])
        return listed[fast], listed[slow]

    # Round robin gives each variant enough to measure its speed; ours gives to each by its speed.
    for found, faster in ((document, True), (other, False)):
        timed, other_timed = rows(found, 1)
        assert (timed["itlUs"]["p50"] < other_timed["itlUs"]["p50"]) is faster
        row, other_row = rows(found, 0)
        assert (row["tokenShare"] > other_row["tokenShare"]) is faster
        assert (row["capacityShare"] > other_row["capacityShare"]) is faster


# --- nothing left running --------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "SIGTERM"])
@pytest.mark.parametrize("after", [0.7, 2.5, 7.0])
def test_a_stopped_demo_leaves_nothing(
    number: signal.Signals, after: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "tmp"
    home.mkdir()
    monkeypatch.setenv("TMPDIR", str(home))
    monkeypatch.setattr(tempfile, "tempdir", None)
    process = subprocess.Popen(
        demo(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    time.sleep(after)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    # Before the demo has opened its sandbox, and so anything, the signal does what it always does.
    assert process.returncode in (130, -number), err
    assert out == ""
    assert "Traceback" not in err
    assert list(home.iterdir()) == []
    assert running_under(home) == []


def running_under(folder: Path) -> list[str]:
    """Commands of processes whose environment names the folder as their place."""
    found = []
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"={folder}/".encode() in environ.read_bytes() and environ.parent.name != str(
                os.getpid()
            ):
                found.append((environ.parent / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found
