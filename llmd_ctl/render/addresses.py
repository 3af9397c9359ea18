"""Where replicas listen, for targets whose replicas have fixed addresses, and what routes to them.

Used by the renderers of every target that holds the router: a router in a cluster reaches the hosts
of units by the same addresses as one beside them. What it cannot reach is an error here, since a
router.yaml without it would be a part of the fleet that silently gets no requests. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from llmd_ctl.errors import DoesNotFit
from llmd_ctl.plan import Plan
from llmd_ctl.plan.dealing import HERE, Seat, deal
from llmd_ctl.plan.place import PlannedTarget
from llmd_ctl.render.file import header
from llmd_ctl.render.process import LOOPBACK, engine_document
from llmd_ctl.render.router import HEADER, Listen, config_text, model_config
from llmd_ctl.router.config import StaticEndpoint, StaticSource

ANYWHERE, ANYWHERE_6 = "0.0.0.0", "::"
IN_CONTAINER = 8000


def seats(plan: Plan, target: PlannedTarget) -> tuple[Seat, ...]:
    """Where each replica of a target runs. Raises `DoesNotFit` where one has no room."""
    found, without = deal(target, plan.models)
    if without:
        names = ", ".join("/".join(each) for each in without)
        raise DoesNotFit.of("LC3013", f"no room on {target.name} for {names}")
    return found


def address(target: PlannedTarget, seat: Seat) -> tuple[str, int]:
    """Where a replica is reached: by its service in compose, else on its host."""
    if target.kind == "compose":
        return seat.name, IN_CONTAINER
    return seat.host or LOOPBACK, seat.port


def listen_on(plan: Plan, target: PlannedTarget, seat: Seat) -> str:
    """The address that a replica binds: no more than who has to reach it needs."""
    alone = seat.host == HERE and (plan.router is None or plan.router.target == target.name)
    if alone and target.kind != "compose":
        return LOOPBACK
    return ANYWHERE_6 if ":" in seat.host else ANYWHERE


def sources_of(plan: Plan, home: PlannedTarget) -> Mapping[str, tuple[StaticSource, ...]]:
    """By model: its managed replicas with fixed addresses, for a router in `home`.

    Replicas of a cluster are found by its DNS and are none of these. Raises `DoesNotFit`.
    """
    used = {variant.target for model in plan.models for variant in model.variants}
    endpoints: dict[str, list[StaticEndpoint]] = {}
    for target in plan.targets:
        if target.name not in used:
            continue
        if target.kind == "kubernetes" and target.name == home.name:
            continue
        if not reaches(home, target):
            message = f"the router runs in {home.name} ({home.kind}) and cannot reach {target.name}"
            raise DoesNotFit.of("LC3055", message, found=target.name, allowed=(home.name,))
        for seat in seats(plan, target):
            name, port = address(target, seat)
            one = StaticEndpoint(seat.name, name, port, seat.variant.name)
            endpoints.setdefault(seat.model.name, []).append(one)
    return {model: (StaticSource(tuple(found)),) for model, found in endpoints.items()}


def router_yaml(plan: Plan, target: PlannedTarget, listen: Listen, admin_key_file: str) -> str:
    """router.yaml for a router in a target where every replica has a fixed address."""
    sources = sources_of(plan, target)
    models = [model_config(model, sources.get(model.name, ())) for model in plan.models]
    text = config_text(plan, listen, admin_key_file, models)
    return header(plan, target.name) + text.removeprefix(HEADER)


def reaches(home: PlannedTarget, target: PlannedTarget) -> bool:
    """Whether a router in `home` can reach a target: its own, and hosts by name from everywhere."""
    return target.name == home.name or (target.kind == "systemd" and bool(target.hosts))


def engine_text(seat: Seat, host: str, port: int) -> str:
    """The engine.json of a simulated replica that binds this address."""
    document = {
        **engine_document(seat.model, seat.variant, seat.index),
        "name": seat.name,
        "listen": f"[{host}]:{port}" if ":" in host else f"{host}:{port}",
    }
    return json.dumps(document, indent=2) + "\n"


def device_env(seat: Seat) -> Mapping[str, str]:
    """The variable that tells an engine which devices are its own."""
    known = seat.variant.host_devices
    if known is None or known.variable is None:
        return {}
    return {known.variable: numbers(seat)}


def numbers(seat: Seat) -> str:
    """The devices of a replica, as variables have them."""
    return ",".join(map(str, seat.devices))


def is_router_here(plan: Plan, target: PlannedTarget) -> bool:
    """Whether the router runs in this target."""
    return plan.router is None or plan.router.target == target.name
