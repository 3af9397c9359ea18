"""What a controller finds when it starts: which running processes it takes over, which it stops.

Called once by the loop, before its first tick. A process counts as ours by its record (pid, start
time, command line) or by the marker in its environment, which also finds one whose controller was
killed between starting it and writing it down. Everything else on the machine is not looked at.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from llmd_ctl.apply.machine import Machine, Marked
from llmd_ctl.apply.records import ROUTER_MARK, Observed, ProcessId, ReplicaRecord
from llmd_ctl.apply.state import StateFolder
from llmd_ctl.render import ReplicaSpec


class Adoption(Struct, frozen=True):
    """The inheritance: replicas with or without a process, the router, and who has to go.

    `router_served`: people may have the router's address, whether it runs or not.
    """

    replicas: tuple[ReplicaRecord, ...]
    router: ProcessId | None
    router_served: bool
    strays: tuple[Marked, ...]


def adopt(
    folder: StateFolder,
    machine: Machine,
    observed: Observed | None,
    specs: Sequence[ReplicaSpec],
    revision: int,
) -> Adoption:
    """Match records with processes, and unrecorded processes with the plan."""
    marked = machine.processes.marked(folder.path)
    records = {record.name: record for record in observed.replicas} if observed else {}
    router = observed.router.process if observed and observed.router else None
    chosen = {
        name: _choose(machine, name, record.process, marked) for name, record in records.items()
    }
    planned = {spec.name: spec for spec in specs}
    kept = [_kept(machine, record, chosen[name], marked) for name, record in records.items()]
    for name in planned.keys() - records.keys():
        found = _choose(machine, name, None, marked)
        if found is not None:
            chosen[name] = found
            kept.append(_unrecorded(planned[name], found, marked, revision, machine))
    chosen[ROUTER_MARK] = _choose(machine, ROUTER_MARK, router, marked)
    known = {process.pid for process in chosen.values() if process is not None}
    live_names = {name for name, process in chosen.items() if process is not None}
    strays = tuple(
        found
        for found in marked
        if found.process.pid not in known and (found.leader or found.replica not in live_names)
    )
    served = observed.router.served if observed and observed.router else False
    return Adoption(tuple(kept), chosen[ROUTER_MARK], served, strays)


def _choose(
    machine: Machine, name: str, recorded: ProcessId | None, marked: Sequence[Marked]
) -> ProcessId | None:
    """The one process of that name: the recorded one, else the oldest that carries the marker."""
    if recorded is not None and machine.processes.ended(recorded, name) is None:
        return recorded
    found = [item.process for item in marked if item.replica == name and item.leader]
    return min(found, key=lambda process: process.start_time, default=None)


def _kept(
    machine: Machine, record: ReplicaRecord, process: ProcessId | None, marked: Sequence[Marked]
) -> ReplicaRecord:
    if process is None or process == record.process:
        return record  # a recorded process that is dead is noticed, and said, by the first tick
    return replace(
        record,
        state="starting",
        port=_port(process, marked),  # it may have got another one since the record was written
        process=process,
        since=machine.clock.wall(),
        reason="found running",
    )


def _unrecorded(
    spec: ReplicaSpec,
    process: ProcessId,
    marked: Sequence[Marked],
    revision: int,
    machine: Machine,
) -> ReplicaRecord:
    return ReplicaRecord(
        name=spec.name,
        model=spec.model,
        variant=spec.variant,
        index=spec.index,
        port=_port(process, marked),
        revision=revision,
        state="starting",
        since=machine.clock.wall(),
        reason="found running",
        process=process,
    )


def _port(process: ProcessId, marked: Sequence[Marked]) -> int:
    return next(item.port for item in marked if item.process == process)
