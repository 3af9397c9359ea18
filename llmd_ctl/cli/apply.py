"""`llmd-ctl apply F|plan.json`: make it so, and wait until it answers through the router.

Reads as: plan, show what changes, ask when there is somebody to ask, apply, say where it serves.
Exits 0 when the new revision answers; with `--dry-run --detailed-exitcode` 2 means changes pending.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from llmd_ctl.cli.options import Output, Simulate, Yes
from llmd_ctl.cli.output import Format

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llmd_ctl.apply.apply import ApplyResult
    from llmd_ctl.apply.changes import Change
    from llmd_ctl.plan import Plan

PENDING_EXIT = 2
LONGEST_COMMAND = 20_000
PlanOrFleet = Annotated[
    str, typer.Argument(metavar="F|plan.json", help="A fleet file, - or a plan file.")
]


def apply(
    file: PlanOrFleet,
    *,
    simulate: Simulate = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what changes.")] = False,
    detailed_exitcode: Annotated[
        bool, typer.Option("--detailed-exitcode", help="With --dry-run: 2 when changes pend.")
    ] = False,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Wait until it answers through the router.")
    ] = True,
    timeout: Annotated[
        str | None,
        typer.Option("--timeout", metavar="5m", help="Wait so long at most; else as engines need."),
    ] = None,
    yes: Yes = False,
    output: Output = Format.text,
) -> int:
    """Make a fleet run; wait until it answers through the router.

    What serves and would be removed or restarted is asked about on a terminal. Elsewhere restarts
    go on, and a removal needs --yes.
    """
    from llmd_ctl.cli import output as door
    from llmd_ctl.cli.plan_view import plan_document, preview_view
    from llmd_ctl.cli.planning import is_plan_file, missing_here, preview
    from llmd_ctl.cli.problems import tell
    from llmd_ctl.errors import UsageError

    if detailed_exitcode and not dry_run:
        raise UsageError.of("LC6004", "--detailed-exitcode needs --dry-run")
    limit = _limit_seconds(timeout, waits=wait and not dry_run)
    found = preview(file, simulate)
    planned, changes = found.plan, found.changes
    tell([*planned.warnings, *(missing_here(planned) if dry_run else ())])
    if is_plan_file(file):
        _show_commands(planned, changes)
    if dry_run:
        if output is Format.text:
            door.show(preview_view(planned, found.shown))
        else:
            door.document(plan_document(planned, changes), output)
        return PENDING_EXIT if detailed_exitcode and changes else 0
    _announce(planned, found.shown, yes=yes)
    result = run(planned, wait=wait, limit_seconds=limit)
    _print(planned, result, output)
    return 0


def _limit_seconds(timeout: str | None, *, waits: bool) -> float | None:
    """Read the value of --timeout. Raises `UsageError`."""
    from llmd_ctl.errors import UsageError
    from llmd_ctl.spec.fields import microseconds

    if timeout is None:
        return None
    if not waits:
        raise UsageError.of("LC6004", "--timeout does nothing where nobody waits")
    limit = microseconds(timeout)
    if limit is None:
        hint = "Write it with its unit: 90s, 5m or 1h."
        raise UsageError.of("LC6002", "--timeout takes a duration", found=timeout, hint=hint)
    return limit / 1e6


def run(planned: Plan, *, wait: bool = True, limit_seconds: float | None = None) -> ApplyResult:
    """Apply a plan with its progress on stderr. Also what `demo` calls."""
    import sys

    from llmd_ctl.apply.apply import apply_plan
    from llmd_ctl.cli.events import describe
    from llmd_ctl.cli.planning import folder_of, machine
    from llmd_ctl.cli.progress import Progress

    with Progress() as progress, machine() as here:
        return apply_plan(
            planned,
            folder_of(planned.fleet),
            here,
            sys.executable,
            lambda event: describe(event, progress),
            wait=wait,
            timeout_seconds=limit_seconds,
        )


def _show_commands(planned: Plan, changes: Sequence[Change]) -> None:
    """A plan file says itself what is run: nothing of it starts unseen."""
    from llmd_ctl.cli import output as door
    from llmd_ctl.cli.plan_view import command_line
    from llmd_ctl.errors import printable

    touched = {(change.model, change.variant) for change in changes}
    for model in planned.models:
        for variant in model.variants:
            if variant.managed and (model.name, variant.name) in touched:
                line = printable(command_line(variant), LONGEST_COMMAND)
                door.note(f"{model.name}/{variant.name} runs: {line}")


def _announce(planned: Plan, changes: Sequence[Change], *, yes: bool) -> None:
    """Show what changes; ask before something that serves is taken away, if somebody can answer.

    Where nobody can, a restart goes on and a removal is refused, as `delete` is.
    """
    import sys

    from llmd_ctl.cli import output as door
    from llmd_ctl.cli.plan_view import preview_view, summary_line
    from llmd_ctl.errors import Interrupted, UsageError

    door.show(preview_view(planned, changes), sys.stderr)
    door.note(summary_line(planned))
    if yes:
        return
    gone = [f"{change.model}/{change.variant}" for change in changes if change.kind == "remove"]
    if door.can_ask():
        takes_away = any(change.takes_away for change in changes)
        if takes_away and not door.ask("Go on?"):
            raise Interrupted.of("LC6005", "nothing was changed", hint="")
    elif gone:
        hint = "Add --yes; there is no terminal to ask on."
        message = f"removing {', '.join(gone)} must be confirmed"
        raise UsageError.of("LC6004", message, hint=hint)


def _print(planned: Plan, result: ApplyResult, form: Format) -> None:
    from llmd_ctl.cli import output as door
    from llmd_ctl.cli.document import schema_name

    if form is not Format.text:
        document = {
            "schema": schema_name("apply"),
            "fleet": planned.fleet,
            "revision": result.revision,
            "simulated": bool(result.simulated),
            "waited": result.waited,
            "router": {"url": result.url, "adminUrl": result.admin_url} if result.url else None,
            "changes": [change.to_json() for change in result.changes],
        }
        door.document(document, form)
    elif result.url is None:
        door.data(
            f"Revision {result.revision} of {planned.fleet} is desired; nobody waited for it."
        )
    else:
        door.data(served_line(planned, result.revision, result.url, result.simulated))


def served_line(planned: Plan, revision: int, url: str, simulated: Sequence[str] = ()) -> str:
    """Whom a revision serves, and whom nobody serves because all its replicas are 0.

    `simulated`: the variants that are.
    """
    served: list[str] = []
    idle: list[str] = []
    for model in planned.models:
        runs = any(not variant.managed or variant.replicas for variant in model.variants)
        (served if runs else idle).append(model.name)
    head = f"Revision {revision} of {planned.fleet}"
    if not served:
        return f"{head} serves nobody: it has no replicas; its router is at {url}/v1"
    rest = f"; nobody serves {', '.join(idle)} (no replicas)" if idle else ""
    if simulated:
        whole = len(simulated) == sum(len(model.variants) for model in planned.models)
        rest += f"; SIMULATED: {'all of it' if whole else ', '.join(simulated)}"
    return f"{head} serves {', '.join(served)} at {url}/v1{rest}"
