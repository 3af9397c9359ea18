"""A private place for the demo: its own state folder, and nothing left running, however it ends.

Used by `script`. All that the demo starts inherits the state folder in its environment, so what is
left can be found by it and killed, even a process whose record was never written. The user's own
fleets live elsewhere and are never looked at.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
from pathlib import Path
from types import FrameType

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
STATE_HOME = "XDG_STATE_HOME"
SWEEP_SECONDS = 10.0
QUIET_SWEEPS = 3


class Sandbox:
    """Opened once, closed in a `finally`. A signal stops the demo; during `close` it waits."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="llmd-ctl-demo-"))
        self._closing = False
        self._home = os.environ.get(STATE_HOME)
        self._handlers = {number: signal.getsignal(number) for number in STOPPING}
        for number in STOPPING:
            signal.signal(number, self._stop)
        self.room("start")

    def room(self, name: str) -> None:
        """Use a state folder of its own from here on: no run finds another one's logs."""
        os.environ[STATE_HOME] = str(self.path / name)

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        """End the demo where it is; what is under way is cleaned up by `close`."""
        if not self._closing:
            raise KeyboardInterrupt

    def close(self) -> None:
        """Kill what is left, remove the folder, give the process its environment back."""
        self._closing = True
        sweep(self.path)
        shutil.rmtree(self.path, ignore_errors=True)
        if self._home is None:
            os.environ.pop(STATE_HOME, None)
        else:
            os.environ[STATE_HOME] = self._home
        for number, handler in self._handlers.items():
            signal.signal(number, handler)


def sweep(state_home: Path) -> None:
    """Kill every process that was started inside, until none is seen several times in a row."""
    deadline = time.monotonic() + SWEEP_SECONDS
    quiet = 0
    while quiet < QUIET_SWEEPS and time.monotonic() < deadline:
        found = inhabitants(state_home)
        quiet = 0 if found else quiet + 1
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.02)


def inhabitants(state_home: Path) -> list[int]:
    """The processes whose environment names a state folder in here; never this process."""
    wanted = f"{STATE_HOME}={state_home}/".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        pid = int(path.parent.name)
        if pid == os.getpid():
            continue
        try:
            environment = path.read_bytes().split(b"\0")
        except OSError:
            continue  # it ended just now, or belongs to somebody else
        if any(item.startswith(wanted) for item in environment):
            found.append(pid)
    return found
