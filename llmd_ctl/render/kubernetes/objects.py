"""The kinds of object that are rendered, with the fields that are: frozen, and nothing decided.

Filled by `engine`, `router` and `network`, written by `document`. A field that is not here is left
to the cluster's default.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from llmd_ctl.render.kubernetes.document import Object, kept
from llmd_ctl.render.kubernetes.pods import Labels, PodTemplate


@dataclass(frozen=True)
class ServiceAccount(Object):
    """Who pods are to the cluster. None of ours asks it anything: no token is mounted."""

    API: ClassVar[str] = "v1"
    KIND: ClassVar[str] = "ServiceAccount"

    automount_service_account_token: bool = False


@dataclass(frozen=True)
class ConfigMap(Object):
    """Files, by name."""

    API: ClassVar[str] = "v1"
    KIND: ClassVar[str] = "ConfigMap"

    data: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ServicePort:
    """A port of a Service, to a port of its pods by name."""

    name: str
    port: int
    target_port: str
    app_protocol: str | None = None


@dataclass(frozen=True)
class ServiceSpec:
    """What stands behind a name. `cluster_ip` "None": its pods' own addresses."""

    selector: Mapping[str, str]
    ports: tuple[ServicePort, ...]
    type: str | None = None
    cluster_ip: str | None = None
    publish_not_ready_addresses: bool | None = None


@dataclass(frozen=True)
class Service(Object):
    """A name in the cluster's DNS."""

    API: ClassVar[str] = "v1"
    KIND: ClassVar[str] = "Service"

    spec: ServiceSpec


@dataclass(frozen=True)
class Rolling:
    """How many pods more, or fewer, while they are replaced."""

    max_surge: int
    max_unavailable: int


@dataclass(frozen=True)
class Strategy:
    """How pods are replaced."""

    rolling_update: Rolling | None
    type: str = "RollingUpdate"


@dataclass(frozen=True)
class DeploymentSpec:
    """`replicas` None: something else scales it."""

    replicas: int | None
    progress_deadline_seconds: int
    strategy: Strategy
    selector: Labels
    template: PodTemplate
    revision_history_limit: int = 5


@dataclass(frozen=True)
class Deployment(Object):
    """Pods that are all alike."""

    API: ClassVar[str] = "apps/v1"
    KIND: ClassVar[str] = "Deployment"

    spec: DeploymentSpec


@dataclass(frozen=True)
class GroupTemplate:
    """A group of pods: the first, and the others."""

    size: int
    leader_template: PodTemplate
    worker_template: PodTemplate
    restart_policy: str = "RecreateGroupOnPodRestart"


@dataclass(frozen=True)
class Rollout:
    """How groups are replaced."""

    rolling_update_configuration: Rolling
    type: str = "RollingUpdate"


@dataclass(frozen=True)
class LeaderWorkerSetSpec:
    """`replicas` None: something else scales it."""

    replicas: int | None
    rollout_strategy: Rollout
    leader_worker_template: GroupTemplate
    startup_policy: str = "LeaderCreated"


@dataclass(frozen=True)
class LeaderWorkerSet(Object):
    """Groups of pods, each group one replica over several hosts."""

    API: ClassVar[str] = "leaderworkerset.x-k8s.io/v1"
    KIND: ClassVar[str] = "LeaderWorkerSet"

    spec: LeaderWorkerSetSpec


@dataclass(frozen=True)
class BudgetSpec:
    """How many pods may be gone at a time when nodes are emptied."""

    max_unavailable: int
    selector: Labels


@dataclass(frozen=True)
class PodDisruptionBudget(Object):
    """A bound on voluntary disruptions."""

    API: ClassVar[str] = "policy/v1"
    KIND: ClassVar[str] = "PodDisruptionBudget"

    spec: BudgetSpec


@dataclass(frozen=True)
class Peer:
    """Who may come: pods by label, of this namespace or of those with a label (none: of all)."""

    pod_selector: Labels | None = None
    namespace_selector: Labels | None = field(default=None, metadata={"kept": True})


@dataclass(frozen=True)
class PolicyPort:
    """A port that may be reached."""

    port: int | str
    protocol: str = "TCP"


@dataclass(frozen=True)
class Ingress:
    """Who may come to which ports; no port: all."""

    from_: tuple[Peer, ...]
    ports: tuple[PolicyPort, ...] = ()


@dataclass(frozen=True)
class PolicySpec:
    """Who may reach the pods."""

    pod_selector: Labels
    policy_types: tuple[str, ...]
    ingress: tuple[Ingress, ...] = kept(tuple)


@dataclass(frozen=True)
class NetworkPolicy(Object):
    """A wall around pods."""

    API: ClassVar[str] = "networking.k8s.io/v1"
    KIND: ClassVar[str] = "NetworkPolicy"

    spec: PolicySpec


@dataclass(frozen=True)
class ComputeDomain(Object):
    """Nodes that share memory over NVLink, and the template of claims on it."""

    API: ClassVar[str] = "resource.nvidia.com/v1beta1"
    KIND: ClassVar[str] = "ComputeDomain"

    spec: Mapping[str, Any]


@dataclass(frozen=True)
class ResourceClaimTemplate(Object):
    """Devices that every pod claims for itself."""

    API: ClassVar[str] = "resource.k8s.io/v1"
    KIND: ClassVar[str] = "ResourceClaimTemplate"

    spec: Mapping[str, Any]
