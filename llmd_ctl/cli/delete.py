"""`llmd-ctl delete F`: drain and stop all of a fleet. Logs and history stay.

F is a fleet file or the name of an applied fleet. On a terminal it asks; elsewhere it needs --yes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from llmd_ctl.cli.options import Output, Yes
from llmd_ctl.cli.output import Format

if TYPE_CHECKING:
    from llmd_ctl.apply import DeleteResult


def delete(
    fleet: Annotated[str, typer.Argument(metavar="F", help="A fleet file, or a fleet's name.")],
    *,
    yes: Yes = False,
    output: Output = Format.text,
) -> int:
    """Drain and stop everything of a fleet, and its router last."""
    from llmd_ctl.cli import output as door
    from llmd_ctl.cli.document import schema_name
    from llmd_ctl.cli.planning import fleet_name
    from llmd_ctl.errors import Interrupted, UsageError

    name = fleet_name(fleet)
    if not yes and not door.can_ask():
        hint = "Add --yes; there is no terminal to ask on."
        raise UsageError.of("LC6004", f"deleting fleet {name} must be confirmed", hint=hint)
    if not yes and not door.ask(f"Stop everything of fleet {name}?"):
        raise Interrupted.of("LC6005", "nothing was deleted", hint="")
    result = run(name)
    if output is not Format.text:
        head = {"schema": schema_name("delete"), "fleet": name}
        stopped = list(result.stopped)
        door.document({**head, "existed": result.existed, "stopped": stopped}, output)
    elif result.existed:
        many = len(result.stopped)
        were = "1 process was" if many == 1 else f"{many} processes were"
        door.data(f"Fleet {name} is deleted; {were} stopped.")
    else:
        door.data(f"Fleet {name} does not run; there is nothing to delete.")
    return 0


def run(name: str) -> DeleteResult:
    """Delete a fleet with its progress on stderr. Also what `demo` calls."""
    import sys

    from llmd_ctl.apply import delete_fleet
    from llmd_ctl.cli.events import describe_deletion
    from llmd_ctl.cli.planning import folder_of, machine
    from llmd_ctl.cli.progress import Progress

    with Progress() as progress, machine() as here:
        return delete_fleet(
            folder_of(name), here, sys.executable, lambda event: describe_deletion(event, progress)
        )
