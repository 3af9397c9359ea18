"""What pods are made of, as in Kubernetes' core/v1: only the fields that are rendered.

Filled by `pod` and `router`, written by `document`. Nothing here decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class KeyOf:
    """A key of a Secret or ConfigMap."""

    name: str
    key: str


@dataclass(frozen=True)
class FieldRef:
    """A field of the pod itself, as it runs."""

    field_path: str


@dataclass(frozen=True)
class ValueFrom:
    """Where a variable's value is from: one of the two."""

    secret_key_ref: KeyOf | None = None
    field_ref: FieldRef | None = None


@dataclass(frozen=True)
class Variable:
    """An environment variable."""

    name: str
    value: str | None = None
    value_from: ValueFrom | None = None


@dataclass(frozen=True)
class Named:
    """A reference by name."""

    name: str


@dataclass(frozen=True)
class Variables:
    """All keys of a Secret as variables."""

    secret_ref: Named


@dataclass(frozen=True)
class Port:
    """A port of a container."""

    name: str
    container_port: int


@dataclass(frozen=True)
class HttpGet:
    """A request that says how a container is."""

    path: str
    port: str


@dataclass(frozen=True)
class GrpcProbe:
    """A call of gRPC's own health service."""

    port: int
    service: str


@dataclass(frozen=True)
class Probe:
    """How often it is made, and how many failures count; by one of the two."""

    http_get: HttpGet | None
    period_seconds: int
    failure_threshold: int
    timeout_seconds: int = 5
    grpc: GrpcProbe | None = None


@dataclass(frozen=True)
class Sleep:
    """A pause."""

    seconds: int


@dataclass(frozen=True)
class Handler:
    """What is done at a moment of a container's life."""

    sleep: Sleep


@dataclass(frozen=True)
class Lifecycle:
    """What is done before a container is told to end."""

    pre_stop: Handler


@dataclass(frozen=True)
class Resources:
    """What a container asks for, and may take at most; claims by their name in the pod."""

    requests: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, str] = field(default_factory=dict)
    claims: tuple[Named, ...] = ()


@dataclass(frozen=True)
class Capabilities:
    """Linux capabilities."""

    add: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()


@dataclass(frozen=True)
class ContainerSecurity:
    """What a container may do."""

    privileged: bool | None = None
    allow_privilege_escalation: bool | None = None
    read_only_root_filesystem: bool | None = None
    capabilities: Capabilities | None = None


@dataclass(frozen=True)
class Seccomp:
    """The filter of system calls."""

    type: str


@dataclass(frozen=True)
class PodSecurity:
    """Who a pod runs as."""

    run_as_non_root: bool | None = None
    run_as_user: int | None = None
    run_as_group: int | None = None
    fs_group: int | None = None
    supplemental_groups: tuple[int, ...] = ()
    seccomp_profile: Seccomp | None = None


@dataclass(frozen=True)
class Mount:
    """Where a container sees a volume."""

    name: str
    mount_path: str
    read_only: bool | None = None


@dataclass(frozen=True)
class EmptyDir:
    """A volume that goes with the pod."""

    medium: str | None = None
    size_limit: str | None = None


@dataclass(frozen=True)
class HostPath:
    """A path of the node."""

    path: str
    type: str | None = None


@dataclass(frozen=True)
class Claim:
    """A volume claim that is there."""

    claim_name: str


@dataclass(frozen=True)
class SecretFiles:
    """A Secret as files."""

    secret_name: str
    optional: bool | None = None


@dataclass(frozen=True)
class Volume:
    """A volume: exactly one of the kinds."""

    name: str
    empty_dir: EmptyDir | None = field(default=None, metadata={"kept": True})
    host_path: HostPath | None = None
    persistent_volume_claim: Claim | None = None
    config_map: Named | None = None
    secret: SecretFiles | None = None


@dataclass(frozen=True)
class Container:
    """A container. Words of `command` and `args` are as Kubernetes reads them: `$$` is a `$`."""

    name: str
    image: str
    command: tuple[str, ...] = ()  # none: the image's own
    args: tuple[str, ...] = ()
    restart_policy: str | None = None  # Always: a sidecar, among the init containers
    image_pull_policy: str | None = None
    env: tuple[Variable, ...] = ()
    env_from: tuple[Variables, ...] = ()
    ports: tuple[Port, ...] = ()
    resources: Resources = Resources()
    startup_probe: Probe | None = None
    readiness_probe: Probe | None = None
    liveness_probe: Probe | None = None
    lifecycle: Lifecycle | None = None
    security_context: ContainerSecurity = ContainerSecurity()
    volume_mounts: tuple[Mount, ...] = ()


@dataclass(frozen=True)
class Expression:
    """A label of a node, with any of the values."""

    key: str
    values: tuple[str, ...]
    operator: str = "In"


@dataclass(frozen=True)
class Toleration:
    """A taint that is accepted."""

    key: str | None
    operator: str
    value: str | None
    effect: str | None
    toleration_seconds: int | None


@dataclass(frozen=True)
class Labels:
    """Objects that have all of these labels; none: every object."""

    match_labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Spread:
    """How pods are spread over nodes that differ in a label."""

    max_skew: int
    topology_key: str
    when_unsatisfiable: str
    label_selector: Labels


@dataclass(frozen=True)
class PodClaim:
    """Devices that are claimed for a pod, by a template of the namespace."""

    name: str
    resource_claim_template_name: str


@dataclass(frozen=True)
class PodSpec:
    """A pod."""

    containers: tuple[Container, ...]
    service_account_name: str
    init_containers: tuple[Container, ...] = ()
    automount_service_account_token: bool = False
    enable_service_links: bool = False
    termination_grace_period_seconds: int | None = None
    scheduler_name: str | None = None
    runtime_class_name: str | None = None
    host_ipc: bool | None = None
    security_context: PodSecurity = PodSecurity()
    image_pull_secrets: tuple[Named, ...] = ()
    node_selector: Mapping[str, str] = field(default_factory=dict)
    affinity: Mapping[str, Any] = field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[Spread, ...] = ()
    resource_claims: tuple[PodClaim, ...] = ()
    volumes: tuple[Volume, ...] = ()


@dataclass(frozen=True)
class PodMeta:
    """Labels and annotations of pods that a template makes."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class PodTemplate:
    """What pods are made from."""

    metadata: PodMeta
    spec: PodSpec
