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
    from llmd_ctl.profiles import Catalog
    from llmd_ctl.spec import LoadedFleet

ARM = ("aarch64", "arm64")  # as systems call it
CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")
SMI_SECONDS = 10


def observe(loaded: LoadedFleet, catalog: Catalog, *, devices: bool) -> Observed:
    """Look at what this fleet's plan depends on. `devices`: also look for accelerators."""
    from llmd_ctl.plan import Observed
    from llmd_ctl.profiles import read_local_model

    local = {m.uri for m in loaded.fleet.spec.models if not m.uri.startswith("hf://")}
    return Observed(
        accelerators={_cpu(): 1, **(_nvidia(catalog) if devices else {})},
        memory_bytes=_memory_bytes(),
        cores=len(os.sched_getaffinity(0)),
        models={uri: read_local_model(loaded.resolve(uri)) for uri in sorted(local)},
    )


def _cpu() -> str:
    """The profile of the machine itself."""
    return "cpu-arm" if os.uname().machine in ARM else "cpu-x86"


def _memory_bytes() -> int:
    """Main memory, or what this process's group may use of it."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        limit = CGROUP_LIMIT.read_text("ascii").strip()
    except OSError:
        return total
    return min(total, int(limit)) if limit.isdigit() else total


def _nvidia(catalog: Catalog) -> dict[str, int]:
    """NVIDIA devices by profile, as the driver's own tool lists them."""
    command = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    try:
        answer = subprocess.run(
            command, capture_output=True, text=True, timeout=SMI_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return {}
    if answer.returncode != 0:
        return {}
    known = [catalog.accelerator(name) for name in catalog.names("AcceleratorProfile")]
    # A profile that extends another is the same device; it counts as the one that it extends.
    profiles = {one.spec.driver_name: one.lineage[-1] for one in known if one.spec.driver_name}
    names = [line.strip() for line in answer.stdout.splitlines()]
    return dict(Counter(profiles[name] for name in names if name in profiles))
