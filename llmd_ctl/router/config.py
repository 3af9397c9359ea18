"""The router's configuration as typed objects, turned into router.yaml's document once.

Built by `render`. The schema's owner is `crates/llmd-router/src/config.rs`, which also fills in
every default: what the user didn't say is left out here, never repeated.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

Json = dict[str, Any]


class EndpointTls(Struct, frozen=True):
    """TLS towards an endpoint. Without a CA file, those whom the system trusts are believed."""

    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    server_name: str | None = None

    def to_document(self) -> Json:
        """The `tls` section; empty for all defaults."""
        return _said(
            {
                "caFile": self.ca_file,
                "certFile": self.cert_file,
                "keyFile": self.key_file,
                "serverName": self.server_name,
            }
        )


class StaticEndpoint(Struct, frozen=True):
    """An endpoint that runs already and that nobody here manages. `tls` None is plain HTTP."""

    name: str
    address: str
    port: int
    variant: str
    tls: EndpointTls | None = None

    def to_document(self) -> Json:
        """The endpoint's entry."""
        return _said(
            {
                "name": self.name,
                "address": self.address,
                "port": self.port,
                "variant": self.variant,
                "tls": self.tls.to_document() if self.tls else None,
            }
        )


class StaticSource(Struct, frozen=True):
    """Endpoints written into the configuration itself."""

    endpoints: tuple[StaticEndpoint, ...]

    def to_document(self) -> Json:
        """The source's entry."""
        return {
            "kind": "static",
            "endpoints": [endpoint.to_document() for endpoint in self.endpoints],
        }


class ProcessSource(Struct, frozen=True):
    """The controller's replicas.json, followed as it changes."""

    path: str

    def to_document(self) -> Json:
        """The source's entry."""
        return {"kind": "process", "path": self.path}


class DnsSource(Struct, frozen=True):
    """All addresses of a name, such as a headless Service. `resolver` is HOST:PORT."""

    name: str
    port: int
    variant: str
    interval_ms: int | None = None
    resolver: str | None = None

    def to_document(self) -> Json:
        """The source's entry."""
        return _said(
            {
                "kind": "dns",
                "name": self.name,
                "port": self.port,
                "variant": self.variant,
                "intervalMs": self.interval_ms,
                "resolver": self.resolver,
            }
        )


class VariantConfig(Struct, frozen=True):
    """What the router knows of one way to serve a model. `facts` is ReplicaFacts, passed on."""

    name: str
    accelerator: str
    engine: str
    simulated: bool
    served_name: str | None
    apis: tuple[str, ...] | None
    facts: Mapping[str, Any] | None

    def to_document(self) -> Json:
        """The variant's entry; without facts the router gives it a neutral prior."""
        return _said(
            {
                "name": self.name,
                "accelerator": self.accelerator,
                "engine": self.engine,
                "simulated": self.simulated,
                "servedName": self.served_name,
                "apis": list(self.apis) if self.apis is not None else None,
                "facts": dict(self.facts) if self.facts is not None else None,
            }
        )


class ModelConfig(Struct, frozen=True):
    """One pool: a served model, its variants and where its endpoints come from."""

    name: str
    aliases: tuple[str, ...]
    objective: str
    scheduler: str
    usage: str
    multimodal: Json | None
    ttft_us: int | None
    itl_us: int | None
    variants: tuple[VariantConfig, ...]
    sources: tuple[StaticSource | ProcessSource | DnsSource, ...]

    def to_document(self) -> Json:
        """The model's entry."""
        slo = _said({"ttftUs": self.ttft_us, "itlUs": self.itl_us})
        return _said(
            {
                "name": self.name,
                "aliases": list(self.aliases),
                "objective": self.objective,
                "scheduler": self.scheduler,
                "usage": self.usage,
                "multimodal": self.multimodal,
                "slo": slo or None,
                "variants": [variant.to_document() for variant in self.variants],
                "sources": [source.to_document() for source in self.sources],
            }
        )


class TraceConfig(Struct, frozen=True):
    """Where spans go. The protocol's default is the router's."""

    otlp: str
    protocol: str | None
    sample_ratio: float

    def to_document(self) -> Json:
        """The `traces` section."""
        return _said(
            {"otlp": self.otlp, "protocol": self.protocol, "sampleRatio": self.sample_ratio}
        )


class RouterConfig(Struct, frozen=True):
    """All of router.yaml."""

    fleet: str
    data: str
    admin: str
    admin_key_file: str
    models: tuple[ModelConfig, ...]
    tls: Json | None = None
    traces: TraceConfig | None = None
    limits: Json | None = None
    retry: Json | None = None
    resilience: Json | None = None

    def to_document(self) -> Json:
        """The whole document, in the order people read it."""
        return _said(
            {
                "version": 1,
                "fleet": self.fleet,
                "listen": _said({"data": self.data, "admin": self.admin, "tls": self.tls}),
                "adminKeyFile": self.admin_key_file,
                "limits": self.limits,
                "retry": self.retry,
                "resilience": self.resilience,
                "traces": self.traces.to_document() if self.traces else None,
                "models": [model.to_document() for model in self.models],
            }
        )


def _said(document: Json) -> Json:
    """The document without what nobody said."""
    return {key: value for key, value in document.items() if value is not None}
