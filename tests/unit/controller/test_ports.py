"""Ports and strangers on them: rarely the same, noticed when they are, and never touched."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest

from llmd_ctl.apply.address import ENGINE_PORTS, PortBook, engine_ports
from llmd_ctl.apply.apply import ApplyResult, apply_plan
from llmd_ctl.apply.delete import delete_fleet
from llmd_ctl.apply.events import ApplyEvent, StateMoved
from llmd_ctl.apply.machine import MARK_STATE
from llmd_ctl.apply.records import Observed, ReplicaRecord
from llmd_ctl.apply.state import StateFolder
from llmd_ctl.errors import ApplyFailed
from llmd_ctl.plan import Plan
from tests.unit.controller.plans import model, plan, real_variant, variant
from tests.unit.controller.world import PYTHON, ROOT, Proc, World

LATE = plan(model("chat", variant("late", startup_seconds=60)))
ONE = plan(model("chat", variant("a")))
TWO = plan(model("chat", variant("a", 2), variant("b")))
BOOT_SECONDS = 40.0


def apply(
    world: World, wanted: Plan, events: list[ApplyEvent] | None = None, **options: Any
) -> ApplyResult:
    machine = world.machine(world.actor())
    listen = (events if events is not None else []).append
    return apply_plan(wanted, world.folder(machine), machine, PYTHON, listen, **options)


def late_world() -> World:
    """A world in which the engine listens long after it was started."""
    world = World()
    world.boot_seconds = {"late": BOOT_SECONDS}
    apply(world, LATE, wait=False)
    world.advance(3.0)
    return world


def record(world: World) -> ReplicaRecord:
    (found,) = Observed.from_json(json.loads(world.files[ROOT / "prod" / "observed.json"])).replicas
    return found


def recorded_ports(world: World) -> dict[str, int]:
    ports: dict[str, int] = json.loads(world.files[ROOT / "prod" / "ports.json"])["ports"]
    return ports


def engine(world: World) -> Proc:
    """The only engine of this fleet."""
    ours = (proc for proc in world.living() if proc.env.get(MARK_STATE) == str(ROOT / "prod"))
    (found,) = (proc for proc in ours if proc.mark.startswith("chat-"))
    return found


def engine_names(world: World) -> set[str]:
    return {name for name in world.ours() if name != "@router"}


def untouched(stranger: Proc) -> bool:
    return stranger.alive and stranger.signals == []


def said(events: list[ApplyEvent], state: str) -> list[str]:
    moves = [event for event in events if isinstance(event, StateMoved)]
    return [move.reason for move in moves if move.state == state and move.name != "@router"]


def test_fleets_with_different_state_folders_start_at_different_ports() -> None:
    orders = [engine_ports(ROOT / f"fleet-{number}") for number in range(200)]
    assert all(sorted(order) == list(ENGINE_PORTS) for order in orders[:3])
    assert orders[0] == engine_ports(ROOT / "fleet-0")
    assert len({order[0] for order in orders}) > 190
    assert range(18000, 29000) == ENGINE_PORTS


def test_two_fleets_that_met_on_a_port_go_on_to_different_ones() -> None:
    world = World()
    meeting = engine_ports(ROOT / "prod")[0]
    moved = set()
    for home in ("one", "two"):
        machine = world.machine(world.actor())
        world.folders.add(ROOT / home / "prod")
        folder = StateFolder("prod", ROOT / home / "prod", machine.files)
        book = PortBook(folder, machine, {"chat-a-0-123456": meeting})
        moved.add(book.move_engine("chat-a-0-123456", meeting))
        assert folder.ports() == book.ports
    assert len(moved - {None, meeting, meeting + 1}) == 2


def test_the_order_of_ports_goes_round_at_the_end_of_the_range() -> None:
    order = engine_ports(ROOT / "prod")
    place = order.index(28999)
    assert order[place + 1] == 18000


def test_a_stranger_on_a_first_port_only_moves_the_choice() -> None:
    world = World()
    first, second, *_ = engine_ports(ROOT / "prod")
    strangers = [world.stranger(port) for port in (8000, first)]
    result = apply(world, ONE)
    assert result.url == "http://127.0.0.1:8001"
    assert engine(world).port == second
    assert all(untouched(stranger) for stranger in strangers)


def test_two_fleets_never_choose_the_same_port() -> None:
    world = World()
    apply(world, ONE)
    ports = recorded_ports(world)
    first, second, third, fourth, *_ = engine_ports(ROOT / "prod")
    world.files[ROOT / "dev" / "ports.json"] = json.dumps(
        {"version": 1, "ports": {"x": second, "router": 8001}}
    ).encode()
    apply(world, TWO)
    after = recorded_ports(world)
    assert ports.items() <= after.items()
    assert {after[name] for name in engine_names(world)} == {first, third, fourth}


def test_a_crashed_replica_whose_port_was_taken_meanwhile_gets_another_one() -> None:
    world = World()
    apply(world, ONE)
    crashed = engine(world)
    stranger = world.stranger(crashed.port)
    world.signal(crashed, signal.SIGKILL)
    world.advance(3.0)
    assert record(world).state == "ready"
    assert engine(world).port != crashed.port
    assert recorded_ports(world)[crashed.mark] == engine(world).port == record(world).port
    assert untouched(stranger)


def test_a_stranger_that_took_the_port_before_the_engine_listens_is_noticed() -> None:
    world = late_world()
    before = engine(world)
    stranger = world.stranger(before.port)
    events: list[ApplyEvent] = []
    start = world.now
    apply(world, LATE, events)
    (reason,) = said(events, "backoff")
    assert reason == (
        f"port {before.port} is taken by pid {stranger.id.pid} "
        f"(python3 -m http.server {before.port}), which this fleet did not start"
    )
    assert engine(world).port != before.port
    assert recorded_ports(world)[before.mark] == engine(world).port == record(world).port
    assert untouched(stranger)
    assert not before.alive
    assert record(world).failures == 1
    assert engine(world).born - before.died >= world.limits.backoff_first_seconds
    assert world.now - start < BOOT_SECONDS + 10.0  # noticed at once, not when it should be up


def test_the_same_model_in_another_state_home_is_a_stranger_too() -> None:
    world = late_world()
    before = engine(world)
    twin = world.stranger(before.port)
    twin.env.update({**before.env, MARK_STATE: "/elsewhere/prod"})
    apply(world, LATE)
    assert engine(world).port != before.port
    assert untouched(twin)


def test_a_stranger_that_comes_to_a_ready_replica_ends_it_only_after_its_requests() -> None:
    world = World()
    apply(world, ONE)
    before = engine(world)
    world.inflight[before.mark] = 1
    stranger = world.stranger(before.port)
    world.advance(world.limits.port_ready_seconds + 1.0)
    assert record(world).state == "draining"
    assert f"pid {stranger.id.pid} " in record(world).reason
    assert before.alive
    world.inflight[before.mark] = 0
    world.advance(4.0)
    assert record(world).state == "ready"
    assert engine(world).port != before.port
    assert untouched(stranger)


def test_a_replica_in_conflict_is_drained_no_longer_than_any_other() -> None:
    world = World()
    apply(world, ONE)
    before = engine(world)
    world.inflight[before.mark] = 1
    world.stranger(before.port)
    world.advance(world.limits.port_ready_seconds + world.limits.drain_seconds + 5.0)
    assert engine(world).port != before.port


def test_workers_of_the_replica_are_no_strangers() -> None:
    world = World()
    apply(world, ONE)
    before = engine(world)
    worker = world.worker(before)
    worker.port = before.port
    world.advance(world.limits.port_ready_seconds * 3)
    assert engine_names(world) == {before.mark}
    assert before.alive
    assert worker.alive


def test_conflicts_that_go_on_end_the_apply_with_who_it_is() -> None:
    world = late_world()
    machine = world.machine(world.actor())
    clock: Any = machine.clock
    followers: list[Proc] = []

    def follow() -> None:
        ports = {stranger.port for stranger in followers}
        ours = [proc for proc in world.living() if proc.mark.startswith("chat-")]
        followers.extend(world.stranger(p.port) for p in ours if p.port not in ports)

    clock.on_sleep = follow
    with pytest.raises(ApplyFailed) as error:
        apply_plan(LATE, world.folder(machine), machine, PYTHON, lambda _event: None)
    (problem,) = error.value.problems
    assert problem.code == "LC4004"
    assert f"pid {followers[-1].id.pid} " in problem.message
    assert all(untouched(stranger) for stranger in followers)
    assert len({stranger.port for stranger in followers}) == 3


def test_an_engine_that_serves_another_model_is_a_failure_soon_and_with_that_reason() -> None:
    world = World()
    world.misnamed = {"late"}
    start = world.now
    with pytest.raises(ApplyFailed) as error:
        apply(world, LATE)
    (problem,) = error.value.problems
    assert problem.code == "LC4003"
    assert "does not start: serves another model, not chat" in problem.message
    assert world.now - start < 10.0


def test_what_cannot_be_looked_into_is_a_stranger_only_when_it_serves_another_model() -> None:
    world = late_world()
    before = engine(world)
    wrapped = world.stranger(before.port)
    wrapped.env.update({**before.env, MARK_STATE: "not passed on"})
    wrapped.veiled = True
    apply(world, LATE)
    world.advance(world.limits.port_ready_seconds * 2)
    assert before.alive
    assert record(world).state == "ready"
    world = late_world()
    before = engine(world)
    world.stranger(before.port).veiled = True
    events: list[ApplyEvent] = []
    apply(world, LATE, events)
    assert "is taken by another user's process" in said(events, "backoff")[0]
    assert engine(world).port != before.port


def test_looking_for_strangers_is_rare() -> None:
    world = late_world()
    world.advance(BOOT_SECONDS)
    assert record(world).state == "ready"
    router = 2  # once for each of its ports
    assert world.looks <= BOOT_SECONDS / world.limits.port_starting_seconds + 1 + router
    world.looks = 0
    world.advance(600.0)
    assert world.looks == 600.0 / world.limits.port_ready_seconds


def test_the_routers_address_is_fixed_so_a_stranger_there_is_an_error() -> None:
    world = World()
    url = apply(world, ONE).url
    (router,) = world.named("@router")
    stranger = world.stranger(8000)
    world.signal(router, signal.SIGKILL)
    world.advance(3.0)
    with pytest.raises(ApplyFailed) as error:
        apply(world, ONE)
    (problem,) = error.value.problems
    assert problem.code == "LC4004"
    assert f"pid {stranger.id.pid} (python3 -m http.server 8000)" in problem.message
    assert untouched(stranger)
    world.advance(100.0)
    world.bury(stranger.id.pid, "")
    start = world.now
    assert apply(world, ONE).url == url
    assert world.now - start < 3.0  # it does not wait for the back-off to pass


def test_a_router_that_has_not_served_yet_moves_out_of_a_strangers_way() -> None:
    for port, url in ((8000, "http://127.0.0.1:8001"), (9090, "http://127.0.0.1:8000")):
        world = World()
        apply(world, ONE, wait=False)
        world.advance(0.1)
        (router,) = world.named("@router")
        stranger = world.stranger(port)
        world.bury(router.id.pid, "exited with code 1")
        world.signal(world.controllers()[0], signal.SIGKILL)
        assert apply(world, ONE).url == url
        assert untouched(stranger)
        assert recorded_ports(world)["routerAdmin"] == (9091 if port == 9090 else 9090)
        assert world.router_ports() == (
            recorded_ports(world)["router"],
            recorded_ports(world)["routerAdmin"],
        )


def test_the_answer_of_another_router_on_the_same_port_is_not_taken_for_its_own() -> None:
    for port in (8000, 9090):
        world = World()
        apply(world, ONE, wait=False)
        world.advance(0.1)
        (router,) = world.named("@router")
        other = world.stranger(port)
        events: list[ApplyEvent] = []
        apply(world, ONE, events)
        moves = [event for event in events if isinstance(event, StateMoved)]
        states = [(move.state, move.reason) for move in moves if move.name == "@router"]
        assert [state for state, _ in states[-3:]] == ["backoff", "starting", "ready"]
        assert f"port {port} is taken by pid {other.id.pid} " in states[-3][1]
        assert world.named("@router") != [router]
        assert port not in recorded_ports(world).values()
        assert untouched(other)


def test_a_conflict_is_settled_whenever_the_controller_is_killed() -> None:
    def effects(kill_after: int | None) -> int:
        world = World()
        apply(world, ONE)
        for proc in world.controllers():
            world.bury(proc.id.pid, "killed by SIGKILL")
        before = engine(world)
        stranger = world.stranger(before.port)
        world.signal(before, signal.SIGKILL)
        world.controller_kills = [kill_after]
        apply(world, ONE)
        world.advance(2.0)
        apply(world, ONE)
        assert untouched(stranger)
        assert world.overlaps == []
        assert record(world).port == engine(world).port != before.port
        assert recorded_ports(world)[before.mark] == record(world).port
        assert record(world).process == engine(world).id
        assert len([p for p in world.procs.values() if p.mark == before.mark]) == 2
        entry = json.loads(world.files[ROOT / "prod" / "replicas.json"])["replicas"][0]
        assert entry["port"] == record(world).port
        return max(len(runner.actor.effects) for runner in world.runners.values())

    for point in range(effects(None) + 1):
        effects(point)


def test_no_port_at_all_is_said_and_the_stranger_named() -> None:
    world = World()
    apply(world, plan(model("chat", real_variant("a"))))
    before = engine(world)
    stranger = world.stranger(before.port)
    full = {f"x{port}": port for port in ENGINE_PORTS}
    document = {"version": 1, "ports": full}
    world.files[ROOT / "dev" / "ports.json"] = json.dumps(document).encode()
    world.signal(before, signal.SIGKILL)
    world.advance(2.0)
    with pytest.raises(ApplyFailed) as error:
        apply(world, plan(model("chat", real_variant("a"))))
    (problem,) = error.value.problems
    assert problem.code == "LC4004"
    assert f"pid {stranger.id.pid} " in problem.message
    assert "no port of its range is free" in problem.message


def test_a_deleted_fleet_in_conflict_is_gone() -> None:
    world = late_world()
    stranger = world.stranger(engine(world).port)
    world.advance(0.5)
    machine = world.machine(world.actor())
    delete_fleet(world.folder(machine), machine, PYTHON, lambda _event: None)
    assert world.ours() == {}
    assert untouched(stranger)
