"""The real files and processes: atomic, recognised, and never somebody else's."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from llmd_ctl.apply.files import RealFiles
from llmd_ctl.apply.machine import MARK_PORT, MARK_REPLICA, MARK_STATE, CannotSpawn, Launch
from llmd_ctl.apply.process import RealProcesses
from llmd_ctl.apply.records import ProcessId

SLEEP = (sys.executable, "-c", "import time; time.sleep(60)")
Share = Callable[..., ProcessId]


def until(condition: Callable[[], object], seconds: float = 10.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[..., ProcessId]]:
    """Start marked processes; all are killed at the end."""
    processes = RealProcesses()
    made: list[ProcessId] = []

    def start(argv: tuple[str, ...] = SLEEP, name: str = "r", **env: str) -> ProcessId:
        marks = {MARK_STATE: str(tmp_path), MARK_REPLICA: name, MARK_PORT: "18000", **env}
        made.append(processes.spawn(Launch(argv, marks, tmp_path / "log")))
        return made[-1]

    yield start
    for process in made:
        processes.signal(process, None, signal.SIGKILL)
    for process in made:
        until(partial(processes.ended, process, None))


def test_an_exit_is_told_with_code_or_signal(
    started: Callable[..., ProcessId], tmp_path: Path
) -> None:
    processes = RealProcesses()

    def end_of(code: str) -> str:
        launch = Launch((sys.executable, "-c", code), {}, tmp_path / "log")
        process = processes.spawn(launch)
        until(lambda: processes.ended(process, None))
        return processes.ended(process, None) or ""

    assert end_of("raise SystemExit(7)") == "exited with code 7"
    assert end_of("import os; os.kill(os.getpid(), 9)") == "killed by SIGKILL"


def test_output_is_appended_to_the_log_and_input_is_empty(tmp_path: Path) -> None:
    processes = RealProcesses()
    log = tmp_path / "log"
    log.write_text("before\n")
    code = "import sys; print(repr(sys.stdin.read()), flush=True); print('err', file=sys.stderr)"
    process = processes.spawn(Launch((sys.executable, "-c", code), {}, log))
    until(lambda: processes.ended(process, None))
    assert log.read_text() == "before\n''\nerr\n"


def test_an_engine_that_dies_takes_its_workers_along(tmp_path: Path) -> None:
    processes = RealProcesses()
    pid_file = tmp_path / "worker"
    code = (
        "import subprocess, sys, pathlib, os\n"
        f"p = subprocess.Popen({list(SLEEP)!r})\n"
        f"pathlib.Path({str(pid_file)!r}).write_text(str(p.pid)); os._exit(3)\n"
    )
    process = processes.spawn(Launch((sys.executable, "-c", code), {}, tmp_path / "log"))
    until(lambda: processes.ended(process, None))
    worker = int(pid_file.read_text())
    until(lambda: not Path(f"/proc/{worker}/cmdline").exists() or _is_zombie(worker))


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_a_program_is_looked_for_on_the_path_that_it_would_be_started_with(tmp_path: Path) -> None:
    program = tmp_path / "engine"
    program.touch(mode=0o755)
    processes = RealProcesses()
    assert processes.can_start(str(program), {})
    assert not processes.can_start("engine", {})
    assert processes.can_start("engine", {"PATH": str(tmp_path)})
    program.chmod(0o644)
    assert not processes.can_start(str(program), {})


def test_a_command_that_is_not_there_cannot_be_spawned(tmp_path: Path) -> None:
    launch = Launch(("no-such-engine", "serve"), {}, tmp_path / "log")
    with pytest.raises(CannotSpawn, match="`no-such-engine` is not an executable"):
        RealProcesses().spawn(launch)


def test_another_controller_recognises_the_process_by_time_and_command_or_marker(
    started: Callable[..., ProcessId],
) -> None:
    process = started()
    other = RealProcesses()
    assert other.ended(process, None) is None
    assert other.ended(replace(process, start_time=process.start_time + 1), "r") is not None
    changed = replace(process, cmdline=("something", "else"))
    assert other.ended(changed, "r") is None
    assert other.ended(changed, "another") is not None
    assert other.ended(changed, None) is not None


def test_a_process_in_the_middle_of_an_exec_is_not_taken_for_gone(
    started: Callable[..., ProcessId], monkeypatch: pytest.MonkeyPatch
) -> None:
    process = started()
    monkeypatch.setattr("llmd_ctl.apply.process._cmdline", lambda _pid: ())
    assert RealProcesses().ended(process, None) is None


def test_a_process_that_does_not_match_is_never_signalled(
    started: Callable[..., ProcessId],
) -> None:
    process = started()
    other = RealProcesses()
    for number in (signal.SIGTERM, signal.SIGKILL):
        other.signal(replace(process, start_time=process.start_time - 1), "r", number)
        other.signal(replace(process, cmdline=("x",)), "another", number)
    time.sleep(0.1)
    assert other.ended(process, None) is None
    other.signal(process, None, signal.SIGTERM)
    until(lambda: other.ended(process, None))


def test_marked_processes_are_found_with_name_and_port(
    started: Callable[..., ProcessId], tmp_path: Path
) -> None:
    process = started(name="chat-a-0-123456")
    started(name="elsewhere", **{MARK_STATE: "/other"})
    (found,) = RealProcesses().marked(tmp_path)
    assert (found.process, found.replica, found.port) == (process, "chat-a-0-123456", 18000)
    assert found.leader


def test_the_listener_of_a_port_is_named(started: Callable[..., ProcessId]) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    assert RealProcesses().listener(port) is None
    argv = (sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1")
    process = started(argv)
    until(lambda: RealProcesses().listener(port))
    found = RealProcesses().listener(port)
    assert found is not None
    assert found.pid == process.pid
    assert f"-m http.server {port}" in found.command


LISTEN = (
    "import os, socket, sys, time\n"
    "made = socket.socket(socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET)\n"
    "made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)\n"
    "made.bind((sys.argv[1], int(sys.argv[2]))); made.listen()\n"
    "print('listening', flush=True); os.fork() if sys.argv[3:] else None; time.sleep(60)\n"
)


@pytest.fixture
def share(started: Callable[..., ProcessId], tmp_path: Path, free_port: int) -> Share:
    """Start listeners that share a port, as SO_REUSEPORT allows."""

    def start(address: str, name: str = "r", *more: str, **env: str) -> ProcessId:
        argv = (sys.executable, "-c", LISTEN, address, str(free_port), *more)
        said = (tmp_path / "log").read_text() if (tmp_path / "log").exists() else ""
        process = started(argv, name, **env)
        until(lambda: len((tmp_path / "log").read_text()) > len(said))
        return process

    return start


def test_a_stranger_that_shares_the_port_is_found_beside_the_engine(
    share: Share, tmp_path: Path, free_port: int
) -> None:
    processes = RealProcesses()
    ours = share("127.0.0.1")
    assert processes.intruder(free_port, ours, tmp_path, "r") is None
    other = share("127.0.0.1", "r", **{MARK_STATE: "/elsewhere"})
    found = processes.intruder(free_port, ours, tmp_path, "r")
    assert found is not None
    assert found.pid == other.pid
    assert f"127.0.0.1 {free_port}" in found.command
    processes.signal(other, None, signal.SIGKILL)
    until(lambda: processes.ended(other, None))
    assert processes.intruder(free_port, ours, tmp_path, "r") is None


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "::ffff:127.0.0.1"])
def test_a_stranger_on_all_addresses_is_one_until_the_engine_listens(
    share: Share, started: Callable[..., ProcessId], tmp_path: Path, free_port: int, address: str
) -> None:
    processes = RealProcesses()
    other = share(address, "other")
    waiting = started()
    found = processes.intruder(free_port, waiting, tmp_path, "r")
    assert found is not None
    assert found.pid == other.pid
    if address in {"0.0.0.0", "::"}:
        ours = share("127.0.0.1")
        assert processes.intruder(free_port, ours, tmp_path, "r") is None


def test_a_stranger_on_another_address_is_none(
    share: Share, started: Callable[..., ProcessId], tmp_path: Path, free_port: int
) -> None:
    share("127.0.0.2", "other")
    assert RealProcesses().intruder(free_port, started(), tmp_path, "r") is None


def test_what_the_engine_started_itself_is_no_stranger(
    share: Share, tmp_path: Path, free_port: int
) -> None:
    processes = RealProcesses()
    ours = share("127.0.0.1", "r", "fork")
    marked = share("127.0.0.1")
    assert marked != ours
    assert processes.intruder(free_port, ours, tmp_path, "r") is None
    assert processes.intruder(free_port, marked, tmp_path, "another") is not None


def test_a_wrappers_child_without_the_marker_is_no_stranger(
    started: Callable[..., ProcessId], tmp_path: Path, free_port: int
) -> None:
    child = [sys.executable, "-c", LISTEN, "127.0.0.1", str(free_port)]
    code = f"import subprocess; subprocess.run({child!r}, env={{}})"
    wrapper = started((sys.executable, "-c", code))
    until(lambda: RealProcesses().listener(free_port))
    assert RealProcesses().intruder(free_port, wrapper, tmp_path, "r") is None


def test_me_is_this_process() -> None:
    me = RealProcesses().me()
    assert me.pid == os.getpid()
    assert RealProcesses().ended(me, None) is None


def test_a_write_replaces_the_whole_file_or_nothing(tmp_path: Path) -> None:
    files, path = RealFiles(), tmp_path / "document"
    files.write_atomic(path, b"old")
    files.write_atomic(path, b"new", 0o600)
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o600
    assert files.list(tmp_path) == ["document"]
    (tmp_path / ".document.draft").write_bytes(b"a killed writer's half")
    files.write_atomic(path, b"newer")
    assert files.list(tmp_path) == ["document"]
    assert files.read(tmp_path / "absent") is None
    assert files.read(path / "inside") is None


def test_a_log_past_its_bound_is_moved_while_its_writer_goes_on(tmp_path: Path) -> None:
    files, log = RealFiles(), tmp_path / "r.log"
    with log.open("ab", buffering=0) as writer:
        writer.write(b"x" * 100)
        files.bound(log, 100)
        assert log.stat().st_size == 100
        writer.write(b"y")
        files.bound(log, 100)
        writer.write(b"z")
    assert log.read_bytes() == b"z"
    assert (tmp_path / "r.log.1").read_bytes() == b"x" * 100 + b"y"


def test_of_many_files_those_changed_last_are_kept(tmp_path: Path) -> None:
    for age, name in enumerate(["a", "b", "c", "d", "e"]):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (1000 - age, 1000 - age))
    RealFiles().prune(tmp_path, ["a", "b", "c", "d", "gone"], 2)
    assert RealFiles().list(tmp_path) == ["a", "b", "e"]
    RealFiles().prune(tmp_path, ["a", "b"], 2)
    assert RealFiles().list(tmp_path) == ["a", "b", "e"]


def test_a_lock_dies_with_its_holder(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    code = (
        "import sys, time; from pathlib import Path\n"
        "from llmd_ctl.apply.files import RealFiles\n"
        f"lock = RealFiles().try_lock(Path({str(path)!r}), b'me'); print('held', flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        assert RealFiles().try_lock(path, b"you") is None
        assert path.read_bytes() == b"me"
        holder.kill()
        holder.wait()
    lock = RealFiles().try_lock(path, b"you")
    assert lock is not None
    assert path.read_bytes() == b"you"
    lock.release()
    assert path.read_bytes() == b""
