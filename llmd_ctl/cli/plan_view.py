"""A plan for people: the table they read before they spend money, and the arithmetic under it.

Called by `plan`, `apply` and `demo`. It formats what the plan says and computes nothing but sums
of replicas. What is not known is written as a dash, never as a zero.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from llmd_ctl.errors import SpecInvalid
from llmd_ctl.plan import CONFIG, HOST, PORT, PYTHON, Plan, PlannedModel, PlannedVariant
from llmd_ctl.plan.check import unusable
from llmd_ctl.plan.fit import bytes_left, taken_share
from llmd_ctl.plan.units import counted

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from llmd_ctl.apply.changes import Change
    from llmd_ctl.cli.table import Hanging, Sheet

UNKNOWN = "-"
OPEN = {HOST: "127.0.0.1", PORT: "PORT", PYTHON: "python", CONFIG: "engine.json"}
SIGNS = {"add": "+", "remove": "-", "change": "~", "scale": "~", "start": "▸"}


def plan_view(
    plan: Plan, changes: Sequence[Change] | None = None, *, explain: bool = False
) -> Iterator[RenderableType]:
    """The whole plan: headline, table, a short line of arithmetic each, idle, changes, sum."""
    from rich.text import Text

    yield _headline(plan)
    yield plan_table(plan)
    yield from _legend(plan)
    for model in plan.models:
        for variant in model.variants:
            yield from _details(model, variant, explain=explain)
    for idle in plan.idle:
        price = f", ${idle.price_per_hour:.2f}/h" if idle.price_per_hour is not None else ""
        text = f"Idle: {idle.idle} of {idle.devices} {idle.accelerator} of {idle.target}{price}"
        yield Text(text, style="yellow" if idle.idle else "dim")
    if changes is not None:
        yield from changes_view(changes)
    yield Text(summary_line(plan), style="bold")


def preview_view(plan: Plan, changes: Sequence[Change]) -> Iterator[RenderableType]:
    """What applying would do, and whether with simulated engines."""
    if plan.simulate is not None:
        yield _headline(plan)
    yield from changes_view(changes)


def _headline(plan: Plan) -> Text:
    from rich.text import Text

    simulated = ("", "")
    if plan.simulate is not None:
        speed = f"{plan.simulate.speed:g} × the planned speed"
        simulated = (f" - SIMULATED engines at {speed}", "magenta")
    return Text.assemble("Fleet ", (plan.fleet, "bold"), simulated)


def _legend(plan: Plan) -> Iterator[RenderableType]:
    """What the columns are, in two lines; none where no speed is known."""
    from rich.text import Text

    variants = [variant for model in plan.models for variant in model.variants]
    loads = dict.fromkeys(
        f"{one.capacity.workload.prompt_tokens:,} + {one.capacity.workload.output_tokens:,}"
        for one in variants
        if one.capacity is not None
    )
    if not loads:
        return
    yield Text(
        f"Tokens/s: prompts and answers of all replicas, for requests of {' or '.join(loads)} "
        "tokens. TTFT: on an idle replica. ITL: between tokens, so many requests at once.",
        style="dim",
    )
    yield Text(
        "Fit: share of the memory budget that is taken before any KV cache. "
        "Confidence of the speeds: high is measured, medium of a like device, low derived.",
        style="dim",
    )
    yield Text()


def plan_table(plan: Plan) -> Sheet:
    """One row for each variant."""
    from llmd_ctl.cli.table import Column, Sheet

    words = [Column("Model"), Column("Variant"), Column("Accelerators", 5), Column("Engine", 6)]
    leaves = {"Fit": 2, "Tokens/s": 1, "TTFT": 3, "ITL @ batch": 4, "Confidence": 7, "$/h": 1}
    numbers = [Column(name, least, right=name != "Confidence") for name, least in leaves.items()]
    table = Sheet([*words, *numbers])
    for model in plan.models:
        for variant in model.variants:
            table.add(model.name, *_row(variant))
    return table


def _row(variant: PlannedVariant) -> tuple[str, ...]:
    price = variant.price_per_hour
    return (
        variant.name,
        accelerators(variant),
        engine(variant),
        _fit_share(variant),
        *_speeds(variant),
        str(variant.facts["confidence"]) if variant.facts is not None else UNKNOWN,
        f"{price:.2f}" if price is not None else "unknown",
    )


def _speeds(variant: PlannedVariant) -> tuple[str, str, str]:
    """What all replicas carry, and what a request feels on one of them."""
    capacity = variant.capacity
    if capacity is None:
        return (UNKNOWN,) * 3
    return (
        f"{capacity.tokens_per_second * variant.replicas:,.0f}",
        f"{capacity.ttft_us / 1000:.0f} ms",
        f"{capacity.itl_us / 1000:.1f} ms @ {capacity.itl_batch}",
    )


def accelerators(variant: PlannedVariant) -> str:
    """What one variant takes, such as `4 × 2 nvidia-h100`."""
    if variant.endpoint_url is not None:
        return f"{variant.accelerator} (runs already)"
    each = f"{variant.devices_per_replica} " if variant.devices_per_replica > 1 else ""
    return f"{variant.replicas} × {each}{variant.accelerator}"


def engine(variant: PlannedVariant) -> str:
    """The engine, or what stands in for it."""
    if variant.simulated:
        return "simulated"
    version = f" {variant.engine_version}" if variant.engine_version else ""
    return f"{variant.engine}{version}"


def _fit_share(variant: PlannedVariant) -> str:
    """The share of the memory budget that is taken before any KV."""
    return UNKNOWN if variant.fit is None else f"{taken_share(variant.fit):.0%}"


def _details(
    model: PlannedModel, variant: PlannedVariant, *, explain: bool
) -> Iterator[RenderableType]:
    from rich.text import Text

    yield Text(f"{model.name}/{variant.name}", style="bold")
    fit = variant.fit
    if fit is not None and not explain:
        yield _labelled("fit", fit_line(variant), style="")
    for line in fit.lines if fit is not None and explain else ():
        yield _labelled("fit", line, style="")
    for reason in variant.reasons:
        yield _labelled("why", reason)
    for reason in variant.ruled_out:
        yield _labelled("ruled out", reason)
    if explain:
        for flag, setting in variant.settings.items():
            over = f", over {', '.join(setting.overruled)}" if setting.overruled else ""
            yield _labelled("set", f"{flag} = {setting.value}  (by {setting.set_by}{over})")
        if variant.command:
            yield _labelled("runs", command_line(variant))


def command_line(variant: PlannedVariant) -> str:
    """Its environment and command as they would be typed; what is given at its start is named."""
    import shlex

    words = [OPEN.get(word, word) for word in variant.command]
    line = shlex.join([*(f"{name}={value}" for name, value in variant.env.items()), *words])
    return f"{line}  (PORT is chosen when it starts)" if PORT in variant.command else line


def _labelled(label: str, text: str, style: str = "dim") -> Hanging:
    from rich.text import Text

    from llmd_ctl.cli.table import Hanging

    return Hanging(f"  {label:<10} ", Text(text, style=style))


def fit_line(variant: PlannedVariant) -> str:
    """The arithmetic of one device's memory in a line."""
    fit = variant.fit
    if fit is None:
        return UNKNOWN
    left = bytes_left(fit)
    rest = fit.budget_bytes - fit.weight_bytes - left
    limit = fit.kv_bytes_limit
    told = f", of which it takes {size(limit)}" if limit is not None and limit < left else ""
    return (
        f"{size(fit.memory_bytes)} x {fit.utilization:g} = {size(fit.budget_bytes)}, less "
        f"{size(fit.weight_bytes)} weights and {size(rest)} reserve: {size(left)} for KV{told}. "
        f"That is {fit.kv_tokens:,} tokens, or {counted(round(fit.concurrency, 1), 'request')} "
        f"of the full {fit.needed_tokens:,} at once"
    )


def size(count: int) -> str:
    """Bytes with the unit that reads best."""
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if abs(count) >= scale:
            return f"{count / scale:.1f} {unit}"
    return f"{count} B"


def changes_view(changes: Sequence[Change]) -> Iterator[RenderableType]:
    """What applying would do, a line each."""
    from rich.text import Text

    from llmd_ctl.cli.table import Hanging

    for change in changes:
        what = "/".join(part for part in (change.model, change.variant) if part) or "fleet"
        effect = f" ({change.effect})" if change.effect else ""
        style = {"add": "green", "remove": "red"}.get(change.kind, "yellow")
        first, *rest = change.reasons or ("",)
        sign = SIGNS[change.kind]
        line = f"{change.kind} {what}{effect}: {first}"
        yield Hanging(f"{sign} ", Text(line, style=style))
        for reason in rest:
            yield Hanging("    ", Text(reason, style=style))
    if not changes:
        yield Text("No changes.", style="green")


def summary_line(plan: Plan) -> str:
    """The fleet in one line."""
    summary = plan.summary
    variants = [variant for model in plan.models for variant in model.variants]
    outside = [variant for variant in variants if not variant.managed]
    price = "price not known"
    if variants and len(outside) == len(variants):
        price = "nothing is priced (all of it runs already)"
    elif summary.price_per_hour is not None:
        price = f"${summary.price_per_hour:.2f}/h"
    elif summary.unpriced:
        price = f"price not known ({', '.join(summary.unpriced)} without one)"
    if outside and len(outside) < len(variants):
        price += " without what runs already"
    fits = "fits" if summary.fits else "does not fit"
    replicas = counted(summary.replicas, "replica")
    return f"{fits}: {replicas} on {counted(summary.devices, 'device')}, {price}"


def plan_document(plan: Plan, changes: Sequence[Change]) -> dict[str, Any]:
    """The published document: the plan, and what it would change here and now."""
    document = plan.to_json()
    document["summary"] = {"changes": len(changes), **document["summary"]}
    return {**document, "changes": [change.to_json() for change in changes]}


def plan_from_document(document: dict[str, Any]) -> Plan:
    """Read a plan file. What it would have changed is not believed; it is compared anew."""
    summary = document.get("summary")
    body = {key: value for key, value in document.items() if key != "changes"}
    if isinstance(summary, dict):
        body["summary"] = {key: value for key, value in summary.items() if key != "changes"}
    plan = Plan.from_json(body)
    problems = unusable(plan)
    if problems:
        raise SpecInvalid(problems)
    return plan
