"""What the controller does with replicas over time, on the world's machine."""

from __future__ import annotations

import json
import signal
from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace

from llmd_ctl.apply.apply import ApplyResult, apply_plan
from llmd_ctl.apply.machine import MARK_STATE
from llmd_ctl.apply.records import Desired, Observed
from llmd_ctl.errors import ApplyFailed, DoesNotFit
from llmd_ctl.plan import Plan, Resilience, RouterTls
from llmd_ctl.plan.resilience import Limits
from tests.unit.controller.plans import external, model, plan, real_variant, variant
from tests.unit.controller.world import PYTHON, ROOT, Proc, World

ONE = plan(model("chat", variant("a")))
TWO = plan(model("chat", variant("a", 2), variant("b")))


def apply(world: World, wanted: Plan, **options: Any) -> ApplyResult:
    machine = world.machine(world.actor())
    return apply_plan(wanted, world.folder(machine), machine, PYTHON, lambda _e: None, **options)


def observed(world: World) -> Observed:
    return Observed.from_json(json.loads(world.files[ROOT / "prod" / "observed.json"]))


def entries(world: World) -> dict[str, str]:
    replicas = json.loads(world.files[ROOT / "prod" / "replicas.json"])["replicas"]
    return {entry["name"]: entry["state"] for entry in replicas}


def engines(world: World) -> dict[str, int]:
    return {mark: pid for mark, pid in world.ours().items() if mark != "@router"}


def only_engine(world: World) -> Proc:
    (pid,) = engines(world).values()
    return world.procs[pid]


def controller(world: World) -> Proc:
    (proc,) = world.controllers()
    return proc


def test_applying_the_same_plan_again_changes_nothing() -> None:
    world = World()
    before = apply(world, TWO)
    pids = world.ours()
    again = apply(world, TWO)
    assert (again.revision, again.changes) == (before.revision, ())
    assert world.ours() == pids


def test_a_change_of_one_variant_restarts_only_that_one() -> None:
    world = World()
    apply(world, TWO)
    before = engines(world)
    apply(world, plan(model("chat", variant("a", 2), variant("b", speed=3.0))))
    after = engines(world)
    kept = {name for name in before if "-a-" in name}
    assert {name: after[name] for name in kept} == {name: before[name] for name in kept}
    assert len(after) == 3
    assert len(set(after) - set(before)) == 1


def test_replicas_of_a_variant_are_rolled_one_after_another() -> None:
    world = World()
    three = plan(model("chat", variant("a", 3)))
    apply(world, three)
    before = set(engines(world))
    lowest: list[int] = []
    machine = world.machine(world.actor())
    clock: Any = machine.clock
    clock.on_sleep = lambda: lowest.append(sum(s == "ready" for s in entries(world).values()))
    changed = plan(model("chat", variant("a", 3, speed=2.0)))
    apply_plan(changed, world.folder(machine), machine, PYTHON, lambda _e: None)
    assert min(lowest) == 2
    assert not before & set(engines(world))


def test_a_roll_that_fails_stops_and_the_rest_keeps_serving() -> None:
    world = World()
    apply(world, plan(model("chat", variant("a", 3))))
    world.broken = {"a": "exited with code 1"}
    with pytest.raises(ApplyFailed) as error:
        apply(world, plan(model("chat", variant("a", 3, speed=2.0))))
    world.advance(200.0)
    assert sum(state == "ready" for state in entries(world).values()) == 2
    assert "2 of an older revision still serve" in (error.value.problems[0].hint or "")


def test_no_engine_is_stopped_before_its_requests_are_done() -> None:
    world = World()
    apply(world, ONE)
    old = only_engine(world)
    world.inflight[old.mark] = 1
    apply(world, plan(model("chat", variant("a", speed=2.0))), wait=False)
    world.advance(20.0)
    assert entries(world) == {old.mark: "draining"}
    assert old.signals == []
    world.inflight[old.mark] = 0
    world.advance(2.0)
    assert old.signals == [signal.SIGTERM]
    assert not old.alive


def test_an_idle_engine_is_not_stopped_before_the_router_has_seen_the_mark() -> None:
    world = World()
    apply(world, ONE)
    old = only_engine(world)
    world.router_file_delay = 8.0
    world.advance(0.5)
    apply(world, plan(model("chat", variant("a", speed=2.0))), wait=False)
    world.advance(7.0)
    assert old.signals == []
    world.advance(3.0)
    assert old.signals == [signal.SIGTERM]


def test_a_silent_router_is_no_proof_that_an_engine_is_idle_but_a_dead_one_is() -> None:
    world = World()
    apply(world, ONE)
    old = only_engine(world)
    world.router_silent = True
    apply(world, plan(model("chat", variant("a", speed=2.0))), wait=False)
    world.advance(10.0)
    assert old.signals == []
    world.signal(world.named("@router")[0], signal.SIGKILL)
    world.advance(0.5)
    assert old.signals == [signal.SIGTERM]


def test_draining_has_a_limit_and_so_has_stopping() -> None:
    world = World()
    apply(world, ONE)
    old = only_engine(world)
    old.deaf = True
    world.inflight[old.mark] = 1
    apply(world, plan(model("chat", variant("a", speed=2.0))), wait=False)
    world.advance(world.limits.drain_seconds - 1.0)
    assert old.signals == []
    world.advance(2.0)
    assert old.signals == [signal.SIGTERM]
    assert "still open" in observed(world).replicas[0].reason
    assert entries(world) == {}
    world.advance(world.limits.grace_seconds)
    assert old.signals == [signal.SIGTERM, signal.SIGKILL]


def test_a_draining_replica_that_is_planned_again_goes_on_serving() -> None:
    world = World()
    apply(world, ONE)
    old = only_engine(world)
    world.inflight[old.mark] = 1
    apply(world, plan(model("chat", variant("a", speed=2.0))), wait=False)
    world.advance(2.0)
    assert entries(world) == {old.mark: "draining"}
    apply(world, ONE)
    assert entries(world) == {old.mark: "ready"}
    assert old.signals == []


def test_scaling_down_drains_the_last_seats_only() -> None:
    world = World()
    apply(world, TWO)
    before = engines(world)
    apply(world, plan(model("chat", variant("a", 1), variant("b"))))
    gone = set(before) - set(engines(world))
    assert [name.split("-")[2] for name in gone] == ["1"]
    assert world.procs[before[gone.pop()]].signals == [signal.SIGTERM]


def test_moving_a_model_to_another_variant_leaves_no_gap() -> None:
    world = World()
    apply(world, ONE)
    machine = world.machine(world.actor())
    clock: Any = machine.clock
    ready: list[int] = []
    clock.on_sleep = lambda: ready.append(sum(s == "ready" for s in entries(world).values()))
    moved = plan(model("chat", variant("z")))
    apply_plan(moved, world.folder(machine), machine, PYTHON, lambda _e: None)
    assert min(ready) == 1
    assert [name.split("-")[1] for name in engines(world)] == ["z"]


def test_a_leaving_model_stays_in_the_router_until_its_requests_are_done() -> None:
    world = World()
    apply(world, plan(model("chat", variant("a")), model("code", variant("c"))))
    (leaving,) = (name for name in engines(world) if name.startswith("code"))
    world.inflight[leaving] = 1
    apply(world, ONE, wait=False)
    world.advance(5.0)
    assert b"name: code" in world.files[ROOT / "prod" / "router.yaml"]
    world.inflight[leaving] = 0
    world.advance(3.0)
    assert b"name: code" not in world.files[ROOT / "prod" / "router.yaml"]
    assert observed(world).converged


def test_a_crashed_engine_is_restarted_on_its_port_with_growing_pauses() -> None:
    world = World()
    apply(world, ONE)
    name, port = only_engine(world).mark, only_engine(world).port
    world.broken = {"a": "exited with code 3"}
    world.signal(only_engine(world), signal.SIGKILL)
    world.advance(400.0)
    births = [p.born for p in world.procs.values() if p.mark == name and p.born > 1002.0]
    pauses = [round(b - a) for a, b in pairwise(births)]
    assert pauses[:8] == [2, 4, 8, 16, 32, 60, 60, 60]
    record = observed(world).replicas[0]
    assert (record.state, record.reason) == ("backoff", "exited with code 3")
    world.broken = {}
    world.advance(70.0)
    assert only_engine(world).port == port
    assert entries(world) == {name: "ready"}


def test_failures_are_forgotten_after_a_stable_time() -> None:
    world = World()
    apply(world, ONE)
    world.signal(only_engine(world), signal.SIGKILL)
    world.advance(5.0)
    assert observed(world).replicas[0].failures == 1
    world.advance(world.limits.stable_seconds + 1.0)
    assert observed(world).replicas[0].failures == 0


def test_a_crashed_engine_gets_no_traffic_until_it_answers_again() -> None:
    world = World()
    apply(world, ONE)
    world.signal(only_engine(world), signal.SIGKILL)
    world.advance(0.5)
    assert entries(world) == {}
    world.advance(3.0)
    assert list(entries(world).values()) == ["ready"]


def test_an_engine_that_never_answers_is_given_up_after_its_time() -> None:
    world = World()
    world.unbootable = {"a"}
    with pytest.raises(ApplyFailed) as error:
        apply(world, ONE)
    assert "not ready within 30 s: does not answer yet" in error.value.problems[0].message
    assert world.now < 1035.0
    assert error.value.exit_code == 71


def test_a_command_that_is_not_there_fails_at_once_and_says_so() -> None:
    world = World()
    world.unspawnable = {"a"}
    start = world.now
    with pytest.raises(ApplyFailed) as error:
        apply(world, plan(model("chat", real_variant("a"))))
    (problem,) = error.value.problems
    assert "`vllm` is not an executable file" in problem.message
    assert "put it on your PATH" in problem.remedy
    assert ".log" not in problem.remedy
    assert world.now - start < 1.0


def test_a_program_that_is_not_there_is_refused_before_anything_is_changed() -> None:
    world = World()
    world.uninstalled = {"vllm"}
    real = plan(model("chat", real_variant("a", replicas=2), real_variant("b"), variant("c")))
    with pytest.raises(DoesNotFit) as error:
        apply(world, real)
    (problem,) = error.value.problems
    assert problem.code == "LC4011"
    assert problem.message == "chat/a, chat/b: `vllm` is not on this machine"
    assert "engine: {executable:" in problem.remedy
    assert ROOT / "prod" / "desired.json" not in world.files
    assert world.ours() == {}


def test_what_runs_already_needs_no_program() -> None:
    world = World()
    real = plan(model("chat", real_variant("a")))
    apply(world, real)
    world.uninstalled = {"vllm"}
    apply(world, plan(model("chat", real_variant("a"), variant("c"))))


def test_a_crash_loop_ends_apply_with_reason_log_and_state() -> None:
    world = World()
    world.broken = {"b": "exited with code 9"}
    machine = world.machine(world.actor())
    folder = world.folder(machine)
    with pytest.raises(ApplyFailed) as error:
        apply_plan(TWO, folder, machine, PYTHON, lambda _e: None)
    (problem,) = error.value.problems
    assert problem.code == "LC4003"
    assert "exited with code 9" in problem.message
    assert "2 of 3 replicas are ready" in (problem.hint or "")
    assert ".log" in (problem.hint or "")


def test_a_recycled_pid_is_foreign() -> None:
    world = World()
    apply(world, ONE)
    world.signal(controller(world), signal.SIGTERM)
    world.advance(1.0)
    engine = only_engine(world)
    world.bury(engine.id.pid, "")
    other = replace(engine.id, start_time=engine.id.start_time + 1, cmdline=("sleep", "9"))
    world.procs[engine.id.pid] = Proc(other, {}, world.now, 0)
    apply(world, ONE)
    assert world.procs[engine.id.pid].signals == []
    assert world.procs[engine.id.pid].alive
    assert only_engine(world).id.pid != engine.id.pid


def test_a_stopped_controller_leaves_everything_for_the_next_one_to_adopt() -> None:
    world = World()
    apply(world, TWO)
    before = world.ours()
    world.signal(controller(world), signal.SIGTERM)
    world.advance(1.0)
    assert world.controllers() == []
    assert observed(world).controller == "stopped"
    assert world.ours() == before
    apply(world, TWO)
    assert world.ours() == before
    assert observed(world).controller == "running"


def test_a_recorded_process_is_adopted_even_if_it_overwrote_its_environment() -> None:
    world = World()
    apply(world, ONE)
    engine = only_engine(world)
    engine.hidden = True
    world.bury(controller(world).id.pid, "")
    apply(world, ONE)
    assert only_engine(world) is engine
    assert observed(world).replicas[0].process == engine.id


def test_of_two_processes_of_one_name_the_recorded_one_stays() -> None:
    world = World()
    apply(world, ONE)
    engine = only_engine(world)
    older = world.stranger(18555)
    older.env.update(engine.env)
    older.id = replace(older.id, start_time=1)
    world.bury(controller(world).id.pid, "")
    apply(world, ONE)
    assert only_engine(world) is engine
    assert not older.alive


def test_a_process_that_was_started_after_the_last_record_is_adopted() -> None:
    world = World()
    apply(world, ONE)
    record = world.files[ROOT / "prod" / "observed.json"]
    world.signal(only_engine(world), signal.SIGKILL)
    world.advance(5.0)
    engine = only_engine(world)
    world.bury(controller(world).id.pid, "killed by SIGKILL")
    world.files[ROOT / "prod" / "observed.json"] = record
    apply(world, ONE)
    assert only_engine(world) is engine
    assert observed(world).replicas[0].process == engine.id


def test_of_two_unrecorded_processes_of_one_name_the_older_one_stays() -> None:
    world = World()
    apply(world, ONE)
    engine = only_engine(world)
    younger = world.stranger(18555)
    younger.env.update(engine.env)
    world.bury(controller(world).id.pid, "killed by SIGKILL")
    del world.files[ROOT / "prod" / "observed.json"]
    apply(world, ONE)
    assert only_engine(world) is engine
    assert not younger.alive


def test_an_unrecorded_process_is_adopted_when_planned_and_stopped_when_not() -> None:
    world = World()
    apply(world, TWO)
    before = world.ours()
    world.bury(controller(world).id.pid, "")
    del world.files[ROOT / "prod" / "observed.json"]
    apply(world, plan(model("chat", variant("a", 2))))
    assert world.ours() == {name: pid for name, pid in before.items() if "-b-" not in name}


def test_workers_that_a_dead_engine_left_are_killed_before_it_is_started_again() -> None:
    world = World()
    apply(world, ONE)
    engine = only_engine(world)
    worker = world.worker(engine)
    world.bury(engine.id.pid, "killed by SIGKILL")
    world.advance(3.0)
    assert not worker.alive
    assert only_engine(world).born > engine.born


def test_workers_that_an_engine_left_at_its_orderly_end_are_killed_too() -> None:
    world = World()
    apply(world, TWO)
    (engine,) = (world.procs[pid] for name, pid in engines(world).items() if "-b-" in name)
    worker = world.worker(engine)
    apply(world, plan(model("chat", variant("a", 2))))
    assert engine.signals == [signal.SIGTERM]
    assert not worker.alive


def test_workers_of_a_dead_engine_that_is_not_planned_any_more_are_stopped() -> None:
    world = World()
    apply(world, TWO)
    (engine,) = (world.procs[pid] for name, pid in engines(world).items() if "-b-" in name)
    worker = world.worker(engine)
    world.bury(engine.id.pid, "")
    world.bury(controller(world).id.pid, "")
    del world.files[ROOT / "prod" / "observed.json"]
    apply(world, plan(model("chat", variant("a", 2))))
    assert not worker.alive


def test_processes_of_another_state_folder_are_not_ours() -> None:
    world = World()
    apply(world, ONE)
    engine = only_engine(world)
    twin = world.stranger(19999)
    twin.env.update({**engine.env, MARK_STATE: "/elsewhere/prod"})
    world.bury(controller(world).id.pid, "")
    apply(world, ONE)
    assert twin.alive
    assert twin.signals == []


def test_a_dead_router_is_started_again_on_its_ports() -> None:
    world = World()
    apply(world, ONE)
    before = observed(world).router
    assert before is not None
    (router,) = world.named("@router")
    world.signal(router, signal.SIGKILL)
    world.advance(5.0)
    (after,) = world.named("@router")
    assert after.id.pid != router.id.pid
    assert observed(world).router == replace(before, process=after.id, failures=1)
    assert len(engines(world)) == 1
    world.advance(world.limits.stable_seconds - 5.0)
    assert observed(world).router == replace(before, process=after.id, failures=1)
    world.advance(5.0)
    assert observed(world).router == replace(before, process=after.id)


def test_a_router_that_is_told_of_changes_is_not_restarted() -> None:
    world = World()
    apply(world, ONE)
    (router,) = world.named("@router")
    wanted = plan(model("chat", variant("a"), scheduler="round-robin"))
    folder = world.folder(world.machine(world.actor()))
    folder.write_desired(Desired(2, deleted=False, plan=wanted.to_json()))
    world.advance(2.0)
    assert observed(world).converged
    assert world.named("@router") == [router]
    assert signal.SIGHUP in router.signals


SECURE = replace(ONE, router_tls=RouterTls("/c/a.crt", "/c/a.key"))


def test_a_router_that_is_to_listen_otherwise_is_started_again_on_its_ports() -> None:
    world = World()
    plain = apply(world, ONE)
    (router,) = world.named("@router")
    only = engines(world)
    secure = apply(world, SECURE)
    (after,) = world.named("@router")
    assert after.id.pid != router.id.pid
    assert signal.SIGKILL not in router.signals
    assert (plain.url, secure.url) == ("http://127.0.0.1:8000", "https://127.0.0.1:8000")
    assert (world.asked[0], world.asked[-1]) == ((plain.url, None), (secure.url, "/c/a.crt"))
    record = observed(world).router
    assert record is not None
    assert (record.failures, record.state) == (0, "ready")
    assert engines(world) == only
    assert apply(world, ONE).url == plain.url


def test_a_router_that_starts_again_may_finish_what_it_has() -> None:
    world = World()
    patient = replace(SECURE, resilience=Resilience(limits=Limits(drain_ms=90_000)))
    apply(world, replace(patient, router_tls=None))
    (router,) = world.named("@router")
    router.deaf = True
    apply(world, patient, wait=False)
    world.advance(95.0)
    assert world.named("@router") == [router]
    world.advance(10.0)
    assert signal.SIGKILL in router.signals
    assert world.named("@router") != [router]


def test_a_configuration_that_has_more_against_it_restarts_no_router() -> None:
    world = World()
    apply(world, ONE)
    (router,) = world.named("@router")
    world.router_complaint = "listen.tls: missing.crt cannot be read"
    apply(world, SECURE, wait=False)
    world.advance(5.0)
    assert world.named("@router") == [router]
    assert not observed(world).converged


def test_an_engine_gets_the_environment_of_its_variant() -> None:
    world = World()
    apply(world, plan(model("chat", variant("a", env={"OMP_NUM_THREADS": "4"}))))
    assert only_engine(world).env["OMP_NUM_THREADS"] == "4"


def test_an_endpoint_that_runs_already_is_routed_and_never_started() -> None:
    world = World()
    mixed = plan(model("chat", variant("a"), external("old", "http://10.0.0.7:8000")))
    apply(world, mixed, wait=False)
    world.advance(3.0)
    assert len(engines(world)) == 1
    config = world.files[ROOT / "prod" / "router.yaml"].decode()
    assert "kind: static" in config
    assert "address: 10.0.0.7" in config
    assert observed(world).converged


def test_an_apply_that_starts_something_puts_its_own_controller_in_charge() -> None:
    world = World()
    apply(world, TWO)
    before, first = engines(world), controller(world)
    apply(world, TWO)
    assert controller(world) is first
    apply(world, plan(model("chat", variant("a", 2), variant("b", speed=2.0))))
    assert controller(world) is not first
    assert first.signals == [signal.SIGTERM]
    kept = {name: pid for name, pid in before.items() if "-a-" in name}
    assert kept.items() <= engines(world).items()
    assert world.overlaps == []


def test_an_apply_after_a_failed_one_starts_in_its_own_environment() -> None:
    world = World()
    world.broken = {"a": "exited with code 1"}
    with pytest.raises(ApplyFailed):
        apply(world, ONE)
    first = controller(world)
    world.broken = {}
    assert apply(world, ONE).changes == ()
    assert controller(world) is not first


def test_a_controller_that_does_not_leave_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    apply(world, ONE)
    first = controller(world)
    monkeypatch.setattr(world.runners[first.id.pid], "deliver", lambda _number: None)
    apply(world, plan(model("chat", variant("a", speed=2.0))))
    assert first.signals == [signal.SIGTERM, signal.SIGKILL]


def test_a_controller_that_somebody_else_runs_is_not_replaced() -> None:
    world = World()
    apply(world, ONE)
    first = run_by_somebody_else(world)
    apply(world, plan(model("chat", variant("a", speed=2.0))))
    assert first.alive
    assert first.signals == [signal.SIGHUP]


def test_an_apply_waits_for_its_own_revision_though_the_one_before_still_serves() -> None:
    world = World()
    apply(world, ONE)
    run_by_somebody_else(world)
    world.router_file_delay = 5.0
    world.advance(1.0)
    apply(world, plan(model("chat", variant("a"), scheduler="round-robin")))
    assert observed(world).revision == 2
    router = world.router_status()
    assert router is not None
    assert router.pools["chat"].scheduler == "round-robin"


def run_by_somebody_else(world: World) -> Proc:
    """The controller, as if a service manager had started it: an apply does not replace it."""
    proc = controller(world)
    proc.id = replace(proc.id, cmdline=("llmd-ctl", "controller", "run", "prod"))
    world.files[ROOT / "prod" / "controller.json"] = json.dumps(proc.id.to_json()).encode()
    return proc


def test_logs_of_processes_and_requests_are_bounded_and_those_of_gone_replicas_counted() -> None:
    world = World()
    apply(world, ONE)
    (name,) = engines(world)
    state = ROOT / "prod"
    used = [state / "logs" / f"{name}.log", state / "logs" / "router.log"]
    used.append(state / "access" / f"{name}.jsonl")
    gone = [state / "access" / f"chat-old-{index}-123456.jsonl" for index in range(60)]
    for path in (*used, *gone):
        world.files[path] = b"{}"
    world.advance(11.0)
    assert [world.bounds[path] >> 20 for path in used] == [16, 16, 64]
    assert set(used) <= world.files.keys()
    assert len(world.files.keys() & set(gone)) == 40


def test_a_variant_that_leaves_late_is_found_though_its_first_revision_is_forgotten() -> None:
    world = World()
    apply(world, plan(model("chat", variant("a"), variant("old"))))
    for scheduler in ("random", "round-robin") * 13:
        both = model("chat", variant("a"), variant("old"), scheduler=scheduler)
        apply(world, plan(both), wait=False)
    history = sorted(int(p.stem) for p in world.files if p.parent.name == "history")
    assert history == list(range(8, 28))
    world.advance(5.0)
    (leaving,) = (name for name in engines(world) if "-old-" in name)
    assert {r.name: r.revision for r in observed(world).replicas}[leaving] == 1
    world.inflight[leaving] = 1
    apply(world, ONE, wait=False)
    world.advance(5.0)
    assert b"name: old" in world.files[ROOT / "prod" / "router.yaml"]


def test_a_controller_that_comes_into_a_roll_goes_on_with_one_after_another() -> None:
    world = World()
    apply(world, plan(model("chat", variant("a", 3))))
    world.bury(controller(world).id.pid, "killed by SIGKILL")
    machine = world.machine(world.actor())
    clock: Any = machine.clock
    ready: list[int] = []
    clock.on_sleep = lambda: ready.append(sum(s == "ready" for s in entries(world).values()))
    changed = plan(model("chat", variant("a", 3, speed=2.0)))
    apply_plan(changed, world.folder(machine), machine, PYTHON, lambda _e: None)
    assert min(ready) == 2


def test_a_replica_of_an_earlier_plan_that_crashes_is_not_started_again() -> None:
    world = World()
    apply(world, plan(model("chat", variant("a", 2))))
    world.broken = {"a": "exited with code 1"}
    apply(world, plan(model("chat", variant("a", 2, speed=2.0))), wait=False)
    world.advance(5.0)
    (old,) = (name for name, state in entries(world).items() if state == "ready")
    world.signal(world.procs[engines(world)[old]], signal.SIGKILL)
    world.broken = {}
    world.advance(30.0)
    assert old not in entries(world)
    assert list(entries(world).values()) == ["ready", "ready"]
