"""`llmd-ctl status [F]`: what is desired, what runs, what the router sees. Changes nothing.

Without F: every fleet of this machine that is not deleted. Exits 1 when a fleet is not as desired.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec.structs import replace

from llmd_ctl.cli.options import Output
from llmd_ctl.cli.output import Format

if TYPE_CHECKING:
    from rich.console import RenderableType

    from llmd_ctl.apply import FleetStatus
    from llmd_ctl.apply.status import ReplicaStatus
    from llmd_ctl.cli.table import Sheet

WATCH_SECONDS = 1.0
SPAN = re.compile(r"\d+(?:\.\d+)?(?= ?(?:us|ms|s)\b)")
STATE_STYLE = {"ready": "green", "starting": "yellow", "draining": "yellow", "backoff": "red"}


def status(
    fleet: Annotated[
        str | None, typer.Argument(metavar="[F]", help="A fleet file, or a fleet's name.")
    ] = None,
    *,
    watch: Annotated[bool, typer.Option("--watch", help="Go on; Ctrl-C ends it.")] = False,
    output: Output = Format.text,
) -> int:
    """Show what is desired, what runs and what the router sees.

    The router's address is port 8000 of this machine (admin: 9090), or the next free one; it stays
    the fleet's until that is deleted. Text shows it with the /v1 that OpenAI clients are given;
    router.url in JSON is without.
    """
    from llmd_ctl.cli.planning import fleet_name, known_fleets

    names = [fleet_name(fleet)] if fleet is not None else known_fleets()
    if watch:
        _watch(names, output, fleet)
    found = _all(names, fleet)
    _write(found, output, alone=fleet is not None)
    return 0 if all(one.converged for one in found) else 1


def status_of(name: str, given: str | None = None) -> FleetStatus:
    """The status of one fleet, `given` as a file or a name.

    Raises `UsageError` for one that was never applied here.
    """
    from llmd_ctl.apply import fleet_status
    from llmd_ctl.cli.planning import folder_of, is_file, known_fleets, machine
    from llmd_ctl.errors import UsageError

    with machine() as here:
        found = fleet_status(folder_of(name), here)
    if found is None:
        message, hint = "no fleet of this name was applied here", None
        if given is not None and is_file(given):
            message = f"the fleet of {given} was not applied here"
            hint = f"`llmd-ctl apply {given}` starts it."
        raise UsageError.of("LC6006", message, found=name, allowed=known_fleets(), hint=hint)
    return replace(found, converged=found.converged and not endpoints_missing(found))


def endpoints_missing(found: FleetStatus) -> int:
    """Endpoints that are wished for and take no requests, external ones among them."""
    variants = [variant for model in found.models for variant in model.variants]
    return sum(max(0, variant.desired - variant.ready) for variant in variants)


def _all(names: list[str], given: str | None) -> list[FleetStatus]:
    """The status of each; a fleet that is deleted to the end is told only when it is asked for."""
    found = [status_of(name, given) for name in names]
    return [one for one in found if given or not (one.deleted and one.controller == "ended")]


def _watch(names: list[str], form: Format, given: str | None) -> None:
    """Show the status again whenever it changed, until Ctrl-C."""
    from llmd_ctl.errors import Interrupted

    last: list[Any] = []
    try:
        while True:
            found = _all(names, given)
            documents = [one.to_json() for one in found]
            if documents != last:
                _write(found, form, alone=given is not None)
                last = documents
            time.sleep(WATCH_SECONDS)
    except KeyboardInterrupt as error:
        message = "stopped watching; nothing was changed"
        raise Interrupted.of("LC6005", message, hint="") from error


def _write(found: list[FleetStatus], form: Format, *, alone: bool) -> None:
    from llmd_ctl.cli import output as door
    from llmd_ctl.cli.document import schema_name
    from llmd_ctl.cli.problems import tell

    if form is not Format.text:
        documents = [one.to_json() for one in found]
        whole = {"schema": schema_name("fleets"), "fleets": documents}
        door.document(documents[0] if alone else whole, form)
        return
    for one in found:
        door.show(status_view(one))
        tell(one.problems)
    if not found:
        door.note("No fleet is applied on this machine.")


def shown_state(replica: ReplicaStatus) -> str:
    """What counts for users: a process that runs well and that the router believes ill is out."""
    if replica.state == "ready" and replica.router_state is not None:
        return replica.router_state
    return replica.state


def status_view(found: FleetStatus) -> Iterator[RenderableType]:
    """One fleet for people: a headline, a row for each replica, and what is wrong, said once."""
    from rich.text import Text

    from llmd_ctl.cli.table import Hanging

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
    table = _replica_table(found)
    if not table.is_empty:
        yield table
    for reason, names in reasons(found).items():
        yield Hanging("  ", Text(f"{', '.join(names)}: {reason}"))
    for model in found.models:
        budget = model.retry_budget
        if budget is not None and budget.left < 1:
            text = f"Retries of {model.name}: the budget is used up, {budget.refused} were not made"
            yield Text(text, style="yellow")


def _replica_table(found: FleetStatus) -> Sheet:
    """A row for each replica, and one for a variant that has none."""
    from rich.text import Text

    from llmd_ctl.cli.table import Column, Sheet

    names = {"Model": 0, "Variant": 0, "Accelerator": 3, "Engine": 4, "Ready": 1}
    seen = {"Endpoint": 0, "State": 0}
    columns = [Column(name, leaves) for name, leaves in {**names, **seen}.items()]
    table = Sheet([*columns, Column("In flight", 2, right=True)])
    for model in found.models:
        for variant in model.variants:
            engine = "simulated" if variant.simulated else variant.engine
            ready = f"{variant.ready}/{variant.desired}"
            head = (model.name, variant.name, variant.accelerator, engine, ready)
            for number, one in enumerate(variant.replicas):
                state = shown_state(one)
                inflight = "-" if one.inflight is None else str(one.inflight)
                table.add(
                    *(head if number == 0 else ("",) * len(head)),
                    one.endpoint,
                    Text(state, style=STATE_STYLE.get(state, "red")),
                    inflight,
                )
            if not variant.replicas:
                table.add(*head, "-", "-", "-")
    return table


def reasons(found: FleetStatus) -> dict[str, list[str]]:
    """Each thing that is wrong, with all whom it is wrong with; spans of time are drawn together.

    A variant stands for its endpoints where it is all of them.
    """
    met: dict[str, list[tuple[str, str, str]]] = {}
    sizes: dict[str, int] = {}
    for model in found.models:
        for variant in model.variants:
            name = f"{model.name}/{variant.name}"
            sizes[name] = len(variant.replicas)
            for one in variant.replicas:
                for text in _why(one):
                    met.setdefault(SPAN.sub("…", text), []).append((name, one.endpoint, text))
    return {_together([text for _, _, text in by]): _names(by, sizes) for by in met.values()}


def _names(met: list[tuple[str, str, str]], sizes: Mapping[str, int]) -> list[str]:
    endpoints: dict[str, list[str]] = {}
    for name, endpoint, _ in met:
        endpoints.setdefault(name, []).append(endpoint)
    return [
        name if len(ill) == sizes[name] else f"{name} {', '.join(ill)}"
        for name, ill in endpoints.items()
    ]


def _together(texts: list[str]) -> str:
    """One text for several that differ in spans of time: the least and the most of each."""
    spans = iter(zip(*(SPAN.findall(text) for text in texts), strict=True))

    def both(_: re.Match[str]) -> str:
        found = sorted(next(spans), key=float)
        least, most = found[0], found[-1]
        return least if least == most else f"{least} to {most}"

    return SPAN.sub(both, texts[0])


def _why(replica: ReplicaStatus) -> list[str]:
    """All that is wrong with an endpoint."""
    said = [replica.reason] if replica.reason else []
    if replica.unreachable is not None:
        said.append(f"cannot be reached: {replica.unreachable}")
    return [*said, *replica.degraded]
