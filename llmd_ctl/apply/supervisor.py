"""The fleet's controller as seen by a command: is there one, start one, follow what it says.

Used by `apply.py`, `delete.py` and `status.py`. It talks to the controller only through files and
signals, so it does not matter who started it, or when. It matters for one thing: engines inherit
the controller's environment (PATH, HF_HOME, HF_TOKEN, …). So an apply that has something to start
puts a controller of its own in charge first: what starts from then on has the environment of the
latest such apply, and nothing of it is written to disk. Replicas that run keep theirs.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

from llmd_ctl.apply.events import ControllerStarted, Listen, StateMoved
from llmd_ctl.apply.machine import MARK_PORT, MARK_REPLICA, CannotSpawn, Launch, Machine
from llmd_ctl.apply.records import ROUTER_MARK, Observed, ProcessId
from llmd_ctl.apply.state import StateFolder, Unreadable
from llmd_ctl.errors import ApplyFailed

POLL_SECONDS = 0.1
START_SECONDS = 30.0
TAIL_LINES = 5
MOST_STARTS = 5
LEAVE_SECONDS = 5.0
CONTROLLER = "llmd_ctl.controller"


class Supervisor:
    """One fleet's controller, for the length of one command."""

    def __init__(self, folder: StateFolder, machine: Machine, python: str, listen: Listen) -> None:
        self._folder = folder
        self._machine = machine
        self._python = python
        self._listen = listen
        self._states: dict[str, str] = {}
        self._starts = 0

    def running(self) -> ProcessId | None:
        """The live controller, or None."""
        try:
            process = self._folder.controller()
        except Unreadable:
            return None
        if process is None or self._machine.processes.ended(process, None) is not None:
            return None
        return process

    def ensure(self, *, retry: bool, done: Callable[[], bool] = lambda: False) -> None:
        """Start a controller if none runs, unless its work is `done`.

        `retry`: one that runs ends its back-offs now.
        """
        process = self.running()
        if process is None:
            self._starts += 1
            if self._starts > MOST_STARTS:
                raise self._failed("the controller keeps ending")
            self._start(done)
        elif retry:
            self._machine.processes.signal(process, None, signal.SIGHUP)

    def renew(self) -> None:
        """Put a controller with this command's environment in charge, whatever runs stays.

        One that a person or a service manager runs (`llmd-ctl controller run`) is not replaced.
        """
        process = self.running()
        if process is not None and CONTROLLER in process.cmdline:
            clock, processes = self._machine.clock, self._machine.processes
            kill_at = clock.monotonic() + LEAVE_SECONDS
            processes.signal(process, None, signal.SIGTERM)
            while processes.ended(process, None) is None:
                if clock.monotonic() >= kill_at:  # it may be killed anywhere
                    processes.signal(process, None, signal.SIGKILL)
                clock.sleep(POLL_SECONDS)
        self.ensure(retry=True)

    def seen_now(self) -> Observed | None:
        """What the live controller sees; None when none lives or it has said nothing yet."""
        process, observed = self.running(), self.observed()
        if process is None or observed is None or observed.pid != process.pid:
            return None
        return observed

    def observed(self) -> Observed | None:
        """What was seen last, by whomever; None when that is nothing readable."""
        try:
            observed = self._folder.observed()
        except Unreadable:
            return None
        if observed is not None:
            self._tell(observed)
        return observed

    def _start(self, done: Callable[[], bool]) -> None:
        """Start one and wait until it has its lock; anybody else's will do as well."""
        clock = self._machine.clock
        deadline = clock.monotonic() + START_SECONDS
        started: ProcessId | None = None
        while clock.monotonic() < deadline:
            if done():
                return
            process = self.running()
            if process is not None:
                self._listen(ControllerStarted(process.pid))
                return
            if started is None:
                started = self._spawn()
            elif self._machine.processes.ended(started, None) is not None:
                started = None  # one that was just ending still had the lock
            clock.sleep(POLL_SECONDS)
        raise self._failed(f"the controller does not come up within {START_SECONDS:g} s")

    def _spawn(self) -> ProcessId:
        argv = (
            self._python,
            "-P",  # the folder llmd-ctl was called from must not shadow its modules
            "-m",
            CONTROLLER,
            "--fleet",
            self._folder.fleet,
            "--state",
            str(self._folder.path),
        )
        # It is no replica, whatever environment this command was called from.
        env = {MARK_REPLICA: "", MARK_PORT: ""}
        try:
            return self._machine.processes.spawn(
                Launch(argv, env, Path(self._folder.layout.log("controller")))
            )
        except CannotSpawn as error:
            raise self._failed(f"the controller {error}") from error

    def _failed(self, message: str) -> ApplyFailed:
        tail = self._folder.log_tail("controller", TAIL_LINES)
        return ApplyFailed.of(
            "LC4006",
            message,
            found=" | ".join(tail) or None,
            hint=f"Its log is {self._folder.layout.log('controller')}.",
        )

    def _tell(self, observed: Observed) -> None:
        """One event for each state that is new since the last look."""
        parts: dict[str, tuple[str, str]] = {
            record.name: (record.state, record.reason) for record in observed.replicas
        }
        if observed.router is not None:
            parts[ROUTER_MARK] = (observed.router.state, observed.router.reason)
        for name, (state, reason) in parts.items():
            if self._states.get(name) != state:
                self._listen(StateMoved(name, state, reason))
        for name in self._states.keys() - parts.keys():
            self._listen(StateMoved(name, "gone", ""))
        self._states = {name: state for name, (state, _) in parts.items()}
