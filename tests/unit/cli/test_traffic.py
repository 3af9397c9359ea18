"""The seeded traffic: the same every time, at the asked rate, in the asked mix."""

import json
from collections import Counter
from itertools import pairwise

import pytest

from llmd_ctl.cli.load.traffic import KINDS, Planned, plan_traffic


def long_run(**options: float) -> list[Planned]:
    return plan_traffic(seed=1, rate=options.get("rate", 20), seconds=options.get("seconds", 200))


def test_one_seed_gives_the_same_bytes_and_another_does_not() -> None:
    first, again = (plan_traffic(seed=3, rate=5, seconds=20) for _ in range(2))
    other = plan_traffic(seed=4, rate=5, seconds=20)
    assert [r.body("m") for r in first] == [r.body("m") for r in again]
    assert first[0].body("m") != other[0].body("m")


def test_the_rate_holds_for_all_kinds_together() -> None:
    requests = long_run()
    assert len(requests) / 200 == pytest.approx(20, rel=0.1)


def test_the_mix_is_counted_in_requests() -> None:
    counts = Counter(r.kind for r in long_run())
    shares = [counts[kind] / counts.total() for kind in KINDS]
    assert shares == pytest.approx([0.4, 0.3, 0.2, 0.1], abs=0.05)


def test_four_in_five_are_streamed_and_ask_for_usage() -> None:
    bodies = [json.loads(r.body("m")) for r in long_run()]
    assert sum(b["stream"] for b in bodies) / len(bodies) == pytest.approx(0.8, abs=0.03)
    assert all(b["stream_options"] == {"include_usage": True} for b in bodies if b["stream"])


def test_a_turn_carries_all_the_turns_before_it() -> None:
    sessions: dict[str, list[Planned]] = {}
    for request in long_run():
        if request.session:
            sessions.setdefault(request.session, []).append(request)
    pairs = [pair for turns in sessions.values() for pair in pairwise(turns)]
    assert len(pairs) > 100
    assert all(a.messages == b.messages[: len(a.messages)] for a, b in pairs)
    assert all(a.at < b.at for a, b in pairs)


def test_shared_prompts_start_with_one_of_a_few_prefixes() -> None:
    starts = {r.messages[0] for r in long_run() if r.kind == "shared"}
    assert len(starts) == 6
    assert all(len(text) >= 5_000 for _, text in starts)


def test_ids_are_unique_and_starts_in_order() -> None:
    requests = long_run()
    assert len({r.request_id for r in requests}) == len(requests)
    assert [r.at for r in requests] == sorted(r.at for r in requests)
