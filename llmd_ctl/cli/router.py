"""`llmd-ctl router serve|config`: the router by hand, without a fleet's controller around it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from llmd_ctl.cli.options import Simulate

HELP = "The router by hand: serve a configuration, or show one."
app = typer.Typer(rich_markup_mode=None, help=HELP)
DATA_PORT, ADMIN_PORT = 8000, 9090


@app.command("serve")
def serve(
    config: Annotated[Path, typer.Option("--config", help="A router.yaml.")],
    *,
    check: Annotated[bool, typer.Option("--check", help="Only check the file.")] = False,
) -> int:
    """Route until SIGTERM; the file is followed as it changes."""
    argv = [sys.executable, "-P", "-m", "llmd_ctl.router", "--config", str(config)]
    os.execv(sys.executable, [*argv, *(["--check"] if check else [])])


@app.command("config")
def config(
    fleet: Annotated[str, typer.Argument(metavar="F", help="A fleet file, or a fleet's name.")],
    *,
    simulate: Simulate = None,
) -> int:
    """Show the router.yaml of a fleet.

    By name the one in use, by file the one that `apply` would write.
    """
    from llmd_ctl.cli import output as door
    from llmd_ctl.cli.planning import folder_of, is_file, known_folder, plan_for
    from llmd_ctl.errors import UsageError
    from llmd_ctl.render import RouterPlace, render_router

    if is_file(fleet):
        planned = plan_for(fleet, simulate)
        place = RouterPlace(DATA_PORT, ADMIN_PORT)
        text = render_router(planned, place, folder_of(planned.fleet).layout)
    else:
        path = Path(known_folder(fleet).layout.router_config)
        if not path.is_file():
            raise UsageError.of("LC6006", f"fleet {fleet} has no router now", found=str(path))
        text = path.read_text("utf-8")
    door.data(text.rstrip())
    return 0
