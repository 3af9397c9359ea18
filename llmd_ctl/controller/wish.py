"""What the controller is asked for: the desired revision, its plan and its replicas, parsed once.

Read by the loop every tick; the file is parsed again only when its bytes change. A document that
can't be used never stops what runs: the revision before goes on, and the problem is said.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from llmd_ctl.apply.records import Desired, ReplicaRecord
from llmd_ctl.apply.state import StateFolder, Unreadable
from llmd_ctl.errors import SpecInvalid
from llmd_ctl.plan import Plan, PlannedModel, PlannedVariant
from llmd_ctl.render import ReplicaSpec, replica_specs


class Wish(Struct, frozen=True, eq=False):
    """A desired revision. Without a plan nothing should run; `problem` is for people."""

    content: bytes | None
    revision: int
    deleted: bool
    plan: Plan | None
    specs: tuple[ReplicaSpec, ...]
    problem: str | None = None

    @classmethod
    def nothing(cls) -> Wish:
        """Before anything was asked for."""
        return cls(None, 0, deleted=False, plan=None, specs=())


def read_wish(folder: StateFolder, present: Wish, python: str) -> Wish:
    """The wish on disk: the same object for as long as the file is the same."""
    content = folder.files.read(folder.path / "desired.json")
    if content == present.content:
        return present
    try:
        desired = folder.desired()
        if desired is not None:
            return _parsed(folder, content, desired, python)
        problem = "desired.json is missing"
    except Unreadable as error:
        problem = str(error)
    last = present if present.revision else _newest(folder, python)
    problem = f"{problem}; going on with revision {last.revision}"
    return replace(last, content=content, problem=problem)


def leaving_variants(
    folder: StateFolder, plan: Plan, records: Sequence[ReplicaRecord]
) -> list[tuple[PlannedModel, PlannedVariant]]:
    """Variants that are no longer planned but still have replicas, as they were planned last.

    Not as in the revision that started a replica: the history may not go back so far.
    """
    planned = {(model.name, variant.name) for model in plan.models for variant in model.variants}
    leaving = {(record.model, record.variant) for record in records} - planned
    found: dict[tuple[str, str], tuple[PlannedModel, PlannedVariant]] = {}
    for revision in reversed(folder.revisions() if leaving else []):
        past = _past_plan(folder, revision)
        for model in past.models if past else ():
            for variant in model.variants:
                if (model.name, variant.name) in leaving:
                    found.setdefault((model.name, variant.name), (model, variant))
        if leaving == found.keys():
            break
    return [found[slot] for slot in sorted(found)]


def _parsed(folder: StateFolder, content: bytes | None, desired: Desired, python: str) -> Wish:
    plan = None
    if desired.plan is not None:
        try:
            plan = Plan.from_json(desired.plan)
        except SpecInvalid as error:
            raise Unreadable(folder.path / "desired.json", str(error)) from error
    specs = replica_specs(plan, folder.layout, python) if plan else ()
    return Wish(content, desired.revision, desired.deleted, plan, specs)


def _newest(folder: StateFolder, python: str) -> Wish:
    """The newest revision of the history that can be read."""
    for revision in reversed(folder.revisions()):
        try:
            past = folder.past(revision)
            if past is not None:
                return _parsed(folder, None, past, python)
        except Unreadable:
            continue
    return Wish.nothing()


def _past_plan(folder: StateFolder, revision: int) -> Plan | None:
    try:
        past = folder.past(revision)
        return Plan.from_json(past.plan) if past and past.plan else None
    except (Unreadable, SpecInvalid):
        return None
