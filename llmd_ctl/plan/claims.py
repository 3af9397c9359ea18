"""How a cluster hands the devices of a replica out: by an extended resource, or by claims (DRA).

Called by `elsewhere`. A fleet says which by `deviceAllocation`, of a variant before that of its
target; what a profile knows no class of devices for is refused, and what it says of their driver is
told. Pure.
"""

from __future__ import annotations

from llmd_ctl.plan.place import Accelerators
from llmd_ctl.plan.report import Path
from llmd_ctl.plan.scene import Ready, Scene
from llmd_ctl.profiles.kubernetes import Kubernetes
from llmd_ctl.spec import fleet as spec

CLAIMED = "dra"
FIELD = "deviceAllocation"


def accelerators_of(known: Kubernetes, devices: int, hosts: int, *, claimed: bool) -> Accelerators:
    """How many of what one host asks for, where `hosts` share the devices."""
    each = -(-devices // hosts)
    count = -(-each // known.resource.devices)
    domain = known.domain.device_class if known.domain is not None else None
    if claimed and known.claim is not None:
        return Accelerators(count=count, device_class=known.claim.device_class, domain_class=domain)
    return Accelerators(resource=known.resource.name, count=count, domain_class=domain)


def is_claimed(scene: Scene, ready: Ready, target: spec.Target, known: Kubernetes) -> bool:
    """Whether the devices of a variant are claimed; problems with that are reported."""
    variant, accelerator = ready.variant, ready.accelerator
    if (variant.device_allocation or target.device_allocation) != CLAIMED:
        return False
    if accelerator.spec.host is not None and variant.device_allocation is None:
        return False  # cores are no devices: what the target says is of others
    at = _said_at(ready)
    if known.claim is None or known.claim.not_yet:
        why = known.claim.not_yet if known.claim is not None else "no class of devices is known"
        message = f"devices of {accelerator.name} cannot be claimed: {why}"
        hint = f"Write {FIELD}: extended in the variant."
        scene.report.add("LC3054", message, at, found=CLAIMED, allowed=("extended",), hint=hint)
    elif known.claim.note:
        message = f"{known.claim.driver} hands out {accelerator.name}: {known.claim.note}"
        scene.report.warn("LC3056", message, at)
    return True


def _said_at(ready: Ready) -> Path:
    """The variant that says it, else the accelerator for which its target does not hold."""
    said = ready.variant.device_allocation is not None
    return (*ready.path, FIELD if said else "accelerator")
