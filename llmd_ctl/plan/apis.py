"""The APIs that a variant is asked for: what the file says of it, as far as its engine does them.

Called by `variant`. Of a real engine the file's word is taken. What simulated ones speak is known:
what one lacks is warned of, or refused where nothing would be left. Pure.
"""

from __future__ import annotations

from llmd_ctl.plan.engines import simulated
from llmd_ctl.plan.scene import Ready, Scene


def offered(scene: Scene, ready: Ready, title: str) -> tuple[str, ...] | None:
    """Return the APIs that requests for it may be of; None is all."""
    said = ready.variant.offers
    if ready.is_real:
        return said
    known = simulated(scene.catalog).spec.apis
    spoken = tuple(name for name in known if said is None or name in said)
    lacking = [name for name in said or () if name not in known]
    if not lacking or not ready.variant.replicas:
        return spoken or said
    at = (*ready.path, "apis")
    words = ", ".join(lacking)
    if spoken:
        message = f"{title} is simulated, and simulated engines do not speak {words}"
        scene.report.warn("LC3027", message, at)
        return spoken
    message = f"{title} cannot be simulated: simulated engines speak none of its APIs"
    scene.report.add("LC3028", message, at, found=words, allowed=known)
    return said
