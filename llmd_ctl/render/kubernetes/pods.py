"""What pods are made of, as in Kubernetes' core/v1: only the fields that are rendered.

Filled by `pod` and `router`, written by `document`. Nothing here decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from msgspec import Struct, field


class KeyOf(Struct, frozen=True):
    """A key of a Secret or ConfigMap."""

    name: str
    key: str


class FieldRef(Struct, frozen=True):
    """A field of the pod itself, as it runs."""

    field_path: str


class ValueFrom(Struct, frozen=True):
    """Where a variable's value is from: one of the two."""

    secret_key_ref: KeyOf | None = None
    field_ref: FieldRef | None = None


class Variable(Struct, frozen=True):
    """An environment variable."""

    name: str
    value: str | None = None
    value_from: ValueFrom | None = None


class Named(Struct, frozen=True):
    """A reference by name."""

    name: str


class Variables(Struct, frozen=True):
    """All keys of a Secret as variables."""

    secret_ref: Named


class Port(Struct, frozen=True):
    """A port of a container."""

    name: str
    container_port: int


class HttpGet(Struct, frozen=True):
    """A request that says how a container is."""

    path: str
    port: str


class GrpcProbe(Struct, frozen=True):
    """A call of gRPC's own health service."""

    port: int
    service: str


class Probe(Struct, frozen=True):
    """How often it is made, and how many failures count; by one of the two."""

    http_get: HttpGet | None
    period_seconds: int
    failure_threshold: int
    timeout_seconds: int = 5
    grpc: GrpcProbe | None = None


class Sleep(Struct, frozen=True):
    """A pause."""

    seconds: int


class Handler(Struct, frozen=True):
    """What is done at a moment of a container's life."""

    sleep: Sleep


class Lifecycle(Struct, frozen=True):
    """What is done before a container is told to end."""

    pre_stop: Handler


class Resources(Struct, frozen=True):
    """What a container asks for, and may take at most; claims by their name in the pod."""

    requests: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, str] = field(default_factory=dict)
    claims: tuple[Named, ...] = ()


class Capabilities(Struct, frozen=True):
    """Linux capabilities."""

    add: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()


class ContainerSecurity(Struct, frozen=True):
    """What a container may do."""

    privileged: bool | None = None
    allow_privilege_escalation: bool | None = None
    read_only_root_filesystem: bool | None = None
    capabilities: Capabilities | None = None


class Seccomp(Struct, frozen=True):
    """The filter of system calls."""

    type: str


class PodSecurity(Struct, frozen=True):
    """Who a pod runs as."""

    run_as_non_root: bool | None = None
    run_as_user: int | None = None
    run_as_group: int | None = None
    fs_group: int | None = None
    supplemental_groups: tuple[int, ...] = ()
    seccomp_profile: Seccomp | None = None


class Mount(Struct, frozen=True):
    """Where a container sees a volume."""

    name: str
    mount_path: str
    read_only: bool | None = None


class EmptyDir(Struct, frozen=True):
    """A volume that goes with the pod."""

    medium: str | None = None
    size_limit: str | None = None


class HostPath(Struct, frozen=True):
    """A path of the node."""

    path: str
    type: str | None = None


class Claim(Struct, frozen=True):
    """A volume claim that is there."""

    claim_name: str


class SecretFiles(Struct, frozen=True):
    """A Secret as files."""

    secret_name: str
    optional: bool | None = None


class Volume(Struct, frozen=True):
    """A volume: exactly one of the kinds."""

    KEPT: ClassVar = frozenset({"empty_dir"})

    name: str
    empty_dir: EmptyDir | None = None
    host_path: HostPath | None = None
    persistent_volume_claim: Claim | None = None
    config_map: Named | None = None
    secret: SecretFiles | None = None


class Container(Struct, frozen=True):
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


class Expression(Struct, frozen=True):
    """A label of a node, with any of the values."""

    key: str
    values: tuple[str, ...]
    operator: str = "In"


class Toleration(Struct, frozen=True):
    """A taint that is accepted."""

    key: str | None
    operator: str
    value: str | None
    effect: str | None
    toleration_seconds: int | None


class Labels(Struct, frozen=True):
    """Objects that have all of these labels; none: every object."""

    match_labels: Mapping[str, str] = field(default_factory=dict)


class Spread(Struct, frozen=True):
    """How pods are spread over nodes that differ in a label."""

    max_skew: int
    topology_key: str
    when_unsatisfiable: str
    label_selector: Labels


class PodClaim(Struct, frozen=True):
    """Devices that are claimed for a pod, by a template of the namespace."""

    name: str
    resource_claim_template_name: str


class PodSpec(Struct, frozen=True):
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


class PodMeta(Struct, frozen=True):
    """Labels and annotations of pods that a template makes."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str] = field(default_factory=dict)


class PodTemplate(Struct, frozen=True):
    """What pods are made from."""

    metadata: PodMeta
    spec: PodSpec
