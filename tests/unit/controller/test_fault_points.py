"""Killed after any effect, apply and controllers are replaced by the next ones without a trace."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from llmd_ctl.apply.apply import ApplyResult, apply_plan
from llmd_ctl.apply.delete import delete_fleet
from llmd_ctl.plan import Plan
from llmd_ctl.render import Layout, replica_specs
from tests.unit.controller.plans import model, plan, variant
from tests.unit.controller.world import PYTHON, ROOT, Actor, Killed, World

FIRST = plan(model("chat", variant("a", 2), variant("b")), model("code", variant("c")))
SECOND = plan(model("chat", variant("a", 2, speed=2.0), variant("d")), model("code", variant("c")))
Step = Callable[[World, Actor], object]


def apply(world: World, actor: Actor, wanted: Plan) -> ApplyResult:
    machine = world.machine(actor)
    return apply_plan(wanted, world.folder(machine), machine, PYTHON, lambda _event: None)


def first(world: World, actor: Actor) -> object:
    return apply(world, actor, FIRST)


def second(world: World, actor: Actor) -> object:
    return apply(world, actor, SECOND)


def delete(world: World, actor: Actor) -> object:
    machine = world.machine(actor)
    return delete_fleet(world.folder(machine), machine, PYTHON, lambda _event: None)


def names(wanted: Plan) -> set[str]:
    layout = Layout("prod", str(ROOT / "prod"))
    return {spec.name for spec in replica_specs(wanted, layout, PYTHON)}


def expected(step: Step) -> set[str]:
    planned: dict[Step, set[str]] = {first: names(FIRST), second: names(SECOND), delete: set()}
    return planned[step] | {"@router"} if planned[step] else set()


def prepared(step: Step) -> World:
    """A world in the state that the step starts from."""
    world = World()
    if step is not first:
        first(world, world.actor())
    return world


def settled(world: World, step: Step) -> None:
    """Exactly what is desired runs, once, with one controller, and the files say the same."""
    marks = sorted(proc.mark for proc in world.living() if proc.mark)
    assert marks == sorted(expected(step))
    assert world.overlaps == []
    assert len(world.controllers()) == (0 if step is delete else 1)
    if step is delete:
        assert ROOT / "prod" / "replicas.json" not in world.files
        return
    replicas = json.loads(world.files[ROOT / "prod" / "replicas.json"])["replicas"]
    assert {entry["name"] for entry in replicas} == expected(step) - {"@router"}
    assert {entry["state"] for entry in replicas} == {"ready"}
    assert {entry["name"]: entry["pid"] for entry in replicas}.items() <= world.ours().items()
    ports = json.loads(world.files[ROOT / "prod" / "ports.json"])["ports"]
    assert len(set(ports.values())) == len(ports) == len(marks) + 1


def looked_up(world: World) -> None:
    """What is desired stands in the history too."""
    folder = ROOT / "prod"
    content = world.files.get(folder / "desired.json")
    if content is not None:
        revision = json.loads(content)["revision"]
        assert world.files[folder / "history" / f"{revision}.json"] == content


def effects_of_command(step: Step) -> int:
    world = prepared(step)
    actor = world.actor()
    step(world, actor)
    settled(world, step)
    return len(actor.effects)


def effects_of_controller(step: Step) -> int:
    """Effects of a fresh controller that does the whole step."""
    world = prepared(step)
    for proc in world.controllers():
        world.bury(proc.id.pid, "killed by SIGKILL")
    step(world, world.actor())
    return max(len(runner.actor.effects) for runner in world.runners.values())


@pytest.mark.parametrize("step", [first, second, delete])
def test_a_killed_command_is_completed_by_the_next_one(step: Step) -> None:
    total = effects_of_command(step)
    assert total > 3
    for point in range(total + 1):
        world = prepared(step)
        actor = world.actor(kill_after=point)
        with pytest.raises(Killed):
            step(world, actor)
        looked_up(world)
        step(world, world.actor())
        settled(world, step)


@pytest.mark.parametrize("step", [first, second, delete])
def test_a_killed_controller_is_replaced_while_the_command_waits(step: Step) -> None:
    total = effects_of_controller(step)
    assert total > 10
    for point in range(total + 1):
        world = prepared(step)
        for proc in world.controllers():
            world.bury(proc.id.pid, "killed by SIGKILL")
        world.controller_kills = [point]
        step(world, world.actor())
        world.advance(2.0)
        if step is not delete and not world.controllers():  # killed after the command was done
            step(world, world.actor())
        settled(world, step)


@pytest.mark.parametrize("step", [first, second, delete])
def test_command_and_controller_killed_together_leave_nothing_behind(step: Step) -> None:
    commands, total = effects_of_command(step), effects_of_controller(step)
    for point in range(0, total + 1, 2):
        world = prepared(step)
        for proc in world.controllers():
            world.bury(proc.id.pid, "killed by SIGKILL")
        world.controller_kills = [point, point // 2]
        try:
            step(world, world.actor(kill_after=1 + point % commands))
        except Killed:
            world.advance(1.0)
        step(world, world.actor())
        world.advance(2.0)
        if step is not delete and not world.controllers():
            step(world, world.actor())
        settled(world, step)


def test_another_plan_after_a_kill_at_any_point_wins() -> None:
    total = effects_of_controller(first)
    for point in range(total + 1):
        world = World()
        world.controller_kills = [point]
        try:
            first(world, world.actor(kill_after=9))
        except Killed:
            world.advance(1.0)
        second(world, world.actor())
        world.advance(2.0)
        if not world.controllers():
            second(world, world.actor())
        settled(world, second)
