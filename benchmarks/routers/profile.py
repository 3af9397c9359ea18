"""Where our router's time goes: samples by function, taken while one workload runs."""

from __future__ import annotations

import shutil
import subprocess
import threading
from pathlib import Path

from benchmarks.routers.ends import Ends
from benchmarks.routers.subject import Running
from benchmarks.routers.workload import Effort, Workload, run

LINES = 60


def all_of(
    workloads: list[Workload], effort: Effort, ends: Ends, running: Running, folder: Path
) -> None:
    """A profile for each workload, as text in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    if not shutil.which("perf"):
        (folder / "none.txt").write_text("perf is not installed (Debian: linux-perf)\n")
        return
    for workload in workloads:
        file = running.place.folder / "perf"
        load = threading.Thread(target=run, args=(workload, effort, ends, running))
        load.start()
        # Hardware counters are absent in many virtual machines; the processor's clock is not.
        record = ["perf", "record", "-q", "-F", "1999", "-e", "cpu-clock", "-p"]
        record += [str(running.process.pid), "-o", str(file)]
        subprocess.run([*record, "--", "sleep", str(effort.seconds + 0.5)], check=True)
        load.join()
        show = ["perf", "report", "--stdio", "-i", str(file), "--percent-limit", "0.4"]
        sort = ["--sort", "sym", "--no-children"]
        done = subprocess.run([*show, *sort], check=True, capture_output=True, text=True)
        lines = [line for line in done.stdout.splitlines() if line.strip() and line[:1] != "#"]
        name = "".join(letter if letter.isalnum() else "-" for letter in workload.name.lower())
        (folder / f"{name}.txt").write_text("\n".join(lines[:LINES]) + "\n")
