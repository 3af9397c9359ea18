"""A load summary for people: a few plain lines. Called by `verb`; it computes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from llmd_ctl.plan.units import counted


def lines(summary: dict[str, Any]) -> Iterator[str]:
    """Write the summary as lines of text."""
    ended = summary["ended"]
    bad = ", ".join(f"{n} {kind}" for kind, n in ended.items() if n and kind != "done")
    yield (
        f"{counted(summary['requests'], 'request')} ({summary['streams']} streamed) in "
        f"{summary['seconds']:.1f} s: {ended['done']} done{', ' + bad if bad else ''}"
    )
    if summary["simulated"]:
        answers = counted(summary["simulated"], "answer")
        yield f"SIMULATED: {answers} came from simulated engines"
    rate = summary["completionTokensPerSecond"] or 0.0
    yield (
        f"tokens: {summary['promptTokens']} in ({summary['cachedTokens']} from the prefix cache), "
        f"{summary['completionTokens']} out, {rate:.0f}/s"
    )
    names = {"ttftUs": "time to first token", "itlUs": "between tokens", "wholeUs": "whole request"}
    for key, name in names.items():
        values = summary[key]
        parts = "  ".join(f"{q} {duration(values[q])}" for q in ("p50", "p95", "p99"))
        yield f"{name:<20} {parts}"


def duration(us: int | None) -> str:
    """Write microseconds with the unit that reads best."""
    if us is None:
        return "-"
    if us >= 1_000_000:
        return f"{us / 1e6:.2f} s"
    return f"{us / 1000:.1f} ms" if us < 10_000 else f"{us / 1000:.0f} ms"
