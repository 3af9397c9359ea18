"""What a fleet takes for itself where it runs: names of objects, units, ports, devices.

Two fleets that take the same get in each other's way, and neither sees the other. Called by
`validate` for the fleets of one command. Names are those that the renderers give. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator

import yaml

from llmd_ctl.plan import Plan
from llmd_ctl.plan.dealing import HERE
from llmd_ctl.plan.place import PlannedTarget
from llmd_ctl.render import compose, systemd
from llmd_ctl.render.addresses import is_router_here, seats
from llmd_ctl.render.targets import render_target

SHARED = "sysusers.d/llmd-ctl.conf"  # alike for every fleet
THIS = "this machine"


def place_of(target: PlannedTarget) -> tuple[str, ...]:
    """Where a target is: fleets whose targets have nothing of it in common cannot meet."""
    if target.kind == "kubernetes":
        return (f"namespace {target.namespace}" if target.namespace else "the namespace in use",)
    return tuple(host or THIS for host in target.hosts or (HERE,))


def claims_of(plan: Plan, target: PlannedTarget) -> Iterator[str]:
    """Yield what a fleet takes in a target, in words. Raises `LlmdError` as rendering it does."""
    if target.kind == "kubernetes":
        yield from _objects(plan, target)
    elif target.kind != "local":  # where apply takes ports that are free, and state by the name
        yield from _files(plan, target)
        yield from _of_hosts(plan, target)


def _objects(plan: Plan, target: PlannedTarget) -> Iterator[str]:
    (place,) = place_of(target)
    for file in render_target(plan, target.name):
        for document in yaml.load_all(file.text, yaml.CSafeLoader):
            name = (document or {}).get("metadata", {}).get("name")
            if name is not None:
                yield f"{document['kind']} {name} in {place}"


def _files(plan: Plan, target: PlannedTarget) -> Iterator[str]:
    if target.kind == "compose":  # a project has the fleet's name, and fleets have one each
        return
    for file in render_target(plan, target.name):
        host, _, path = file.path.partition("/")
        if not path.endswith(SHARED):
            yield f"/{path} on {THIS if host == systemd.NO_HOST else host}"


def _of_hosts(plan: Plan, target: PlannedTarget) -> Iterator[str]:
    """Ports that are bound, and devices that are dealt out."""
    places = place_of(target)
    units = target.kind == "systemd"
    if is_router_here(plan, target):
        both = (systemd.DATA, systemd.ADMIN) if units else (compose.DATA, compose.ADMIN)
        for port in both:
            yield f"port {str(port).rpartition(':')[2]} of {places[0]}"
    for seat in seats(plan, target):
        host = seat.host or THIS
        if units:
            yield f"port {seat.port} of {host}"
        for number in seat.devices:
            yield f"device {number} ({seat.variant.accelerator}) of {host}"
