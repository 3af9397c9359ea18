"""Runs the two ends of the bench, `llmd-bench`, on the processor that the subject has not."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Report = dict[str, Any]


class Ends:
    """The engines and the load of one bench."""

    def __init__(self, program: Path, core: int) -> None:
        taskset = shutil.which("taskset") or "taskset"
        self.argv = [taskset, "-c", str(core), str(program)]

    @contextmanager
    def engines(self, count: int, *, gap_ms: int = 1, page: Path) -> Iterator[tuple[int, int]]:
        """Engines while the context lasts; yields the first one's port and that for spans."""
        port = free_ports(count + 1)
        spans = port + count
        argv = [
            *(*self.argv, "engines", "--port", str(port), "--count", str(count)),
            *("--gap-ms", str(gap_ms), "--metrics", str(page), "--spans", str(spans)),
        ]
        process = subprocess.Popen(argv, stdout=subprocess.PIPE)
        try:
            if process.stdout is None or not process.stdout.readline():
                raise RuntimeError("the engines did not start")
            yield port, spans
        finally:
            process.terminate()
            process.wait()

    def run(self, what: str, *options: object) -> Report:
        """One run of the load; its report."""
        argv = [*self.argv, what, *map(str, options)]
        done = subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True)
        report: Report = json.loads(done.stdout)
        return report


def ask(port: int, path: str) -> Report:
    """What the engines say of themselves."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
        report: Report = json.load(answer)
    return report


def free_ports(count: int) -> int:
    """The first of so many free ports in a row, below those that the system gives out."""
    for first in range(20_000, 32_000 - count, count):
        held = []
        try:
            for port in range(first, first + count):
                held.append(socket.socket())
                held[-1].bind(("127.0.0.1", port))
        except OSError:
            continue
        else:
            return first
        finally:
            for one in held:
                one.close()
    raise RuntimeError(f"no {count} free ports in a row")
