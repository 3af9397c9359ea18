"""Every object of a target, file by file: what both formats write.

Called by `kustomize` and `helm`. A variant has a file of its own; the router, and what engines
share, have theirs.
"""

from __future__ import annotations

from msgspec import Struct

from llmd_ctl.plan import Plan
from llmd_ctl.plan.place import PlannedTarget
from llmd_ctl.render.kubernetes.autoscale import LLM_D, scaler
from llmd_ctl.render.kubernetes.document import Meta, Object
from llmd_ctl.render.kubernetes.engine import engine_objects
from llmd_ctl.render.kubernetes.llm_d import llm_d_objects
from llmd_ctl.render.kubernetes.monitoring import monitoring_objects
from llmd_ctl.render.kubernetes.names import Names
from llmd_ctl.render.kubernetes.network import engine_policy
from llmd_ctl.render.kubernetes.objects import ServiceAccount
from llmd_ctl.render.kubernetes.router import router_objects


class Manifest(Struct, frozen=True):
    """A file of objects, by its name without an ending."""

    name: str
    objects: tuple[Object, ...]


def manifests(plan: Plan, target: PlannedTarget, after: str = "") -> tuple[Manifest, ...]:
    """All files of a target, by name.

    `after` is what a Service's name is followed by, so that the router asks for one name and no
    server beyond the cluster hears of it; empty: the search list of its pod makes it whole.
    """
    names, router = Names.of(plan), plan.router
    here = [
        (model, variant)
        for model in plan.models
        for variant in model.variants
        if variant.place is not None and variant.target == target.name
    ]
    found = [
        Manifest(
            f"engine-{names.engine(*one)}",
            (*engine_objects(plan, names, *one), *scaler(plan, names, *one)),
        )
        for one in here
    ]
    if here:
        account = ServiceAccount(Meta(names.engines, names.shared_labels()))
        found.append(Manifest("engines", (account, engine_policy(names, router))))
    if router is not None and router.target == target.name:
        made = (
            llm_d_objects(plan, names, router, target)
            if router.kind == LLM_D
            else router_objects(plan, names, router, target, after)
        )
        found.append(Manifest("router", made))
    watched = monitoring_objects(plan, names, target, engines=bool(here))
    found.append(Manifest("monitoring", watched))
    return tuple(sorted((one for one in found if one.objects), key=lambda one: one.name))
