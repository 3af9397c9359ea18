"""The pods that objects make: where their templates stand, how many hosts one of them spans.

Called by `judge`. The shapes of kinds are one table; a kind that is not in it makes no pods that
are known here. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from msgspec import Struct

from llmd_ctl.plan.manifests.manifest import Manifest, Path, look, table, text, texts

ROLE = "llm-d.ai/role"
PREFILL, DECODE = "prefill", "decode"


class Shape(Struct, frozen=True):
    """Where a kind has a pod. `size`: hosts of a group; `partial`: its controller adds to it."""

    spec: Path
    metadata: Path
    selector: Path | None = None
    size: Path | None = None
    role: str | None = None
    worker: bool = False
    partial: bool = False


TEMPLATE = ("spec", "template")
GROUP = ("spec", "leaderWorkerTemplate")
USUAL = Shape((*TEMPLATE, "spec"), (*TEMPLATE, "metadata"), ("spec", "selector"))
NONE = ("metadata",)
SHAPES: Mapping[str, tuple[Shape, ...]] = {
    "Pod": (Shape(("spec",), NONE),),
    **dict.fromkeys(("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"), (USUAL,)),
    "Job": (Shape((*TEMPLATE, "spec"), (*TEMPLATE, "metadata")),),
    "CronJob": (
        Shape(
            ("spec", "jobTemplate", *TEMPLATE, "spec"),
            ("spec", "jobTemplate", *TEMPLATE, "metadata"),
        ),
    ),
    "LeaderWorkerSet": (
        Shape(
            (*GROUP, "leaderTemplate", "spec"), (*GROUP, "leaderTemplate", "metadata"),
            size=(*GROUP, "size"),
        ),
        Shape(
            (*GROUP, "workerTemplate", "spec"), (*GROUP, "workerTemplate", "metadata"),
            size=(*GROUP, "size"), worker=True,
        ),
    ),
    **dict.fromkeys(
        ("LLMInferenceService", "LLMInferenceServiceConfig"),
        (
            Shape(TEMPLATE, NONE, partial=True),
            Shape(("spec", "worker"), NONE, worker=True, partial=True),
            Shape(("spec", PREFILL, "template"), NONE, role=PREFILL, partial=True),
            Shape(("spec", PREFILL, "worker"), NONE, role=PREFILL, worker=True, partial=True),
        ),
    ),
}  # fmt: skip


class PodTemplate(Struct, frozen=True, dict=True):
    """One pod as an object has it."""

    manifest: Manifest
    shape: Shape

    @cached_property
    def spec(self) -> Mapping[str, Any]:
        """Its spec."""
        return table(self.manifest.data, *self.shape.spec)

    @property
    def labels(self) -> dict[str, str]:
        """Its labels."""
        return texts(self.manifest.data, *self.shape.metadata, "labels")

    @property
    def hosts(self) -> int:
        """The pods that work as one replica."""
        size = look(self.manifest.data, *self.shape.size) if self.shape.size else 1
        return size if type(size) is int and size > 0 else 1

    @property
    def follows(self) -> bool:
        """Whether another pod of its group leads, and answers requests."""
        leader = table(self.manifest.data, *GROUP, "leaderTemplate")
        return self.shape.worker and (bool(leader) or self.shape.partial)

    @property
    def role(self) -> str | None:
        """The side of a pair, where it says one."""
        said = self.labels.get(ROLE) or self.shape.role
        return said if said in (PREFILL, DECODE) else None

    def at(self, *path: str | int) -> Path:
        """A path in the pod's spec as one in its object."""
        return (*self.shape.spec, *path)

    @property
    def containers(self) -> list[Path]:
        """Where its containers stand: those that go on running, init containers after them."""
        return [
            (kind, index)
            for kind in ("containers", "initContainers")
            for index, each in enumerate(_list(self.spec, kind))
            if isinstance(each, Mapping)
        ]

    @property
    def title(self) -> str:
        """For messages."""
        return self.manifest.title

    def selected_by(self, labels: Mapping[str, str]) -> bool:
        """Whether a selector takes it; an empty one takes nothing."""
        own = self.labels
        return bool(labels) and all(own.get(key) == value for key, value in labels.items())


def _list(data: Any, key: str) -> list[Any]:
    found = look(data, key)
    return found if isinstance(found, list) else []


def templates_of(manifest: Manifest) -> Iterator[PodTemplate]:
    """The pods of an object; a group without a leader of its own is led by a worker."""
    for shape in SHAPES.get(manifest.kind, ()):
        if table(manifest.data, *shape.spec):
            yield PodTemplate(manifest, shape)


def image_of(container: Any) -> str | None:
    """The image of a container."""
    return text(container, "image")
