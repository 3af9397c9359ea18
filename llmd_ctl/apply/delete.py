"""Delete: drain and stop everything of a fleet, the router last, and say it is deleted.

Called by the command line. The controller does the work; where none runs, one is started for it, so
that a fleet whose controller crashed is deleted the same way. Deleting twice is no error. Logs and
history stay.
"""

from __future__ import annotations

from msgspec import Struct

from llmd_ctl.apply.apply import latest_desired
from llmd_ctl.apply.events import Listen, RevisionDesired
from llmd_ctl.apply.lock import COMMAND_LOCK, hold
from llmd_ctl.apply.machine import Machine
from llmd_ctl.apply.records import Desired
from llmd_ctl.apply.state import StateFolder, Unreadable
from llmd_ctl.apply.supervisor import POLL_SECONDS, Supervisor
from llmd_ctl.errors import ApplyFailed, Interrupted

# Drain limit, grace for engines, grace for the router, and some room.
LIMIT_SECONDS = 120.0


class DeleteResult(Struct, frozen=True):
    """`existed` is False when there was nothing to do."""

    existed: bool
    stopped: tuple[str, ...]


def delete_fleet(
    folder: StateFolder, machine: Machine, python: str, listen: Listen
) -> DeleteResult:
    """Delete a fleet. Raises Locked, ApplyFailed or Interrupted."""
    if not machine.files.list(folder.path):
        return DeleteResult(existed=False, stopped=())
    folder.prepare()
    with hold(folder, COMMAND_LOCK, machine, "delete"):
        supervisor = Supervisor(folder, machine, python, listen)
        if _is_deleted(folder, machine, supervisor):
            return DeleteResult(existed=False, stopped=())
        running = tuple(sorted({found.replica for found in machine.processes.marked(folder.path)}))
        try:
            _desire_nothing(folder, listen)
            _wait(folder, machine, supervisor)
        except KeyboardInterrupt:
            raise Interrupted.of(
                "LC4008",
                f"interrupted while deleting fleet {folder.fleet}",
                hint="Its controller goes on with what was asked. Delete again to be sure.",
            ) from None
        return DeleteResult(existed=True, stopped=running)


def _is_deleted(folder: StateFolder, machine: Machine, supervisor: Supervisor) -> bool:
    """Never applied, or deleted to the end; and nothing of it runs, whatever the files say."""
    if supervisor.running() is not None or machine.processes.marked(folder.path):
        return False
    try:
        desired, observed = folder.desired(), folder.observed()
    except Unreadable:
        return False
    if desired is None:
        return not folder.revisions() and observed is None
    return desired.deleted and observed is not None and observed.deleted


def _desire_nothing(folder: StateFolder, listen: Listen) -> None:
    desired = latest_desired(folder, listen)
    if desired is not None and desired.deleted and folder.desired() is not None:
        return
    revision = desired.revision + 1 if desired is not None else 1
    folder.write_desired(Desired(revision, deleted=True, plan=None))
    listen(RevisionDesired(revision, ()))


def _wait(folder: StateFolder, machine: Machine, supervisor: Supervisor) -> None:
    deadline = machine.clock.monotonic() + LIMIT_SECONDS
    while not _is_deleted(folder, machine, supervisor):
        if machine.clock.monotonic() >= deadline:
            left = machine.processes.marked(folder.path)
            raise ApplyFailed.of(
                "LC4009",
                f"fleet {folder.fleet} is not deleted after {LIMIT_SECONDS:g} s",
                found=", ".join(f"{item.replica} (pid {item.process.pid})" for item in left)
                or None,
                hint=f"Its controller's log is {folder.layout.log('controller')}.",
            )
        supervisor.observed()
        supervisor.ensure(retry=False, done=lambda: _is_deleted(folder, machine, supervisor))
        machine.clock.sleep(POLL_SECONDS)
