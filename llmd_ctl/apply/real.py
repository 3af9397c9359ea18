"""The real machine, put together once by a command or a controller.

The only place that knows all of the real ports; everything else takes a `Machine`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from llmd_ctl.apply.clock import RealClock
from llmd_ctl.apply.files import RealFiles
from llmd_ctl.apply.machine import Machine
from llmd_ctl.apply.network import RealNetwork
from llmd_ctl.apply.process import RealProcesses


@contextmanager
def real_machine(clock: RealClock | None = None) -> Iterator[Machine]:
    """This machine, for the length of a block; its connections are closed at the end."""
    network = RealNetwork()
    try:
        yield Machine(RealFiles(), RealProcesses(), network, clock or RealClock())
    finally:
        network.close()
