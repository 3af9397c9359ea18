"""Raw runs to one table: medians, least and most, and ratios to nginx."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

from benchmarks.routers.ends import Report

Runs = dict[str, dict[str, list[Report]]]  # workload, subject, rounds

DIRECT = "direct"
SHIPPED, TUNED = "nginx (buffers as shipped)", "nginx"


def cpu_us(report: Report) -> float:
    """Processor time for each request or token."""
    return float(report["use"]["cpu_us_each"])


def good(runs: Sequence[Report]) -> list[Report]:
    """Those that count."""
    return [run for run in runs if not run.get("problem")]


def median_of(runs: Sequence[Report], value: Callable[[Report], float]) -> float | None:
    """The median over the rounds; `None` without any."""
    values = [value(run) for run in good(runs)]
    return statistics.median(values) if values else None


def spread_of(runs: Sequence[Report], value: Callable[[Report], float]) -> str:
    """Median (least-most)."""
    values = sorted(value(run) for run in good(runs))
    if not values:
        return "–"
    return f"{number(statistics.median(values))} ({number(values[0])}–{number(values[-1])})"


def number(value: float) -> str:
    """Three digits are enough."""
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def ratio(runs: dict[str, list[Report]], subject: str, other: str) -> str:
    """How many times `other`'s processor time a subject takes."""
    mine, theirs = median_of(runs.get(subject, []), cpu_us), median_of(runs.get(other, []), cpu_us)
    return f"{mine / theirs:.2f}" if mine and theirs else "–"


def cpu_table(workload: str, unit: str, runs: dict[str, list[Report]], best: str | None) -> str:
    """One workload's table."""
    lines = [
        f"### {workload}: processor time for each {unit}",
        "",
        f"| who | µs (least–most) | × nginx as shipped | × nginx, tuned"
        f" | × {best or 'best cache-aware'} | of it in user space | per second | p99 µs"
        " | prefix hits |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, reports in runs.items():
        if name == DIRECT:
            continue
        share = median_of(reports, lambda run: run["use"]["user_share"])
        rate = median_of(reports, lambda run: run["per_second"])
        hits = median_of(reports, lambda run: run["hit_share"])
        cells = [
            name,
            spread_of(reports, cpu_us),
            ratio(runs, name, SHIPPED),
            ratio(runs, name, TUNED),
            ratio(runs, name, best) if best else "–",
            "–" if share is None else f"{share:.0%}",
            "–" if rate is None else number(rate),
            spread_of(reports, lambda run: run["p99_us"]),
            "–" if hits is None or workload != "30 kB" else f"{hits:.0%}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def latency_table(workload: str, runs: dict[str, list[Report]]) -> str:
    """Time that a subject adds at a fixed rate."""
    p50, p99 = (lambda run: run["p50_us"]), (lambda run: run["p99_us"])
    base50, base99 = (median_of(runs.get(DIRECT, []), value) or 0.0 for value in (p50, p99))
    lines = [
        f"### {workload}: time added to that of the engine alone"
        f" (p50 {number(base50)} µs, p99 {number(base99)} µs)",
        "",
        "| who | p50 µs | p99 µs | p99 with the engine's (least–most) |",
        "|---|---|---|---|",
    ]
    for name, reports in runs.items():
        low, high = median_of(reports, p50), median_of(reports, p99)
        if name == DIRECT or low is None or high is None:
            continue
        cells = [name, number(low - base50), number(high - base99), spread_of(reports, p99)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def best_cache_aware(runs: dict[str, list[Report]], names: Sequence[str]) -> str | None:
    """The one of `names` with the least processor time."""
    medians = {name: median_of(runs.get(name, []), cpu_us) for name in names}
    known = {name: value for name, value in medians.items() if value}
    return min(known, key=lambda name: known[name]) if known else None


def problems(runs: Runs) -> list[str]:
    """Every run that did not count."""
    return [
        f"{workload}, {name}, round {at + 1}: {report['problem']}"
        for workload, subjects in runs.items()
        for name, reports in subjects.items()
        for at, report in enumerate(reports)
        if report.get("problem")
    ]
