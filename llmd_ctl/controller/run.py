"""One controller from start to end: its lock, its signals, its ticks.

Called by `python -m llmd_ctl.controller` and by `llmd-ctl controller run`. SIGTERM and SIGINT end
the watching, not the fleet: engines and router run on for the next controller to adopt.
"""

from __future__ import annotations

import logging
import signal
import sys
from types import FrameType

from llmd_ctl.apply.clock import RealClock
from llmd_ctl.apply.lock import CONTROLLER_LOCK, hold
from llmd_ctl.apply.real import real_machine
from llmd_ctl.apply.state import StateFolder
from llmd_ctl.controller.child import Limits, Yard
from llmd_ctl.controller.loop import Controller

log = logging.getLogger("llmd_ctl.controller")


class Signals:
    """What was asked for by signal since the last look."""

    def __init__(self) -> None:
        self.stop = False
        self.retry = False


def supervise(yard: Yard, python: str, signals: Signals) -> int:
    """Hold the fleet's controller lock and tick until told to stop or the fleet is deleted."""
    folder, machine = yard.folder, yard.machine
    folder.prepare()
    with hold(folder, CONTROLLER_LOCK, machine, "controller"):
        folder.write_controller(machine.processes.me())
        controller = Controller(yard, python)
        while not signals.stop:
            if signals.retry:
                signals.retry = False
                controller.retry()
            try:
                if not controller.tick():
                    return 0
            except OSError as error:  # a full disk must not end the watching
                log.warning("a step failed and will be tried again: %s", error)
                if folder.path.name not in machine.files.list(folder.path.parent):
                    return 1
            machine.clock.sleep(yard.limits.interval_seconds)
        controller.leave()
    return 0


def run(folder: StateFolder) -> int:
    """Run a fleet's controller in this process until it ends. Raises Locked if one runs."""
    logging.basicConfig(format="%(asctime)s %(message)s")
    logging.getLogger("llmd_ctl").setLevel(logging.INFO)  # ours, and no line for each question
    clock, signals = RealClock(), Signals()

    def on_stop(_number: int, _frame: FrameType | None) -> None:
        signals.stop = True
        clock.wake()

    def on_retry(_number: int, _frame: FrameType | None) -> None:
        signals.retry = True

    signal.signal(signal.SIGTERM, on_stop)
    signal.signal(signal.SIGINT, on_stop)
    signal.signal(signal.SIGHUP, on_retry)
    with real_machine(clock) as machine:
        return supervise(Yard(folder, machine, Limits()), sys.executable, signals)
