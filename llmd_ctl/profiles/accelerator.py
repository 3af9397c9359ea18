"""What is known of an accelerator: one device, how fast it really is, how each engine runs on it.

The types of `kind: AcceleratorProfile`. Read by `plan`; they hold figures and no formula. A device
is what one rank of an engine takes: a GPU, chip or card, or the part of one that `topology` names;
where `host` is given it is the machine itself with all its cores. What only renderers read lies in
`kubernetes`, `container`, `topology`, `transfer` and `backend`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Struct, field

from llmd_ctl.profiles import number
from llmd_ctl.profiles.backend import Backend, ModelClass
from llmd_ctl.profiles.container import Container, Driver, Image, VisibleDevices
from llmd_ctl.profiles.kubernetes import Kubernetes
from llmd_ctl.profiles.several import Several
from llmd_ctl.profiles.topology import Topology
from llmd_ctl.profiles.transfer import Offload, Transfer, Transport

Scalar = str | int | float | bool
Feature = Annotated[str, number.Words(("pipeline",))]
HostArchitecture = Annotated[str, number.Words(("amd64", "arm64"))]
PluginFlag = Literal["int", "float", "bool", "str", "json"]
TransportName = Annotated[str, number.Words(("ib", "roce", "efa", "nvlink", "tcp"))]


class Efficiency(Struct, frozen=True):
    """What engines reach of the data sheet. Maps are by dtype; `bf16` stands for a missing one."""

    weight: Mapping[number.Dtype, number.Fraction]  # of memory bandwidth, reading weights
    gemm: Mapping[number.Dtype, number.Fraction]  # of FLOP/s, large matrix multiplications
    kv: number.Fraction  # of memory bandwidth, reading KV
    attention: number.Fraction  # of bf16 FLOP/s, prefill attention
    gemm_half_tokens: number.Tokens  # tokens in a step at which half of `gemm` is reached


class Collective(Struct, frozen=True):
    """The all-reduce of a group of this many devices."""

    floor_us: number.Duration  # of a small one
    bandwidth: number.LinkBandwidth  # bytes of a large one, over its time


class Overhead(Struct, frozen=True):
    """Time that no data sheet shows. Maps are by tensor-parallel degree, as text."""

    layer_us: number.Duration  # launches, for each layer and step
    collective_factor: number.Factor  # what a collective takes in an engine, over its bare kernel
    collectives: Mapping[number.Group, Collective] = field(default_factory=dict)


class ProfileSetting(Struct, frozen=True):
    """A flag's value on this accelerator, and why.

    `must`: another value is refused unless the variant says `unsafe: true`. With `multiple_of`, any
    whole multiple is as good.
    """

    value: Scalar
    reason: str
    must: bool = False
    multiple_of: int | None = None


class EnvironmentSetting(Struct, frozen=True):
    """An environment variable of the engine, and why."""

    value: str
    reason: str


class EngineOn(Struct, frozen=True):
    """How an engine runs on this accelerator: which package, with what, taking how much."""

    package: str
    reserve_bytes: number.Size  # memory that is neither weights, activations nor KV
    startup_seconds: number.Seconds  # the longest start that is still normal
    executable: str | None = None  # None: the engine's own
    version: str | None = None  # None: the engine profile's own
    collective_reserve_bytes: number.Size = number.Number(0.0, "none known", "low")
    kv_default_bytes: number.Size | None = None  # on a host: KV space when nothing is said
    kv_dtypes: tuple[str, ...] = ()  # legal KV dtypes; empty: the flag's own choices
    settings: Mapping[str, ProfileSetting] = field(default_factory=dict)
    env: Mapping[str, EnvironmentSetting] = field(default_factory=dict)
    unsupported: Mapping[Feature, str] = field(default_factory=dict)  # to the reason
    notes: tuple[str, ...] = ()  # said in every plan that uses it
    not_yet: str | None = None  # why no plan is made with it, however much is known; None: one is
    weight_dtypes: tuple[number.Dtype, ...] = ()  # it serves, computed with or unpacked; empty: any
    # Types of packed weights that are held in the model's own, and so larger; to the variable that
    # leaves them packed (empty: none does).
    unpacked: Mapping[number.Dtype, str] = field(default_factory=dict)
    images: Mapping[str, Image] = field(default_factory=dict)  # by version of the engine
    attention: Mapping[ModelClass, Backend] = field(default_factory=dict)
    # By version: keys of --additional-config that its plugin reads, those of a map behind a dot,
    # and variables of the environment that it reads. A missing version: not known.
    additional: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    variables: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    flags: Mapping[str, PluginFlag] = field(
        default_factory=dict
    )  # that its plugin adds: their type
    transfer: Transfer | None = None  # None: nothing is known, and it is refused
    offload: Offload | None = None  # likewise
    several: Several | None = None  # None: the engine's own way over several hosts


class Host(Struct, frozen=True):
    """The device is the machine: its memory and cores are what was observed."""

    flops_per_core: Mapping[number.Dtype, number.Flops]
    memory_share: number.Fraction  # of the machine's memory, for all engines together


class AcceleratorSpec(Struct, frozen=True):
    """The body of an accelerator profile."""

    vendor: str
    description: str
    memory_bytes: number.Memory
    memory_bandwidth: number.Bandwidth
    efficiency: Efficiency
    overhead: Overhead
    devices_per_node: number.Count
    price_per_device_hour: number.Price
    flops: Mapping[number.Dtype, number.Flops] = field(default_factory=dict)
    link_bandwidth: number.LinkBandwidth = number.Number(None, "not given", "low")
    architecture: str = ""  # as compilers call it: sm90, gfx942
    native_dtypes: tuple[number.Dtype, ...] = ()  # it computes with in hardware
    driver_name: str = ""  # its name in its driver's list of devices
    driver: Driver | None = None  # None: no driver is refused as too old
    host: Host | None = None  # None: it is a device beside a machine's processors
    host_architectures: tuple[HostArchitecture, ...] = ()  # of the CPU beside it; empty: any
    topology: Topology | None = None  # None: any group of devices in one node
    kubernetes: Kubernetes | None = None  # None: nothing is known, and such targets refuse it
    container: Container | None = None  # None: nothing but the devices is given to it
    visible_devices: VisibleDevices | None = None  # None: replicas of a machine cannot share it
    transports: Mapping[TransportName, Transport] = field(default_factory=dict)
    engines: Mapping[str, EngineOn] = field(default_factory=dict)


class Accelerator(Struct, frozen=True):
    """An accelerator profile. `lineage` is its name and those of the profiles it extends."""

    name: str
    lineage: tuple[str, ...]
    origin: str  # the file, or "llmd-ctl" for what comes with it
    spec: AcceleratorSpec
