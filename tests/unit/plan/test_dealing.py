"""Hosts, devices and ports of replicas, where no cluster deals them out."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from llmd_ctl.errors import LlmdError
from llmd_ctl.plan import PlannedVariant
from llmd_ctl.plan.dealing import Seat, deal
from llmd_ctl.plan.place import HostDevices, PlannedTarget
from tests.unit.controller.plans import model, real_variant, variant
from tests.unit.plan.fleets import fleet_text, plan_text, problems_of

EIGHT = HostDevices(8, "CUDA_VISIBLE_DEVICES")
RACK = "{name: here, kind: systemd, hosts: [a, b]}"
LOCAL = "{name: here, kind: local}"


def sized(name: str, devices: int, replicas: int = 1, known: HostDevices = EIGHT) -> PlannedVariant:
    made = real_variant(name, replicas=replicas)
    return replace(made, devices_per_replica=devices, host_devices=known)


def dealt(*variants: PlannedVariant, hosts: tuple[str, ...] = ("a", "b")) -> tuple[Seat, ...]:
    seats, without = deal(PlannedTarget("here", "systemd", hosts=hosts), [model("m", *variants)])
    assert without == ()
    return seats


def test_replicas_are_spread_over_hosts() -> None:
    seats = dealt(sized("x", 2, 3))
    assert [(s.host, s.devices, s.port) for s in seats] == [
        ("a", (0, 1), 18000),
        ("b", (0, 1), 18000),
        ("a", (2, 3), 18001),
    ]


def test_no_two_replicas_of_a_host_have_a_device_or_a_port_in_common() -> None:
    seats = dealt(sized("x", 1, 3), sized("y", 4, 2), sized("z", 2, 2), variant("sim", 3))
    for host in ("a", "b"):
        here = [seat for seat in seats if seat.host == host]
        devices = [device for seat in here for device in seat.devices]
        assert len(set(devices)) == len(devices)
        assert set(devices) <= set(range(8))
        assert len({seat.port for seat in here}) == len(here)


def test_where_spreading_leaves_no_room_they_are_packed() -> None:
    assert {seat.host for seat in dealt(sized("x", 3, 2), sized("y", 5, 2))} == {"a", "b"}
    seats, without = deal(
        PlannedTarget("here", "systemd", hosts=("a",)), [model("m", sized("x", 4, 3))]
    )
    assert [seat.devices for seat in seats] == [(0, 1, 2, 3), (4, 5, 6, 7)]
    assert without == (("m", "x"),)


def test_a_number_may_stand_for_several_devices() -> None:
    chips = HostDevices(8, "TPU_VISIBLE_CHIPS", unit=2)
    assert [s.devices for s in dealt(sized("x", 1, 2, chips), hosts=())] == [(0,), (1,)]
    assert [s.devices for s in dealt(sized("x", 4, 2, chips), hosts=())] == [(0, 1), (2, 3)]


def test_devices_that_nobody_can_name_are_one_replicas() -> None:
    seats, without = deal(
        PlannedTarget("here", "compose"), [model("m", sized("x", 1, 2, HostDevices(8)))]
    )
    assert (len(seats), without) == (1, (("m", "x"),))


def test_two_variants_that_would_have_one_name_are_told_apart() -> None:
    target = PlannedTarget("here", "systemd")
    models = [model("a-b", variant("c")), model("a", variant("b-c"), variant("d"))]
    names = [seat.name for seat in deal(target, models)[0]]
    assert len(set(names)) == 3
    assert names[2] == "a-d-0"


def test_a_name_is_never_too_long_for_a_label_of_the_dns() -> None:
    long, as_long = "m" * 63, "m" * 29
    models = [
        model(long, variant("v" * 63), variant("v" * 62 + "w")),
        model(as_long, variant("v" * 28), variant("v" * 29)),
    ]
    names = [seat.name for seat in deal(PlannedTarget("here", "compose"), models)[0]]
    assert len(set(names)) == 4
    assert max(len(name.removesuffix("-0")) for name in names) + len("-9999") <= 63
    assert names[2] == f"{as_long}-{'v' * 28}-0"


@pytest.mark.parametrize(
    ("variants", "code", "said"),
    [
        ("- {accelerator: nvidia-h100, replicas: 17}", "LC3013", "2 hosts of 8 devices"),
        (
            "- {accelerator: nvidia-h100}\n- {accelerator: amd-mi300x}",
            "LC3054",
            "nobody says which hosts",
        ),
        (
            "- {accelerator: nvidia-h100, parallelism: {tensor: 8, pipeline: 2}}",
            "LC3054",
            "needs 2 machines",
        ),
    ],
)
def test_what_the_hosts_cannot_hold_is_refused(variants: str, code: str, said: str) -> None:
    text = fleet_text(variants).replace(f"[{LOCAL}]", f"[{RACK}]")
    problems = problems_of(text, simulate=None)
    assert (code, True) in [(p.code, said in p.message) for p in problems]
    with pytest.raises(LlmdError) as rehearsed:  # as `validate` asks
        plan_text(text, rehearsal=True)
    told = [(p.code, p.message) for p in rehearsed.value.problems]
    assert told == [(p.code, p.message) for p in problems]


def test_what_a_scheduler_would_set_aside_is_no_bound_on_a_machine() -> None:
    text = fleet_text("- {accelerator: intel-gaudi3}").replace(f"[{LOCAL}]", f"[{RACK}]")
    place = plan_text(text, simulate=None).models[0].variants[0].place
    assert place is not None
    assert (place.container.cpu, place.container.memory_bytes) == (None, None)


def test_shared_memory_of_a_container_with_the_machines_is_told_to_be_that() -> None:
    box = "{name: here, kind: compose}"
    variant = "- {accelerator: amd-mi300x, resources: {shm: 1Gi}}"
    told = plan_text(fleet_text(variant).replace(f"[{LOCAL}]", f"[{box}]"), simulate=None)
    assert [p.code for p in told.warnings if "/dev/shm" in p.message] == ["LC3051"]


def test_the_routers_own_image_is_told_to_be_a_tag() -> None:
    box = "{name: here, kind: compose}"
    text = fleet_text("- {accelerator: nvidia-h100}").replace(f"[{LOCAL}]", f"[{box}]")
    told = [p.message for p in plan_text(text, simulate=None).warnings if p.code == "LC3053"]
    assert any("llmd-ctl/router" in message for message in told)
    digest = "sha256:" + "0" * 64
    named = text.replace("spec:\n", f"spec:\n  router: {{image: 'x/router@{digest}'}}\n", 1)
    told = [p.message for p in plan_text(named, simulate=None).warnings if p.code == "LC3053"]
    assert not any("router" in message for message in told)
