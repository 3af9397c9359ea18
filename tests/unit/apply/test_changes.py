"""What `diff` says is what the controller would do."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from llmd_ctl.apply.changes import Change, compare
from llmd_ctl.cli.plan_view import accelerators
from llmd_ctl.plan import (
    PORT,
    Multimodal,
    Plan,
    PlannedVariant,
    Resilience,
    RouterTls,
    Setting,
    Traces,
)
from llmd_ctl.plan.resilience import Breaker
from llmd_ctl.render import Layout, replica_specs
from tests.unit.controller.plans import external, model, plan, real_variant, variant

OLD = plan(model("chat", variant("a", 2), variant("b")))


def test_a_first_plan_only_adds() -> None:
    assert compare(None, OLD, None) == (
        Change("add", "chat", "a", ("2 × nvidia-h100, simulated",), keys=("",)),
        Change("add", "chat", "b", ("1 × nvidia-h100, simulated",), keys=("",)),
    )


def test_what_a_variant_takes_is_said_as_the_table_has_it() -> None:
    split = replace(real_variant("a", replicas=3), devices_per_replica=4)
    whole = plan(model("chat", split))
    said = "3 × 4 nvidia-h100"
    assert accelerators(split) == said
    assert compare(None, whole, None) == (Change("add", "chat", "a", (said,), keys=("",)),)
    [gone] = compare(whole, plan(model("chat")), None)
    assert (gone.kind, gone.reasons) == ("remove", (said,))


def test_the_same_plan_changes_nothing() -> None:
    assert compare(OLD, OLD, None) == ()


def test_a_changed_setting_is_named_with_both_values_and_its_restarts() -> None:
    settings = {"--max-num-seqs": Setting(128, "profile")}
    old = replace(real_variant("a", "128", 2), settings=settings)
    new = replace(real_variant("a", "64", 2), settings={"--max-num-seqs": Setting(64, "variant")})
    (change,) = compare(plan(model("chat", old)), plan(model("chat", new)), None)
    assert (change.kind, change.restarts) == ("change", 2)
    assert "engine flag --max-num-seqs: 128 (profile) → 64 (variant)" in change.reasons


def test_scaling_restarts_nobody() -> None:
    new = plan(model("chat", variant("a", 4), variant("b")))
    (change,) = compare(OLD, new, None)
    assert change == Change("scale", "chat", "a", ("replicas: 2 → 4",), keys=("replicas",))


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
    assert fleet.reasons[0] == "spec.observability.traces.otlp: nothing → http://c:4318"
    assert chat.reasons == ("spec.router.routing.scheduler: expected-finish → random",)


def test_resilience_is_a_change_of_the_router_that_restarts_nothing() -> None:
    new = replace(OLD, resilience=Resilience(breaker=Breaker(failures=3), slow_start_ms=0))
    (fleet,) = compare(OLD, new, None)
    assert fleet.reasons == (
        "spec.router.resilience.breaker.failures: nothing → 3",
        "spec.router.resilience.slowStart: nothing → 0s",
    )
    assert (fleet.restarts, fleet.takes_away, fleet.router) == (0, False, "reloads")


TLS = RouterTls("/c/a.crt", "/c/a.key")


@pytest.mark.parametrize(
    ("old", "new", "reasons"),
    [
        (
            None, TLS,
            (
                "spec.router.tls.certFile: nothing → /c/a.crt",
                "spec.router.tls.keyFile: nothing → /c/a.key",
            ),
        ),
        (
            TLS, replace(TLS, client_ca_file="/c/ca.crt"),
            ("spec.router.tls.clientCaFile: nothing → /c/ca.crt",),
        ),
        (
            TLS, None,
            (
                "spec.router.tls.certFile: /c/a.crt → nothing",
                "spec.router.tls.keyFile: /c/a.key → nothing",
            ),
        ),
    ],
)  # fmt: skip
def test_how_the_router_listens_restarts_it_and_nothing_else(
    old: RouterTls | None, new: RouterTls | None, reasons: tuple[str, ...]
) -> None:
    (change,) = compare(replace(OLD, router_tls=old), replace(OLD, router_tls=new), None)
    assert change.reasons == reasons
    assert (change.router, change.takes_away, change.effect) == (
        "restarts", True, "restarts the router",
    )  # fmt: skip


def test_settings_of_models_and_variants_are_taken_over_by_the_router_as_it_runs() -> None:
    speaks = replace(variant("b"), apis=("chat",))
    parts = Multimodal(image_tokens=256)
    new = plan(model("chat", variant("a", 2), speaks, usage="exact", multimodal=parts))
    chat, b = compare(OLD, replace(new, resilience=OLD.resilience), None)
    assert set(chat.reasons) == {
        "usage: as-told → exact",
        "multimodal.imageTokens: nothing → 256",
    }
    assert b.reasons == ("apis: nothing → chat",)
    assert [(c.router, c.effect, c.takes_away) for c in (chat, b)] == [
        ("reloads", "the router reloads", False)
    ] * 2


def test_what_the_router_does_not_read_is_no_change_of_it() -> None:
    other = replace(OLD.models[0], revision="v2")
    (change,) = compare(OLD, replace(OLD, models=(other,)), None)
    assert (change.router, change.effect) == (None, "")


def test_what_should_run_and_does_not_is_a_change_too() -> None:
    names = {spec.name for spec in replica_specs(OLD, Layout("prod", ""), "")}
    down = next(name for name in names if "-a-" in name)
    (change,) = compare(OLD, OLD, frozenset(names - {down}))
    assert change == Change("start", "chat", "a", ("1 of 2 replicas does not run",))


def aliased(*variants: PlannedVariant) -> Plan:
    return plan(model("chat", *variants, aliases=("al",)))


def test_an_alias_restarts_every_simulated_engine_and_says_so() -> None:
    changes = compare(OLD, aliased(variant("a", 2), variant("b")), None)
    assert [(c.variant, c.restarts, c.takes_away) for c in changes] == [
        (None, 0, False), ("a", 2, True), ("b", 1, True),
    ]  # fmt: skip
    assert all(c.reasons == ("aliases: nothing → al",) for c in changes)


def test_an_alias_restarts_no_engine_of_its_own_command_line() -> None:
    real = real_variant("a", "8", 2)
    (change,) = compare(plan(model("chat", real)), aliased(real), None)
    assert (change.variant, change.restarts) == (None, 0)


@pytest.mark.parametrize("simulated", [True, False])
def test_an_edited_command_is_shown_and_restarts(simulated: bool) -> None:
    old = variant("a", 3, simulated=simulated, command=("run", "--safe", "yes", "--port", PORT))
    new = replace(old, command=("run", "--safe", "no", "--port", PORT, "--extra", "a b"))
    (change,) = compare(plan(model("chat", old)), plan(model("chat", new)), None)
    assert (change.kind, change.restarts) == ("change", 3)
    assert change.reasons == (
        "command: --safe yes → --safe no",
        "command: nothing → --extra 'a b'",
    )


def test_an_edited_environment_is_shown_and_restarts() -> None:
    new = replace(OLD.models[0].variants[1], env={"LD_PRELOAD": "x.so"})
    (change,) = compare(OLD, plan(model("chat", variant("a", 2), new)), None)
    assert (change.variant, change.restarts) == ("b", 1)
    assert change.reasons == ("env.LD_PRELOAD: nothing → x.so",)


@pytest.mark.parametrize("simulated", [True, False])
def test_a_new_price_is_shown_and_restarts_nobody(simulated: bool) -> None:
    def priced(price: float) -> Plan:
        made = variant("a", simulated=simulated, price_per_hour=price)
        return plan(model("chat", replace(made, facts={"speed": 1.0, "pricePerHour": price})))

    (change,) = compare(priced(2.0), priced(3.0), None)
    assert (change.kind, change.restarts, change.takes_away) == ("change", 0, False)
    assert change.reasons == ("price an hour of a replica: 2 → 3",)


def test_what_follows_from_other_fields_is_no_change_of_its_own() -> None:
    new = replace(variant("b"), price_per_hour=3.0, reasons=("$3 by the inventory",))
    assert compare(OLD, plan(model("chat", variant("a", 2), new)), None) == ()


def test_what_nothing_replaces_is_taken_away_too() -> None:
    fewer = plan(model("chat", variant("a", 0), variant("b")))
    (scale,) = compare(OLD, fewer, None)
    assert (scale.kind, scale.restarts, scale.stops, scale.takes_away) == ("scale", 0, 2, True)
    outside = plan(model("chat", variant("a", 2), external("b", "http://10.0.0.7:8000")))
    (change,) = compare(OLD, outside, None)
    assert (change.restarts, change.stops) == (0, 1)


def some_plan(random: Random) -> Plan:
    """A plan of a few variants that differ in all that a replica's name may depend on."""

    def some_variant(name: str) -> PlannedVariant:
        if random.random() < 0.1:
            return external(name, "http://10.0.0.7:8000")
        fields: dict[str, Any] = {"simulated": random.random() < 0.5}
        if random.random() < 0.3:
            fields |= {"command": ("run", random.choice("ab"))}
        if random.random() < 0.2:
            fields |= {"env": {"A": random.choice("12")}}
        if random.random() < 0.2:
            fields |= {"accelerator": "nvidia-l4"}
        return variant(name, random.randint(0, 3), speed=random.choice([1.0, 2.0]), **fields)

    models = [
        model(
            name,
            *(some_variant(v) for v in "ab" if random.random() < 0.8),
            aliases=("al",) if random.random() < 0.3 else (),
        )
        for name in ("chat", "code")
        if random.random() < 0.9
    ]
    return plan(*models)


def test_counted_restarts_and_stops_are_the_replicas_whose_names_vanish() -> None:
    random = Random(7)
    restarting = 0
    for _ in range(500):
        old, new = some_plan(random), some_plan(random)
        before, after = (replica_specs(p, Layout("prod", ""), "") for p in (old, new))
        gone = {s.slot for s in before} - {
            s.slot for s in before if s.name in {t.name for t in after}
        }
        wanted = {s.slot for s in after}
        changes = compare(old, new, None)
        assert sum(c.restarts for c in changes) == len(gone & wanted)
        assert sum(c.stops for c in changes) == len(gone - wanted)
        assert all(c.reasons for c in changes)
        restarting += bool(gone & wanted)
    assert restarting > 200
