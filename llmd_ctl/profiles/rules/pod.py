"""One rule of a pod that runs an engine: what Kubernetes makes of it, whatever the engine says.

`Pod` is what rules see, filled in by `plan.manifests` for pods that somebody else wrote. Rules
stand in the tables `pods` and `devices`. A rule finds; it reports nothing. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from msgspec import Struct, field

from llmd_ctl.errors import Severity
from llmd_ctl.profiles.accelerator import Accelerator
from llmd_ctl.profiles.image_names import ImageName, KnownImage
from llmd_ctl.profiles.kubernetes import Kubernetes
from llmd_ctl.profiles.rules.line import Line
from llmd_ctl.profiles.topology import Machine

Path = tuple[str | int, ...]


class Pod(Struct, frozen=True):
    """A pod with an engine. `own`: the engine's container, at `at` in `spec`.

    `accelerators` are those that it may be; one where it says which. `asked`: accelerators of one
    host, by the name of the resource, as people wrote it; `claimed`: those by claims. `unread`:
    flags whose values nobody can tell.
    """

    spec: Mapping[str, Any]
    at: Path
    own: Mapping[str, Any]
    image: ImageName | None = None
    known: KnownImage | None = None
    accelerators: tuple[Accelerator, ...] = ()
    asked: Mapping[str, Any] = field(default_factory=dict)
    claimed: int = 0
    nodes: Mapping[str, tuple[str, ...]] = field(
        default_factory=dict
    )  # labels that nodes must have
    line: Line | None = None
    unread: frozenset[str] = frozenset()
    hosts: int = 1
    partial: bool = False
    follows: bool = False  # another pod of its group answers requests
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def units(self) -> int | None:
        """Accelerators of one host, in units of the resource; None: none, or no whole number."""
        counts = [whole(value) for value in self.asked.values()]
        if self.claimed and not counts:
            return self.claimed
        return counts[0] if len(counts) == 1 else None

    @property
    def devices(self) -> int | None:
        """Devices of one host, as engines count them; None where that is not told."""
        per = {self._per_unit(one) for one in self.accelerators}
        units = self.units
        return units * per.pop() if units is not None and len(per) == 1 else None

    @staticmethod
    def _per_unit(accelerator: Accelerator) -> int:
        cluster = accelerator.spec.kubernetes
        return cluster.resource.devices if cluster is not None else 1

    @property
    def accelerator(self) -> Accelerator | None:
        """The accelerator, where there is one that it can be."""
        return self.accelerators[0] if len(self.accelerators) == 1 else None

    @property
    def cluster(self) -> Kubernetes | None:
        """What a cluster knows of that accelerator."""
        return self.accelerator.spec.kubernetes if self.accelerator is not None else None

    @property
    def machines(self) -> tuple[Machine, ...]:
        """The machines that slices of that accelerator are made of; none: there are no slices."""
        topology = self.accelerator.spec.topology if self.accelerator is not None else None
        return topology.machines if topology is not None else ()

    @property
    def names(self) -> str:
        """The accelerators that it may be, as messages name them."""
        names = [one.name for one in self.accelerators]
        return " or ".join(names) if len(names) < 4 else f"{names[0]} and {len(names) - 1} like it"

    def own_at(self, *steps: str | int) -> Path:
        """Where something of the engine's container stands."""
        return (*self.at, *steps)

    def resource_at(self, name: str) -> Path:
        """Where an amount stands."""
        for kind in ("limits", "requests"):
            said = self.own.get("resources")
            said = said.get(kind) if isinstance(said, Mapping) else None
            if isinstance(said, Mapping) and name in said:
                return (*self.at, "resources", kind, name)
        return (*self.at, "resources")


def whole(value: Any) -> int | None:
    """An amount that is a whole number, written as one or as text."""
    if type(value) is int:
        return value
    return int(value) if isinstance(value, str) and value.isdecimal() and len(value) < 10 else None


class Amiss(Struct, frozen=True):
    """What a rule found at a path of the pod's spec."""

    path: Path
    message: str
    found: str | None = None
    allowed: tuple[str, ...] = ()


class PodRule(Struct, frozen=True):
    """A rule. An error: Kubernetes refuses it, or the engine cannot run so; a warning: it may."""

    id: str
    title: str
    source: str
    find: Callable[[Pod], Iterator[Amiss]]
    remedy: str
    severity: Severity = "error"


def listed(data: object, key: str) -> list[Any]:
    """The list at a key; an empty one where something else stands."""
    found = data.get(key) if isinstance(data, Mapping) else None
    return found if isinstance(found, list) else []


def mapped(data: object, key: str) -> Mapping[str, Any]:
    """The map at a key; an empty one where something else stands."""
    found = data.get(key) if isinstance(data, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def containers(pod: Pod) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Every container, with its path."""
    for kind in ("containers", "initContainers"):
        for index, each in enumerate(listed(pod.spec, kind)):
            if isinstance(each, Mapping):
                yield (kind, index), each
