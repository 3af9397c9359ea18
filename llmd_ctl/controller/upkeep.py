"""Keeps what a fleet writes without end within bounds: the logs of processes and of requests.

Driven by the loop. A log past its limit is moved to `NAME.1`, whose old content goes, so a file
takes twice its limit at most: 16 MiB for what a process says, 64 MiB for requests (a simulated
engine's; some 250,000 lines). Of replicas that are gone, the newest files are kept. The history of
revisions is bounded where it is written, in `apply.state`.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from llmd_ctl.apply.state import StateFolder

CHECK_SECONDS = 10.0
# Folder -> the limit of a file in it.
LIMITS = {"logs": 16 * 1024 * 1024, "access": 64 * 1024 * 1024}
ENDINGS = (".log", ".jsonl")
MOVED = ".1"
KEPT_OF_GONE = 40
PERMANENT = frozenset({"controller", "router"})


class Upkeep:
    """One fleet's folder, looked at every so often."""

    def __init__(self, folder: StateFolder) -> None:
        self._folder = folder
        self._checked = 0.0

    def advance(self, now: float, replicas: AbstractSet[str]) -> None:
        """Bound the files of these replicas, and the number of files of others."""
        if now - self._checked < CHECK_SECONDS:
            return
        self._checked = now
        used = replicas | PERMANENT
        for name, limit in LIMITS.items():
            path = self._folder.path / name
            gone = []
            for file in self._folder.files.list(path):
                if file.endswith(ENDINGS):
                    self._folder.files.bound(path / file, limit)
                if _owner(file) not in used:
                    gone.append(file)
            if len(gone) > KEPT_OF_GONE:
                self._folder.files.prune(path, gone, KEPT_OF_GONE)


def _owner(file: str) -> str:
    name = file.removesuffix(MOVED)
    for ending in ENDINGS:
        name = name.removesuffix(ending)
    return name
