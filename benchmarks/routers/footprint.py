"""What a subject takes without being in a hurry: memory, idling, open streams, a long run.

Each measurement starts the subject afresh. The idle one gives it 100 endpoints that answer each
reading of their metrics with a page recorded from a real engine.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.routers.ends import Ends, Report, free_ports
from benchmarks.routers.subject import Place, Running, Subject, start
from benchmarks.routers.table import number

FEW, MANY = 4, 100
MIB = 1 << 20
# Longer than any measurement: a stream that is held open sends one token and is then silent.
SILENCE_MS = 600_000
SOAK_PARTS = 10


@dataclass(frozen=True)
class Size:
    """How much is asked for."""

    requests: int
    idle_seconds: float
    streams: int = 9_000

    @classmethod
    def quick(cls) -> Size:
        """Enough to see where one stands."""
        return cls(requests=20_000, idle_seconds=4)

    @classmethod
    def full(cls) -> Size:
        """For the record."""
        return cls(requests=1_000_000, idle_seconds=15)


@dataclass(frozen=True)
class Bench:
    """Where and with what it is measured."""

    ends: Ends
    page: Path
    top: Path
    core: int


@contextmanager
def fresh(bench: Bench, subject: Subject, count: int, gap_ms: int = 1) -> Iterator[Running]:
    """A subject in front of so many engines of its own."""
    with bench.ends.engines(count, gap_ms=gap_ms, page=bench.page) as (port, spans):
        own = free_ports(2)
        folder = bench.top / f"{own}"
        place = Place(own, own + 1, spans, tuple(range(port, port + count)), folder)
        running = start(subject, place, bench.core)
        try:
            yield running
        finally:
            running.stop()


def of(bench: Bench, subject: Subject, size: Size) -> Report:
    """All of it for one subject."""
    ends = bench.ends
    with fresh(bench, subject, FEW) as running:
        pid = running.process.pid
        report: Report = {"few": ends.run("watch", "--pid", pid, "--seconds", 1)}
        requests = size.requests if subject.kind == "ours" else size.requests // 10
        report["after"] = ends.run("load", *load(running, "small", requests))
        report["after"]["asked"] = requests
    with fresh(bench, subject, MANY) as running:
        watch = ("--pid", running.process.pid, "--seconds", size.idle_seconds)
        report["many"] = ends.run("watch", *watch)
    with fresh(bench, subject, FEW, SILENCE_MS) as running:
        to, pid = f"127.0.0.1:{running.place.port}", running.process.pid
        streams = ("--to", to, "--watch", pid, "--streams", size.streams)
        report["streams"] = ends.run("hold", *streams)
    return report


def soak(bench: Bench, subject: Subject, requests: int) -> list[Report]:
    """So many requests in parts; each part's report has the memory at its end."""
    with fresh(bench, subject, FEW) as running:
        # First what fills the prefix index, or its growth would be taken for a leak.
        parts = [bench.ends.run("load", *load(running, "cold", max(100, requests // 1_000)))]
        each = requests // SOAK_PARTS
        parts += [bench.ends.run("load", *load(running, "small", each)) for _ in range(SOAK_PARTS)]
    return parts


def load(running: Running, kind: str, requests: int) -> tuple[object, ...]:
    """Options of a load that ends by itself."""
    to, pid = f"127.0.0.1:{running.place.port}", running.process.pid
    return ("--to", to, "--watch", pid, "--kind", kind, "--requests", requests, "--warm", 0)


def table(reports: dict[str, Report]) -> str:
    """Markdown."""
    lines = [
        "### At rest: memory, idling, open streams",
        "",
        f"| who | RSS MiB at {FEW} endpoints | after its requests | at {MANY} endpoints"
        f" | idle at {MANY} endpoints, cores | streams held open | kB each | MiB after they left |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, report in reports.items():
        after, held = report["after"], report["streams"]
        failed = f", {held['failed']} failed: {held['error']}" if held["failed"] else ""
        cells = [
            name,
            number(report["few"]["rss_bytes"] / MIB),
            f"{number(after['rss_bytes'] / MIB)} ({after['asked']:,})",
            number(report["many"]["rss_bytes"] / MIB),
            f"{report['many']['cores']:.4f}",
            f"{held['still_open']:,}{failed}",
            number(held["bytes_each"] / 1_000),
            number(held["rss_after_bytes"] / MIB),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def soak_table(parts: list[Report]) -> str:
    """Markdown."""
    lines = ["### Soak: memory of our router", "", "| requests so far | failed | RSS MiB |"]
    lines.append("|---|---|---|")
    total = 0
    for part in parts:
        total += part["requests"]
        rss = number(part["rss_bytes"] / MIB)
        lines.append(f"| {total:,} | {part['failed']} | {rss} |")
    return "\n".join(lines)
