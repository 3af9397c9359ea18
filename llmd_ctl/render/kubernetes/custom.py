"""The kinds that others than Kubernetes define, and those that scale: only what is rendered.

Filled by `llm_d`, `autoscale` and `monitoring`, written by `document`. Nothing here decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from llmd_ctl.render.kubernetes.document import Object
from llmd_ctl.render.kubernetes.pods import Labels

# --- Gateway API, and its inference extension ---


@dataclass(frozen=True)
class PortNumber:
    """A port by number."""

    number: int


@dataclass(frozen=True)
class PickerRef:
    """The Service that chooses endpoints; `FailOpen`: without it any endpoint is as good."""

    name: str
    port: PortNumber
    failure_mode: str


@dataclass(frozen=True)
class PoolSpec:
    """The pods of a pool, where they listen, and who chooses among them."""

    selector: Labels
    target_ports: tuple[PortNumber, ...]
    endpoint_picker_ref: PickerRef


@dataclass(frozen=True)
class InferencePool(Object):
    """Endpoints that serve the same."""

    API: ClassVar[str] = "inference.networking.k8s.io/v1"
    KIND: ClassVar[str] = "InferencePool"

    spec: PoolSpec


@dataclass(frozen=True)
class HeaderMatch:
    """A header with exactly this value."""

    name: str
    value: str
    type: str = "Exact"


@dataclass(frozen=True)
class RouteMatch:
    """A request with all of these headers."""

    headers: tuple[HeaderMatch, ...]


@dataclass(frozen=True)
class Backend:
    """Where requests go, and how many beside the others; a Service by a port, group None."""

    group: str | None
    kind: str
    name: str
    weight: int | None = None
    port: int | None = None


@dataclass(frozen=True)
class Timeouts:
    """How long a request may take; 0s: as long as it does."""

    request: str = "0s"
    backend_request: str = "0s"


@dataclass(frozen=True)
class RouteRule:
    """Requests that match go to the backends; without matches, all do."""

    backend_refs: tuple[Backend, ...]
    matches: tuple[RouteMatch, ...] = ()
    timeouts: Timeouts | None = None  # None: the gateway's own


@dataclass(frozen=True)
class GatewayRef:
    """A Gateway; `namespace` None is the route's."""

    name: str
    namespace: str | None = None


@dataclass(frozen=True)
class RouteSpec:
    """The gateways that have the route, the hosts that it is for, and its rules."""

    parent_refs: tuple[GatewayRef, ...]
    hostnames: tuple[str, ...]  # none: all of the gateways'
    rules: tuple[RouteRule, ...]


@dataclass(frozen=True)
class HTTPRoute(Object):
    """What a gateway does with requests."""

    API: ClassVar[str] = "gateway.networking.k8s.io/v1"
    KIND: ClassVar[str] = "HTTPRoute"

    spec: RouteSpec


# --- rights ---


@dataclass(frozen=True)
class Right:
    """What may be done with which resources."""

    api_groups: tuple[str, ...]
    resources: tuple[str, ...]
    verbs: tuple[str, ...]


@dataclass(frozen=True)
class Role(Object):
    """Rights in one namespace."""

    API: ClassVar[str] = "rbac.authorization.k8s.io/v1"
    KIND: ClassVar[str] = "Role"

    rules: tuple[Right, ...]


@dataclass(frozen=True)
class RoleRef:
    """A Role by name."""

    name: str
    kind: str = "Role"
    api_group: str = "rbac.authorization.k8s.io"


@dataclass(frozen=True)
class Subject:
    """A ServiceAccount of the same namespace."""

    name: str
    kind: str = "ServiceAccount"


@dataclass(frozen=True)
class RoleBinding(Object):
    """Who has the rights of a role."""

    API: ClassVar[str] = "rbac.authorization.k8s.io/v1"
    KIND: ClassVar[str] = "RoleBinding"

    role_ref: RoleRef
    subjects: tuple[Subject, ...]


# --- scaling ---


@dataclass(frozen=True)
class ScaleTarget:
    """What is scaled."""

    api_version: str
    kind: str
    name: str


@dataclass(frozen=True)
class Pace:
    """For how long the most that was asked for counts."""

    stabilization_window_seconds: int


@dataclass(frozen=True)
class Behavior:
    """How fast replicas go."""

    scale_down: Pace


@dataclass(frozen=True)
class HpaConfig:
    """What KEDA hands on to the HPA that it makes."""

    behavior: Behavior


@dataclass(frozen=True)
class Advanced:
    """KEDA's word for what it hands on."""

    horizontal_pod_autoscaler_config: HpaConfig


@dataclass(frozen=True)
class Trigger:
    """A number that replicas are to follow."""

    type: str
    metric_type: str
    metadata: Mapping[str, str]


@dataclass(frozen=True)
class ScaledSpec:
    """How many replicas, and by what."""

    scale_target_ref: ScaleTarget
    min_replica_count: int
    max_replica_count: int
    polling_interval: int
    cooldown_period: int
    advanced: Advanced
    triggers: tuple[Trigger, ...]


@dataclass(frozen=True)
class ScaledObject(Object):
    """Replicas by KEDA, down to none."""

    API: ClassVar[str] = "keda.sh/v1alpha1"
    KIND: ClassVar[str] = "ScaledObject"

    spec: ScaledSpec


@dataclass(frozen=True)
class Metric:
    """A number of the external metrics API."""

    name: str
    selector: Labels


@dataclass(frozen=True)
class MetricTarget:
    """What a replica is to have of it."""

    average_value: str
    type: str = "AverageValue"


@dataclass(frozen=True)
class External:
    """A number, and its target."""

    metric: Metric
    target: MetricTarget


@dataclass(frozen=True)
class MetricSpec:
    """A number that replicas are to follow."""

    external: External
    type: str = "External"


@dataclass(frozen=True)
class HpaSpec:
    """How many replicas, and by what."""

    scale_target_ref: ScaleTarget
    min_replicas: int
    max_replicas: int
    metrics: tuple[MetricSpec, ...]
    behavior: Behavior


@dataclass(frozen=True)
class HorizontalPodAutoscaler(Object):
    """Replicas by Kubernetes itself."""

    API: ClassVar[str] = "autoscaling/v2"
    KIND: ClassVar[str] = "HorizontalPodAutoscaler"

    spec: HpaSpec


# --- monitoring ---


@dataclass(frozen=True)
class Relabeling:
    """A label with a fixed value on all that is read."""

    target_label: str
    replacement: str


@dataclass(frozen=True)
class MetricsEndpoint:
    """Where metrics are read; `relabelings` add labels."""

    port: str
    path: str = "/metrics"
    interval: str = "15s"
    relabelings: tuple[Relabeling, ...] = ()


@dataclass(frozen=True)
class MonitorSpec:
    """The pods whose metrics are read, with which of their labels."""

    selector: Labels
    pod_metrics_endpoints: tuple[MetricsEndpoint, ...]
    pod_target_labels: tuple[str, ...] = ()


@dataclass(frozen=True)
class PodMonitor(Object):
    """Pods that Prometheus reads."""

    API: ClassVar[str] = "monitoring.coreos.com/v1"
    KIND: ClassVar[str] = "PodMonitor"

    spec: MonitorSpec


@dataclass(frozen=True)
class Rule:
    """An alert: it fires once `expr` was true for so long."""

    alert: str
    expr: str
    for_: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RuleGroup:
    """Rules that are evaluated together."""

    name: str
    rules: tuple[Rule, ...]


@dataclass(frozen=True)
class RulesSpec:
    """Groups of rules."""

    groups: tuple[RuleGroup, ...]


@dataclass(frozen=True)
class PrometheusRule(Object):
    """Rules that Prometheus evaluates."""

    API: ClassVar[str] = "monitoring.coreos.com/v1"
    KIND: ClassVar[str] = "PrometheusRule"

    spec: RulesSpec
