"""Real processes on Linux, read from /proc: start, recognise, signal, find again.

Used through `ProcessPort`. A process is ours when pid and start time match and either the command
line does or its environment carries our marker (a wrapper script that execs changes its command
line). Everything else is foreign: it is described in errors and never signalled. An engine that a
wrapper starts outside its own session (in a container) is ours only if the wrapper passes
LLMD_CTL_STATE and LLMD_CTL_REPLICA on to it. Who listens where is read by `listen.py`.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from llmd_ctl.apply.listen import PROC, listening, socket_inodes
from llmd_ctl.apply.machine import (
    MARK_PORT,
    MARK_REPLICA,
    MARK_STATE,
    CannotSpawn,
    Launch,
    Listener,
    Marked,
)
from llmd_ctl.apply.records import ProcessId

EXEC_SECONDS = 1.0  # what the system may take to put a new program in place
GONE = "gone; another controller started it, so its exit code is unknown"


class RealProcesses:
    """`ProcessPort` on this machine. It reaps only the children it started itself."""

    def __init__(self) -> None:
        self._children: set[int] = set()
        self._exits: dict[ProcessId, str] = {}

    def can_start(self, program: str, env: Mapping[str, str]) -> bool:
        """Whether it is an executable file, or the name of one on the PATH."""
        return shutil.which(program, path={**os.environ, **env}.get("PATH")) is not None

    def spawn(self, launch: Launch) -> ProcessId:
        """Start in a session of its own, output appended to the log, no other file inherited.

        The environment is the caller's and what the launch adds to it.
        """
        env = {**os.environ, **launch.env}
        program = shutil.which(launch.argv[0], path=env.get("PATH"))
        if program is None:
            raise CannotSpawn(f"`{launch.argv[0]}` is not an executable file on this machine")
        append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        try:
            pid = os.posix_spawn(
                program,
                launch.argv,
                env,
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_OPEN, 1, str(launch.log), append, 0o644),
                    (os.POSIX_SPAWN_DUP2, 1, 2),
                ],
                setsid=True,
                setsigmask=[],
                setsigdef=[signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE],
            )
        except OSError as error:
            raise CannotSpawn(f"`{launch.argv[0]}`: {error.strerror}") from error
        self._children.add(pid)
        return _settled(pid) or ProcessId(pid, 0, launch.argv)

    def me(self) -> ProcessId:
        """The calling process."""
        pid = os.getpid()
        return _identify(pid) or ProcessId(pid, 0, ())

    def ended(self, process: ProcessId, mark: str | None) -> str | None:
        """How the process ended, or None while it lives.

        A dead child's group is killed before the child is reaped: until then its pid can't be
        given away, so what is left of an engine (its worker processes) is surely ours.
        """
        if process in self._exits:
            return self._exits[process]
        if process.pid not in self._children:
            return None if self._is_ours(process, mark) else GONE
        result = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if result is None:
            return None
        _kill_group(process.pid, signal.SIGKILL)
        os.waitpid(process.pid, 0)
        self._children.discard(process.pid)
        text = _exit_text(result.si_code, result.si_status)
        self._exits[process] = text
        return text

    def signal(self, process: ProcessId, mark: str | None, number: int) -> None:
        """Signal the process; SIGKILL goes to its whole group. A stranger is left alone."""
        if process.pid in self._children:
            _deliver(process.pid, number)
            return
        try:
            handle = os.pidfd_open(process.pid)
        except ProcessLookupError:
            return
        try:
            if self._is_ours(process, mark):
                if number == signal.SIGKILL and os.getsid(process.pid) == process.pid:
                    _kill_group(process.pid, number)
                else:
                    signal.pidfd_send_signal(handle, number)
        except ProcessLookupError:
            return
        finally:
            os.close(handle)

    def marked(self, state: Path) -> Sequence[Marked]:
        """All live processes that carry the marker of this state folder."""
        wanted = f"{MARK_STATE}={state}".encode()
        found = []
        for pid in _pids():
            env = _environ(pid)
            if wanted not in env:
                continue
            process = _identify(pid)
            values = dict(item.split(b"=", 1) for item in env if b"=" in item)
            name = values.get(MARK_REPLICA.encode(), b"").decode(errors="replace")
            if process is None or not name:
                continue
            stat = _stat(pid)
            leader = stat is not None and stat.session == pid
            port = values.get(MARK_PORT.encode(), b"0").decode(errors="replace")
            found.append(Marked(process, name, int(port) if port.isdigit() else 0, leader))
        return found

    def listener(self, port: int) -> Listener | None:
        """Who listens on this TCP port, on any address of this machine."""
        sockets = {socket.inode for socket in listening(port)}
        return self._holder(sockets) if sockets else None

    def intruder(self, port: int, process: ProcessId, state: Path, mark: str) -> Listener | None:
        """Who else than this process and its own takes what is sent to 127.0.0.1 and this port.

        Its own: its session, and what carries its marker. /proc is read only if somebody listens
        who is not the process itself; a pid of None is a process that this user can't look into.
        """
        sockets = [socket for socket in listening(port) if socket.hears_loopback]
        ours = socket_inodes(process.pid) & {socket.inode for socket in sockets}
        if all(socket.inode in ours for socket in sockets):
            return None
        marker = {f"{MARK_STATE}={state}".encode(), f"{MARK_REPLICA}={mark}".encode()}
        for pid in _pids():
            stat = _stat(pid)
            if (stat is not None and stat.session == process.pid) or marker <= set(_environ(pid)):
                ours |= socket_inodes(pid)
        exact = any(socket.inode in ours and not socket.wildcard for socket in sockets)
        # The system prefers the socket of the very address: then others hear nothing.
        rivals = {s.inode for s in sockets if s.inode not in ours and not (exact and s.wildcard)}
        return self._holder(rivals) if rivals else None

    @staticmethod
    def _holder(sockets: set[str]) -> Listener:
        for pid in _pids():
            if sockets & socket_inodes(pid):
                return Listener(pid, shlex.join(_cmdline(pid)))
        return Listener(None, "a process of another user")

    def _is_ours(self, process: ProcessId, mark: str | None) -> bool:
        now = _identify(process.pid)
        if now is None or now.start_time != process.start_time:
            return False
        # A process that is just being executed has neither command line nor environment yet.
        if not now.cmdline or now.cmdline == process.cmdline:
            return True
        return mark is not None and f"{MARK_REPLICA}={mark}".encode() in _environ(process.pid)


def _identify(pid: int) -> ProcessId | None:
    """The live process that has this pid now; a zombie is not alive."""
    stat = _stat(pid)
    if stat is None or stat.dead:
        return None
    return ProcessId(pid, stat.start_time, _cmdline(pid))


def _settled(pid: int) -> ProcessId | None:
    """A new process once it has a command line; None when it ended before that."""
    end = time.monotonic() + EXEC_SECONDS
    while True:
        process = _identify(pid)
        if process is None or process.cmdline or time.monotonic() >= end:
            return process
        time.sleep(0.001)


class _Stat:
    """The fields of /proc/PID/stat that name a process: state, session, start time (field 22)."""

    def __init__(self, text: str) -> None:
        fields = text.rpartition(")")[2].split()
        self.dead = fields[0] in {"Z", "X"}
        self.session = int(fields[3])
        self.start_time = int(fields[19])


def _stat(pid: int) -> _Stat | None:
    try:
        return _Stat((PROC / str(pid) / "stat").read_text(errors="replace"))
    except OSError:
        return None


def _cmdline(pid: int) -> tuple[str, ...]:
    return tuple(item.decode(errors="replace") for item in _nul_list(pid, "cmdline"))


def _environ(pid: int) -> list[bytes]:
    return _nul_list(pid, "environ")


def _nul_list(pid: int, name: str) -> list[bytes]:
    try:
        content = (PROC / str(pid) / name).read_bytes()
    except OSError:  # ended in between, or another user's
        return []
    return content.removesuffix(b"\0").split(b"\0") if content else []


def _pids() -> list[int]:
    return sorted(int(name) for name in os.listdir(PROC) if name.isdigit())  # noqa: PTH208 - speed


def _deliver(pid: int, number: int) -> None:
    if number == signal.SIGKILL:
        _kill_group(pid, number)
    else:
        os.kill(pid, number)


def _kill_group(pid: int, number: int) -> None:
    try:
        os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):  # nobody left but the dead leader
        return


def _exit_text(code: int, status: int) -> str:
    if code == os.CLD_EXITED:
        return f"exited with code {status}"
    return f"killed by {signal.Signals(status).name}"
