"""The service level of a model: which percentile is placed by, and what of the rest does nothing.

Called by `planner`. The router keeps each request under one bound, so of several percentiles one is
taken and the others are named in a warning: nothing that was written is lost silently. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from llmd_ctl.plan.records import PlannedVariant, Slo
from llmd_ctl.plan.report import Path, Report
from llmd_ctl.spec import fleet as spec

# The strictest bound that is meant for nearly every request comes first. A median bounds only half
# of them: kept for each request it would refuse endpoints that keep what was asked.
BY_STRICTNESS = ("p95", "p99", "p50")
# `PATIENCE` of llmd-sched's scorers: without a service level, saving money may make a request
# finish so many times later than it could.
PATIENCE = 4
PLACES_BY_PROMISE = "expected-finish"
OBJECTIVE: Path = ("spec", "router", "routing", "objective")


def promise(model: spec.Model, path: Path, report: Report) -> Slo | None:
    """Return the bounds that plans and routing go by; percentiles without effect are warned of."""
    if model.slo is None:
        return None
    at: Path = (*path, "slo")
    said = model.slo
    return Slo(
        _bound(said.ttft, (*at, "ttft"), report),
        _bound(said.itl, (*at, "itl"), report),
        _percentile(said.ttft),
        _percentile(said.itl),
    )


def placed_by(model: spec.Model, routing: spec.Routing) -> tuple[str, ...]:
    """Say which percentile each bound of the plan is."""
    if model.slo is None or routing.scheduler != PLACES_BY_PROMISE:
        return ()
    both = (("ttft", model.slo.ttft), ("itl", model.slo.itl))
    named = [f"slo.{name}.{_taken(bound)}" for name, bound in both if bound is not None]
    return (f"requests are placed so that each keeps {' and '.join(named)}",)


def check_routing(model: spec.Model, path: Path, routing: spec.Routing, report: Report) -> None:
    """Warn of an objective or a service level that placing does not, or not fully, go by."""
    saves = routing.objective != "latency"
    if routing.scheduler != PLACES_BY_PROMISE:
        _check_ignored(model, path, routing, report)
    elif saves and model.slo is None:
        message = (
            f"{model.name} has no slo: objective {routing.objective} lets a request finish up to "
            f"{PATIENCE} times later than on the fastest endpoint, and no more"
        )
        report.warn("LC3025", message, OBJECTIVE)


def check_prices(
    model: spec.Model, variants: Sequence[PlannedVariant], routing: spec.Routing, report: Report
) -> None:
    """Warn of variants without a price where money is to be saved among several."""
    saves = routing.objective != "latency" and routing.scheduler == PLACES_BY_PROMISE
    without = [one for one in variants if one.price_per_hour is None]
    if not saves or len(variants) == 1 or not without:
        return
    objective = f"objective {routing.objective}"
    titles = ", ".join(f"{model.name}/{one.name}" for one in without)
    verb, them = ("has", "it") if len(without) == 1 else ("have", "each")
    message = f"{titles} {verb} no price: {objective} takes {them} for the dearest of {model.name}"
    if len(without) == len(variants):
        message = f"no variant of {model.name} has a price: {objective} goes by time alone"
    own = "Set pricePerDeviceHour of its accelerator in the inventory."
    others = "An endpoint has none, as its size is not known; objective: latency needs none."
    kinds = ((own, True), (others, False))
    hint = " ".join(t for t, managed in kinds if any(one.managed is managed for one in without))
    report.warn("LC3025", message, OBJECTIVE, hint=hint)


def _check_ignored(model: spec.Model, path: Path, routing: spec.Routing, report: Report) -> None:
    scheduler = f"scheduler {routing.scheduler}"
    if routing.objective != "latency":
        message = f"objective {routing.objective} does nothing with {scheduler}"
        report.warn("LC3026", message, OBJECTIVE)
    if model.slo is not None:
        message = f"{scheduler} does not place by the slo of {model.name}"
        report.warn("LC3026", message, (*path, "slo"))


def _bound(bound: spec.Percentiles | None, path: Path, report: Report) -> int | None:
    if bound is None:
        return None
    taken = _taken(bound)
    for name, microseconds in vars(bound).items():
        if microseconds is not None and name != taken:
            message = f"slo.{path[-1]}.{name} is not used for placing yet: {taken} is"
            report.warn("LC3024", message, (*path, name))
    found: int = getattr(bound, taken)
    return found


def _percentile(bound: spec.Percentiles | None) -> int | None:
    return None if bound is None else int(_taken(bound).removeprefix("p"))


def _taken(bound: spec.Percentiles) -> str:
    """The percentile that is placed by; one is always given."""
    return next(name for name in BY_STRICTNESS if getattr(bound, name) is not None)
