"""The rule that no test leaves a process behind, shown on a test run of its own."""

import re
import subprocess
import sys
from pathlib import Path

LEAKS = '''"""Planted."""
import subprocess


def test_leaks():
    subprocess.Popen(["sleep", "60"], start_new_session=True)


def test_leaks_a_grandchild():
    subprocess.run(["sh", "-c", "sleep 61 &"], start_new_session=True, check=True)


def test_waits():
    subprocess.run(["sleep", "0"], check=True)


import pytest

@pytest.fixture(scope="module")
def server():
    process = subprocess.Popen(["sh", "-c", "sleep 1; sleep 60 & wait"], start_new_session=True)
    yield process
    import os, signal
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def test_uses_a_server_that_outlives_it(server):
    import time
    time.sleep(1.2)
'''


def is_zombie(pid: int) -> bool:
    """Whether a process has ended and nobody has asked how."""
    return ") Z " in Path(f"/proc/{pid}/stat").read_text()


def test_a_process_left_behind_fails_its_test_and_is_killed(
    tmp_path: Path, repo_root: Path
) -> None:
    rules = (repo_root / "tests" / "conftest.py").read_text()
    (tmp_path / "conftest.py").write_text(rules + "\nGRACE_SECONDS = 0.3\n")
    (tmp_path / "test_planted.py").write_text(LEAKS)
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(argv, cwd=tmp_path, check=False, capture_output=True, text=True)
    for test, command in (("test_leaks", "sleep 60"), ("test_leaks_a_grandchild", "sleep 61")):
        assert f"ERROR test_planted.py::{test} - " in done.stdout, done.stdout
        found = re.search(rf"left running: (\d+) {command}", done.stdout)
        assert found, done.stdout
        assert not Path(f"/proc/{found[1]}").exists() or is_zombie(int(found[1]))
    assert "4 passed, 2 errors" in done.stdout
