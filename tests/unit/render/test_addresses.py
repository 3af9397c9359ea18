"""Where replicas listen, and what a router in one target reaches of others."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from llmd_ctl.errors import DoesNotFit
from llmd_ctl.plan import Plan
from llmd_ctl.plan.place import HostDevices, PlannedRouter, PlannedTarget
from llmd_ctl.render.addresses import engine_text, listen_on, seats, sources_of
from tests.unit.controller.plans import model, plan, real_variant

HERE = PlannedTarget("here", "local")
RACK = PlannedTarget("rack", "systemd", hosts=("g-1", "g-2"))
ALONE = PlannedTarget("alone", "systemd")
BOX = PlannedTarget("box", "compose")


def whole(*targets: PlannedTarget) -> Plan:
    """A model with a variant in each target; the router runs in the first."""
    variants = [replace(real_variant(one.name), target=one.name) for one in targets]
    made = plan(model("chat", *variants))
    return replace(made, targets=targets, router=PlannedRouter("llmd-ctl", targets[0].name, 1))


def test_a_router_reaches_its_own_target_and_hosts_by_name() -> None:
    made = whole(HERE, RACK)
    (source,) = sources_of(made, HERE)[made.models[0].name]
    assert [(e.name, e.address, e.port, e.variant) for e in source.endpoints] == [
        ("chat-here-0", "127.0.0.1", 18000, "here"),
        ("chat-rack-0", "g-1", 18000, "rack"),
    ]


@pytest.mark.parametrize("other", [ALONE, BOX])
def test_what_a_router_cannot_reach_is_not_left_out_silently(other: PlannedTarget) -> None:
    made = whole(HERE, other)
    with pytest.raises(DoesNotFit) as raised:
        sources_of(made, HERE)
    (problem,) = raised.value.problems
    assert (problem.code, problem.found) == ("LC3055", other.name)


def test_a_plan_whose_replicas_have_no_room_is_refused() -> None:
    made = whole(HERE)
    crowded = replace(
        made.models[0].variants[0], replicas=3, host_devices=HostDevices(2, "V"),
    )  # fmt: skip
    made = replace(made, models=(replace(made.models[0], variants=(crowded,)),))
    with pytest.raises(DoesNotFit, match="no room on here for chat/here"):
        seats(made, HERE)


def test_a_replica_whose_host_has_an_address_of_ipv6_listens_there() -> None:
    rack = PlannedTarget("rack", "systemd", hosts=("fd00::2", "g-2"))
    made = whole(rack)
    variant = replace(made.models[0].variants[0], replicas=2)
    made = replace(made, models=(replace(made.models[0], variants=(variant,)),))
    first, second = seats(made, rack)
    assert (listen_on(made, rack, first), listen_on(made, rack, second)) == ("::", "0.0.0.0")
    assert '"listen": "[::]:18000"' in engine_text(first, "::", 18000)
