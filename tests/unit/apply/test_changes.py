"""What `diff` says is what the controller would do."""

from __future__ import annotations

from dataclasses import replace

from llmd_ctl.apply.changes import Change, compare
from llmd_ctl.plan import Setting, Traces
from llmd_ctl.render import Layout, replica_specs
from tests.unit.controller.plans import external, model, plan, real_variant, variant

OLD = plan(model("chat", variant("a", 2), variant("b")))


def test_a_first_plan_only_adds() -> None:
    assert compare(None, OLD, None) == (
        Change("add", "chat", "a", ("2 × nvidia-h100",)),
        Change("add", "chat", "b", ("1 × nvidia-h100",)),
    )


def test_the_same_plan_changes_nothing() -> None:
    assert compare(OLD, OLD, None) == ()


def test_a_changed_setting_is_named_with_both_values_and_its_restarts() -> None:
    settings = {"--max-num-seqs": Setting(128, "profile")}
    old = replace(real_variant("a", "128", 2), settings=settings)
    new = replace(real_variant("a", "64", 2), settings={"--max-num-seqs": Setting(64, "variant")})
    (change,) = compare(plan(model("chat", old)), plan(model("chat", new)), None)
    assert (change.kind, change.restarts) == ("change", 2)
    assert "settings.--max-num-seqs.value: 128 → 64" in change.reasons
    assert "settings.--max-num-seqs.setBy: profile → variant" in change.reasons


def test_scaling_restarts_nobody() -> None:
    new = plan(model("chat", variant("a", 4), variant("b")))
    assert compare(OLD, new, None) == (Change("scale", "chat", "a", ("replicas: 2 → 4",), 0),)


def test_new_facts_restart_a_simulated_engine_but_not_a_real_one() -> None:
    def restarts(simulated: bool) -> list[int]:
        old = variant("a", simulated=simulated)
        new = variant("a", simulated=simulated, speed=2.0)
        changes = compare(plan(model("chat", old)), plan(model("chat", new)), None)
        return [change.restarts for change in changes]

    assert restarts(simulated=True) == [1]
    assert restarts(simulated=False) == [0]


def test_a_removed_model_removes_its_variants() -> None:
    both = plan(*OLD.models, model("code", external("old", "http://10.0.0.7:8000")))
    (change,) = compare(both, OLD, None)
    assert change == Change("remove", "code", "old", ("endpoint http://10.0.0.7:8000",))


def test_the_model_and_the_fleet_have_changes_of_their_own() -> None:
    new = replace(
        plan(model("chat", variant("a", 2), variant("b"), scheduler="random")),
        traces=Traces("http://c:4318", "http/protobuf", 1.0),
    )
    fleet, chat = compare(OLD, new, None)
    assert (fleet.model, fleet.variant, chat.model, chat.variant) == (None, None, "chat", None)
    assert fleet.reasons[0].startswith("traces: nothing → ")
    assert chat.reasons == ("scheduler: expected-finish → random",)


def test_what_should_run_and_does_not_is_a_change_too() -> None:
    names = {spec.name for spec in replica_specs(OLD, Layout("prod", ""), "")}
    down = next(name for name in names if "-a-" in name)
    (change,) = compare(OLD, OLD, frozenset(names - {down}))
    assert change == Change("start", "chat", "a", ("1 of 2 replicas don't run",))
