"""A look at this machine and at the models on it, for `plan`, which itself looks at nothing.

Called by `planning`. What cannot be read is left out and the plan says so; nothing is started and
nothing is asked over the network.
"""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llmd_ctl.plan import Observed
    from llmd_ctl.spec import LoadedFleet

CPU = "cpu-x86"
NVIDIA = {"H100": "nvidia-h100", "L4": "nvidia-l4"}
CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")
SMI_SECONDS = 10


def observe(loaded: LoadedFleet, *, devices: bool) -> Observed:
    """Look at what this fleet's plan depends on. `devices`: also look for accelerators."""
    from llmd_ctl.plan import Observed
    from llmd_ctl.profiles import read_local_model

    local = {m.uri for m in loaded.fleet.spec.models if not m.uri.startswith("hf://")}
    return Observed(
        accelerators={CPU: 1, **(_nvidia() if devices else {})},
        memory_bytes=_memory_bytes(),
        cores=len(os.sched_getaffinity(0)),
        models={uri: read_local_model(loaded.resolve(uri)) for uri in sorted(local)},
    )


def _memory_bytes() -> int:
    """Main memory, or what this process's group may use of it."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        limit = CGROUP_LIMIT.read_text("ascii").strip()
    except OSError:
        return total
    return min(total, int(limit)) if limit.isdigit() else total


def _nvidia() -> dict[str, int]:
    """NVIDIA devices by profile, as the driver's own tool lists them."""
    command = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    try:
        answer = subprocess.run(
            command, capture_output=True, text=True, timeout=SMI_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return {}
    found: Counter[str] = Counter()
    for line in answer.stdout.splitlines() if answer.returncode == 0 else ():
        for word in line.split():
            if word in NVIDIA:
                found[NVIDIA[word]] += 1
    return dict(found)
