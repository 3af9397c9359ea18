"""`llmd-ctl status [F]`: what is desired, what runs, what the router sees. Changes nothing.

Without F: every fleet of this machine that is not deleted. Exits 1 when a fleet is not as desired.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from llmd_ctl.cli.options import Output
from llmd_ctl.cli.output import Format

if TYPE_CHECKING:
    from rich.console import RenderableType

    from llmd_ctl.apply import FleetStatus
    from llmd_ctl.apply.status import ReplicaStatus

WATCH_SECONDS = 1.0
STATE_STYLE = {"ready": "green", "starting": "yellow", "draining": "yellow", "backoff": "red"}


def status(
    fleet: Annotated[
        str | None, typer.Argument(metavar="[F]", help="A fleet file, or a fleet's name.")
    ] = None,
    *,
    watch: Annotated[bool, typer.Option("--watch", help="Go on; Ctrl-C ends it.")] = False,
    output: Output = Format.text,
) -> int:
    """Show what is desired, what runs and what the router sees."""
    from llmd_ctl.cli.planning import fleet_name, known_fleets

    names = [fleet_name(fleet)] if fleet is not None else known_fleets()
    if watch:
        _watch(names, output, alone=fleet is not None)
    found = _all(names, alone=fleet is not None)
    _write(found, output, alone=fleet is not None)
    return 0 if all(one.converged for one in found) else 1


def status_of(name: str) -> FleetStatus:
    """The status of one fleet. Raises `UsageError` for one that was never applied here."""
    from llmd_ctl.apply import fleet_status
    from llmd_ctl.cli.planning import folder_of, known_fleets, machine
    from llmd_ctl.errors import UsageError

    with machine() as here:
        found = fleet_status(folder_of(name), here)
    if found is None:
        message = "no fleet of this name was applied here"
        raise UsageError.of("LC6006", message, found=name, allowed=known_fleets())
    return replace(found, converged=found.converged and not endpoints_missing(found))


def endpoints_missing(found: FleetStatus) -> int:
    """Endpoints that are wished for and take no requests, external ones among them."""
    variants = [variant for model in found.models for variant in model.variants]
    return sum(max(0, variant.desired - variant.ready) for variant in variants)


def _all(names: list[str], *, alone: bool) -> list[FleetStatus]:
    """The status of each; a fleet that is deleted to the end is told only when it is asked for."""
    found = [status_of(name) for name in names]
    return [one for one in found if alone or not (one.deleted and one.controller == "ended")]


def _watch(names: list[str], form: Format, *, alone: bool) -> None:
    """Show the status again whenever it changed, until Ctrl-C."""
    from llmd_ctl.errors import Interrupted

    last: list[Any] = []
    try:
        while True:
            found = _all(names, alone=alone)
            documents = [one.to_json() for one in found]
            if documents != last:
                _write(found, form, alone=alone)
                last = documents
            time.sleep(WATCH_SECONDS)
    except KeyboardInterrupt as error:
        message = "stopped watching; nothing was changed"
        raise Interrupted.of("LC6005", message, hint="") from error


def _write(found: list[FleetStatus], form: Format, *, alone: bool) -> None:
    from llmd_ctl.cli import output as door
    from llmd_ctl.cli.document import schema_name
    from llmd_ctl.errors import render_problem

    if form is not Format.text:
        documents = [one.to_json() for one in found]
        whole = {"schema": schema_name("fleets"), "fleets": documents}
        door.document(documents[0] if alone else whole, form)
        return
    for one in found:
        door.show(status_view(one))
        for problem in one.problems:
            door.note(render_problem(problem))
    if not found:
        door.note("No fleet is applied on this machine.")


def shown_state(replica: ReplicaStatus) -> str:
    """What counts for users: a process that runs well and that the router believes ill is out."""
    if replica.state == "ready" and replica.router_state is not None:
        return replica.router_state
    return replica.state


def status_view(found: FleetStatus) -> Iterator[RenderableType]:
    """One fleet for people: a headline and a row for each replica."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    state = "deleted" if found.deleted else "as desired" if found.converged else "not as desired"
    missing = endpoints_missing(found)
    if missing:
        state += f" ({missing} {'endpoint is' if missing == 1 else 'endpoints are'} not ready)"
    where = (
        f"router {found.router_url}/v1 ({found.router_state})" if found.router_url else "no router"
    )
    yield Text.assemble(
        "Fleet ", (found.fleet, "bold"), f", revision {found.revision}: ",
        (state, "green" if found.converged else "yellow"),
        f" · {where} · controller {found.controller}",
    )  # fmt: skip
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("Model", "Variant", "Accelerator", "Engine", "Ready", "Endpoint", "State"):
        table.add_column(name)
    table.add_column("In flight", justify="right")
    table.add_column("Reason")
    for model in found.models:
        for variant in model.variants:
            engine = "simulated" if variant.simulated else variant.engine
            ready = f"{variant.ready}/{variant.desired}"
            head = (model.name, variant.name, variant.accelerator, engine, ready)
            for number, one in enumerate(variant.replicas):
                shown = head if number == 0 else ("",) * len(head)
                state = shown_state(one)
                style = STATE_STYLE.get(state, "red")
                inflight = "-" if one.inflight is None else str(one.inflight)
                cells = (one.endpoint, Text(state, style=style), inflight, _why(one))
                table.add_row(*shown, *cells)
            if not variant.replicas:
                table.add_row(*head, "-", "-", "-", "")
    if table.row_count:
        yield table
    for model in found.models:
        budget = model.retry_budget
        if budget is not None and budget.left < 1:
            text = f"Retries of {model.name}: the budget is used up, {budget.refused} were not made"
            yield Text(text, style="yellow")


def _why(replica: ReplicaStatus) -> str:
    """All that is wrong with an endpoint."""
    said = [replica.reason] if replica.reason else []
    if replica.unreachable is not None:
        said.append(f"cannot be reached: {replica.unreachable}")
    return "; ".join([*said, *replica.degraded])
