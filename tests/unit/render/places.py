"""What each field of a place may say, one at a time: nothing of it may be lost by a renderer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from llmd_ctl.plan import Plan, PlannedVariant
from llmd_ctl.plan.place import (
    Cache,
    Container,
    HostDevices,
    Image,
    Place,
    PlannedRouter,
    PlannedTarget,
    Secret,
)
from llmd_ctl.render.targets import render_target
from tests.unit.controller.plans import model, plan, real_variant

BASE = Place(
    image=Image("registry.example/engine:1", user="1000"),
    container=Container(shm_bytes=1 << 30),
    cache=Cache(variables={"HF_HOME": "huggingface"}),
)
DEVICES = HostDevices(8, "VISIBLE", classes=("gpu",), paths=("/dev/gpu",))
CONTAINER: dict[str, Any] = {
    "cpu": 2.5,
    "memory_bytes": 1 << 34,
    "shm_bytes": 1 << 31,
    "hugepages_bytes": 1 << 32,
    "capabilities": ("SYS_NICE",),
    "seccomp": "Unconfined",
    "host_ipc": True,
    "devices": ("/dev/kfd",),
    "groups": ("video",),
    "mounts": ("/opt/driver",),
    "runtime": "habana",
}
HOST_DEVICES: dict[str, Any] = {
    "count": 1,
    "variable": "OTHER",
    "unit": 2,
    "container_variable": "RUNTIME_VISIBLE",
    "driver": "nvidia",
    "privileged": True,
    "paths": ("/dev/other",),
    "classes": ("other",),
}


def changed() -> Iterator[tuple[str, Place]]:
    """A name and a place that differs from `BASE` in this alone."""
    assert set(CONTAINER) == set(Container.__struct_fields__)
    for name, value in CONTAINER.items():
        yield f"container.{name}", replace(BASE, container=replace(BASE.container, **{name: value}))
    yield "secrets", replace(BASE, secrets=(Secret("hf"),))
    yield "cache.path", replace(BASE, cache=replace(BASE.cache, path="/srv/cache"))
    yield "cache.variables", replace(BASE, cache=Cache(variables={"OTHER": "x"}))
    yield "image.digest", replace(BASE, image=Image("registry.example/engine:1", "sha256:00"))
    yield "image.reference", replace(BASE, image=Image("registry.example/engine:2"))


def whole(target: PlannedTarget, *variants: PlannedVariant, router: Place | None = None) -> Plan:
    """A fleet of one model in this target, which the router runs in."""
    planned = PlannedRouter("llmd-ctl", target.name, 1, {"R": "1"}, router or BASE)
    made = plan(model("chat", *(replace(one, target=target.name) for one in variants)))
    return replace(made, targets=(target,), router=planned)


def rendered(
    target: PlannedTarget,
    place: Place = BASE,
    devices: HostDevices | None = DEVICES,
    router: Place | None = None,
) -> dict[str, str]:
    """The files of a fleet of one real replica."""
    variant = replace(
        real_variant("a"), place=place, host_devices=devices, devices_per_replica=2,
    )  # fmt: skip
    made = whole(target, variant, router=router)
    return {file.path: file.text for file in render_target(made, target.name)}
