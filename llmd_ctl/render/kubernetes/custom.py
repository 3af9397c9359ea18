"""The kinds that others than Kubernetes define, and those that scale: only what is rendered.

Filled by `llm_d`, `autoscale` and `monitoring`, written by `document`. Nothing here decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from msgspec import Struct, field

from llmd_ctl.render.kubernetes.document import Object
from llmd_ctl.render.kubernetes.pods import Labels

# --- Gateway API, and its inference extension ---


class PortNumber(Struct, frozen=True):
    """A port by number."""

    number: int


class PickerRef(Struct, frozen=True):
    """The Service that chooses endpoints; `FailOpen`: without it any endpoint is as good."""

    name: str
    port: PortNumber
    failure_mode: str


class PoolSpec(Struct, frozen=True):
    """The pods of a pool, where they listen, and who chooses among them."""

    selector: Labels
    target_ports: tuple[PortNumber, ...]
    endpoint_picker_ref: PickerRef


class InferencePool(Object, frozen=True):
    """Endpoints that serve the same."""

    API: ClassVar[str] = "inference.networking.k8s.io/v1"
    KIND: ClassVar[str] = "InferencePool"

    spec: PoolSpec


class HeaderMatch(Struct, frozen=True):
    """A header with exactly this value."""

    name: str
    value: str
    type: str = "Exact"


class RouteMatch(Struct, frozen=True):
    """A request with all of these headers."""

    headers: tuple[HeaderMatch, ...]


class Backend(Struct, frozen=True):
    """Where requests go, and how many beside the others; a Service by a port, group None."""

    group: str | None
    kind: str
    name: str
    weight: int | None = None
    port: int | None = None


class Timeouts(Struct, frozen=True):
    """How long a request may take; 0s: as long as it does."""

    request: str = "0s"
    backend_request: str = "0s"


class RouteRule(Struct, frozen=True):
    """Requests that match go to the backends; without matches, all do."""

    backend_refs: tuple[Backend, ...]
    matches: tuple[RouteMatch, ...] = ()
    timeouts: Timeouts | None = None  # None: the gateway's own


class GatewayRef(Struct, frozen=True):
    """A Gateway; `namespace` None is the route's."""

    name: str
    namespace: str | None = None


class RouteSpec(Struct, frozen=True):
    """The gateways that have the route, the hosts that it is for, and its rules."""

    parent_refs: tuple[GatewayRef, ...]
    hostnames: tuple[str, ...]  # none: all of the gateways'
    rules: tuple[RouteRule, ...]


class HTTPRoute(Object, frozen=True):
    """What a gateway does with requests."""

    API: ClassVar[str] = "gateway.networking.k8s.io/v1"
    KIND: ClassVar[str] = "HTTPRoute"

    spec: RouteSpec


# --- rights ---


class Right(Struct, frozen=True):
    """What may be done with which resources."""

    api_groups: tuple[str, ...]
    resources: tuple[str, ...]
    verbs: tuple[str, ...]


class Role(Object, frozen=True):
    """Rights in one namespace."""

    API: ClassVar[str] = "rbac.authorization.k8s.io/v1"
    KIND: ClassVar[str] = "Role"

    rules: tuple[Right, ...]


class RoleRef(Struct, frozen=True):
    """A Role by name."""

    name: str
    kind: str = "Role"
    api_group: str = "rbac.authorization.k8s.io"


class Subject(Struct, frozen=True):
    """A ServiceAccount of the same namespace."""

    name: str
    kind: str = "ServiceAccount"


class RoleBinding(Object, frozen=True):
    """Who has the rights of a role."""

    API: ClassVar[str] = "rbac.authorization.k8s.io/v1"
    KIND: ClassVar[str] = "RoleBinding"

    role_ref: RoleRef
    subjects: tuple[Subject, ...]


# --- scaling ---


class ScaleTarget(Struct, frozen=True):
    """What is scaled."""

    api_version: str
    kind: str
    name: str


class Pace(Struct, frozen=True):
    """For how long the most that was asked for counts."""

    stabilization_window_seconds: int


class Behavior(Struct, frozen=True):
    """How fast replicas go."""

    scale_down: Pace


class HpaConfig(Struct, frozen=True):
    """What KEDA hands on to the HPA that it makes."""

    behavior: Behavior


class Advanced(Struct, frozen=True):
    """KEDA's word for what it hands on."""

    horizontal_pod_autoscaler_config: HpaConfig


class Trigger(Struct, frozen=True):
    """A number that replicas are to follow."""

    type: str
    metric_type: str
    metadata: Mapping[str, str]


class ScaledSpec(Struct, frozen=True):
    """How many replicas, and by what."""

    scale_target_ref: ScaleTarget
    min_replica_count: int
    max_replica_count: int
    polling_interval: int
    cooldown_period: int
    advanced: Advanced
    triggers: tuple[Trigger, ...]


class ScaledObject(Object, frozen=True):
    """Replicas by KEDA, down to none."""

    API: ClassVar[str] = "keda.sh/v1alpha1"
    KIND: ClassVar[str] = "ScaledObject"

    spec: ScaledSpec


class Metric(Struct, frozen=True):
    """A number of the external metrics API."""

    name: str
    selector: Labels


class MetricTarget(Struct, frozen=True):
    """What a replica is to have of it."""

    average_value: str
    type: str = "AverageValue"


class External(Struct, frozen=True):
    """A number, and its target."""

    metric: Metric
    target: MetricTarget


class MetricSpec(Struct, frozen=True):
    """A number that replicas are to follow."""

    external: External
    type: str = "External"


class HpaSpec(Struct, frozen=True):
    """How many replicas, and by what."""

    scale_target_ref: ScaleTarget
    min_replicas: int
    max_replicas: int
    metrics: tuple[MetricSpec, ...]
    behavior: Behavior


class HorizontalPodAutoscaler(Object, frozen=True):
    """Replicas by Kubernetes itself."""

    API: ClassVar[str] = "autoscaling/v2"
    KIND: ClassVar[str] = "HorizontalPodAutoscaler"

    spec: HpaSpec


# --- monitoring ---


class Relabeling(Struct, frozen=True):
    """A label with a fixed value on all that is read."""

    target_label: str
    replacement: str


class MetricsEndpoint(Struct, frozen=True):
    """Where metrics are read; `relabelings` add labels."""

    port: str
    path: str = "/metrics"
    interval: str = "15s"
    relabelings: tuple[Relabeling, ...] = ()


class MonitorSpec(Struct, frozen=True):
    """The pods whose metrics are read, with which of their labels."""

    selector: Labels
    pod_metrics_endpoints: tuple[MetricsEndpoint, ...]
    pod_target_labels: tuple[str, ...] = ()


class PodMonitor(Object, frozen=True):
    """Pods that Prometheus reads."""

    API: ClassVar[str] = "monitoring.coreos.com/v1"
    KIND: ClassVar[str] = "PodMonitor"

    spec: MonitorSpec


class Rule(Struct, frozen=True):
    """An alert: it fires once `expr` was true for so long."""

    alert: str
    expr: str
    for_: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


class RuleGroup(Struct, frozen=True):
    """Rules that are evaluated together."""

    name: str
    rules: tuple[Rule, ...]


class RulesSpec(Struct, frozen=True):
    """Groups of rules."""

    groups: tuple[RuleGroup, ...]


class PrometheusRule(Object, frozen=True):
    """Rules that Prometheus evaluates."""

    API: ClassVar[str] = "monitoring.coreos.com/v1"
    KIND: ClassVar[str] = "PrometheusRule"

    spec: RulesSpec
