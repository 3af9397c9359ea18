"""The programs that a plan's engines are: looked for before anything is started or changed.

Called by `apply`, which refuses a plan whose engine is not here, and by previews of the command
line, which warn of it. It starts nothing and asks no program for its version.
"""

from __future__ import annotations

from collections.abc import Collection

from llmd_ctl.apply.machine import ProcessPort
from llmd_ctl.errors import Problem, Severity, codes
from llmd_ctl.plan import Plan
from llmd_ctl.render import Layout, replica_specs


def missing_programs(
    plan: Plan,
    layout: Layout,
    python: str,
    processes: ProcessPort,
    *,
    running: Collection[str] = (),
    severity: Severity = "error",
) -> list[Problem]:
    """A problem for each program that is not here. `running`: replicas that need no start."""
    wanted: dict[str, dict[str, None]] = {}
    elsewhere = {
        (model.name, variant.name)
        for model in plan.models
        for variant in model.variants
        if variant.place is not None and not variant.simulated
    }
    for spec in replica_specs(plan, layout, python):
        program = spec.argv(0)[0]
        if (spec.model, spec.variant) in elsewhere:
            continue
        if spec.name not in running and not processes.can_start(program, spec.env):
            wanted.setdefault(program, {})[f"{spec.model}/{spec.variant}"] = None
    return [
        Problem(
            "LC4011",
            f"{', '.join(owners)}: `{program}` is not on this machine",
            hint=remedy(),
            severity=severity,
        )
        for program, owners in wanted.items()
    ]


def remedy() -> str:
    """What to do about a program that is not here."""
    return codes()["LC4011"].hint
