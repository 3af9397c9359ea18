"""Real strangers on a replica's port, and the environment that real replicas get."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from llmd_ctl.apply.records import ReplicaRecord
from llmd_ctl.errors import ApplyFailed
from llmd_ctl.plan import PORT, PlannedVariant
from tests.e2e.apply.test_local import Fleet, ask, fleet, simulated, until
from tests.unit.controller.plans import model, plan, variant

pytestmark = pytest.mark.slow

__all__ = ["fleet"]
ENGINE = str(Path(__file__).with_name("sharing_engine.py"))


def late(served: str, seconds: float) -> PlannedVariant:
    command = (sys.executable, ENGINE, served, PORT, str(seconds))
    return replace(variant("late"), simulated=False, command=command, facts=None)


@contextmanager
def stranger(port: int, served: str) -> Iterator[int]:
    command = [sys.executable, ENGINE, served, str(port), "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process.pid
            assert process.poll() is None, "somebody ended it"
        finally:
            process.kill()


def record(fleet: Fleet) -> ReplicaRecord | None:
    observed = fleet.folder.observed()
    return observed.replicas[0] if observed and observed.replicas else None


def replica(fleet: Fleet) -> ReplicaRecord:
    found = record(fleet)
    assert found is not None
    return found


def backoffs(fleet: Fleet) -> set[str]:
    """Why engines were started again, by the log: nobody may have looked while they waited."""
    lines = fleet.folder.log_tail("controller", 1_000)
    return {line.partition(" backoff ")[2] for line in lines if " backoff port " in line}


@pytest.mark.parametrize("served", ["tiny", "chat"])
def test_an_engine_moves_when_a_stranger_takes_its_port_before_it_listens(
    fleet: Fleet, served: str
) -> None:
    wanted = plan(model("chat", late("chat", 6.0)))
    fleet.apply(wanted, wait=False)
    until(lambda: (found := record(fleet)) and found.state == "starting")
    port = replica(fleet).port
    with stranger(port, served) as pid:
        result = fleet.apply(wanted)
        (reason,) = backoffs(fleet)
        assert reason.startswith(f"port {port} is taken by pid {pid} ({sys.executable} {ENGINE}")
        after = replica(fleet)
        assert after.state == "ready"
        assert after.port != port
        assert fleet.status().converged
        assert {ask(result.url).json()["model"] for _ in range(20)} == {"chat"}


def test_an_engine_that_serves_another_model_is_not_waited_for(fleet: Fleet) -> None:
    with pytest.raises(ApplyFailed, match="does not start: serves tiny, not chat"):
        fleet.apply(plan(model("chat", late("tiny", 0.0))))


def test_a_new_replica_has_the_environment_of_the_latest_apply(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    def token(part: str) -> bytes | None:
        lines = Path(f"/proc/{fleet.only(part)}/environ").read_bytes().split(b"\0")
        return dict(line.split(b"=", 1) for line in lines if b"=" in line).get(b"HF_TOKEN")

    monkeypatch.delenv("HF_TOKEN", raising=False)
    fleet.apply(plan(model("chat", simulated("a"))))
    monkeypatch.setenv("HF_TOKEN", "new")
    fleet.apply(plan(model("chat", simulated("a"), simulated("b"))))
    assert (token("-a-"), token("-b-")) == (None, b"new")
    monkeypatch.delenv("HF_TOKEN")
    fleet.apply(plan(model("chat", simulated("b"), simulated("c"))))
    assert (token("-b-"), token("-c-")) == (b"new", None)
    for path in fleet.folder.path.rglob("*.json"):
        assert b"HF_TOKEN" not in path.read_bytes()
