"""From what the fleet file and the profile say to where a replica, or the router, runs.

    profile < defaults < target < model < variant

Maps are laid over each other key by key; of lists and of the cache the highest level that says one
counts. Called by `variant` and `planner` for targets other than this machine. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from llmd_ctl.plan.engines import Chosen
from llmd_ctl.plan.place import (
    Autoscale,
    Cache,
    Container,
    Image,
    NodeLabel,
    Nodes,
    Place,
    Secret,
    Toleration,
)
from llmd_ctl.plan.report import Path, Report
from llmd_ctl.profiles.accelerator import Accelerator
from llmd_ctl.profiles.image_lock import digest_of
from llmd_ctl.profiles.kubernetes import Kubernetes, Selector
from llmd_ctl.profiles.number import Number
from llmd_ctl.spec import fleet as spec
from llmd_ctl.spec.placement import Placement

T = TypeVar("T")
CLUSTER = "kubernetes"
GENERIC, GKE = "generic", "gke"
LLM_D = "llm-d"
# Of llm-d's release 0.9, as its guides name them; the sidecar stands where answers are written.
PICKER = Image("ghcr.io/llm-d/llm-d-router-endpoint-picker:v0.9.0")
PROXY = Image("ghcr.io/llm-d/llm-d-router-disagg-sidecar:v0.9.0")
# What the sidecar calls the way in which each connector is told of the other side. A connector that
# is not here is not one that llm-d's guides run, or needs more than a word.
PROTOCOLS = {
    "NixlConnector": "nixlv2",
    "NixlPullConnector": "nixlv2",
    "TPUConnector": "nixlv2",
    "TPUConnectorHMA": "nixlv2",
    "MooncakeConnector": "mooncake",
}
OWN_USER = "65532"  # of images/router; a number, so that a cluster can see that it is not root
IN_CONTAINERS = (CLUSTER, "compose")
NOTHING: dict[str, tuple[str, Any]] = {  # by what a profile may say that a device plugin sees to
    "devices": ("devices", ()),
    "mounts": ("mounts", ()),
    "groups": ("groups", ()),
    "hostIpc": ("host_ipc", False),
    "seccomp": ("seccomp", "RuntimeDefault"),
}


class Levels(Struct, frozen=True):
    """What the levels of a fleet say for one variant, or for the router: the lowest first."""

    levels: tuple[Placement, ...]

    @property
    def env(self) -> dict[str, str]:
        """The variables, the higher level's where two say one."""
        return {name: value for each in self.levels for name, value in each.env.items()}

    def container(self, known: Container) -> Container:
        """What a container gets, over what the profile says."""
        said = [each.resources for each in self.levels]
        return Container(
            cpu=_last([known.cpu, *(each.cpu for each in said)]),
            memory_bytes=_last([known.memory_bytes, *(each.memory for each in said)]),
            shm_bytes=_last([known.shm_bytes, *(each.shm for each in said)]),
            hugepages_bytes=known.hugepages_bytes,
            capabilities=known.capabilities,
            seccomp=known.seccomp,
            host_ipc=known.host_ipc,
            devices=known.devices,
            groups=known.groups,
            mounts=known.mounts,
            runtime=known.runtime,
        )

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """The secrets, by name."""
        said = _last([each.secret_refs for each in self.levels]) or ()
        return tuple(Secret(each.name, each.env, each.key or each.env) for each in said)

    def nodes(self, known: Nodes) -> Nodes:
        """Which nodes take it, over what the profile says."""
        selector = {key: value for each in self.levels for key, value in each.node_selector.items()}
        tolerations = _last([each.tolerations for each in self.levels])
        return Nodes(
            selector={**known.selector, **selector},
            labels=tuple(label for label in known.labels if label.key not in selector),
            tolerations=known.tolerations
            if tolerations is None
            else tuple(Toleration(**vars(each)) for each in tolerations),
            image_pull_secrets=tuple(
                _last([each.image_pull_secrets for each in self.levels]) or ()
            ),
            scheduler=known.scheduler,
            joined_by=known.joined_by,
        )


def levels_of(fleet: spec.FleetSpec, model: spec.Model, variant: spec.Variant) -> Levels:
    """What a fleet says for a variant."""
    targets = [one for one in fleet.targets if one.name == variant.target]
    return Levels((fleet.defaults, *targets, model, variant))


def variables_at(fleet: spec.FleetSpec, variant: spec.Variant, path: Path) -> dict[str, Path]:
    """Where each variable of a variant's environment is written; `path` is the variant's."""
    model = fleet.models[int(path[2])]
    levels: list[tuple[Placement, Path]] = [(fleet.defaults, ("spec", "defaults"))]
    levels += [
        (target, ("spec", "targets", index))
        for index, target in enumerate(fleet.targets)
        if target.name == variant.target
    ]
    levels += [(model, path[:3]), (variant, path)]
    return {name: (*at, "env", name) for level, at in levels for name in level.env}


def machine_of(
    fleet: spec.FleetSpec, model: spec.Model, variant: spec.Variant, accelerator: Accelerator
) -> tuple[int | None, int | None]:
    """Memory and cores that a replica gets elsewhere, where the machine itself is the device."""
    found = levels_of(fleet, model, variant).container(container_of(accelerator))
    return found.memory_bytes, None if found.cpu is None else max(1, int(found.cpu))


def cache_of(fleet: spec.FleetSpec, model: spec.Model, variant: spec.Variant) -> Cache:
    """Where a variant keeps weights and compiled graphs."""
    said = _last([fleet.defaults.cache, model.cache, variant.cache])
    return Cache() if said is None else Cache(said.path, said.claim, said.size)


def autoscale_of(
    fleet: spec.FleetSpec, model: spec.Model, variant: spec.Variant, in_flight: int
) -> Autoscale | None:
    """How a variant scales; a variant that says its replicas does not."""
    fixed = "replicas" in variant.model_fields_set
    above = None if fixed else _last([fleet.defaults.autoscale, model.autoscale])
    said = variant.autoscale or above
    if said is None:
        return None
    return Autoscale(said.min, said.max, said.scaler, max(1, in_flight))


def image_of(
    fleet: spec.FleetSpec,
    model: spec.Model,
    variant: spec.Variant,
    chosen: Chosen,
    accelerator: Accelerator,
    report: Report,
    path: Path,
) -> Image | None:
    """The image of a variant's engine; one that is not known is reported."""
    refs = (fleet.defaults.engine, model.engine, variant.engine)
    own = [ref for ref in refs if ref is not None and ref.name == chosen.engine.name]
    said = _last([ref.image for ref in own])
    if said is not None:
        return _image(said)
    known = chosen.on.images.get(chosen.version)
    title = f"{chosen.engine.name} {chosen.version}"
    if known is None or known.reference is None:
        message = f"no image of {title} is known for {accelerator.name}"
        allowed = tuple(version for version, each in chosen.on.images.items() if each.reference)
        report.add("LC3052", message, path, found=title, allowed=allowed)
        return None
    found = _locked(Image(known.reference, known.digest, known.user))
    if found.digest is None:
        message = f"the image {known.reference} has no known digest: its tag is rendered"
        report.warn_once("LC3053", message, path)
    return found


def container_of(accelerator: Accelerator) -> Container:
    """What the profile says that a container gets."""
    known = accelerator.spec.container
    if known is None:
        return Container()
    return Container(
        cpu=_value(known.cpu_cores),
        memory_bytes=_whole(known.memory_bytes),
        shm_bytes=_whole(known.shm_bytes),
        hugepages_bytes=_whole(known.hugepages_bytes),
        capabilities=known.capabilities,
        seccomp=known.seccomp,
        host_ipc=known.host_ipc,
        devices=known.devices,
        groups=known.groups,
        mounts=known.mounts,
        runtime=known.runtime,
    )


def in_cluster(given: Container, known: Kubernetes) -> Container:
    """What a container gets in a cluster, whose device plugin sees to the rest."""
    return replace(given, **dict(NOTHING[name] for name in known.spares))


def nodes_of(known: Kubernetes, provider: str | None, topology: str | None) -> Nodes:
    """Which nodes the profile says have the accelerator, and in which slices."""
    selectors = _selectors(known, provider)
    sliced = topology is not None and known.topology_label is not None
    return Nodes(
        selector={
            **{each.key: each.values[0] for each in selectors if len(each.values) == 1},
            **({str(known.topology_label): str(topology)} if sliced else {}),
        },
        labels=tuple(NodeLabel(e.key, e.values) for e in selectors if len(e.values) > 1),
        tolerations=tuple(
            Toleration(e.key, e.operator, e.value or None, e.effect) for e in known.tolerations
        ),
        scheduler=known.scheduler,
        joined_by=known.slice_label if sliced else None,
    )


def _selectors(known: Kubernetes, provider: str | None) -> Sequence[Selector]:
    """Those of any cluster, and the provider's; where nobody names one, the only one known."""
    anywhere = known.selectors.get(GENERIC, ())
    if provider is None:
        return anywhere or known.selectors.get(GKE, ())
    # A provider labels its nodes in its own way: what other clusters' tools add is not there.
    return known.selectors.get(provider, anywhere)


def _last(said: Sequence[T | None]) -> T | None:
    return next((one for one in reversed(said) if one is not None), None)


def _value(number: Number | None) -> float | None:
    return None if number is None else number.value


def _whole(number: Number | None) -> int | None:
    value = _value(number)
    return None if value is None else int(value)


def own_image() -> Image:
    """The image of the router and the simulated engine, of this version."""
    return Image(f"ghcr.io/llmd-ctl/router:{version('llmd-ctl')}", user=OWN_USER)


def router_image(fleet: spec.FleetSpec) -> Image:
    """The image of a router of this kind, where the fleet names none."""
    return _locked(PICKER) if fleet.router.kind == LLM_D else own_image()


def proxy_image() -> Image:
    """The image of llm-d's sidecar."""
    return _locked(PROXY)


def _locked(image: Image) -> Image:
    """An image that this program names, with the digest that is known for it."""
    return replace(image, digest=image.digest or digest_of(image.reference))


def router_place(fleet: spec.FleetSpec, target: spec.Target) -> tuple[Place, dict[str, str]]:
    """Where the router runs, and its variables."""
    levels = Levels((target, fleet.router))
    said, contained = fleet.router.image, target.kind in IN_CONTAINERS
    place = Place(
        image=_image(said) if said is not None else router_image(fleet) if contained else None,
        container=levels.container(Container()),
        secrets=levels.secrets,
        nodes=levels.nodes(Nodes()),
    )
    return place, levels.env


def _image(said: str) -> Image:
    reference, _, digest = said.partition("@")
    return Image(reference, digest or None)
