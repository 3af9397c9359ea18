"""The whole report: machine, commit, tables, who was absent, what did not count."""

from __future__ import annotations

import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.routers import footprint, table
from benchmarks.routers.ends import Report
from benchmarks.routers.subject import ROOT, Subject
from benchmarks.routers.table import Runs
from benchmarks.routers.workload import WORKLOADS, Effort

NOTES = Path(__file__).with_name("notes.md")


def text(
    runs: Runs,
    wanted: list[Subject],
    absent: dict[str, str],
    top: str,
    resting: dict[str, Report],
) -> str:
    """Markdown; `top` is what `head` said when it was measured."""
    parts = [top]
    aware = [subject.name for subject in wanted if subject.kind == "cache-aware"]
    for workload in WORKLOADS:
        if workload.name in runs:
            kept = runs[workload.name]
            best = table.best_cache_aware(kept, aware)
            parts.append(table.cpu_table(workload.name, workload.unit, kept, best))
            if "--rate" in workload.options:
                parts.append(table.latency_table(workload.name, kept))
    if resting:
        parts.append(footprint.table(resting))
    if absent:
        parts.append("Absent: " + "; ".join(f"{name}: {why}" for name, why in absent.items()) + ".")
    wrong = table.problems(runs)
    parts.append("\n".join(wrong) if wrong else "Every request was answered whole, in every run.")
    parts.append(NOTES.read_text().strip())
    return "\n\n".join(parts) + "\n"


def head(effort: Effort) -> str:
    """When, where, what."""
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M")
    return (
        "# The router beside its peers\n\n"
        f"{now} UTC, commit {commit()}. {processor()}, Linux {platform.release()}; loopback. "
        f"{effort.rounds} rounds of {effort.seconds:g} s, everybody in turn in each; medians. "
        "README.md says what each figure means."
    )


def commit() -> str:
    """The commit, and whether the tree is as committed."""
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip() or "unknown"


def processor() -> str:
    """The processor's name, how many there are, and how busy they were just now."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    load = Path("/proc/loadavg").read_text().split()[0]
    return f"{len(names)} × {names[0] if names else 'unknown'}, load average {load}"
