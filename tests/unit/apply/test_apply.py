"""Apply, delete and status as the command line sees them, on the world's machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from llmd_ctl.apply.apply import ApplyResult, apply_plan
from llmd_ctl.apply.delete import DeleteResult, delete_fleet
from llmd_ctl.apply.events import (
    ApplyEvent,
    ControllerStarted,
    DocumentSetAside,
    EndpointAnswered,
    EndpointSilent,
    ModelAnswered,
    NothingChanged,
    RevisionDesired,
    StateMoved,
)
from llmd_ctl.apply.lock import COMMAND_LOCK, hold
from llmd_ctl.apply.status import FleetStatus, fleet_status
from llmd_ctl.errors import ApplyFailed, DoesNotFit, Interrupted, Locked, Problem
from llmd_ctl.plan import Plan, RouterTls
from llmd_ctl.render import replica_specs
from llmd_ctl.router.answer import Answer, EndpointStatus, PoolStatus, RouterStatus
from tests.unit.controller.plans import external, model, plan, real_variant, variant
from tests.unit.controller.world import PYTHON, ROOT, World

ONE = plan(model("chat", variant("a")))
OTHER = plan(model("chat", variant("a", speed=2.0)))
DESIRED = ROOT / "prod" / "desired.json"
OBSERVED = ROOT / "prod" / "observed.json"


def apply(
    world: World, wanted: Plan, events: list[ApplyEvent] | None = None, **options: Any
) -> ApplyResult:
    machine = world.machine(world.actor())
    listen = (events if events is not None else []).append
    return apply_plan(wanted, world.folder(machine), machine, PYTHON, listen, **options)


def delete(world: World) -> DeleteResult:
    machine = world.machine(world.actor())
    return delete_fleet(world.folder(machine), machine, PYTHON, lambda _event: None)


def status(world: World) -> FleetStatus:
    machine = world.machine(world.actor())
    found = fleet_status(world.folder(machine), machine)
    assert found is not None
    return found


def desired(world: World) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(world.files[DESIRED])
    return document


def test_apply_tells_what_happens_in_order() -> None:
    events: list[ApplyEvent] = []
    apply(World(), ONE, events)
    kinds = [type(event) for event in events]
    moves = [event for event in events if isinstance(event, StateMoved)]
    assert kinds[:2] == [RevisionDesired, ControllerStarted]
    assert kinds[-2:] == [EndpointAnswered, ModelAnswered]
    assert [m.state for m in moves if m.name != "@router"][-1] == "ready"
    assert all(event.simulated for event in events if isinstance(event, EndpointAnswered))


def test_a_plan_whose_replicas_would_share_devices_is_looked_at_but_not_applied() -> None:
    world = World()
    warning = Problem("LC3023", "2 replicas would take the same devices", severity="warning")
    with pytest.raises(DoesNotFit) as refused:
        apply(world, replace(ONE, warnings=(warning,)))
    assert refused.value.exit_code == 66
    assert DESIRED not in world.files


def test_a_revision_counts_up_only_when_the_plan_changes() -> None:
    world = World()
    events: list[ApplyEvent] = []
    assert [apply(world, p).revision for p in (ONE, OTHER)] == [1, 2]
    assert apply(world, OTHER, events).revision == 2
    assert NothingChanged(2) in events
    assert sorted(p.name for p in world.files if p.parent.name == "history") == ["1.json", "2.json"]


def test_apply_returns_only_when_every_endpoint_and_model_answers_through_the_router(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    machine = world.machine(world.actor())
    silent = Answer(ok=False, reason="HTTP 502: connection refused")
    monkeypatch.setattr(machine.network, "probe", lambda *_: silent)
    with pytest.raises(ApplyFailed) as error:
        apply_plan(
            ONE, world.folder(machine), machine, PYTHON, lambda _e: None, timeout_seconds=20.0
        )
    assert error.value.problems[0].code == "LC4007"
    assert "connection refused" in error.value.problems[0].message
    monkeypatch.undo()
    monkeypatch.setattr(machine.network, "complete", lambda *_: silent)
    with pytest.raises(ApplyFailed, match="model chat gives no answer"):
        apply_plan(
            ONE, world.folder(machine), machine, PYTHON, lambda _e: None, timeout_seconds=5.0
        )


def test_an_endpoint_that_stays_silent_is_told_with_its_reason_and_nothing_is_told_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    machine = world.machine(world.actor())
    two = plan(model("chat", variant("a"), variant("b")))
    first: list[str] = []

    def probe(_url: str, _key: str, _model: str, endpoint: str, _seconds: float) -> Answer:
        if endpoint in first or not first:
            first[:] = [endpoint]
            return Answer(ok=True, reason="")
        return Answer(ok=False, reason="no route")

    monkeypatch.setattr(machine.network, "probe", probe)
    events: list[ApplyEvent] = []
    with pytest.raises(ApplyFailed, match="no route"):
        apply_plan(two, world.folder(machine), machine, PYTHON, events.append, timeout_seconds=60.0)
    told = [e for e in events if isinstance(e, EndpointAnswered | EndpointSilent)]
    assert [type(event) for event in told] == [EndpointAnswered, EndpointSilent]
    assert [e.reason for e in told if isinstance(e, EndpointSilent)] == ["no route"]


def test_a_port_that_asks_for_certificates_is_greeted_and_its_models_are_asked_past_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    events: list[ApplyEvent] = []
    closed = replace(ONE, router_tls=RouterTls("/c/a.crt", "/c/a.key", "/c/ca.crt"))
    url = apply(world, closed, events).url
    assert world.asked == [(url, "/c/a.crt")]
    kinds = {type(event) for event in events}
    assert EndpointAnswered in kinds
    assert ModelAnswered not in kinds
    machine = world.machine(world.actor())
    other = Answer(ok=False, reason="it shows another certificate")
    monkeypatch.setattr(machine.network, "shake_hands", lambda *_: other)
    with pytest.raises(ApplyFailed, match="the router's port gives no answer"):
        apply_plan(
            closed, world.folder(machine), machine, PYTHON, lambda _e: None, timeout_seconds=5.0
        )


@pytest.mark.parametrize(
    ("apis", "asked"), [(("embeddings",), 0), (("chat", "completions"), 1), (None, 1)]
)
def test_only_a_model_that_completes_texts_is_asked_to(
    apis: tuple[str, ...] | None, asked: int
) -> None:
    world = World()
    apply(world, plan(model("chat", replace(variant("a"), apis=apis))))
    assert len(world.asked) == asked


def test_a_router_that_keeps_its_old_configuration_is_a_failure_that_says_why() -> None:
    world = World()
    apply(world, ONE)
    world.router_complaint = "models[0] is odd"
    with pytest.raises(ApplyFailed) as error:
        apply(world, OTHER, timeout_seconds=20.0)
    why = "the router keeps its old configuration: models[0] is odd"
    assert error.value.problems[0].found == why
    assert [problem.message for problem in status(world).problems] == [why]
    world.router_complaint = None
    apply(world, OTHER)
    assert status(world).problems == ()


def test_an_endpoint_that_runs_already_must_answer_too() -> None:
    world = World()
    mixed = plan(model("chat", variant("a"), external("old", "http://10.0.0.7:8000")))
    with pytest.raises(ApplyFailed, match="chat-old gives no answer through the router"):
        apply(world, mixed, timeout_seconds=20.0)


@pytest.mark.parametrize("simulated", [True, False])
def test_a_simulated_engine_behind_an_address_is_called_simulated(
    simulated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()
    machine = world.machine(world.actor())
    whole = replace(
        plan(model("chat", real_variant("a"), external("old", "http://10.0.0.7:8000"))),
        simulate=None,
    )

    def probe(_url: str, _key: str, _model: str, endpoint: str, _seconds: float) -> Answer:
        return Answer(ok=True, reason="", simulated=simulated and endpoint == "chat-old")

    monkeypatch.setattr(machine.network, "probe", probe)
    done = apply_plan(whole, world.folder(machine), machine, PYTHON, lambda _event: None)
    assert done.simulated == (("chat/old",) if simulated else ())
    seen = EndpointStatus("chat-old", "ready", 0, simulated=simulated)
    answer = RouterStatus(
        ready=True, config_error=None, pools={"chat": PoolStatus("chat", "x", {"chat-old": seen})}
    )
    monkeypatch.setattr(machine.network, "router_status", lambda _url: answer)
    found = fleet_status(world.folder(machine), machine)
    assert found is not None
    variants = found.to_json()["models"][0]["variants"]
    assert {v["name"]: v["simulated"] for v in variants} == {"a": False, "old": simulated}


def test_status_says_that_a_profile_takes_the_place_of_a_built_in_one() -> None:
    world = World()
    told = Problem("LC2035", "the AcceleratorProfile a of b", hint="h", severity="warning")
    other = Problem("LC3021", "a version", hint="h", severity="warning")
    apply(world, replace(ONE, warnings=(told, other)))
    assert status(world).problems == (told,)


def test_without_waiting_what_is_planned_to_be_simulated_is_called_so() -> None:
    two = plan(model("chat", variant("a"), real_variant("b")))
    assert apply(World(), two, wait=False).simulated == ("chat/a",)


def test_what_each_of_three_starts_says_is_told_once() -> None:
    world = World()
    world.broken = {"a": "exited with code 9"}
    machine = world.machine(world.actor())
    folder = world.folder(machine)
    [spec] = replica_specs(ONE, folder.layout, PYTHON)
    log = Path(folder.layout.log(spec.name))
    world.files[log] = b"loading\nno such device\n" + b"no such device\n" * 5
    with pytest.raises(ApplyFailed) as error:
        apply_plan(ONE, folder, machine, PYTHON, lambda _event: None)
    (problem,) = error.value.problems
    assert problem.found == "loading | no such device"


def test_without_waiting_the_revision_is_desired_and_a_controller_runs() -> None:
    world = World()
    result = apply(world, ONE, wait=False)
    assert not result.waited
    assert len(world.controllers()) == 1
    world.advance(5.0)
    assert status(world).converged


def test_a_second_command_is_refused_with_who_holds_the_fleet_and_since_when() -> None:
    world = World()
    apply(world, ONE)
    holder = world.actor()
    machine = world.machine(holder)
    with hold(world.folder(machine), COMMAND_LOCK, machine, "delete"):
        with pytest.raises(Locked) as error:
            apply(world, OTHER)
        with pytest.raises(Locked):
            delete(world)
    assert f"`llmd-ctl delete` (pid {holder.pid}) since 2027-" in error.value.problems[0].message
    assert error.value.exit_code == 75
    assert desired(world)["revision"] == 1
    apply(world, OTHER)


def interrupt_after(world: World, wanted: Plan, sleeps: int) -> Interrupted:
    machine = world.machine(world.actor())
    clock: Any = machine.clock
    left = [sleeps]

    def on_sleep() -> None:
        left[0] -= 1
        if left[0] <= 0:
            raise KeyboardInterrupt

    clock.on_sleep = on_sleep
    with pytest.raises(Interrupted) as error:
        apply_plan(wanted, world.folder(machine), machine, PYTHON, lambda _e: None)
    return error.value


def test_ctrl_c_says_the_state_and_the_next_apply_goes_on() -> None:
    world = World()
    apply(world, ONE)
    error = interrupt_after(world, OTHER, 3)
    (problem,) = error.problems
    assert error.exit_code == 130
    assert problem.message == "interrupted while waiting for revision 2"
    assert "Revision 2 stays desired and the controller goes on: 0 of 1" in (problem.hint or "")
    again = apply(world, OTHER)
    assert (again.revision, again.changes) == (2, ())
    assert status(world).converged


def test_ctrl_c_before_anything_was_written_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    machine = world.machine(world.actor())
    folder = world.folder(machine)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("llmd_ctl.apply.apply.compare", lambda *_, **__: interrupted())
    with pytest.raises(Interrupted, match="before anything was changed"):
        apply_plan(ONE, folder, machine, PYTHON, lambda _e: None)
    assert DESIRED not in world.files


@pytest.mark.parametrize("content", [b"", b'{"version": 1, "rev', b"[]", b'{"revision": "x"}'])
def test_an_unreadable_desired_document_is_kept_and_the_history_counts(content: bytes) -> None:
    world = World()
    apply(world, ONE)
    apply(world, OTHER)
    pids = world.ours()
    world.files[DESIRED] = content
    world.advance(2.0)
    assert world.ours() == pids  # the controller goes on with what it had
    shown = status(world)
    assert "LC4002" in [problem.code for problem in shown.problems]
    events: list[ApplyEvent] = []
    assert apply(world, OTHER, events).revision == 3
    assert any(isinstance(event, DocumentSetAside) for event in events)
    assert world.files[DESIRED.with_name("desired.json.unreadable")] == content
    assert world.ours() == pids


@pytest.mark.parametrize("name", ["observed.json", "ports.json", "controller.json"])
@pytest.mark.parametrize("content", [b"", b'{"version"', b"null", b'{"ports": [1]}'])
def test_other_unreadable_documents_cost_no_replica_its_life(name: str, content: bytes) -> None:
    world = World()
    apply(world, ONE)
    pids = world.ours()
    for proc in world.controllers():
        world.bury(proc.id.pid, "")
    world.files[ROOT / "prod" / name] = content
    assert status(world).controller == "not running"
    apply(world, ONE)
    assert world.ours() == pids


def test_deleting_stops_everything_the_router_last_and_twice_is_no_error() -> None:
    world = World()
    apply(world, plan(model("chat", variant("a", 2))))
    (router,) = world.named("@router")
    engines = [proc for proc in world.living() if proc.mark and proc is not router]
    result = delete(world)
    assert result.existed
    assert len(result.stopped) == 3
    assert world.living() == [proc for proc in world.living() if not proc.mark]
    assert world.controllers() == []
    assert all(max(engine.signals) == 15 for engine in engines)
    assert json.loads(world.files[OBSERVED.with_name("ports.json")])["ports"] == {}
    left = {path.name for path in world.files}
    assert not {"router.yaml", "replicas.json"} & left
    assert not [path for path in world.files if path.parent.name == "engines"]
    assert delete(world).existed is False
    assert status(world).deleted
    assert status(world).controller == "ended"
    assert apply(world, ONE).revision == 3


def test_deleting_waits_for_open_requests() -> None:
    world = World()
    apply(world, ONE)
    (name,) = (proc.mark for proc in world.living() if proc.mark.startswith("chat"))
    world.inflight[name] = 1
    before = world.now
    delete(world)
    assert world.now - before >= world.limits.drain_seconds


def test_deleting_works_without_a_controller_and_after_its_records_are_lost() -> None:
    world = World()
    apply(world, ONE)
    for proc in world.controllers():
        world.bury(proc.id.pid, "")
    del world.files[OBSERVED]
    del world.files[DESIRED]
    assert delete(world).existed
    assert world.ours() == {}
    assert world.controllers() == []


@pytest.mark.parametrize("deaf", [False, True])
def test_deleting_again_stops_what_came_to_light_since(deaf: bool) -> None:
    world = World()
    apply(world, ONE)
    (engine,) = (proc for proc in world.living() if proc.mark.startswith("chat"))
    delete(world)
    orphan = world.stranger(18444)
    orphan.env.update(engine.env)
    orphan.deaf = deaf
    assert delete(world).stopped == (engine.mark,)
    assert not orphan.alive
    assert desired(world)["revision"] == 2  # that of the first delete


def test_deleting_what_never_was_makes_nothing() -> None:
    world = World()
    assert delete(world).existed is False
    assert world.files == {}


def test_status_never_trusts_a_dead_controller() -> None:
    world = World()
    apply(world, ONE)
    assert status(world).to_json()["models"][0]["variants"][0]["ready"] == 1
    for proc in world.controllers():
        world.bury(proc.id.pid, "")
    (engine,) = (proc for proc in world.living() if proc.mark.startswith("chat"))
    world.bury(engine.id.pid, "")
    shown = status(world)
    assert shown.controller == "not running"
    assert not shown.converged
    assert [problem.code for problem in shown.problems] == ["LC4006"]
    (replica,) = shown.models[0].variants[0].replicas
    assert replica.state == "dead"
    assert shown.models[0].variants[0].ready == 0


def test_status_of_an_unknown_fleet_is_nothing() -> None:
    world = World()
    machine = world.machine(world.actor())
    assert fleet_status(world.folder(machine), machine) is None


def test_a_controller_that_keeps_ending_is_reported_and_not_started_for_ever() -> None:
    world = World()
    world.unbootable = {"a"}
    machine = world.machine(world.actor())
    clock: Any = machine.clock

    def end_controllers() -> None:
        for proc in world.controllers():
            if world.now - proc.born > 0.15:
                world.bury(proc.id.pid, "exited with code 1")

    clock.on_sleep = end_controllers
    with pytest.raises(ApplyFailed, match="the controller keeps ending") as error:
        apply_plan(ONE, world.folder(machine), machine, PYTHON, lambda _event: None)
    assert error.value.problems[0].code == "LC4006"


def test_a_controller_that_never_comes_up_is_reported() -> None:
    world = World()
    world.controller_kills = [1] * 1000
    with pytest.raises(ApplyFailed, match="does not come up within 30 s"):
        apply(world, ONE)
