"""What a pick costs by number of endpoints: time, and instructions where valgrind is there.

`python -m benchmarks.pick` runs `cargo bench -p llmd-sched --bench pick` for the times, three
times, and keeps the medians; then the same program under callgrind with two numbers of picks, the
difference of which is what picks cost (each with the rest of its request's events). Writes
pick.md beside itself. Called by `make bench`.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import statistics
import subprocess
import tempfile
from pathlib import Path

from benchmarks.routers.report import commit, processor

ROOT = Path(__file__).resolve().parent.parent
ROUNDS = 3
PICKS = (1_000, 3_000)
# 99th percentiles, in nanoseconds
LIMITS = {10: 3_000, 100: 15_000, 1_000: 80_000, 10_000: 800_000}
LINE = re.compile(r"endpoints (\d+) picks \d+ p50_ns (\d+) p99_ns (\d+)")


def program() -> Path:
    """The built bench."""
    argv = ["cargo", "bench", "-q", "-p", "llmd-sched", "--bench", "pick", "--no-run"]
    argv += ["--message-format", "json"]
    done = subprocess.run(argv, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    messages = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return Path(next(m["executable"] for m in messages if m.get("executable")))


def times(bench: Path) -> dict[int, list[tuple[int, int]]]:
    """By endpoints: the median and the 99th percentile of each round."""
    found: dict[int, list[tuple[int, int]]] = {}
    for _ in range(ROUNDS):
        done = subprocess.run([bench], check=True, stdout=subprocess.PIPE, text=True)
        for endpoints, p50, p99 in LINE.findall(done.stdout):
            found.setdefault(int(endpoints), []).append((int(p50), int(p99)))
    return found


def instructions(bench: Path, endpoints: int) -> int | None:
    """Of one request's events; `None` without valgrind."""
    if not shutil.which("valgrind"):
        return None
    totals = []
    with tempfile.TemporaryDirectory() as folder:
        for picks in PICKS:
            argv = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out"]
            argv += [str(bench), str(endpoints), str(picks)]
            done = subprocess.run(argv, check=True, capture_output=True, text=True)
            collected = re.search(r"Collected : (\d+)", done.stderr)
            if not collected:
                return None
            totals.append(int(collected[1]))
    return (totals[1] - totals[0]) // (PICKS[1] - PICKS[0])


def main() -> None:
    """Measures and tells."""
    plain = argparse.RawTextHelpFormatter
    argparse.ArgumentParser(description=__doc__, formatter_class=plain).parse_args()
    bench = program()
    lines = [
        "# What a pick costs",
        "",
        f"Commit {commit()}; {processor()}. A prompt of 100 blocks is looked up in a full pool with"
        f" traffic; medians of {ROUNDS} rounds. Instructions are of all events of a request.",
        "",
        "| endpoints | p50 µs | p99 µs | wanted p99 | instructions |",
        "|---|---|---|---|---|",
    ]
    for endpoints, rounds in times(bench).items():
        p50, p99 = (statistics.median(values) / 1_000 for values in zip(*rounds, strict=True))
        count = instructions(bench, endpoints)
        told = "no valgrind" if count is None else f"{count:,}"
        wanted = LIMITS[endpoints] / 1_000
        lines.append(f"| {endpoints:,} | {p50:.2f} | {p99:.2f} | {wanted:g} | {told} |")
    text = "\n".join(lines) + "\n"
    print(text)
    Path(__file__).with_suffix(".md").write_text(text)


if __name__ == "__main__":
    main()
