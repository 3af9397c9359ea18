"""`llmd-ctl plan F`: what would run, does it fit, what can it carry, what does it cost.

Changes nothing. `-o` writes the plan to a file that `apply` takes as it is.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from llmd_ctl.cli.options import Output, Simulate, Source
from llmd_ctl.cli.output import Format


def plan(
    file: Source,
    *,
    simulate: Simulate = None,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="Write the plan here.")] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Every term and setting.")] = False,
    output: Output = Format.text,
) -> int:
    """Show what would run, if it fits, what it carries and costs."""
    import json

    from llmd_ctl.cli import output as door
    from llmd_ctl.cli.plan_view import plan_document, plan_view
    from llmd_ctl.cli.planning import missing_here, preview
    from llmd_ctl.cli.problems import tell
    from llmd_ctl.errors import UsageError

    found = preview(file, simulate)
    planned = found.plan
    document = plan_document(planned, found.changes)
    tell([*planned.warnings, *missing_here(planned)])
    if out is not None:
        try:
            out.write_text(json.dumps(document, indent=2) + "\n", "utf-8")
        except OSError as error:
            raise UsageError.of("LC6003", f"cannot write {out}: {error.strerror}") from error
        door.note(f"The plan is in {out}; apply it with: llmd-ctl apply {out}")
    if output is Format.text:
        door.show(plan_view(planned, found.shown, explain=explain))
    else:
        door.document(document, output)
    return 0
