"""Where the replicas of a variant, or the router, run outside of this machine: frozen records.

Made by `placement` from the fleet file and the accelerator's profile, part of a plan, read by
`render`; nothing computes here. A plan says all that a renderer needs, so that what was planned is
what is rendered. None and empty is "not known" or "not asked for": then nothing is rendered of it.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

# Words of a command of a replica over several hosts, each alone: the address of the first host, to
# which a port may be added, and which of them it is.
LEADER, RANK = "{leader}", "{rank}"


class PlannedTarget(Struct, frozen=True):
    """A target of the fleet. `hosts` of units; `namespace` and `provider` of a cluster."""

    name: str
    kind: str
    namespace: str | None = None
    provider: str | None = None
    hosts: tuple[str, ...] = ()


class Image(Struct, frozen=True):
    """A container image: `reference` with its tag, and where one is known the digest for it."""

    reference: str
    digest: str | None = None
    user: str | None = None  # as the image has it; None: whatever the image says

    @property
    def pinned(self) -> str:
        """The name to pull: by digest where one is known."""
        name = self.reference.partition("@")[0]
        return self.reference if self.digest is None else f"{name}@{self.digest}"


class Container(Struct, frozen=True):
    """What the process gets of its machine beside accelerators. Bytes are whole numbers."""

    cpu: float | None = None  # cores
    memory_bytes: int | None = None
    shm_bytes: int | None = None
    hugepages_bytes: int | None = None  # of 2 MiB each
    capabilities: tuple[str, ...] = ()
    seccomp: str = "RuntimeDefault"
    host_ipc: bool = False
    devices: tuple[str, ...] = ()  # paths below /dev
    groups: tuple[str, ...] = ()
    mounts: tuple[str, ...] = ()  # paths of the host
    runtime: str | None = None


class HostDevices(Struct, frozen=True):
    """How the devices of one machine, `count` of them, are dealt out where no cluster does it.

    The engine finds its own in `variable`, as numbers from 0, each for `unit` devices; a container
    by `container_variable` of its runtime or by a request to `driver` instead, if there is one.
    None: nobody knows how, and one replica takes the machine.
    """

    count: int
    variable: str | None = None
    unit: int = 1
    container_variable: str | None = None
    driver: str | None = None
    privileged: bool = False
    paths: tuple[str, ...] = ()  # below /dev, for a container
    classes: tuple[str, ...] = ()  # of /proc/devices, for a unit


class Secret(Struct, frozen=True):
    """A secret by name. `env` None: each key is a variable; else `key` of it is that variable."""

    name: str
    env: str | None = None
    key: str | None = None


class Cache(Struct, frozen=True):
    """Where weights and compiled graphs are kept; all None: a volume that goes with the replica.

    `variables` tell the engine: each is a folder below it, unless the environment says another.
    """

    path: str | None = None
    claim: str | None = None
    size_bytes: int | None = None
    variables: Mapping[str, str] = field(default_factory=dict)


class Toleration(Struct, frozen=True):
    """As in Kubernetes; `key` None is every taint, `effect` None each effect."""

    key: str | None = None
    operator: str = "Exists"
    value: str | None = None
    effect: str | None = None
    toleration_seconds: int | None = None


class NodeLabel(Struct, frozen=True):
    """A label that a node must have, with any of `values`."""

    key: str
    values: tuple[str, ...]


class Accelerators(Struct, frozen=True):
    """How a cluster hands out the accelerators of one replica on one host.

    `count` of `resource`, or of `device_class` where devices are claimed: one of the two is said.
    `domain_class` is the class of what joins hosts by fast links.
    """

    resource: str | None = None
    count: int = 0
    device_class: str | None = None
    domain_class: str | None = None


class Nodes(Struct, frozen=True):
    """Which nodes of a cluster take it; all hosts of a replica have one value of `joined_by`."""

    selector: Mapping[str, str] = field(default_factory=dict)
    labels: tuple[NodeLabel, ...] = ()  # what a plain selector cannot say: several values
    tolerations: tuple[Toleration, ...] = ()
    image_pull_secrets: tuple[str, ...] = ()
    scheduler: str | None = None
    joined_by: str | None = None


class Autoscale(Struct, frozen=True):
    """Replicas by rule. `in_flight` is what one replica carries at once, by the plan's capacity."""

    min: int
    max: int
    scaler: str
    in_flight: int


class Transfer(Struct, frozen=True):
    """How a replica hands KV to another, or takes it over.

    `address_variable` is to hold the address at which others reach it; `resource` is that of its
    network cards, one for each accelerator.
    """

    connector: str
    transport: str | None = None
    address_variable: str | None = None
    resource: str | None = None
    capabilities: tuple[str, ...] = ()
    proxy: Image | None = None  # what stands before an engine and has prompts read elsewhere
    protocol: str | None = None  # by which the proxy tells either side of the other


class Place(Struct, frozen=True):
    """All of it, for one replica (or one router). `hosts`: machines that one replica spans.

    The variant's command is that of the first host, `follow` that of the others.
    """

    image: Image | None = None  # None: none is known, or the target runs programs
    container: Container = Container()
    secrets: tuple[Secret, ...] = ()
    cache: Cache = Cache()
    accelerators: Accelerators = Accelerators()
    nodes: Nodes = Nodes()
    hosts: int = 1
    devices: int = 0  # that one replica is given, on all of its hosts
    follow: tuple[str, ...] = ()
    topology: str | None = None  # of the slice, where the accelerator comes in slices
    autoscale: Autoscale | None = None
    transfer: Transfer | None = None  # None: it has no role, or is simulated


class GatewayPods(Struct, frozen=True):
    """The pods that carry a gateway's requests; without `labels` all of the namespace."""

    namespace: str
    labels: Mapping[str, str] = field(default_factory=dict)


class Gateway(Struct, frozen=True):
    """The Gateway that has the routes; `namespace` None is that of the router."""

    name: str
    namespace: str | None = None
    hostnames: tuple[str, ...] = ()
    pods: GatewayPods | None = None


class PlannedRouter(Struct, frozen=True):
    """The router: which, how many, and where. `target` is one of the plan's."""

    kind: str
    target: str
    replicas: int
    env: Mapping[str, str] = field(default_factory=dict)
    place: Place | None = None  # None: on this machine
    gateway: Gateway | None = None  # None: nobody named one


class Disaggregation(Struct, frozen=True):
    """How prefill and decode replicas of a model work together."""

    connector: str
    transport: str | None = None  # None: the connector's own
    min_prompt_tokens: int = 0
