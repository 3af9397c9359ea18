"""What one run of a step takes: time, processor time and, of a command, memory.

Used by `benchmarks.control_plane`. A command is the whole of it, as a shell starts it; its memory
is the most that was resident, as the kernel counts it for the child.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

KIB_IN_MIB = 1024
# Run by a Python of its own: a child's peak begins with the memory of whoever starts it.
MEASURE = """
import resource, subprocess, sys, time
began = time.perf_counter()
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
wall = time.perf_counter() - began
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(wall, used.ru_utime + used.ru_stime, used.ru_maxrss, file=sys.stderr)
"""


@dataclass(frozen=True)
class Taken:
    """One run. `size_bytes` is what it made, where that is counted."""

    wall_ms: float
    cpu_ms: float
    peak_mib: float | None = None
    size_bytes: int | None = None


def of_call(call: Callable[[], int | None]) -> Taken:
    """Run a step in this process; it may return how many bytes it made."""
    began, cpu = time.perf_counter(), time.process_time()
    size = call()
    ended, cpu_ended = time.perf_counter(), time.process_time()
    return Taken((ended - began) * 1000, (cpu_ended - cpu) * 1000, size_bytes=size)


def of_command(words: list[str], home: Path) -> Taken:
    """Run `llmd-ctl` with these words."""
    environment = {**os.environ, "XDG_STATE_HOME": str(home)}
    argv = [sys.executable, "-I", "-c", MEASURE, sys.executable, "-m", "llmd_ctl", *words]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=True)
    wall, cpu, peak_kib = map(float, done.stderr.split()[-3:])
    return Taken(wall * 1000, cpu * 1000, peak_kib / KIB_IN_MIB)
