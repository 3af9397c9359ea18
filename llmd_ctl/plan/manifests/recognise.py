"""What a container of a manifest is: which engine in which version, on what, of which model.

Called by `judge`. Where a manifest leaves it open there are several answers, and all are kept:
only what is wrong by every one of them is told. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any

from msgspec import Struct

from llmd_ctl.plan.manifests.command import CommandLine, CommandReader
from llmd_ctl.plan.manifests.environment import Environment, environment_of
from llmd_ctl.plan.manifests.manifest import Manifest, Path, items, look, table, text
from llmd_ctl.plan.manifests.workload import PodTemplate, image_of
from llmd_ctl.profiles.accelerator import Accelerator
from llmd_ctl.profiles.catalog import Catalog
from llmd_ctl.profiles.image_names import ImageName, KnownImage, known_image, read_image
from llmd_ctl.profiles.rules.line import platform_of

PLAIN = ("ephemeral-storage", "hugepages-", "storage")
AFFINITY = (
    "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution",
    "nodeSelectorTerms",
)  # fmt: skip
CPU = "cpu"


class Strange(Struct, frozen=True):
    """A label of nodes that none of the accelerators has that a pod asks for."""

    key: str
    values: tuple[str, ...]
    owners: tuple[str, ...]  # the accelerators that have it


class Devices(Struct, frozen=True):
    """What a container asks for, and what accelerators that may be."""

    accelerators: tuple[Accelerator, ...]
    asked: Mapping[str, Any]
    claimed: int
    nodes: Mapping[str, tuple[str, ...]]
    strange: tuple[Strange, ...]


class Served(Struct, frozen=True):
    """An engine in a pod, as far as it can be told."""

    template: PodTemplate
    container: Path  # in the pod's spec
    own: Mapping[str, Any]
    line: CommandLine
    env: Environment
    image: ImageName | None
    known: KnownImage | None
    engine: str
    devices: Devices

    @property
    def manifest(self) -> Manifest:
        """The object that it stands in."""
        return self.template.manifest

    def path(self, *path: str | int) -> Path:
        """A path of the container as one of its object."""
        return self.template.at(*self.container, *path)

    @property
    def version(self) -> str | None:
        """The engine's version; None where the image does not tell."""
        if self.known is None or self.image is None:
            return None
        return self.known.version_of(self.image)

    @property
    def title(self) -> str:
        """For messages."""
        name = text(self.own, "name")
        return f"{self.template.title}/{name}" if name else self.template.title


def served_by(
    template: PodTemplate, everything: Iterable[Manifest], catalog: Catalog
) -> Iterator[Served]:
    """The engines of a pod."""
    objects = [one for one in everything if one.here(template.manifest)]
    for path in template.containers:
        image = read_image(image_of(table(template.spec, *path)) or "")
        known = known_image(image) if image is not None else None
        env = environment_of(template.manifest, template.at(*path), objects)
        entry = known.engine if known is not None and known.entry else None
        line = CommandReader(template.manifest, template.at(*path), env).read(entry)
        if line.start is not None:
            found = _devices(template.spec, path, objects, known, catalog)
            yield Served(
                template, path, table(template.spec, *path), line, env, image, known,
                line.start.engine, found,
            )  # fmt: skip


def _devices(
    spec: Mapping[str, Any],
    path: Path,
    objects: list[Manifest],
    known: KnownImage | None,
    catalog: Catalog,
) -> Devices:
    own = table(spec, *path)
    nodes, asked = _nodes(spec), _asked(own)
    classes = list(_claims(spec, own, objects))
    everything = [catalog.accelerator(name) for name in catalog.names("AcceleratorProfile")]
    found = [one for one in everything if _matches(one, asked, [name for name, _ in classes])]
    if not asked and not classes and known is not None and known.platforms == (CPU,):
        found = [one for one in everything if one.spec.host is not None]
    there, strange = _on_nodes(found, nodes, everything)
    claimed = sum(count for _, count in classes)
    return Devices(tuple(_of_image(there, known)), asked, claimed, nodes, strange)


def _asked(own: Mapping[str, Any]) -> dict[str, Any]:
    """The accelerators among what a container asks for."""
    resources = table(own, "resources")
    found: dict[str, Any] = {}
    for kind in ("requests", "limits"):
        for name, amount in table(resources, kind).items():
            if "/" in name and not name.startswith(PLAIN) and _is_accelerator(name):
                found[name] = amount
    return found


def _is_accelerator(name: str) -> bool:
    return name in _resource_names() or name.startswith(("nvidia.com/mig-", "amd.com/"))


@cache
def _resource_names() -> frozenset[str]:
    catalog = Catalog()
    known = [catalog.accelerator(name) for name in catalog.names("AcceleratorProfile")]
    return frozenset(name for one in known for name in _names_of(one))


def _names_of(one: Accelerator) -> tuple[str, ...]:
    cluster = one.spec.kubernetes
    if cluster is None or cluster.resource.name is None:
        return ()
    return (cluster.resource.name, *cluster.resource.also)


def _matches(one: Accelerator, asked: Mapping[str, Any], classes: list[str]) -> bool:
    claim = one.spec.kubernetes.claim if one.spec.kubernetes is not None else None
    by_name = any(name in _names_of(one) for name in asked)
    return one.spec.host is None and (
        by_name or (claim is not None and claim.device_class in classes)
    )


def _claims(
    spec: Mapping[str, Any], own: Mapping[str, Any], objects: list[Manifest]
) -> Iterator[tuple[str, int]]:
    """The device classes that a container claims, and how many of each."""
    wanted = {text(each, "name") for each in items(own, "resources", "claims")}
    templates = {one.name: one for one in objects if one.kind.startswith("ResourceClaim")}
    for claim in items(spec, "resourceClaims"):
        if text(claim, "name") not in wanted:
            continue
        named = text(claim, "resourceClaimTemplateName") or text(claim, "resourceClaimName")
        found = templates.get(named or "")
        if found is None:
            continue
        inner = ("spec", "spec") if found.kind == "ResourceClaimTemplate" else ("spec",)
        for request in items(found.data, *inner, "devices", "requests"):
            exact = table(request, "exactly") or request
            count = look(exact, "count")
            yield text(exact, "deviceClassName") or "", count if type(count) is int else 1


def _nodes(spec: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """The labels that nodes must have; of several alternatives, those that all of them ask for."""
    said: dict[str, tuple[str, ...]] = {
        key: (str(value),)
        for key, value in table(spec, "nodeSelector").items()
        if not isinstance(value, dict | list)
    }
    terms = items(spec, *AFFINITY)
    if len(terms) == 1:
        for each in items(terms[0], "matchExpressions"):
            key = text(each, "key")
            if key is not None and text(each, "operator") == "In":
                said.setdefault(key, tuple(map(str, items(each, "values"))))
    return said


def _on_nodes(
    found: list[Accelerator],
    nodes: Mapping[str, tuple[str, ...]],
    everything: list[Accelerator],
) -> tuple[list[Accelerator], tuple[Strange, ...]]:
    """Those whose nodes have the labels, and the labels that none of them has."""
    strange: list[Strange] = []
    for key, values in nodes.items():
        cards = [one for one in everything if one.spec.host is None]
        owners = [one for one in cards if _has(one, key, values)]
        telling = owners or any(key == known for one in found for known, _ in _labels(one))
        left = [one for one in found if _has(one, key, values)]
        if left:
            found = left
        elif telling and found:
            strange.append(Strange(key, values, tuple(one.name for one in owners)))
    return found, tuple(strange)


def _has(one: Accelerator, key: str, values: tuple[str, ...]) -> bool:
    return any(key == own and set(values) & set(said) for own, said in _labels(one))


def _labels(one: Accelerator) -> list[tuple[str, tuple[str, ...]]]:
    cluster = one.spec.kubernetes
    selectors = [] if cluster is None else [s for each in cluster.selectors.values() for s in each]
    return [(each.key, each.values) for each in selectors]


def _of_image(found: list[Accelerator], known: KnownImage | None) -> list[Accelerator]:
    """Those that the image is built for, where there is one: a resource may be several vendors'."""
    if known is None or not known.platforms:
        return found
    built = [one for one in found if platform_of(one.spec) in known.platforms]
    return built or found
