"""From what stands on the command line to a plan, and to what it would change here.

Called by `validate`, `plan`, `diff`, `apply` and `demo`: one way, so that they never disagree.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from msgspec import Struct

from llmd_ctl.errors import Problem, SpecInvalid, UsageError

if TYPE_CHECKING:
    from llmd_ctl.apply.changes import Change
    from llmd_ctl.apply.machine import Machine
    from llmd_ctl.apply.records import Observed
    from llmd_ctl.apply.state import StateFolder
    from llmd_ctl.plan import Plan
    from llmd_ctl.profiles import Catalog
    from llmd_ctl.spec import LoadedFleet

T = TypeVar("T")
FASTEST, SLOWEST = 1000.0, 0.0001
LARGEST_PLAN = 64 * 1024 * 1024


def speed(simulate: str | None) -> float | None:
    """Read the value of --simulate. Raises `UsageError`."""
    if simulate is None:
        return None
    try:
        value = float(simulate)
    except ValueError:
        value = math.nan
    if not SLOWEST <= value <= FASTEST:
        raise UsageError.of(
            "LC6002",
            "--simulate takes a speed",
            found=simulate,
            allowed=(f"{SLOWEST:g} to {FASTEST:g}",),
            hint="Write --simulate for the planned speed, or --simulate=0.1 for a tenth of it.",
        )
    return value


def load_one(source: str) -> LoadedFleet:
    """Load the one fleet of a source. Raises `SpecInvalid` or `UsageError`."""
    from llmd_ctl.spec import load_fleets

    loaded = load_fleets([source])
    if len(loaded) > 1:
        names = ", ".join(one.fleet.metadata.name for one in loaded)
        hint = "Give each fleet a file of its own; only `validate` takes several at once."
        raise UsageError.of("LC6004", f"{source} holds several fleets: {names}", hint=hint)
    return loaded[0]


def catalog_for(loaded: LoadedFleet) -> Catalog:
    """The built-in profiles and the fleet's own. Raises `SpecInvalid`."""
    from llmd_ctl.profiles import Catalog

    return Catalog.load([loaded.resolve(path) for path in loaded.fleet.spec.profiles])


def make_plan(loaded: LoadedFleet, simulate: float | None, *, rehearsal: bool = False) -> Plan:
    """Plan a fleet for this machine. Raises `SpecInvalid` or `DoesNotFit`."""
    from llmd_ctl.cli.observe import observe
    from llmd_ctl.plan.planner import plan

    catalog = catalog_for(loaded)
    seen = observe(loaded, catalog, devices=simulate is None)
    return plan(loaded, catalog, seen, simulate, rehearsal=rehearsal)


def read_plan_file(source: str) -> Plan | None:
    """The plan in a file that `plan -o` wrote; None when the file is something else."""
    from llmd_ctl.cli.plan_view import plan_from_document
    from llmd_ctl.spec.json_text import read_json

    path = Path(source)
    if path.suffix != ".json" or not path.is_file() or path.stat().st_size > LARGEST_PLAN:
        return None
    try:
        document = read_json(path.read_bytes())
    except ValueError as error:
        raise SpecInvalid.of("LC3001", f"{source} is no JSON: {error}") from error
    if isinstance(document, dict) and "apiVersion" in document:
        return None
    if not isinstance(document, dict):
        found = "a list" if isinstance(document, list) else "a single value"
        raise SpecInvalid.of("LC3001", f"{source} is not a plan", found=found)
    return plan_from_document(document)


def is_plan_file(source: str) -> bool:
    """Whether `plan_for` reads a plan there, and not a fleet."""
    return source != "-" and read_plan_file(source) is not None


class Preview(Struct, frozen=True):
    """A plan and what it would change; `shown` is that for people, with places in the file."""

    plan: Plan
    changes: tuple[Change, ...]
    shown: tuple[Change, ...]


def preview(source: str, simulate: str | None) -> Preview:
    """Plan a fleet file, or read a plan file, and compare it with what is here."""
    from llmd_ctl.cli.places import placed

    planned, loaded = _planned(source, simulate)
    changes = changes_of(planned)
    return Preview(planned, changes, placed(changes, loaded) if loaded is not None else changes)


def plan_for(source: str, simulate: str | None) -> Plan:
    """The plan of a fleet file, or the one in a plan file."""
    return _planned(source, simulate)[0]


def _planned(source: str, simulate: str | None) -> tuple[Plan, LoadedFleet | None]:
    planned = read_plan_file(source) if source != "-" else None
    if planned is None:
        loaded = load_one(source)
        return make_plan(loaded, speed(simulate)), loaded
    if simulate is not None:
        hint = "Plan again with --simulate, or apply the fleet file with it."
        raise UsageError.of("LC6004", "a plan file already says what is simulated", hint=hint)
    return planned, None


def missing_here(plan: Plan) -> list[Problem]:
    """A warning for each engine whose program this machine does not have."""
    import sys

    from llmd_ctl.apply.process import RealProcesses
    from llmd_ctl.apply.program import missing_programs

    layout = folder_of(plan.fleet).layout
    return missing_programs(plan, layout, sys.executable, RealProcesses(), severity="warning")


def folder_of(fleet: str) -> StateFolder:
    """The state folder of a fleet by name. Raises `UsageError` for what is no name: no path is."""
    from llmd_ctl.apply.files import RealFiles
    from llmd_ctl.apply.state import StateFolder

    if not _is_name(fleet):
        raise UsageError.of("LC6006", "this is no name of a fleet", found=fleet)
    return StateFolder.of(fleet, RealFiles())


def fleet_name(given: str) -> str:
    """The fleet that a file or a name on the command line means."""
    if not is_file(given):
        return known_folder(given).fleet
    planned = read_plan_file(given) if given != "-" else None
    return planned.fleet if planned else load_one(given).fleet.metadata.name


def is_file(given: str) -> bool:
    """Whether a word on the command line means a file and not a fleet's name."""
    looks_like_one = given == "-" or "/" in given or given.endswith((".yaml", ".yml", ".json"))
    return looks_like_one or Path(given).is_file()


def known_folder(fleet: str) -> StateFolder:
    """The state folder of a fleet that was applied here once. Raises `UsageError`."""
    folder = folder_of(fleet)
    if not (folder.path / "desired.json").exists():
        known = tuple(known_fleets())
        raise UsageError.of(
            "LC6006", "no fleet of this name was applied here", found=fleet, allowed=known
        )
    return folder


def known_fleets() -> list[str]:
    """The fleets that have state on this machine."""
    from llmd_ctl.apply.state import state_root

    root = state_root(os.environ)
    names = (path.parent.name for path in root.glob("*/desired.json"))
    return sorted(name for name in names if _is_name(name))


def _is_name(fleet: str) -> bool:
    from llmd_ctl.spec.fields import DNS_LABEL

    return DNS_LABEL.fullmatch(fleet) is not None


@contextmanager
def machine() -> Iterator[Machine]:
    """This machine: real files, processes, network and clock."""
    from llmd_ctl.apply.clock import RealClock
    from llmd_ctl.apply.files import RealFiles
    from llmd_ctl.apply.machine import Machine
    from llmd_ctl.apply.network import RealNetwork
    from llmd_ctl.apply.process import RealProcesses

    network = RealNetwork()
    try:
        yield Machine(RealFiles(), RealProcesses(), network, RealClock())
    finally:
        network.close()


def changes_of(plan: Plan) -> tuple[Change, ...]:
    """What applying a plan would change, by what is desired and what runs. Changes nothing."""
    from llmd_ctl.apply.changes import compare
    from llmd_ctl.apply.state import desired_plan

    folder = folder_of(plan.fleet)
    desired, observed = _readable(folder.desired), _readable(folder.observed)
    before = desired_plan(desired.content)
    if desired.content is not None and desired.content.plan is not None and before is None:
        _warn_unreadable(f"{folder.path / 'desired.json'} holds no plan that can be read")
    return compare(before, plan, _running(observed.content) if observed.known else None)


class _Found(Struct, Generic[T], frozen=True):
    """A document of the state folder. Not known: it is there and can't be read."""

    content: T | None
    known: bool = True


def _readable(read: Callable[[], T | None]) -> _Found[T]:
    """For a preview a document that can't be read says nothing; `apply` sets it aside."""
    from llmd_ctl.apply.state import Unreadable

    try:
        return _Found(read())
    except Unreadable as error:
        _warn_unreadable(str(error))
        return _Found(None, known=False)


def _warn_unreadable(message: str) -> None:
    from llmd_ctl.cli.problems import tell

    hint = "What is shown leaves out what it said. Apply keeps it under another name and goes on."
    tell([Problem("LC4002", message, hint=hint, severity="warning")])


def _running(observed: Observed | None) -> frozenset[str]:
    """The replicas whose processes are alive."""
    from llmd_ctl.apply.process import RealProcesses

    processes = RealProcesses()
    replicas = observed.replicas if observed is not None else ()
    return frozenset(
        record.name
        for record in replicas
        if record.process is not None and processes.ended(record.process, None) is None
    )
