"""One supervised process, engine or router: start, notice its end, back off, stop.

Used by `replica.py` and `router.py`, which decide when. It keeps the reason for people to read. It
never signals a process that isn't the one it started or adopted.
"""

from __future__ import annotations

import signal

from msgspec import Struct

from llmd_ctl.apply.machine import CannotSpawn, Launch, Listener, Machine
from llmd_ctl.apply.records import ProcessId, Trouble
from llmd_ctl.apply.state import StateFolder


class Limits(Struct, frozen=True):
    """How patient the controller is, in seconds.

    `drain_seconds` equals the router's own default: longer streams would be cut there anyway.
    After `stable_seconds` up, earlier failures no longer count. `misnamed_seconds`: an engine that
    answers knows its name, but the answer may be of one that is just going. The `port_…` times are
    the pauses between two looks at who listens on a replica's port, which may read all of /proc.
    """

    interval_seconds: float = 0.2
    drain_seconds: float = 30.0
    grace_seconds: float = 10.0
    stable_seconds: float = 120.0
    backoff_first_seconds: float = 1.0
    backoff_most_seconds: float = 60.0
    misnamed_seconds: float = 5.0
    port_starting_seconds: float = 2.0
    port_ready_seconds: float = 30.0


class Yard(Struct, frozen=True):
    """Where children live: the fleet's folder, the machine and the limits."""

    folder: StateFolder
    machine: Machine
    limits: Limits


class Child:
    """A process with its failures. `mark` is its name in the environment marker.

    `trouble` says what is wrong, for those who wait; whatever it is, it is tried again.
    """

    def __init__(self, mark: str, yard: Yard, process: ProcessId | None = None) -> None:
        self.mark = mark
        self.process = process
        self.failures = 0
        self.restarts = 0
        self.trouble: Trouble | None = None
        self.reason = ""
        self.retry_at = 0.0
        self._yard = yard
        self._kill_at: float | None = None
        self._verdict: tuple[str, Trouble] | None = None

    def start(self, now: float, launch: Launch) -> bool:
        """Start it, after `sweep`."""
        try:
            self.process = self._yard.machine.processes.spawn(launch)
        except CannotSpawn as error:
            self.fail(now, f"can't start: {error}", "command")
            return False
        self.trouble = None
        self._kill_at = None
        self._verdict = None
        self.restarts += 1
        return True

    def ended(self, now: float) -> bool:
        """Has it ended? Then the failure is counted and a time for the next start set."""
        if self.process is None:
            return True
        end = self._yard.machine.processes.ended(self.process, self.mark)
        if end is None:
            return False
        self.process = None
        self.fail(now, *(self._verdict or (end, None)))
        return True

    def condemn(self, verdict: str, trouble: Trouble) -> None:
        """Kill it for a reason that is better than "killed by SIGKILL"."""
        if self.process is not None and self._verdict is None:
            self._verdict = (verdict, trouble)
            self._signal(signal.SIGKILL)

    def stopped(self, now: float, patience: float = 0.0) -> bool:
        """Ask it to end, insist after `patience` and the grace time; True once it is gone."""
        if self.process is None:
            return True
        if self._yard.machine.processes.ended(self.process, self.mark) is not None:
            self.process = None
            return True
        if self._kill_at is None:
            self._kill_at = now + patience + self._yard.limits.grace_seconds
            self._signal(signal.SIGTERM)
        elif now >= self._kill_at:
            self._signal(signal.SIGKILL)
        return False

    def cleared(self, now: float, patience: float = 0.0) -> bool:
        """As `stopped`; True once its workers are gone as well."""
        return self.stopped(now, patience) and not self.sweep()

    def hang_up(self) -> None:
        """Ask it to read its configuration again."""
        self._signal(signal.SIGHUP)

    def forgive(self) -> None:
        """Forget failures: it has been up long enough."""
        self.failures = 0

    def retry(self, now: float) -> None:
        """Don't wait for the back-off to pass."""
        self.retry_at = min(self.retry_at, now)

    def sweep(self) -> bool:
        """Kill what an earlier process of this name left behind; True if there was something."""
        processes = self._yard.machine.processes
        left = [
            found
            for found in processes.marked(self._yard.folder.path)
            if found.replica == self.mark
        ]
        for found in left:
            processes.signal(found.process, self.mark, signal.SIGKILL)
        return bool(left)

    def fail(self, now: float, reason: str, trouble: Trouble | None) -> None:
        """Count a failure and set the time of the next start."""
        limits = self._yard.limits
        wait = limits.backoff_first_seconds * 2.0 ** min(self.failures, 30)
        self.failures += 1
        self.reason = reason
        self.trouble = trouble
        self.retry_at = now + min(wait, limits.backoff_most_seconds)

    def _signal(self, number: int) -> None:
        if self.process is not None:
            self._yard.machine.processes.signal(self.process, self.mark, number)


def taken(port: int, stranger: Listener) -> str:
    """What is said of a port that somebody else listens on."""
    who = f"pid {stranger.pid} ({stranger.command})" if stranger.pid else "another user's process"
    return f"port {port} is taken by {who}, which this fleet did not start"
