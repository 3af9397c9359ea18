"""Format `kustomize`: a folder for `kubectl apply -k`, or a base for overlays of one's own.

Called by `render.targets`. Objects have no namespace of their own: kustomization.yaml says the
target's, if it has one, and whoever applies it says it else.
"""

from __future__ import annotations

import re
from typing import Any

from llmd_ctl.errors import UsageError
from llmd_ctl.plan import Plan
from llmd_ctl.plan.place import PlannedTarget
from llmd_ctl.render.file import RenderedFile, header
from llmd_ctl.render.kubernetes.document import dumped, texts, to_document, to_yaml
from llmd_ctl.render.kubernetes.manifests import Manifest, manifests
from llmd_ctl.render.kubernetes.names import after

LOST = re.compile(r"[\x7f-\x9f]")
"""Characters that kustomize 5.8 turns into others without a word, or fails on."""


def render(plan: Plan, target: PlannedTarget) -> tuple[RenderedFile, ...]:
    """The files of a target."""
    head = header(plan, target.name)
    whole = after(target.namespace) if target.namespace is not None else ""
    parts = manifests(plan, target, whole)
    files = [RenderedFile(f"{part.name}.yaml", head + _text(part)) for part in parts]
    kustomization: dict[str, Any] = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [file.path for file in files],
    }
    if target.namespace is not None:
        kustomization["namespace"] = target.namespace
    files.append(RenderedFile("kustomization.yaml", head + dumped(kustomization)))
    return tuple(sorted(files, key=lambda file: file.path))


def _text(part: Manifest) -> str:
    documents = [to_document(one) for one in part.objects]
    for one, document in zip(part.objects, documents, strict=True):
        _refuse_lost(f"{one.KIND} {one.metadata.name}", document)
    return to_yaml(documents)


def _refuse_lost(owner: str, document: Any) -> None:
    """Raise `UsageError` for text that kustomize would not hand on as it is."""
    for text in texts(document):
        lost = LOST.search(text)
        if lost is not None:
            raise UsageError.of(
                "LC6004",
                f"kustomize cannot write the character U+{ord(lost[0]):04X} of {owner}",
                found=ascii(text[:60]),
                hint="Render with --format helm, which can, or take the character out.",
            )
