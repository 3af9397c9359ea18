"""One run of traffic through an applied fleet: load, a kill in its middle, and the logs of it.

Called by `script`. The load generator is the `llmd-ctl load` command in a process of its own; the
engine is killed with SIGKILL, as a crash would do it. What the run did is read from files later.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
from msgspec import Struct

from llmd_ctl.cli.demo.numbers import Json, RunLogs
from llmd_ctl.cli.planning import folder_of
from llmd_ctl.cli.status import status_of
from llmd_ctl.errors import ApplyFailed

if TYPE_CHECKING:
    from collections.abc import Callable

    from llmd_ctl.apply import FleetStatus

POLL_SECONDS = 0.25
GRACE_SECONDS = 120.0  # a stuck request must not hang the demo


class Traffic(Struct, frozen=True):
    """What is sent in each run. `victim` is the variant to kill; None: the busiest one."""

    model: str
    rate: float
    seconds: float
    seed: int
    victim: str | None = None


class Kill(Struct, frozen=True):
    """The engine that was killed, and when after the traffic began."""

    variant: str
    replica: str
    after_seconds: float


def send(fleet: str, traffic: Traffic, folder: Path, show: Callable[[str], None]) -> Kill:
    """Send the traffic, kill an engine halfway, keep all logs in `folder`."""
    folder.mkdir(parents=True)
    status = status_of(fleet)
    log = folder / "load.jsonl"
    command = [
        sys.executable, "-P", "-m", "llmd_ctl", "load", str(status.router_url),
        "--model", traffic.model, "--rate", f"{traffic.rate:.3f}",
        "--seconds", f"{traffic.seconds:g}", "--seed", str(traffic.seed), "--log", str(log),
    ]  # fmt: skip
    with (folder / "load.txt").open("w") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=output, stdin=subprocess.DEVNULL, start_new_session=True
        )
        try:
            killed = _attend(process, fleet, traffic, log, show)
        finally:
            process.kill()
            process.wait()
    _keep(fleet, folder)
    return killed


def _attend(
    process: subprocess.Popen[bytes],
    fleet: str,
    traffic: Traffic,
    log: Path,
    show: Callable[[str], None],
) -> Kill:
    """Watch the load until it ends; kill an engine on the way."""
    while not log.exists() and process.poll() is None:
        time.sleep(0.02)
    began = time.monotonic()
    killed: Kill | None = None
    while process.poll() is None:
        elapsed = time.monotonic() - began
        if elapsed > traffic.seconds + GRACE_SECONDS:
            raise ApplyFailed.of("LC6007", "the demo's traffic does not end")
        status = status_of(fleet)
        if killed is None and elapsed >= traffic.seconds / 2:
            killed = _kill_busiest(status, traffic.victim, elapsed)
        show(_line(status, log, min(elapsed, traffic.seconds)))
        time.sleep(POLL_SECONDS)
    if killed is None or not log.exists():
        text = (log.parent / "load.txt").read_text("utf-8").strip()
        raise ApplyFailed.of("LC6007", "the demo's traffic broke off", found=text or None)
    return killed


def _kill_busiest(status: FleetStatus, victim: str | None, elapsed: float) -> Kill | None:
    """SIGKILL the engine with the most requests in flight, so that the crash is felt."""
    running = [
        (replica.inflight or 0, replica.pid, replica.name, variant.name)
        for model in status.models
        for variant in model.variants
        if victim in (None, variant.name)
        for replica in variant.replicas
        if replica.pid is not None and replica.state == "ready"
    ]
    if not running or max(running)[0] == 0:
        return None
    _, pid, replica, variant = max(running)
    os.kill(pid, signal.SIGKILL)
    return Kill(variant, replica, round(elapsed, 3))


def _line(status: FleetStatus, log: Path, elapsed: float) -> str:
    ended = log.read_bytes().count(b"\n") if log.exists() else 0
    parts = [
        f"{variant.name} {sum(replica.inflight or 0 for replica in variant.replicas)}"
        for model in status.models
        for variant in model.variants
    ]
    return f"{elapsed:4.0f} s  {ended} requests ended; in flight: {', '.join(parts)}"


def _keep(fleet: str, folder: Path) -> None:
    """Copy what the numbers are made of: access logs, who is who, the router's metrics."""
    status = status_of(fleet)
    endpoints = {
        replica.name: variant.name
        for model in status.models
        for variant in model.variants
        for replica in variant.replicas
    }
    (folder / "endpoints.json").write_text(json.dumps(endpoints, indent=2), "utf-8")
    metrics = httpx.get(f"{status.router_admin_url}/metrics", timeout=5)
    (folder / "metrics.txt").write_text(metrics.text, "utf-8")
    source = folder_of(fleet)
    (folder / "access").mkdir()
    for name in endpoints:
        path = Path(source.layout.access_log(name))
        if path.exists():
            shutil.copy(path, folder / "access" / f"{name}.jsonl")


def read_logs(folder: Path) -> RunLogs:
    """Read back what a run left in its folder."""

    def lines(path: Path) -> list[Json]:
        return [json.loads(line) for line in path.read_text("utf-8").splitlines()]

    access = {path.stem: lines(path) for path in sorted((folder / "access").glob("*.jsonl"))}
    variants = json.loads((folder / "endpoints.json").read_text("utf-8"))
    return RunLogs(lines(folder / "load.jsonl"), access, variants)
