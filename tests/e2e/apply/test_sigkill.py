"""Real processes, real SIGKILL: the next command leaves exactly what is desired, once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from llmd_ctl.apply.process import RealProcesses
from llmd_ctl.plan import Plan
from llmd_ctl.render import Layout, replica_specs
from tests.unit.controller.plans import model, plan, variant

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[2]
FIRST = plan(model("chat", variant("a", 2), variant("b")))
SECOND = plan(model("chat", variant("a", 2, speed=2.0), variant("d")))
WRAPPER = """\
#!/bin/sh
case "$*" in
  *llmd_ctl.controller*) exec {python} {here}/killed_child.py controller "$@" ;;
  *llmd_ctl.router*) exec {python} {here}/stand_in.py router "$@" ;;
  *llmd_ctl.sim*) exec {python} {here}/stand_in.py engine "$@" ;;
esac
exit 64
"""


class Fleet:
    """One fleet in a state folder of its own, driven by child processes."""

    def __init__(self, folder: Path) -> None:
        self.state = folder / "prod"
        self.python = folder / "python"
        self.python.write_text(WRAPPER.format(python=sys.executable, here=HERE))
        self.python.chmod(0o755)
        self.plans = folder / "plan.json"

    def kills(self, *points: int) -> None:
        (self.state.parent / "kills").write_text("\n".join(map(str, points)))

    def run(self, role: str, wanted: Plan | None, kill_after: int = 0) -> int:
        if wanted is not None:
            self.plans.write_text(json.dumps(wanted.to_json()))
        command = [sys.executable, str(HERE / "killed_child.py"), role, str(self.state)]
        command += [str(self.plans), str(kill_after)]
        env = {**os.environ, "STAND_IN_PYTHON": str(self.python), "PYTHONPATH": str(REPOSITORY)}
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=100)
        assert done.returncode in {0, -signal.SIGKILL}, done.stderr
        return done.returncode

    def marked(self) -> list[str]:
        return sorted(found.replica for found in RealProcesses().marked(self.state))

    def controllers(self) -> list[int]:
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    line = (entry / "cmdline").read_bytes()
                except OSError:
                    continue
                if b"killed_child.py\0controller" in line and str(self.state).encode() in line:
                    found.append(int(entry.name))
        return found

    def kill_controllers(self) -> None:
        for pid in self.controllers():
            os.kill(pid, signal.SIGKILL)
        until = time.monotonic() + 5
        while self.controllers() and time.monotonic() < until:
            time.sleep(0.01)

    def settled(self, wanted: Plan) -> None:
        specs = replica_specs(wanted, Layout("prod", str(self.state)), str(self.python))
        assert self.marked() == sorted([*(spec.name for spec in specs), "@router"])
        assert len(self.controllers()) == 1
        replicas = json.loads((self.state / "replicas.json").read_text())["replicas"]
        assert {item["state"] for item in replicas} == {"ready"}

    def destroy(self) -> None:
        self.kill_controllers()
        processes = RealProcesses()
        for found in processes.marked(self.state):
            processes.signal(found.process, found.replica, signal.SIGKILL)


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    made = Fleet(tmp_path)
    yield made
    made.destroy()


@pytest.mark.slow
@pytest.mark.parametrize("point", [1, 4, 8])
def test_apply_killed_for_real(fleet: Fleet, point: int) -> None:
    fleet.kills(0)
    assert fleet.run("apply", FIRST) == 0
    pids = {found.replica: found.process.pid for found in RealProcesses().marked(fleet.state)}
    fleet.run("apply", SECOND, kill_after=point)
    assert fleet.run("apply", SECOND) == 0
    fleet.settled(SECOND)
    after = {found.replica: found.process.pid for found in RealProcesses().marked(fleet.state)}
    assert pids["@router"] == after["@router"]
    assert fleet.run("delete", None) == 0
    assert not fleet.marked()
    assert not fleet.controllers()


@pytest.mark.slow
@pytest.mark.parametrize("point", [5, 11, 12, 14, 18])
def test_controller_killed_for_real(fleet: Fleet, point: int) -> None:
    fleet.kills(point)
    assert fleet.run("apply", FIRST) == 0
    fleet.kill_controllers()
    fleet.kills(point)
    assert fleet.run("apply", SECOND) == 0
    if not fleet.controllers():
        assert fleet.run("apply", SECOND) == 0
    fleet.settled(SECOND)
    fleet.kill_controllers()
    fleet.kills(point)
    assert fleet.run("delete", None) == 0
    assert not fleet.marked()
    assert not fleet.controllers()


@pytest.mark.slow
def test_adopted_for_real_without_a_restart(fleet: Fleet) -> None:
    assert fleet.run("apply", FIRST) == 0
    before = {found.replica: found.process.pid for found in RealProcesses().marked(fleet.state)}
    fleet.kill_controllers()
    (fleet.state / "observed.json").unlink()
    assert fleet.run("apply", FIRST) == 0
    fleet.settled(FIRST)
    after = {found.replica: found.process.pid for found in RealProcesses().marked(fleet.state)}
    assert after == before
    assert fleet.run("delete", None) == 0
    assert not fleet.marked()
    assert not fleet.controllers()
