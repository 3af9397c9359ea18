"""Which replicas to start and which to retire: one pure function over plan and records.

Called by the loop every tick. The rules, in order:
1. A seat (model, variant, index) that is empty gets its planned replica at once.
2. What serves nobody and isn't planned goes at once.
3. A planned seat that runs something else is rolled: one replica a model at a time, and only while
   every new replica of the model so far is ready. A roll that fails stops, the rest keep serving.
4. A replica without a seat goes, but not the last ready one of a model before a planned one is
   ready: moving a model from one variant to another leaves no gap.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from llmd_ctl.apply.records import ReplicaRecord
from llmd_ctl.render import ReplicaSpec

LEAVING = ("draining", "stopping")


class Decision(Struct, frozen=True):
    """What changes in this tick; everything else goes on as it is."""

    start: tuple[ReplicaSpec, ...]
    retire: frozenset[str]


def decide(
    specs: Sequence[ReplicaSpec], records: Sequence[ReplicaRecord], revision: int
) -> Decision:
    """Compare what is planned in `revision` with what is there."""
    wanted = {spec.name for spec in specs}
    seats = {spec.slot for spec in specs}
    taken = {_slot(record) for record in records}
    start = tuple(spec for spec in specs if spec.slot not in taken)
    rolling = {spec.model for spec in start}
    rolling |= {record.model for record in records if _unsettled(record, wanted, seats, revision)}
    retire = set()
    for record in records:
        if record.name in wanted or record.state in LEAVING:
            continue
        if record.state != "ready":
            retire.add(record.name)
        elif _slot(record) in seats:
            if record.model not in rolling:
                rolling.add(record.model)
                retire.add(record.name)
        elif _can_spare(record, specs, records):
            retire.add(record.name)
    return Decision(start, frozenset(retire))


def _unsettled(
    record: ReplicaRecord, wanted: set[str], seats: set[tuple[str, str, int]], revision: int
) -> bool:
    """Is this replica a step of a roll that has not come to its end?"""
    if record.name not in wanted:
        return record.state in LEAVING and _slot(record) in seats
    if record.state == "backoff":
        return record.revision == revision
    return record.state != "ready"


def _can_spare(
    record: ReplicaRecord, specs: Sequence[ReplicaSpec], records: Sequence[ReplicaRecord]
) -> bool:
    planned = {spec.name for spec in specs if spec.model == record.model}
    ready = {other.name for other in records if other.state == "ready"}
    return not planned or bool(planned & ready)


def _slot(record: ReplicaRecord) -> tuple[str, str, int]:
    return (record.model, record.variant, record.index)
