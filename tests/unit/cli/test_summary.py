"""Percentiles and counts of a raw log."""

import pytest

from llmd_ctl.cli.load.summary import percentile, percentiles, summarize
from llmd_ctl.cli.load.view import lines


@pytest.mark.parametrize(
    ("count", "share", "expected"),
    [(1, 0.5, 1), (2, 0.5, 1), (3, 0.5, 2), (100, 0.95, 95), (100, 0.99, 99), (101, 0.99, 100)],
)
def test_a_percentile_is_the_value_at_the_nearest_rank(
    count: int, share: float, expected: int
) -> None:
    assert percentile(list(range(1, count + 1)), share) == expected


def test_no_values_have_no_percentile() -> None:
    assert percentiles([]) == {"count": 0, "p50": None, "p95": None, "p99": None}


def line(**changes: object) -> dict[str, object]:
    return {
        "requestId": "a", "stream": True, "startUs": 1_000_000, "firstTokenUs": 1_100_000,
        "endUs": 2_000_000, "ended": "done", "simulated": False,
        "chunkUs": [1_100_000, 1_120_000, 1_150_000],
        "promptTokens": 10, "completionTokens": 3, "cachedTokens": 4,
    } | changes  # fmt: skip


def test_the_summary_follows_from_the_log() -> None:
    broken = line(ended="error-event", endUs=3_000_000, chunkUs=[1_200_000], firstTokenUs=1_200_000)
    found = summarize([line(), broken])
    assert found["requests"] == 2
    assert found["ended"]["error-event"] == 1
    assert found["seconds"] == 2.0
    assert found["ttftUs"]["p50"] == 100_000
    assert (found["itlUs"]["count"], found["itlUs"]["p50"], found["itlUs"]["p95"]) == (
        2,
        20_000,
        30_000,
    )
    assert found["completionTokens"] == 3


def test_simulated_answers_are_counted_and_said() -> None:
    assert summarize([line()])["simulated"] == 0
    found = summarize([line(simulated=True), line()])
    assert found["simulated"] == 1
    assert "SIMULATED: 1 answer came" in "\n".join(lines(found))
    assert "SIMULATED" not in "\n".join(lines(summarize([line()])))


def test_one_request_is_told_in_the_singular() -> None:
    assert next(lines(summarize([line()]))).startswith("1 request (1 streamed)")


def test_an_empty_log_has_a_summary() -> None:
    assert summarize([])["requestsPerSecond"] is None
