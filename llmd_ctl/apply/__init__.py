"""The local target: apply a plan, delete a fleet, tell what runs. All I/O goes through ports.

- `apply.py`, `delete.py`, `status.py`, `changes.py`   what the command line calls
- `supervisor.py`, `failure.py`, `events.py`           follow the controller; say what went wrong
- `program.py`                                         is each engine's program here?
- `state.py`, `records.py`, `lock.py`, `address.py`    the state folder, its locks and ports
- `machine.py`                                         the ports to the machine (protocols)
- `real.py`                                            the real ones, together
- `files.py`, `process.py`, `network.py`, `clock.py`   each of them
- `llamacpp_server.py`                                 llama.cpp's server, from the xllamacpp wheel

The controller is the layer above: it is started as a process and told through files. The names
below are loaded when they are used: starting an engine or planning needs no HTTP client.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from llmd_ctl.apply.apply import ApplyResult, apply_plan
    from llmd_ctl.apply.changes import Change, compare
    from llmd_ctl.apply.delete import DeleteResult, delete_fleet
    from llmd_ctl.apply.machine import Machine
    from llmd_ctl.apply.real import real_machine
    from llmd_ctl.apply.state import StateFolder
    from llmd_ctl.apply.status import FleetStatus, fleet_status

__all__ = [
    "ApplyResult",
    "Change",
    "DeleteResult",
    "FleetStatus",
    "Machine",
    "StateFolder",
    "apply_plan",
    "compare",
    "delete_fleet",
    "fleet_status",
    "real_machine",
]

_HOMES = {
    "ApplyResult": "apply",
    "Change": "changes",
    "DeleteResult": "delete",
    "FleetStatus": "status",
    "Machine": "machine",
    "StateFolder": "state",
    "apply_plan": "apply",
    "compare": "changes",
    "delete_fleet": "delete",
    "fleet_status": "status",
    "real_machine": "real",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
