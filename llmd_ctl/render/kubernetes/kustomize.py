"""Format `kustomize`: a folder for `kubectl apply -k`, or a base for overlays of one's own.

Called by `render.targets`. Objects have no namespace of their own: kustomization.yaml says the
target's, if it has one, and whoever applies it says it else.
"""

from __future__ import annotations

from typing import Any

from llmd_ctl.plan import Plan
from llmd_ctl.plan.place import PlannedTarget
from llmd_ctl.render.file import RenderedFile, header
from llmd_ctl.render.kubernetes.document import dumped, to_yaml
from llmd_ctl.render.kubernetes.manifests import manifests
from llmd_ctl.render.kubernetes.names import after


def render(plan: Plan, target: PlannedTarget) -> tuple[RenderedFile, ...]:
    """The files of a target."""
    head = header(plan, target.name)
    whole = after(target.namespace) if target.namespace is not None else ""
    files = [
        RenderedFile(f"{one.name}.yaml", head + to_yaml(one.objects))
        for one in manifests(plan, target, whole)
    ]
    kustomization: dict[str, Any] = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [file.path for file in files],
    }
    if target.namespace is not None:
        kustomization["namespace"] = target.namespace
    files.append(RenderedFile("kustomization.yaml", head + dumped(kustomization)))
    return tuple(sorted(files, key=lambda file: file.path))
