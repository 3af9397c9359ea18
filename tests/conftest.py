"""Fixtures for all tests: places, ports, real engines, and the rule that nothing is left running.

Engines are made on first use by ci/engines and kept under .cache/, so that any single test runs in
a fresh clone after `make dev`. Fixture time does not count against a test's timeout.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import hypothesis
import pytest

ROOT = Path(__file__).resolve().parent.parent
# In the environment of every process that a test starts, however it detaches.
MARK = f"LLMD_CTL_TEST_RUN={os.getpid()}"
GRACE_SECONDS = 5.0

# A shell starts background jobs with SIGINT ignored, and children inherit that: tests that press
# ctrl-C would press it in vain. Handled here, it is the default again in what we start.
signal.signal(signal.SIGINT, signal.default_int_handler)

# The width of the terminal that the tests run in is none of what they start.
os.environ.pop("COLUMNS", None)

hypothesis.settings.register_profile("dev", max_examples=50, deadline=None, derandomize=True)
hypothesis.settings.register_profile("ci", max_examples=300, deadline=None, derandomize=True)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))


@pytest.fixture(scope="session", autouse=True)
def _environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test reads or writes the user's own state, goes through a proxy or asks a model hub."""
    name, _, value = MARK.partition("=")
    settings = {
        name: value,
        "XDG_STATE_HOME": str(tmp_path_factory.mktemp("state-home")),
        "NO_PROXY": "127.0.0.1,localhost",
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    }
    with pytest.MonkeyPatch.context() as patch:
        for key, setting in settings.items():
            patch.setenv(key, setting)
        yield


@pytest.fixture
def state_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty $XDG_STATE_HOME of this test's own."""
    folder = tmp_path / "state-home"
    folder.mkdir()
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    return folder


@pytest.fixture(scope="session")
def repo_root() -> Path:
    """The top folder of the project."""
    return ROOT


@pytest.fixture(scope="session")
def free_ports() -> Callable[[int], list[int]]:
    """Gives so many different ports that were free a moment ago."""

    def find(count: int) -> list[int]:
        sockets = [socket.socket() for _ in range(count)]
        try:
            for each in sockets:
                each.bind(("127.0.0.1", 0))
            return [each.getsockname()[1] for each in sockets]
        finally:
            for each in sockets:
                each.close()

    return find


@pytest.fixture
def free_port(free_ports: Callable[[int], list[int]]) -> int:
    """A port that was free a moment ago."""
    return free_ports(1)[0]


def made_by_engines(part: str) -> Path:
    """Has ci/engines make one part, and returns where it lies."""
    argv = [sys.executable, str(ROOT / "ci" / "engines"), part]
    done = subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True)
    return ROOT / done.stdout.split()[-1]


@pytest.fixture(scope="session")
def tiny_model() -> Path:
    """A folder with the tiny model for vLLM, and in it tiny.gguf with the same weights."""
    return made_by_engines("model")


@pytest.fixture(scope="session")
def vllm_executable() -> Path:
    """The `vllm` command of an environment with vLLM for CPU. Mark the test `real`."""
    return made_by_engines("vllm")


@pytest.fixture(scope="session")
def llamacpp_python() -> Path:
    """A Python that can import the llama.cpp server."""
    assert find_spec("xllamacpp"), "the extra `llamacpp` is missing: run `make dev`"
    return Path(sys.executable)


@pytest.fixture(scope="session")
def prometheus_bin() -> Path:
    """A folder with `prometheus` and `promtool`. Mark the test `services`."""
    argv = [str(ROOT / "ci" / "services")]
    done = subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True)
    return Path(done.stdout.strip())


@pytest.fixture(scope="session")
def cargo() -> str:
    """The cargo command."""
    found = shutil.which("cargo")
    assert found, "cargo is missing"
    return found


def process_ids() -> set[int]:
    """All processes of this machine."""
    return {int(name) for name in os.listdir("/proc") if name.isdigit()}  # noqa: PTH208 - speed


def state_and_parent(pid: int) -> tuple[str, int]:
    """The state's letter and the parent's id; Z (ended) and 0 when the process is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return "Z", 0
    state, parent, *_ = stat.rpartition(")")[2].split()
    return state, int(parent)


def is_ours(pid: int) -> bool:
    """Whether a living process was started by this test run."""
    state, parent = state_and_parent(pid)
    if state == "Z":
        return False
    if parent == os.getpid():
        return True  # its environment may not be there yet
    try:
        return MARK.encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False


def left_behind(before: set[int]) -> set[int]:
    """New processes of this run that do not belong to a fixture which outlives the test."""

    def belongs_to_fixture(pid: int) -> bool:
        while pid > 1:
            _, pid = state_and_parent(pid)
            if pid in before:
                return is_ours(pid)  # and not pytest itself, or who adopts orphans here
        return pid == 0

    new = {pid for pid in process_ids() - before if is_ours(pid)}
    return {pid for pid in new if not belongs_to_fixture(pid)}


@pytest.fixture(autouse=True)
def _nothing_left_running() -> Iterator[None]:
    """A test that leaves a process behind fails, and the process is killed."""
    before = process_ids()
    yield
    deadline = time.monotonic() + GRACE_SECONDS
    while (left := left_behind(before)) and time.monotonic() < deadline:
        time.sleep(0.05)
    if not left:
        return
    names = []
    for pid in sorted(left):
        with contextlib.suppress(OSError):  # it may end just now
            command = Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
            os.kill(pid, signal.SIGKILL)
            names.append(f"{pid} {command}")
    if names:
        pytest.fail("left running: " + "; ".join(names), pytrace=False)
