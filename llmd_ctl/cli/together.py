"""Fleets that stand on one command line against each other: what both would take.

Called by `validate`. A fleet by itself cannot see the others; here they are seen together, and what
two of them would take is warned of, once for two fleets, at the target of the later one. That two
have one name is wrong by itself (LC1060), and no matter here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llmd_ctl.errors import Problem
    from llmd_ctl.plan import Plan
    from llmd_ctl.plan.place import PlannedTarget
    from llmd_ctl.spec import LoadedFleet

CODE = "LC3067"
SHOWN = 3


def clashes(fleets: Sequence[tuple[LoadedFleet, Plan]]) -> list[Problem]:
    """Return a warning for each target in which a fleet takes what one before it has taken."""
    from llmd_ctl.plan.report import Report
    from llmd_ctl.render.claims import place_of

    fleets_at = Counter(
        place
        for _, plan in fleets
        for place in {place for target in plan.targets for place in place_of(target)}
    )
    first: dict[str, LoadedFleet] = {}  # who takes it
    found: list[Problem] = []
    for loaded, plan in fleets:
        report, own = Report(loaded), set[str]()
        for number, target in enumerate(plan.targets):
            if all(fleets_at[place] < 2 for place in place_of(target)):
                continue
            claims = _claims(plan, target)
            for message in _told(loaded, claims, first):
                report.warn(CODE, message, ("spec", "targets", number, "name"))
            own.update(claims)
        first = {**dict.fromkeys(own, loaded), **first}
        found += report.warnings
    return found


def _claims(plan: Plan, target: PlannedTarget) -> list[str]:
    """What a fleet takes in a target; nothing where it cannot be rendered, which is told itself."""
    from llmd_ctl.errors import LlmdError
    from llmd_ctl.render.claims import claims_of

    try:
        return list(claims_of(plan, target))
    except LlmdError:
        return []


def _told(loaded: LoadedFleet, claims: Sequence[str], first: dict[str, LoadedFleet]) -> list[str]:
    """Say what is taken twice, other fleet by other fleet."""
    common: dict[int, tuple[LoadedFleet, list[str]]] = {}
    for claim in claims:
        other = first.get(claim)
        if other is not None and other.fleet.metadata.name != loaded.fleet.metadata.name:
            common.setdefault(id(other), (other, []))[1].append(claim)
    name = loaded.fleet.metadata.name
    return [
        f"fleet {name} takes what fleet {other.fleet.metadata.name} of {other.source.file} takes:"
        f" {_listed(taken)}"
        for other, taken in common.values()
    ]


def _listed(claims: Sequence[str]) -> str:
    more = f" and {len(claims) - SHOWN} more" if len(claims) > SHOWN else ""
    return ", ".join(claims[:SHOWN]) + more
