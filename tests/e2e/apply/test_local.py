"""Apply, change, break and delete a fleet with the real router and real or simulated engines."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from msgspec.structs import replace

from llmd_ctl.apply.apply import ApplyResult, apply_plan
from llmd_ctl.apply.delete import delete_fleet
from llmd_ctl.apply.events import ApplyEvent, EndpointAnswered
from llmd_ctl.apply.files import RealFiles
from llmd_ctl.apply.machine import Machine
from llmd_ctl.apply.real import real_machine
from llmd_ctl.apply.state import StateFolder
from llmd_ctl.apply.status import FleetStatus, fleet_status
from llmd_ctl.perf.facts import ReplicaFacts
from llmd_ctl.plan import HOST, PORT, PYTHON, Plan, PlannedVariant
from tests.unit.controller.plans import external, model, plan, variant

FACTS = ReplicaFacts(
    speed=1.0,
    weight_bytes=16e9,
    flops_per_token=16e9,
    attention_flops_per_pair=5e5,
    kv_bytes_per_token=131072.0,
    weight_bandwidth=2.5e12,
    kv_bandwidth=2e12,
    gemm_flops=5e14,
    gemm_half_tokens=128.0,
    attention_flops=2e14,
    step_us=2000.0,
    sequence_us=5.0,
    token_us=0.0,
    request_us=500.0,
    max_batched_tokens=8192,
    max_sequences=128,
    kv_tokens=400000,
    block_size=16,
    max_model_len=8192,
    prefix_caching=True,
    confidence="low",
)


def simulated(name: str, replicas: int = 1, speed: float = 1.0) -> PlannedVariant:
    facts = replace(FACTS, speed=speed).to_json()
    return replace(variant(name, replicas), facts=facts)


def llamacpp(name: str, model_file: Path, parallel: int = 2) -> PlannedVariant:
    command = (
        PYTHON, "-m", "llmd_ctl.apply.llamacpp_server", "--model", str(model_file),
        "--host", HOST, "--port", PORT, "--alias", "chat", "--ctx-size", str(2048 * parallel),
        "--parallel", str(parallel), "--threads", "1", "--metrics",
    )  # fmt: skip
    return replace(variant(name), engine="llamacpp", simulated=False, command=command, facts=None)


class Fleet:
    """One fleet, through the same functions as the command line."""

    def __init__(self, folder: Path, machine: Machine) -> None:
        self.folder = StateFolder("prod", folder, RealFiles())
        self.machine = machine
        self.events: list[ApplyEvent] = []

    def apply(self, wanted: Plan, *, wait: bool = True) -> ApplyResult:
        listen = self.events.append
        return apply_plan(wanted, self.folder, self.machine, sys.executable, listen, wait=wait)

    def delete(self) -> None:
        delete_fleet(self.folder, self.machine, sys.executable, self.events.append)
        assert self.pids() == {}

    def status(self) -> FleetStatus:
        found = fleet_status(self.folder, self.machine)
        assert found is not None
        return found

    def pids(self) -> dict[str, int]:
        marked = self.machine.processes.marked(self.folder.path)
        return {found.replica: found.process.pid for found in marked}

    def only(self, part: str) -> int:
        (pid,) = (pid for name, pid in self.pids().items() if part in name)
        return pid


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with real_machine() as machine:
        made = Fleet(tmp_path / "prod", machine)
        yield made
        made.delete()


def until(condition: Callable[[], object], seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)


def ask(url: str | None, tokens: int = 2) -> httpx.Response:
    body = {"model": "chat", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": tokens}
    return httpx.post(f"{url}/v1/chat/completions", json=body, timeout=30.0, trust_env=False)


def test_a_simulated_fleet_is_applied_changed_and_deleted(fleet: Fleet) -> None:
    result = fleet.apply(plan(model("chat", simulated("a", 2), simulated("b"))))
    answered = [event for event in fleet.events if isinstance(event, EndpointAnswered)]
    assert len(answered) == 3
    assert all(event.simulated for event in answered)
    response = ask(result.url)
    assert response.status_code == 200
    assert response.headers["x-llmd-ctl-simulated"] == "true"
    before = fleet.pids()
    assert fleet.apply(plan(model("chat", simulated("a", 2), simulated("b")))).changes == ()
    assert fleet.pids() == before
    changed = plan(model("chat", simulated("a", 2), simulated("b", speed=2.0)))
    assert fleet.apply(changed).revision == 2
    kept = {name: pid for name, pid in before.items() if "-b-" not in name}
    assert kept.items() <= fleet.pids().items()
    shown = fleet.status()
    assert shown.converged
    assert [one.ready for one in shown.models[0].variants] == [2, 1]


def test_a_real_engine_is_served_beside_a_simulated_one(fleet: Fleet, tiny_model: Path) -> None:
    engine = llamacpp("cpu", tiny_model / "tiny.gguf")
    result = fleet.apply(plan(model("chat", engine)))
    response = ask(result.url)
    assert response.status_code == 200
    assert "x-llmd-ctl-simulated" not in response.headers
    assert response.json()["model"] == "chat"
    before = fleet.pids()
    fleet.apply(plan(model("chat", engine, simulated("a"))))
    assert before.items() <= fleet.pids().items()


@pytest.mark.slow
def test_no_request_is_lost_while_a_variant_is_rolled(fleet: Fleet) -> None:
    result = fleet.apply(plan(model("chat", simulated("a", 2))))
    code = (
        "import httpx, sys\n"
        "codes = []\n"
        "body = {'model': 'chat', 'prompt': 'x', 'max_tokens': 20}\n"
        "with httpx.Client(trust_env=False, timeout=30) as client:\n"
        "    print('go', flush=True)\n"
        "    import select\n"
        "    while not select.select([sys.stdin], [], [], 0)[0]:\n"
        f"        codes.append(client.post('{result.url}/v1/completions', json=body).status_code)\n"
        "print(len(codes), sorted(set(codes)))\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as load:
        assert load.stdout is not None
        assert load.stdin is not None
        load.stdout.readline()
        fleet.apply(plan(model("chat", simulated("a", 2, speed=2.0))))
        load.stdin.write("stop\n")
        load.stdin.flush()
        count, _, codes = load.stdout.read().partition(" ")
    assert codes.strip() == "[200]"
    assert int(count) > 10


@pytest.mark.slow
def test_a_killed_engine_comes_back_and_a_killed_router_on_the_same_address(fleet: Fleet) -> None:
    result = fleet.apply(plan(model("chat", simulated("a"))))
    for part in ("-a-", "@router"):
        old = fleet.only(part)
        os.kill(old, signal.SIGKILL)
        until(lambda: old not in fleet.pids().values())  # noqa: B023 - it is used at once
        until(lambda: fleet.status().converged and fleet.status().models[0].variants[0].ready == 1)
        assert fleet.only(part) != old
        assert ask(result.url).status_code == 200


def test_a_controller_that_is_asked_to_stop_leaves_the_fleet_serving(fleet: Fleet) -> None:
    wanted = plan(model("chat", simulated("a")))
    result = fleet.apply(wanted)
    before = fleet.pids()
    controller = fleet.folder.controller()
    assert controller is not None
    os.kill(controller.pid, signal.SIGTERM)
    until(lambda: fleet.status().controller == "not running")
    assert ask(result.url).status_code == 200
    assert fleet.apply(wanted).changes == ()
    assert fleet.pids() == before


def test_an_engine_that_runs_already_is_routed_and_not_managed(
    fleet: Fleet, tiny_model: Path, free_port: int
) -> None:
    command = [sys.executable, "-m", "llmd_ctl.apply.llamacpp_server", "--alias", "chat"]
    command += ["--model", str(tiny_model / "tiny.gguf"), "--port", str(free_port), "--metrics"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as engine:
        until(lambda: httpx.get(f"http://127.0.0.1:{free_port}/health").is_success
              if fleet.machine.processes.listener(free_port) else False)  # fmt: skip
        old = external("old", f"http://127.0.0.1:{free_port}")
        result = fleet.apply(plan(model("chat", old)))
        assert ask(result.url).status_code == 200
        assert fleet.status().models[0].variants[0].ready == 1
        fleet.delete()
        assert engine.poll() is None
        engine.terminate()
