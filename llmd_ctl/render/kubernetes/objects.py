"""The kinds of object that are rendered, with the fields that are: frozen, and nothing decided.

Filled by `engine`, `router` and `network`, written by `document`. A field that is not here is left
to the cluster's default.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from msgspec import Struct, field

from llmd_ctl.render.kubernetes.document import Object
from llmd_ctl.render.kubernetes.pods import Labels, PodTemplate


class ServiceAccount(Object, frozen=True):
    """Who pods are to the cluster. None of ours asks it anything: no token is mounted."""

    API: ClassVar[str] = "v1"
    KIND: ClassVar[str] = "ServiceAccount"

    automount_service_account_token: bool = False


class ConfigMap(Object, frozen=True):
    """Files, by name."""

    API: ClassVar[str] = "v1"
    KIND: ClassVar[str] = "ConfigMap"

    data: Mapping[str, str] = field(default_factory=dict)


class ServicePort(Struct, frozen=True):
    """A port of a Service, to a port of its pods by name."""

    name: str
    port: int
    target_port: str
    app_protocol: str | None = None


class ServiceSpec(Struct, frozen=True):
    """What stands behind a name. `cluster_ip` "None": its pods' own addresses."""

    selector: Mapping[str, str]
    ports: tuple[ServicePort, ...]
    type: str | None = None
    cluster_ip: str | None = None
    publish_not_ready_addresses: bool | None = None


class Service(Object, frozen=True):
    """A name in the cluster's DNS."""

    API: ClassVar[str] = "v1"
    KIND: ClassVar[str] = "Service"

    spec: ServiceSpec


class Rolling(Struct, frozen=True):
    """How many pods more, or fewer, while they are replaced."""

    max_surge: int
    max_unavailable: int


class Strategy(Struct, frozen=True):
    """How pods are replaced."""

    rolling_update: Rolling | None
    type: str = "RollingUpdate"


class DeploymentSpec(Struct, frozen=True):
    """`replicas` None: something else scales it."""

    replicas: int | None
    progress_deadline_seconds: int
    strategy: Strategy
    selector: Labels
    template: PodTemplate
    revision_history_limit: int = 5


class Deployment(Object, frozen=True):
    """Pods that are all alike."""

    API: ClassVar[str] = "apps/v1"
    KIND: ClassVar[str] = "Deployment"

    spec: DeploymentSpec


class GroupTemplate(Struct, frozen=True):
    """A group of pods: the first, and the others."""

    size: int
    leader_template: PodTemplate
    worker_template: PodTemplate
    restart_policy: str = "RecreateGroupOnPodRestart"


class Rollout(Struct, frozen=True):
    """How groups are replaced."""

    rolling_update_configuration: Rolling
    type: str = "RollingUpdate"


class LeaderWorkerSetSpec(Struct, frozen=True):
    """`replicas` None: something else scales it."""

    replicas: int | None
    rollout_strategy: Rollout
    leader_worker_template: GroupTemplate
    startup_policy: str = "LeaderCreated"


class LeaderWorkerSet(Object, frozen=True):
    """Groups of pods, each group one replica over several hosts."""

    API: ClassVar[str] = "leaderworkerset.x-k8s.io/v1"
    KIND: ClassVar[str] = "LeaderWorkerSet"

    spec: LeaderWorkerSetSpec


class BudgetSpec(Struct, frozen=True):
    """How many pods may be gone at a time when nodes are emptied."""

    max_unavailable: int
    selector: Labels


class PodDisruptionBudget(Object, frozen=True):
    """A bound on voluntary disruptions."""

    API: ClassVar[str] = "policy/v1"
    KIND: ClassVar[str] = "PodDisruptionBudget"

    spec: BudgetSpec


class Peer(Struct, frozen=True):
    """Who may come: pods by label, of this namespace or of those with a label (none: of all)."""

    KEPT: ClassVar = frozenset({"namespace_selector"})

    pod_selector: Labels | None = None
    namespace_selector: Labels | None = None


class PolicyPort(Struct, frozen=True):
    """A port that may be reached."""

    port: int | str
    protocol: str = "TCP"


class Ingress(Struct, frozen=True):
    """Who may come to which ports; no port: all."""

    from_: tuple[Peer, ...]
    ports: tuple[PolicyPort, ...] = ()


class PolicySpec(Struct, frozen=True):
    """Who may reach the pods."""

    KEPT: ClassVar = frozenset({"ingress"})

    pod_selector: Labels
    policy_types: tuple[str, ...]
    ingress: tuple[Ingress, ...] = ()


class NetworkPolicy(Object, frozen=True):
    """A wall around pods."""

    API: ClassVar[str] = "networking.k8s.io/v1"
    KIND: ClassVar[str] = "NetworkPolicy"

    spec: PolicySpec


class ComputeDomain(Object, frozen=True):
    """Nodes that share memory over NVLink, and the template of claims on it."""

    API: ClassVar[str] = "resource.nvidia.com/v1beta1"
    KIND: ClassVar[str] = "ComputeDomain"

    spec: Mapping[str, Any]


class ResourceClaimTemplate(Object, frozen=True):
    """Devices that every pod claims for itself."""

    API: ClassVar[str] = "resource.k8s.io/v1"
    KIND: ClassVar[str] = "ResourceClaimTemplate"

    spec: Mapping[str, Any]
