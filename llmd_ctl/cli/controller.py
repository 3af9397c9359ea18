"""`llmd-ctl controller run FLEET`: the loop that keeps a fleet as desired, in the foreground.

`apply` starts one by itself; this is for people who give it to a process supervisor of their own.
"""

from __future__ import annotations

from typing import Annotated

import typer

HELP = "The loop that keeps a fleet on this machine as desired."
app = typer.Typer(rich_markup_mode=None, help=HELP)


@app.callback()
def _group() -> None:
    """The loop that keeps a fleet on this machine as desired."""


@app.command("run")
def run(
    fleet: Annotated[str, typer.Argument(metavar="FLEET", help="The name of an applied fleet.")],
) -> int:
    """Supervise a fleet until SIGTERM or Ctrl-C. Engines and router run on afterwards."""
    from llmd_ctl.cli.planning import known_folder
    from llmd_ctl.controller.run import run as supervise

    return supervise(known_folder(fleet))
