"""What went wrong in an apply, said so that a person knows the state of things and the next step.

Called by `apply.py` only. Every text ends with what is desired, what runs and what to do; nothing
here changes anything.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from llmd_ctl.apply.patience import HOW_TO_CHANGE, Patience
from llmd_ctl.apply.program import remedy
from llmd_ctl.apply.records import ROUTER_MARK, Observed, ReplicaRecord, RouterRecord
from llmd_ctl.apply.state import StateFolder, Unreadable
from llmd_ctl.errors import ApplyFailed, Interrupted, Problem
from llmd_ctl.plan import Plan
from llmd_ctl.plan.units import duration
from llmd_ctl.render import replica_specs

# Failures in a row after which waiting on is no use: about three seconds of trying.
CRASH_LOOP = 3
# What another start won't mend.
LASTING = {"port", "command", "slow", "model"}
TAIL_LINES = 3


class Baseline(Struct, frozen=True):
    """Failures that had happened before this apply: only new ones count against it."""

    failures: Mapping[str, int]

    @classmethod
    def of(cls, observed: Observed | None) -> Baseline:
        """What was observed before anything was written."""
        if observed is None:
            return cls({})
        failures = {record.name: record.failures for record in observed.replicas}
        if observed.router is not None:
            failures[ROUTER_MARK] = observed.router.failures
        return cls(failures)

    def given_up(self, name: str, part: ReplicaRecord | RouterRecord) -> bool:
        """Has this part failed anew, in a way that won't pass by itself?"""
        anew = part.failures > self.failures.get(name, 0)
        return anew and (part.trouble in LASTING or part.failures >= CRASH_LOOP)


def failed_parts(
    folder: StateFolder, plan: Plan, observed: Observed, baseline: Baseline
) -> list[Problem]:
    """A problem for each planned replica, and for the router, that will not come up."""
    planned = {spec.name for spec in replica_specs(plan, folder.layout, "")}
    state = _state(folder, plan, observed.revision, observed)
    problems = []
    router = observed.router
    if router is not None and baseline.given_up(ROUTER_MARK, router):
        problems.append(_problem(folder, "router", router, state))
    for record in observed.replicas:
        if record.name in planned and baseline.given_up(record.name, record):
            problems.append(_problem(folder, record.name, record, state))
    return problems


def timed_out(
    folder: StateFolder,
    plan: Plan,
    revision: int,
    observed: Observed | None,
    patience: Patience,
) -> ApplyFailed:
    """Nothing has failed for good, but it takes too long."""
    reasons = _waited_for(revision, observed, patience)
    if observed is not None:
        reasons += observed.problems
    return ApplyFailed.of(
        "LC4005",
        f"revision {revision} does not answer within {_limit(patience)}",
        found="; ".join(reasons) or None,
        hint=f"{_state(folder, plan, revision, observed)} Apply again to go on waiting; "
        f"{HOW_TO_CHANGE}.",
    )


def unanswered(folder: StateFolder, revision: int, patience: Patience) -> ApplyFailed:
    """Processes run, but the router gets no answer from them."""
    return ApplyFailed(
        Problem(
            "LC4007",
            f"{name} gives no answer through the router: {one.reason}",
            found=f"{patience.spent(name)}; the limit of this wait is {_limit(patience)}",
            hint=f"Revision {revision} runs, but does not serve. Logs are in "
            f"{folder.layout.path('logs')}. Apply again to go on waiting; {HOW_TO_CHANGE}.",
        )
        for name, one in patience.silent.items()
    )


def interrupted(folder: StateFolder, plan: Plan, patience: Patience | None) -> Interrupted:
    """Ctrl-C, with the state that things are left in: read again, since it came at any point."""
    try:
        desired, observed = folder.desired(), folder.observed()
    except Unreadable:
        desired, observed = None, None
    limit = f" ({_limit(patience)} at most; {HOW_TO_CHANGE})" if patience else ""
    if desired is None or desired.plan != plan.to_json():
        return Interrupted.of(
            "LC4008", "interrupted before anything was changed", hint="Apply again when you like."
        )
    return Interrupted.of(
        "LC4008",
        f"interrupted while waiting for revision {desired.revision}",
        found="; ".join(_waited_for(desired.revision, observed, patience)) or None,
        hint=f"{_state(folder, plan, desired.revision, observed)} Apply again to go on "
        f"waiting{limit}, or apply another plan, or delete the fleet.",
    )


def _limit(patience: Patience) -> str:
    """The limit of the wait, as `--timeout` takes it."""
    return duration(round(patience.limit_seconds * 1e6))


def _waited_for(revision: int, observed: Observed | None, patience: Patience | None) -> list[str]:
    """Whom an apply waits for: replicas that do not run yet, then who does not answer."""
    starting = [
        f"{record.name} is {record.state}{f': {record.reason}' if record.reason else ''}"
        for record in _not_ready(observed, revision)
    ]
    return [*starting, *(patience.whom() if patience is not None else ())]


def _problem(
    folder: StateFolder, name: str, part: ReplicaRecord | RouterRecord, state: str
) -> Problem:
    ran = part.trouble not in {"port", "command"}  # else its log is about an earlier time
    tail = _last_said(folder, name) if ran else []
    next_step = remedy() if part.trouble == "command" else f"The log is {folder.layout.log(name)}."
    return Problem(
        "LC4004" if part.trouble in {"port", "conflict"} else "LC4003",
        f"{name} does not start: {part.reason}",
        found=" | ".join(tail) or None,
        hint=f"{state} {next_step}",
    )


def _last_said(folder: StateFolder, name: str) -> list[str]:
    """The end of a log, each line once: what failed three times says the same three times."""
    lines = folder.log_tail(name, TAIL_LINES * CRASH_LOOP)
    return list(dict.fromkeys(lines[::-1]))[:TAIL_LINES][::-1]


def _not_ready(observed: Observed | None, revision: int) -> list[ReplicaRecord]:
    if observed is None or observed.revision != revision:
        return []
    return [record for record in observed.replicas if record.state != "ready"]


def _state(folder: StateFolder, plan: Plan, revision: int, observed: Observed | None) -> str:
    """Desired and running, in one sentence."""
    names = {spec.name for spec in replica_specs(plan, folder.layout, "")}
    records = observed.replicas if observed else ()
    ready = sum(record.state == "ready" and record.name in names for record in records)
    older = sum(record.state == "ready" and record.name not in names for record in records)
    text = f"Revision {revision} stays desired and the controller goes on: "
    text += f"{ready} of {len(names)} replicas are ready"
    if older:
        text += f", {older} of an older revision still serve"
    return text + "."
