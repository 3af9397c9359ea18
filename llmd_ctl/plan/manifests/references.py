"""What a pod names: volumes of its own, and objects that have to be there.

Called by `relations`. An object that these manifests do not hold may be in the cluster, so that is
a warning; a volume that the pod does not have is refused by the API server. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from llmd_ctl.errors import Problem
from llmd_ctl.plan.manifests.manifest import Manifest, Path, items, look, text
from llmd_ctl.plan.manifests.workload import PodTemplate

# Where a volume names an object: the source, the key of the name, its kind.
VOLUMES = (
    ("configMap", "name", "ConfigMap"),
    ("secret", "secretName", "Secret"),
    ("persistentVolumeClaim", "claimName", "PersistentVolumeClaim"),
)
FROM = (("configMapRef", "ConfigMap"), ("secretRef", "Secret"))
KEYS = (("configMapKeyRef", "ConfigMap"), ("secretKeyRef", "Secret"))
CLAIMS = "volumeClaimTemplates"


def check_references(pod: PodTemplate, objects: Sequence[Manifest]) -> Iterator[Problem]:
    """Tell what is named and not there."""
    there = {made for one in objects if one.here(pod.manifest) for made in _made(one)}
    told: set[tuple[str, str]] = set()
    for path, kind, name in _named(pod):
        if (kind, name) in there or (kind, name) in told:
            continue
        told.add((kind, name))
        message = f"Q19: {pod.title} needs the {kind} {name}, which these manifests do not hold"
        hint = "Add it, or see that it is in the cluster before."
        place = pod.manifest.place(pod.at(*path))
        yield Problem("LC3071", message, place, name, (), hint, "warning")
    yield from _mounts(pod)


def _made(one: Manifest) -> Iterator[tuple[str, str]]:
    """An object, and what its controller makes of it."""
    yield one.kind, one.name
    template = text(one.data, "spec", "channel", "resourceClaimTemplate", "name")
    if one.kind == "ComputeDomain" and template is not None:
        yield "ResourceClaimTemplate", template


def _named(pod: PodTemplate) -> Iterator[tuple[Path, str, str]]:
    for index, volume in enumerate(items(pod.spec, "volumes")):
        for source, key, kind in VOLUMES:
            name = text(volume, source, key)
            if name is not None and look(volume, source, "optional") is not True:
                yield ("volumes", index, source, key), kind, name
    for index, claim in enumerate(items(pod.spec, "resourceClaims")):
        name = text(claim, "resourceClaimTemplateName")
        if name is not None:
            path: Path = ("resourceClaims", index, "resourceClaimTemplateName")
            yield path, "ResourceClaimTemplate", name
    for container in pod.containers:
        yield from _of_container(pod, container)


def _of_container(pod: PodTemplate, container: Path) -> Iterator[tuple[Path, str, str]]:
    for index, each in enumerate(items(pod.spec, *container, "envFrom")):
        for source, kind in FROM:
            name = text(each, source, "name")
            if name is not None and look(each, source, "optional") is not True:
                yield (*container, "envFrom", index, source, "name"), kind, name
    for index, each in enumerate(items(pod.spec, *container, "env")):
        for source, kind in KEYS:
            name = text(each, "valueFrom", source, "name")
            if name is not None and look(each, "valueFrom", source, "optional") is not True:
                yield (*container, "env", index, "valueFrom", source, "name"), kind, name


def _mounts(pod: PodTemplate) -> Iterator[Problem]:
    if pod.shape.partial:
        return
    own = {text(volume, "name") for volume in items(pod.spec, "volumes")}
    own |= {text(each, "metadata", "name") for each in items(pod.manifest.data, "spec", CLAIMS)}
    for container in pod.containers:
        for index, mount in enumerate(items(pod.spec, *container, "volumeMounts")):
            name = text(mount, "name")
            if name is None or name in own:
                continue
            allowed = tuple(sorted(each for each in own if each))
            place = pod.manifest.place(pod.at(*container, "volumeMounts", index, "name"))
            hint = "Add the volume, or correct the name: the API server refuses the pod."
            message = f"Q34: {pod.title} mounts the volume {name}, which it does not have"
            yield Problem("LC3070", message, place, name, allowed, hint)
