"""Laws of the decision: over any plan and any records, nothing doubled and nothing cut off."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from llmd_ctl.apply.records import ReplicaRecord, ReplicaState
from llmd_ctl.controller.decide import decide
from llmd_ctl.render import ReplicaSpec

STATES = st.sampled_from(["starting", "ready", "draining", "stopping", "backoff"])


def spec(index: int, digest: str) -> ReplicaSpec:
    return ReplicaSpec(f"m-v-{index}-{digest}", "m", "v", index, (), {}, None, 30.0)


def record(index: int, digest: str, state: ReplicaState, revision: int = 1) -> ReplicaRecord:
    return ReplicaRecord(
        name=f"m-v-{index}-{digest}",
        model="m",
        variant="v",
        index=index,
        port=1,
        revision=revision,
        state=state,
        since=0.0,
        reason="",
    )


SPECS = st.integers(0, 4).map(lambda count: [spec(i, "new") for i in range(count)])
RECORDS = st.lists(
    st.builds(
        record, st.integers(0, 4), st.sampled_from(["new", "old"]), STATES, st.integers(1, 2)
    ),
    unique_by=lambda item: item.index,
)


@given(SPECS, RECORDS)
def test_a_seat_is_filled_only_when_it_is_empty(
    specs: list[ReplicaSpec], records: list[ReplicaRecord]
) -> None:
    taken = {item.index for item in records}
    started = {item.index for item in decide(specs, records, 2).start}
    assert started == {item.index for item in specs} - taken


@given(SPECS, RECORDS)
def test_what_is_planned_is_never_retired(
    specs: list[ReplicaSpec], records: list[ReplicaRecord]
) -> None:
    assert not decide(specs, records, 2).retire & {item.name for item in specs}


@given(SPECS, RECORDS)
def test_at_most_one_serving_seat_is_rolled_and_only_when_the_others_are_settled(
    specs: list[ReplicaSpec], records: list[ReplicaRecord]
) -> None:
    decision = decide(specs, records, 2)
    seats = {item.index for item in specs}
    rolled = [
        item
        for item in records
        if item.name in decision.retire and item.state == "ready" and item.index in seats
    ]
    assert len(rolled) <= 1
    if rolled:
        assert not decision.start
        assert not [
            item
            for item in records
            if item.index in seats and item.state in {"draining", "stopping"}
        ]


@given(SPECS, RECORDS)
def test_a_planned_model_never_loses_its_last_ready_replica_to_a_removal(
    specs: list[ReplicaSpec], records: list[ReplicaRecord]
) -> None:
    seats = {item.index for item in specs}
    planned = {item.name for item in specs}
    retired = decide(specs, records, 2).retire
    ready = {item.name for item in records if item.state == "ready"}
    removed = {item.name for item in records if item.index not in seats} & retired & ready
    if removed and specs:
        assert ready & planned


def test_a_failed_step_of_a_roll_holds_the_next_one_back() -> None:
    records = [record(0, "new", "backoff", 2), record(1, "old", "ready")]
    assert not decide([spec(0, "new"), spec(1, "new")], records, 2).retire


def test_an_old_crash_does_not_hold_a_roll_back() -> None:
    records = [record(0, "new", "backoff", 1), record(1, "old", "ready")]
    assert decide([spec(0, "new"), spec(1, "new")], records, 2).retire == {"m-v-1-old"}
