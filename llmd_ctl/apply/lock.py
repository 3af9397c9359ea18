"""The two locks of a fleet: one for commands that change it, one for its controller.

Taken by apply, delete and the controller. The system drops a lock with its holder, so a killed
command never leaves a fleet locked; the file only says who holds it and since when.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from llmd_ctl.apply.machine import Machine
from llmd_ctl.apply.state import StateFolder
from llmd_ctl.errors import Locked
from llmd_ctl.spec.json_text import read_json

COMMAND_LOCK = "lock"
CONTROLLER_LOCK = "controller.lock"


@contextmanager
def hold(folder: StateFolder, name: str, machine: Machine, command: str) -> Iterator[None]:
    """Hold a lock for the length of a block; raises Locked with who has it and since when."""
    path = folder.path / name
    since = datetime.fromtimestamp(machine.clock.wall(), UTC).isoformat(timespec="seconds")
    holder = {"pid": machine.processes.me().pid, "command": command, "since": since}
    lock = machine.files.try_lock(path, json.dumps(holder).encode())
    if lock is None:
        raise Locked.of(
            "LC4001",
            f"fleet {folder.fleet} is held by {_holder(machine.files.read(path))}",
        )
    try:
        yield
    finally:
        lock.release()


def _holder(content: bytes | None) -> str:
    """Who it is, in words; a holder that has only just come may not have said it yet."""
    try:
        said = read_json(content or b"")
        return f"`llmd-ctl {said['command']}` (pid {said['pid']}) since {said['since']}"
    except (ValueError, KeyError, TypeError):
        return "another llmd-ctl command"
