"""Counts and percentiles of a raw log, for `llmd-ctl load`.

`percentile` is the nearest rank: the smallest value that at least that share of all values do not
exceed. It is a value that was measured, never one between two.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

Json = dict[str, Any]
QUANTILES = {"p50": 0.50, "p95": 0.95, "p99": 0.99}


def percentile(values: Sequence[int], share: float) -> int | None:
    """The value at a nearest rank of sorted `values`; None when there are none."""
    if not values:
        return None
    return values[max(0, math.ceil(share * len(values)) - 1)]


def percentiles(values: Iterable[int]) -> Json:
    """p50, p95 and p99 in whole microseconds, and how many values they stand for."""
    ordered = sorted(values)
    found = {name: percentile(ordered, share) for name, share in QUANTILES.items()}
    return {"count": len(ordered), **found}


def first_token_times(lines: Iterable[Json]) -> list[int]:
    """Time to first token of each stream that had one."""
    return [x["firstTokenUs"] - x["startUs"] for x in lines if x["firstTokenUs"] is not None]


def gaps(lines: Iterable[Json]) -> list[int]:
    """Time between one chunk of text and the next, over all streams."""
    out: list[int] = []
    for line in lines:
        out += [after - before for before, after in pairwise(line["chunkUs"])]
    return out


def summarize(lines: list[Json]) -> Json:
    """Summarize a raw log. `seconds` runs from the first start to the last end.

    `simulated` counts the answers that said so: their times are computed, not an engine's.
    """
    ended = Counter(line["ended"] for line in lines)
    done = [line for line in lines if line["ended"] == "done"]
    first = min((line["startUs"] for line in lines), default=0)
    last = max((line["endUs"] for line in lines), default=0)
    seconds = (last - first) / 1e6
    tokens = sum(line["completionTokens"] or 0 for line in done)
    return {
        "requests": len(lines),
        "streams": sum(line["stream"] for line in lines),
        "ended": {
            kind: ended[kind]
            for kind in ("done", "error-event", "silent", "refused", "client-error")
        },
        "simulated": sum(line["simulated"] for line in lines),
        "seconds": seconds,
        "requestsPerSecond": len(lines) / seconds if seconds else None,
        "promptTokens": sum(line["promptTokens"] or 0 for line in done),
        "cachedTokens": sum(line["cachedTokens"] or 0 for line in done),
        "completionTokens": tokens,
        "completionTokensPerSecond": tokens / seconds if seconds else None,
        "ttftUs": percentiles(first_token_times(lines)),
        "itlUs": percentiles(gaps(lines)),
        "wholeUs": percentiles(line["endUs"] - line["startUs"] for line in done),
    }
