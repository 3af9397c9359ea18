"""From a plan to the files of one target: which formats there are, and who makes them.

Called by `cli`. Pure. Each renderer is one module, imported when it is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import Protocol, cast

from llmd_ctl.errors import UsageError
from llmd_ctl.plan import Plan
from llmd_ctl.plan.place import PlannedTarget
from llmd_ctl.render.file import RenderedFile

FORMATS: dict[str, dict[str, str]] = {
    "local": {"script": "llmd_ctl.render.script"},
    "kubernetes": {
        "kustomize": "llmd_ctl.render.kubernetes.kustomize",
        "helm": "llmd_ctl.render.kubernetes.helm",
    },
    "systemd": {"units": "llmd_ctl.render.systemd"},
    "compose": {"compose": "llmd_ctl.render.compose"},
}
"""By kind of target: its formats, the usual one first, and the module of each."""


class Renderer(Protocol):
    """What each of those modules has."""

    def render(self, plan: Plan, target: PlannedTarget) -> tuple[RenderedFile, ...]:
        """The files of a target, sorted by path."""


def render_target(plan: Plan, name: str, form: str | None = None) -> tuple[RenderedFile, ...]:
    """Render one target of a plan. Raises `UsageError` for a target or format that is none."""
    target = _target(plan, name)
    module = FORMATS[target.kind][format_of(plan, name, form)]
    return cast("Renderer", import_module(module)).render(plan, target)


def format_of(plan: Plan, name: str, form: str | None) -> str:
    """The format that a target is rendered in: the usual one of its kind where none is named."""
    formats = FORMATS[_target(plan, name).kind]
    if form is None:
        return next(iter(formats))
    if form not in formats:
        kind = _target(plan, name).kind
        message = f"a target of kind {kind} is not rendered as {form}"
        raise UsageError.of("LC6002", message, found=form, allowed=tuple(formats))
    return form


def _target(plan: Plan, name: str) -> PlannedTarget:
    target = next((one for one in plan.targets if one.name == name), None)
    if target is None:
        known = tuple(one.name for one in plan.targets)
        message = f'the fleet has no target "{name}"'
        raise UsageError.of("LC6002", message, found=name, allowed=known)
    return target
