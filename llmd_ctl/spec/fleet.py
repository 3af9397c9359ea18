"""What a fleet file says, as types. The annotated twin is `reference/fleet.yaml`.

Keys are camelCase in YAML and snake_case here. Every layer above reads these and none changes
them: they are frozen. The loader fills in what may be left out (a variant's `name` and `target`),
so a reader sees it filled. Fields of the format that are not built yet are in `not_yet`.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from llmd_ctl.spec.fields import (
    ArgName,
    ArgValue,
    CollectorUrl,
    EndpointUrl,
    Length,
    Microseconds,
    ModelUri,
    Name,
    Price,
    ProfileId,
    Ratio,
    RawArg,
    Revision,
    ServedName,
    ServerName,
    Text,
    refuse,
)
from llmd_ctl.spec.gateway import Gateway
from llmd_ctl.spec.place_fields import ImageRef, Topology
from llmd_ctl.spec.placement import Autoscale, Cache, Disaggregation, Placement
from llmd_ctl.spec.resilience import Resilience
from llmd_ctl.spec.section import Section

API_VERSION = "fleet.llmd-ctl.dev/v1alpha1"

TargetKind = Literal["local", "kubernetes", "systemd", "compose"]
DeviceAllocation = Literal["extended", "dra"]
Role = Literal["both", "prefill", "decode"]
EngineName = Literal["vllm", "sglang", "trtllm", "llamacpp", "sim"]
Objective = Literal["latency", "cost", "balanced"]
Usage = Literal["as-told", "exact"]
# The rows of `crates/llmd-router/src/api.rs`; a test holds the two together.
ApiName = Literal[
    "chat", "completions", "responses", "messages", "count-tokens", "embeddings", "rerank", "score",
    "pooling", "classify", "tokenize", "detokenize", "transcriptions", "translations", "speech",
    "images", "image-edits",
]  # fmt: skip
Scheduler = Literal["expected-finish", "round-robin", "random", "least-request", "llm-d-default"]
EngineArgs = dict[ArgName, ArgValue]
Degree = Annotated[int, Field(ge=1, le=1024)]
PartTokens = Annotated[int, Field(ge=0, le=65_536)]


class Metadata(Section):
    """Who the fleet is. The name is also the name of its state folder."""

    name: Name


class Target(Placement):
    """A place where replicas run. `hosts` are the machines of units, the rest a cluster's.

    `device_allocation` None is by extended resources.
    """

    name: Name
    kind: TargetKind
    provider: Literal["generic", "gke"] | None = None
    namespace: Name | None = None
    device_allocation: DeviceAllocation | None = None
    hosts: Annotated[list[ServerName], Field(min_length=1)] | None = None


class EngineRef(Section):
    """An inference engine; without a version, the one the profile knows best."""

    name: EngineName
    version: Text | None = None
    executable: Text | None = None
    image: ImageRef | None = None


class Serving(Placement):
    """What defaults, models and variants may all say of how replicas run."""

    engine: EngineRef | None = None
    engine_args: EngineArgs = Field(default_factory=dict)
    cache: Cache | None = None
    autoscale: Autoscale | None = None


class Defaults(Serving):
    """What every model starts from."""


class InventoryItem(Section):
    """Accelerators that are there, where the target cannot tell. Prices in dollars."""

    target: str
    accelerator: ProfileId
    nodes: Annotated[int, Field(ge=1, le=100_000)] = 1
    devices_per_node: Annotated[int, Field(ge=1, le=1024)] = 1
    price_per_device_hour: Price | None = None


class Percentiles(Section):
    """Upper bounds of a latency, in microseconds; in YAML with a unit, such as 800ms."""

    p50: Microseconds | None = None
    p95: Microseconds | None = None
    p99: Microseconds | None = None

    @model_validator(mode="after")
    def _rising(self) -> Self:
        said = [(name, value) for name, value in self if value is not None]
        if not said:
            raise refuse("LC1068", "no percentile is given", "Write {p95: 800ms}, or remove it.")
        for (lower, less), (upper, more) in pairwise(said):
            if more < less:
                hint = f"Raise {upper}, or remove one of the two."
                raise refuse("LC1068", f"{upper} is below {lower}", hint)
        return self


class Slo(Section):
    """The service level: time to first token, and time between tokens."""

    ttft: Percentiles | None = None
    itl: Percentiles | None = None

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.ttft is None and self.itl is None:
            hint = "Write ttft: {p95: 800ms} or itl: {p95: 40ms} under it, or remove slo."
            raise refuse("LC1068", "neither ttft nor itl is given", hint)
        return self


class Parallelism(Section):
    """How many ways one replica is split; None is decided by the plan."""

    tensor: Degree | None = None
    pipeline: Degree | None = None
    data: Degree | None = None
    expert: Degree | None = None


class EndpointTls(Section):
    """How an https endpoint is believed, and what it is shown. Files are PEM.

    `ca_file` None is whom the system trusts, `server_name` None the host of the URL.
    """

    ca_file: Text | None = None
    cert_file: Text | None = None
    key_file: Text | None = None
    server_name: ServerName | None = None

    @model_validator(mode="after")
    def _pair(self) -> Self:
        if (self.cert_file is None) != (self.key_file is None):
            hint = "Give both for an endpoint that asks for a certificate, else neither."
            raise refuse("LC1071", "certFile and keyFile need each other", hint)
        return self


class ExternalEndpoint(Section):
    """An engine that runs already: routed to, not managed. `served_name` None is the model's."""

    url: EndpointUrl
    tls: EndpointTls | None = None
    served_name: ServedName | None = None

    @model_validator(mode="after")
    def _tls_is_used(self) -> Self:
        if self.tls is not None and not self.url.startswith("https:"):
            hint = "Write the URL with https:// if the engine speaks TLS, else remove tls."
            raise refuse("LC1071", "tls does nothing beside an http URL", hint)
        return self


class Multimodal(Section):
    """Tokens that a part of a prompt counts for which is no text; None is the router's own."""

    image_tokens: PartTokens | None = None
    audio_tokens: PartTokens | None = None
    video_tokens: PartTokens | None = None
    file_tokens: PartTokens | None = None


class Variant(Serving):
    """One way to serve a model. `target` is None only beside `endpoint`."""

    name: Name
    accelerator: ProfileId
    target: str | None = None
    replicas: Annotated[int, Field(ge=0, le=10_000)] = 1
    role: Role = "both"
    topology: Topology | None = None
    device_allocation: DeviceAllocation | None = None  # None: the target's
    parallelism: Parallelism = Parallelism()
    extra_args: list[RawArg] = Field(default_factory=list)
    endpoint: ExternalEndpoint | None = None
    apis: Annotated[list[ApiName], Field(min_length=1)] | None = None
    max_model_len: Length | None = None
    unsafe: bool = False

    @property
    def offers(self) -> tuple[str, ...] | None:
        """The APIs that its engines speak; None is all."""
        return None if self.apis is None else tuple(self.apis)


class Model(Serving):
    """What users ask for by name, and every way it is served."""

    name: Name
    uri: ModelUri
    revision: Revision | None = None
    aliases: list[ServedName] = Field(default_factory=list)
    max_model_len: Length | None = None
    usage: Usage = "as-told"
    multimodal: Multimodal = Multimodal()
    slo: Slo | None = None
    disaggregation: Disaggregation | None = None
    variants: Annotated[list[Variant], Field(min_length=1)]


class Routing(Section):
    """How the router chooses among endpoints."""

    objective: Objective = "latency"
    scheduler: Scheduler = "expected-finish"


class RouterTls(Section):
    """What the router shows to its clients, and whom it lets in. Files are PEM.

    `client_ca_file` None lets in everybody.
    """

    cert_file: Text
    key_file: Text
    client_ca_file: Text | None = None


class Router(Placement):
    """The one address in front of every model. `tls` None is plain HTTP.

    `target` None is the first one; `replicas` None is one on a machine, two in a cluster.
    """

    target: str | None = None
    kind: Literal["llmd-ctl", "llm-d"] = "llmd-ctl"
    replicas: Annotated[int, Field(ge=1, le=100)] | None = None
    image: ImageRef | None = None
    tls: RouterTls | None = None
    gateway: Gateway | None = None
    routing: Routing = Routing()
    resilience: Resilience = Resilience()


class Traces(Section):
    """Where spans go. `protocol` None is grpc for port 4317 and http/protobuf for any other."""

    otlp: CollectorUrl
    protocol: Literal["grpc", "http/protobuf"] | None = None
    sample_ratio: Ratio = 1.0


class Observability(Section):
    """What is sent to where, beside the metrics that are always there."""

    traces: Traces | None = None


class FleetSpec(Section):
    """The fleet itself."""

    targets: Annotated[list[Target], Field(min_length=1)]
    defaults: Defaults = Defaults()
    inventory: list[InventoryItem] = Field(default_factory=list)
    models: Annotated[list[Model], Field(min_length=1)]
    profiles: list[Text] = Field(default_factory=list)
    router: Router = Router()
    observability: Observability = Observability()


class Fleet(Section):
    """One fleet file."""

    api_version: Literal["fleet.llmd-ctl.dev/v1alpha1"]
    kind: Literal["Fleet"]
    metadata: Metadata
    spec: FleetSpec
