"""What a run did, computed from its logs and from nothing else.

Called by `demo.script`. Counts, tokens, shares and prefix hits come from the engines' access logs,
latencies from the load generator's raw log, joined by request id; only requests of that log count,
so the probes of `apply` do not. A request belongs to the variant whose engine finished it; one
that no engine finished belongs to none. `tests/recompute` is a second program for these numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from llmd_ctl.cli.load.summary import first_token_times, gaps, percentiles

Json = dict[str, Any]
FINISHED = ("stop", "length")
ENDS = ("done", "error-event", "silent", "refused", "client-error")


class VariantFacts(Struct, frozen=True):
    """A variant of the plan, with what it was planned to carry (all its replicas)."""

    name: str
    accelerator: str
    tokens_per_second: float


class RunLogs(Struct, frozen=True):
    """The logs of one run. `access` is by endpoint, `variant_of` gives an endpoint's variant."""

    load: list[Json]
    access: Mapping[str, list[Json]]
    variant_of: Mapping[str, str]


def variant_rows(logs: RunLogs, variants: Iterable[VariantFacts]) -> tuple[list[Json], Json]:
    """A row for each variant, and one for all of them."""
    finished = _finished(logs)
    listed = list(variants)
    capacity = sum(v.tokens_per_second for v in listed)
    every = [entry for _, entry in finished.values()]
    tokens = sum(_tokens(entry) for entry in every)
    rows = []
    for variant in listed:
        mine = {k: e for k, (owner, e) in finished.items() if owner == variant.name}
        sent = [line for line in logs.load if line["requestId"] in mine]
        row = _counts(mine.values()) | _latencies(sent)
        part = row["tokens"] / tokens if tokens else None
        share = variant.tokens_per_second / capacity if capacity else None
        head = {"name": variant.name, "accelerator": variant.accelerator}
        rows.append({**head, "tokenShare": part, "capacityShare": share, **row})
    return rows, _counts(every) | _latencies(logs.load)


def endings(load: list[Json]) -> Json:
    """How the requests ended, as their client saw it."""
    streams = Counter(line["ended"] for line in load if line["stream"])
    others = Counter(line["ended"] for line in load if not line["stream"])
    return {
        "streams": {end: streams[end] for end in ENDS},
        "nonStreams": {end: others[end] for end in ENDS},
    }


def _finished(logs: RunLogs) -> dict[str, tuple[str, Json]]:
    """Variant and access log line of each request that an engine finished, by request id."""
    asked = {line["requestId"] for line in logs.load}
    found: dict[str, tuple[str, Json]] = {}
    for endpoint, entries in logs.access.items():
        for entry in entries:
            if entry["requestId"] in asked and entry["finish"] in FINISHED:
                found[entry["requestId"]] = (logs.variant_of[endpoint], entry)
    return found


def _tokens(entry: Json) -> int:
    return int(entry["promptTokens"] + entry["completionTokens"])


def _counts(entries: Iterable[Json]) -> Json:
    listed = list(entries)
    prompt = sum(e["promptTokens"] for e in listed)
    cached = sum(e["cachedTokens"] for e in listed)
    return {
        "requests": len(listed),
        "promptTokens": prompt,
        "cachedTokens": cached,
        "completionTokens": sum(e["completionTokens"] for e in listed),
        "tokens": sum(_tokens(e) for e in listed),
        "prefixHitRate": cached / prompt if prompt else None,
    }


def _latencies(load: Iterable[Json]) -> Json:
    listed = list(load)
    return {
        "ttftUs": percentiles(first_token_times(listed)),
        "itlUs": percentiles(gaps(listed)),
    }
