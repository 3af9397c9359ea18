"""The demo's private place: nothing inside outlives it, nothing outside is touched."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from llmd_ctl.cli.demo.sandbox import Sandbox, inhabitants, sweep

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]
# Ignores SIGTERM and starts another like itself, detached.
STUBBORN = [
    sys.executable, "-c",
    "import signal, subprocess, sys, time\n"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'],"
    " start_new_session=True)\n"
    "print('up', flush=True); time.sleep(60)",
]  # fmt: skip


def test_closing_kills_what_was_started_inside_and_what_that_started() -> None:
    sandbox = Sandbox()
    process = subprocess.Popen(STUBBORN, stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    process.stdout.readline()
    end = time.monotonic() + 10  # a process that has just begun has no environment yet
    while len(inhabitants(sandbox.path)) < 2 and time.monotonic() < end:
        time.sleep(0.01)
    assert len(inhabitants(sandbox.path)) == 2
    sandbox.close()
    assert inhabitants(sandbox.path) == []
    assert process.wait(timeout=5) == -signal.SIGKILL
    process.stdout.close()
    assert not sandbox.path.exists()


def test_a_process_outside_is_left_alone() -> None:
    outside = subprocess.Popen(SLEEP)
    sandbox = Sandbox()
    sandbox.close()
    assert outside.poll() is None
    outside.kill()
    outside.wait()


def test_environment_and_handlers_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/somewhere")
    before = signal.getsignal(signal.SIGTERM)
    sandbox = Sandbox()
    assert os.environ["XDG_STATE_HOME"].startswith(str(sandbox.path))
    sandbox.close()
    sandbox.close()
    assert os.environ["XDG_STATE_HOME"] == "/somewhere"
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_and_one_that_comes_later_does_not_cut_the_cleaning(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = Sandbox()
    for _ in range(2):  # Python may have lost the first one
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
    cleaned = []

    def sweeping(_home: Path) -> None:
        signal.raise_signal(number)
        cleaned.append(number)

    monkeypatch.setattr("llmd_ctl.cli.demo.sandbox.sweep", sweeping)
    sandbox.close()
    assert cleaned == [number]
    assert not sandbox.path.exists()


def test_a_sweep_of_an_empty_place_is_quick(tmp_path: Path) -> None:
    began = time.monotonic()
    sweep(tmp_path)
    assert time.monotonic() - began < 5
