"""`llmd-ctl diff F`: what would `apply` change? Exits 1 when there is something, 0 when not."""

from __future__ import annotations

from llmd_ctl.cli.options import Output, Simulate, Source
from llmd_ctl.cli.output import Format


def diff(file: Source, *, simulate: Simulate = None, output: Output = Format.text) -> int:
    """Show what `apply` would change; exit 1 when it would."""
    from llmd_ctl.cli import output as door
    from llmd_ctl.cli.document import schema_name
    from llmd_ctl.cli.plan_view import preview_view
    from llmd_ctl.cli.planning import preview

    found = preview(file, simulate)
    if output is Format.text:
        door.show(preview_view(found.plan, found.shown))
    else:
        listed = [change.to_json() for change in found.changes]
        planned = found.plan.simulate
        head = {
            "schema": schema_name("diff"),
            "fleet": found.plan.fleet,
            "simulate": {"speed": planned.speed} if planned is not None else None,
        }
        door.document({**head, "changes": listed}, output)
    return 1 if found.changes else 0
