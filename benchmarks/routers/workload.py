"""The workloads, and what makes a run of one a right one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from benchmarks.routers.ends import Ends, Report, ask
from benchmarks.routers.subject import Running

STREAMS = 10
RATE = 500


@dataclass(frozen=True)
class Workload:
    """One kind of load; `unit` is what its processor time is told for."""

    name: str
    kind: str
    unit: str
    options: tuple[object, ...] = ()


WORKLOADS = (
    Workload("1 kB", "small", "request"),
    Workload("30 kB", "prompts", "request"),
    Workload("400 kB warm", "warm", "request"),
    Workload("400 kB cold", "cold", "request"),
    Workload("SSE", "stream", "token", ("--connections", STREAMS)),
    Workload("500/s", "small", "request", ("--rate", RATE, "--connections", 64)),
)


@dataclass(frozen=True)
class Effort:
    """How long one run lasts."""

    seconds: float
    tokens: int
    rounds: int

    @classmethod
    def quick(cls) -> Effort:
        """Enough to see where one stands."""
        return cls(seconds=2, tokens=3_000, rounds=2)

    @classmethod
    def full(cls) -> Effort:
        """For the record."""
        return cls(seconds=5, tokens=10_000, rounds=5)


def options_of(workload: Workload, effort: Effort) -> tuple[object, ...]:
    """The load's options but for where it goes."""
    if workload.kind == "stream":
        return ("--kind", "stream", "--tokens", effort.tokens, *workload.options)
    return ("--kind", workload.kind, "--seconds", effort.seconds, *workload.options)


def run(workload: Workload, effort: Effort, ends: Ends, running: Running) -> Report:
    """One run against one subject, with what the engines saw of it."""
    engines = running.place.engines[0]
    ask(engines, "/bench/reset")
    to, pid = f"127.0.0.1:{running.place.port}", running.process.pid
    options = options_of(workload, effort)
    report = ends.run("load", "--to", to, "--watch", pid, *options)
    seen = ask(engines, "/bench")
    counts = seen["engines"]
    total = sum(engine["requests"] for engine in counts)
    report["hit_share"] = sum(engine["hits"] for engine in counts) / max(1, total)
    report["engine_requests"] = [engine["requests"] for engine in counts]
    report["span_bytes"] = seen["span_bytes"]
    report["problem"] = problem(workload, report)
    return report


def direct(workload: Workload, effort: Effort, ends: Ends, engine: int) -> Report:
    """The same without anything between."""
    return ends.run("load", "--to", f"127.0.0.1:{engine}", *options_of(workload, effort))


def problem(workload: Workload, report: Report) -> str | None:
    """Why a run does not count: every answer must be whole."""
    if report["failed"]:
        return f"{report['failed']} requests failed: {report['error']}"
    if report["short_streams"]:
        return f"{report['short_streams']} streams were short"
    if report["requests"] == 0 or (workload.kind == "stream" and report["requests"] != STREAMS):
        return "not every request was answered"
    return None


def folder_of(top: Path, name: str) -> Path:
    """Where a subject may write."""
    return top / "".join(letter if letter.isalnum() else "-" for letter in name)
