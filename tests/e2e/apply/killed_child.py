"""Runs apply, delete or a controller for real, and kills itself with SIGKILL after an effect.

`killed_child.py apply STATE PLAN.json KILL_AFTER`, `killed_child.py delete STATE - KILL_AFTER`,
`killed_child.py controller … --state STATE`: a controller takes its number from the first line of
`kills` beside its state folder. 0 means: live.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from llmd_ctl.apply.apply import apply_plan
from llmd_ctl.apply.clock import RealClock
from llmd_ctl.apply.delete import delete_fleet
from llmd_ctl.apply.files import RealFiles
from llmd_ctl.apply.machine import Machine
from llmd_ctl.apply.network import RealNetwork
from llmd_ctl.apply.process import RealProcesses
from llmd_ctl.apply.state import StateFolder
from llmd_ctl.controller.child import Limits, Yard
from llmd_ctl.controller.run import Signals, supervise
from llmd_ctl.plan import Plan

EFFECTS = {"write_atomic", "remove", "try_lock", "spawn", "signal"}


class Killing:
    """A port whose effects are counted; the process dies right after the last one."""

    def __init__(self, port: object, count: Callable[[], None]) -> None:
        self._port = port
        self._count = count

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._port, name)
        if name not in EFFECTS:
            return method

        def counted(*arguments: Any, **named: Any) -> Any:
            result = method(*arguments, **named)
            self._count()
            return result

        return counted


def machine(kill_after: int) -> Machine:
    left = [kill_after]

    def count() -> None:
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    files: Any = Killing(RealFiles(), count)
    processes: Any = Killing(RealProcesses(), count)
    return Machine(files, processes, RealNetwork(), RealClock())


def next_kill(kills: Path) -> int:
    lines = kills.read_text().split() if kills.exists() else []
    kills.write_text("\n".join(lines[1:]))
    return int(lines[0]) if lines else 0


def main(role: str, arguments: list[str]) -> None:
    python = os.environ["STAND_IN_PYTHON"]
    if role == "controller":
        state = Path(arguments[arguments.index("--state") + 1])
        here = machine(next_kill(state.parent / "kills"))
        signals = Signals()
        signal.signal(signal.SIGTERM, lambda *_: setattr(signals, "stop", True))
        signal.signal(signal.SIGHUP, lambda *_: setattr(signals, "retry", True))
        limits = Limits(interval_seconds=0.05)
        supervise(Yard(StateFolder("prod", state, here.files), here, limits), python, signals)
        return
    state = Path(arguments[0])
    here = machine(int(arguments[2]))
    folder = StateFolder("prod", state, here.files)
    if role == "delete":
        delete_fleet(folder, here, python, lambda _event: None)
        return
    plan = Plan.from_json(json.loads(Path(arguments[1]).read_text()))
    apply_plan(plan, folder, here, python, lambda _event: None)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
