"""All verbs, by name: what `llmd-ctl --help` lists and nothing that is not built.

Called by `boundary` for each run. Adding a verb is a line here and a file beside it. A run that
names its verb gets that one alone: the others would only cost time. It holds no behaviour.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from llmd_ctl.cli import apply, controller, delete, diff, plan, render, router, status, validate
from llmd_ctl.cli.demo import verb as demo
from llmd_ctl.cli.explain import verb as explain
from llmd_ctl.cli.load import verb as load

HELP = "One fleet.yaml, every accelerator: check it, plan it, apply it, route to it."
EPILOG = (
    "Exit codes: 0 ok · 1 differences or a failure elsewhere · 2 changes pending (only with "
    "--detailed-exitcode) · 64 usage · 65 spec invalid · 66 does not fit · 69 target unreachable · "
    "70 failed and rolled back · 71 failed, not rolled back · 75 locked · 130 interrupted"
)
USAGE_EXIT = 64


VERBS: dict[str, Callable[..., int]] = {
    "validate": validate.validate,
    "plan": plan.plan,
    "render": render.render,
    "diff": diff.diff,
    "apply": apply.apply,
    "status": status.status,
    "delete": delete.delete,
    "explain": explain.explain,
    "load": load.load,
    "demo": demo.demo,
}
SETTINGS = {"explain": explain.SETTINGS}
GROUPS = {"controller": controller.app, "router": router.app}


def command(first: str = "") -> Any:
    """Build the command anew for one run, whose first word it is given."""
    named = first in VERBS or first in GROUPS
    app = typer.Typer(
        help=HELP, epilog=EPILOG, pretty_exceptions_enable=False, rich_markup_mode=None
    )
    app.callback(invoke_without_command=True)(_root)
    for name, verb in VERBS.items():
        if not named or name == first:
            app.command(name, context_settings=SETTINGS.get(name))(verb)
    for name, group in GROUPS.items():
        if not named or name == first:
            app.add_typer(group, name=name)
    return typer.main.get_command(app)


def _version(*, value: bool) -> None:
    if value:
        from importlib.metadata import version

        from llmd_ctl.cli import output

        output.data(f"llmd-ctl {version('llmd-ctl')}")
        raise typer.Exit


def _root(
    context: typer.Context,
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> int:
    if context.invoked_subcommand is None:
        from llmd_ctl.cli import output

        output.note(context.get_help())
        return USAGE_EXIT
    return 0
