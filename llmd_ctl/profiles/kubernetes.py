"""How Kubernetes hands an accelerator out: its resource, its nodes, and who may run there.

Types of `kind: AcceleratorProfile`, filled in by `document`. What renders for Kubernetes reads
them; a target `local` starts processes and uses none of it. Lists are overridden whole, because
clusters spell the labels of one device differently. It renders nothing and asks no cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Struct, field

from llmd_ctl.profiles.number import Cited, Unknown, Words

Provider = Annotated[str, Words(("generic", "gke"))]
Spared = Annotated[str, Words(("devices", "mounts", "hostIpc", "seccomp", "groups"))]


class Selector(Cited, frozen=True):
    """A label that nodes with the device carry. A node matches with any of `values`."""

    key: str
    values: tuple[str, ...]


class Toleration(Struct, frozen=True):
    """A taint that nodes with the device usually carry, and that pods have to tolerate."""

    key: str
    operator: Literal["Exists", "Equal"] = "Exists"
    value: str = ""  # with Equal
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] = "NoSchedule"


class Claim(Cited, frozen=True):
    """A device class of dynamic resource allocation, by which devices can be claimed instead."""

    driver: str
    device_class: str
    kubernetes: Annotated[
        str | None, Unknown("claims are used only where the cluster serves resource.k8s.io/v1")
    ]  # the oldest version of Kubernetes that the driver goes with
    note: str = ""  # what it cannot do, or how far to trust it
    not_yet: str = ""  # why devices cannot be claimed by it at all


class Resource(Cited, frozen=True):
    """The extended resource that pods ask for. One of it may hold several `devices`."""

    name: Annotated[
        str | None, Unknown("pods cannot ask for the device: it is for other targets only")
    ]
    devices: int = 1  # devices, as an engine counts them, in one of it
    also: tuple[str, ...] = ()  # other names, by other device plugins


class Kubernetes(Struct, frozen=True):
    """All of it. A selector of `generic` holds in any cluster, the others with one provider."""

    resource: Resource
    selectors: Mapping[Provider, tuple[Selector, ...]] = field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()
    claim: Claim | None = None  # None: no driver is known, and the resource is asked for
    domain: Claim | None = None  # None: fast links end at the node; else what joins nodes
    spares: tuple[Spared, ...] = ()  # of `container`: what its device plugin sees to
    topology_label: Annotated[str | None, Unknown("nodes are not chosen by their slice")] = None
    slice_label: Annotated[
        str | None, Unknown("nothing keeps the hosts of a replica in one slice")
    ] = None  # with one value for all nodes of a slice
    scheduler: Annotated[str | None, Unknown("the cluster's own scheduler is taken")] = None
