"""What a plan says: frozen records, and nothing that computes.

`planner` makes them; `render`, `apply`, `controller` and `cli` read them. The JSON form (camelCase,
`Plan.to_json`) is canonical: equal plans give equal bytes, and `Plan.from_json` reads it back.
Bytes and tokens are whole numbers; "per device" means one GPU, chip, card or (for CPUs) machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Literal, Self

from msgspec import Struct, field

from llmd_ctl.errors import Problem, SpecInvalid
from llmd_ctl.plan.check import impossible
from llmd_ctl.plan.codec import from_json, to_json
from llmd_ctl.plan.place import Disaggregation, HostDevices, Place, PlannedRouter, PlannedTarget
from llmd_ctl.plan.resilience import Resilience

SCHEMA = "llmd-ctl/plan/v1"

# Words of a command that whoever starts it replaces; each stands alone.
HOST, PORT, PYTHON, CONFIG = "{host}", "{port}", "{python}", "{config}"

Scalar = str | int | float | bool
Verdict = Literal["fits", "too-big"]


class Simulate(Struct, frozen=True):
    """Engines are replaced by simulated ones that run at `speed` times the planned speed."""

    speed: float = 1.0


class Setting(Struct, frozen=True):
    """The effective value of one engine flag, who set it, and whom that overruled."""

    value: Scalar
    set_by: str
    overruled: tuple[str, ...] = ()


class Parallel(Struct, frozen=True):
    """How one replica is split over devices."""

    tensor: int = 1
    pipeline: int = 1
    data: int = 1
    expert: int = 1

    @property
    def devices(self) -> int:
        """Devices of one replica. Expert parallelism shares the devices of the others."""
        return self.tensor * self.pipeline * self.data


class Fit(Struct, frozen=True):
    """Memory of one device, term by term. `verdict` follows from these numbers (`plan.fit`)."""

    verdict: Verdict
    memory_bytes: int
    utilization: float
    budget_bytes: int
    weight_bytes: int
    reserve_bytes: int
    activation_bytes: int
    window_in_flight_bytes: int  # sliding-window KV of prompts under way; 0 without a window
    kv_bytes_limit: int | None  # what the engine was told to take at most; None: all that is left
    # negative when the weights alone are too big
    kv_bytes_free: int
    kv_bytes_per_token: int
    window_bytes_per_request: int
    state_bytes_per_request: int  # of layers with a recurrent state; 0 without them
    kv_tokens: int  # of the whole replica
    max_model_len: int
    needed_tokens: int
    concurrency: float  # requests of full length that fit at once
    max_sequences: int
    lines: tuple[str, ...] = ()


class Workload(Struct, frozen=True):
    """The kind of request that capacity is stated for."""

    prompt_tokens: int = 1024
    output_tokens: int = 256


class Capacity(Struct, frozen=True):
    """What one replica carries without end, by `llmd_ctl.perf`."""

    prefill_tokens_per_second: float
    decode_tokens_per_second: float
    itl_us: float
    itl_batch: int
    ttft_us: float  # of the workload's prompt on an idle replica
    tokens_per_second: float
    requests_per_second: float
    workload: Workload = Workload()


class EndpointTls(Struct, frozen=True):
    """How an https endpoint is believed, and what it is shown. Paths are absolute."""

    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    server_name: str | None = None


class PlannedVariant(Struct, frozen=True):
    """One way to serve a model, with everything needed to start and to route to a replica."""

    name: str
    accelerator: str
    vendor: str
    target: str | None  # None beside an endpoint that runs already
    engine: str
    engine_version: str | None
    executable: str | None  # None: the engine that comes with llmd-ctl
    simulated: bool
    replicas: int
    parallelism: Parallel
    devices_per_replica: int
    endpoint_url: str | None
    served_name: str | None  # None: the model's own name
    max_model_len: int | None
    settings: Mapping[str, Setting] = field(default_factory=dict)
    command: tuple[str, ...] = ()  # `HOST`, `PORT`, `PYTHON` and `CONFIG` are still open
    env: Mapping[str, str] = field(default_factory=dict)
    startup_seconds: int | None = None
    fit: Fit | None = None
    capacity: Capacity | None = None
    facts: Mapping[str, Any] | None = None  # ReplicaFacts as JSON; None: nothing is known
    price_per_hour: float | None = None  # of all replicas; None is unknown, never free
    reasons: tuple[str, ...] = ()
    ruled_out: tuple[str, ...] = ()
    endpoint_tls: EndpointTls | None = None  # None: whom the system trusts, or no TLS at all
    apis: tuple[str, ...] | None = None  # that its engines speak; None: all
    role: str = "both"
    place: Place | None = None  # None: on this machine, or it runs already
    host_devices: HostDevices | None = None  # None: it takes none, or a cluster hands them out

    @property
    def managed(self) -> bool:
        """Whether llmd-ctl starts it, or it runs already."""
        return self.endpoint_url is None


class Slo(Struct, frozen=True):
    """What is promised, in microseconds, and of how many requests in a hundred."""

    ttft_us: int | None = None
    itl_us: int | None = None
    ttft_percentile: int | None = None
    itl_percentile: int | None = None


class Multimodal(Struct, frozen=True):
    """As `multimodal` of a model in router.yaml; None is the router's own number."""

    image_tokens: int | None = None
    audio_tokens: int | None = None
    video_tokens: int | None = None
    file_tokens: int | None = None


class PlannedModel(Struct, frozen=True):
    """What users ask for by name."""

    name: str
    aliases: tuple[str, ...]
    uri: str
    revision: str | None
    max_model_len: int | None  # of the longest variant
    slo: Slo | None
    objective: str
    scheduler: str
    variants: tuple[PlannedVariant, ...]
    usage: str = "as-told"
    multimodal: Multimodal = Multimodal()
    disaggregation: Disaggregation | None = None  # None: no variant has a role


class Idle(Struct, frozen=True):
    """Accelerators of the inventory that no variant uses."""

    target: str
    accelerator: str
    devices: int
    used: int
    idle: int
    price_per_hour: float | None  # of the idle devices


class Traces(Struct, frozen=True):
    """Where the router sends spans."""

    otlp: str
    protocol: str
    sample_ratio: float


class RouterTls(Struct, frozen=True):
    """TLS on the router's data port. Paths are absolute; None lets in clients of any kind."""

    cert_file: str
    key_file: str
    client_ca_file: str | None = None


class Summary(Struct, frozen=True):
    """The whole fleet in a line. `unpriced` names the variants that make the price unknown."""

    fits: bool
    price_per_hour: float | None
    replicas: int
    devices: int
    unpriced: tuple[str, ...] = ()


class Plan(Struct, frozen=True, dict=True):
    """What will run, why, and what it can carry."""

    fleet: str
    spec_hash: str
    simulate: Simulate | None
    summary: Summary
    models: tuple[PlannedModel, ...]
    warnings: tuple[Problem, ...] = ()
    idle: tuple[Idle, ...] = ()
    traces: Traces | None = None
    resilience: Resilience = field(default_factory=Resilience)
    router_tls: RouterTls | None = None  # None: plain HTTP
    targets: tuple[PlannedTarget, ...] = ()
    router: PlannedRouter | None = None  # None: of a plan that was written before it had one

    def to_json(self) -> dict[str, Any]:
        """Return the published form; `json.dumps` of it is byte-stable. Do not change its parts."""
        return {"schema": SCHEMA, **self._parts}

    @cached_property
    def _parts(self) -> dict[str, Any]:
        """What the published form is made of; a plan of fifty models is asked for it often."""
        parts: dict[str, Any] = to_json(self)
        return parts

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Read what `to_json` wrote. Raises `SpecInvalid` for anything else."""
        plan = from_json(cls, document, SCHEMA)
        problems = impossible(plan)
        if problems:
            raise SpecInvalid(problems)
        return plan
