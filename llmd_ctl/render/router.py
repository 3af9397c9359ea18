"""From a plan to router.yaml, and from running replicas to replicas.json.

Called by the controller, which writes both files, and by the renderers of other targets; the router
follows them. Pure. While replicas of a variant that left the plan still drain, the variant stays in
the configuration.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from llmd_ctl.plan import Plan, PlannedModel, PlannedVariant
from llmd_ctl.plan.codec import to_json
from llmd_ctl.render.layout import Layout
from llmd_ctl.render.process import LOOPBACK
from llmd_ctl.render.yaml_text import yaml_text
from llmd_ctl.router.config import (
    DnsSource,
    EndpointTls,
    ModelConfig,
    ProcessSource,
    RouterConfig,
    StaticEndpoint,
    StaticSource,
    TraceConfig,
    VariantConfig,
)

DEFAULT_PORTS = {"http": 80, "https": 443}
HEADER = "# Written by llmd-ctl from the plan; the router reloads it. Edits are overwritten.\n"


Source = StaticSource | ProcessSource | DnsSource


class Listen(Struct, frozen=True):
    """The addresses of the router's two ports, as HOST:PORT."""

    data: str
    admin: str


class RouterPlace(Struct, frozen=True):
    """The ports the router listens on, and whether the first of them speaks TLS."""

    data_port: int
    admin_port: int
    tls: bool = False

    @property
    def url(self) -> str:
        """Where users send requests."""
        return f"{'https' if self.tls else 'http'}://{LOOPBACK}:{self.data_port}"

    @property
    def admin_url(self) -> str:
        """Where status, metrics and probes are."""
        return f"http://{LOOPBACK}:{self.admin_port}"


def render_router(
    plan: Plan,
    place: RouterPlace,
    layout: Layout,
    leaving: Sequence[tuple[PlannedModel, PlannedVariant]] = (),
) -> str:
    """router.yaml's text. `leaving`: variants no longer planned whose replicas still drain."""
    models = [
        model_config(model, (ProcessSource(layout.replicas),))
        for model in _with_leaving(plan, leaving)
    ]
    listen = Listen(f"{LOOPBACK}:{place.data_port}", f"{LOOPBACK}:{place.admin_port}")
    return config_text(plan, listen, layout.admin_key, models)


def config_text(
    plan: Plan,
    listen: Listen,
    admin_key_file: str,
    models: Sequence[ModelConfig],
    limits: Mapping[str, int] | None = None,
) -> str:
    """router.yaml's text for any place: what of it depends on the place is given.

    `limits` hold at this place where the fleet says none.
    """
    resilience = _resilience(plan)
    if limits:
        resilience["limits"] = {**limits, **(resilience["limits"] or {})}
    config = RouterConfig(
        fleet=plan.fleet,
        data=listen.data,
        admin=listen.admin,
        tls=_without_nothing(to_json(plan.router_tls)) if plan.router_tls else None,
        admin_key_file=admin_key_file,
        models=tuple(models),
        traces=_traces(plan),
        **resilience,
    )
    return HEADER + yaml_text(config.to_document())


def render_replicas(entries: Sequence[Mapping[str, Any]]) -> bytes:
    """replicas.json: what runs, for the router's process source."""
    return (json.dumps({"version": 1, "replicas": list(entries)}, indent=2) + "\n").encode()


def external_name(model: PlannedModel, variant: PlannedVariant) -> str:
    """The endpoint name of a variant that runs already."""
    return f"{model.name}-{variant.name}"


def _with_leaving(
    plan: Plan, leaving: Sequence[tuple[PlannedModel, PlannedVariant]]
) -> list[PlannedModel]:
    models = {model.name: model for model in plan.models}
    for model, variant in leaving:
        present = models.setdefault(model.name, replace(model, variants=()))
        if all(known.name != variant.name for known in present.variants):
            models[model.name] = replace(present, variants=(*present.variants, variant))
    return list(models.values())


def model_config(model: PlannedModel, sources: Sequence[Source]) -> ModelConfig:
    """A model as the router knows it. `sources` tell of managed replicas; the rest is added."""
    external = tuple(
        _external_endpoint(model, variant)
        for variant in model.variants
        if variant.endpoint_url is not None
    )
    if external:
        sources = (StaticSource(external), *sources)
    return ModelConfig(
        name=model.name,
        aliases=tuple(model.aliases),
        objective=model.objective,
        scheduler=model.scheduler,
        usage=model.usage,
        multimodal=_without_nothing(to_json(model.multimodal)) or None,
        ttft_us=model.slo.ttft_us if model.slo else None,
        itl_us=model.slo.itl_us if model.slo else None,
        variants=tuple(_variant(variant) for variant in model.variants),
        sources=tuple(sources),
    )


def _traces(plan: Plan) -> TraceConfig | None:
    if plan.traces is None:
        return None
    return TraceConfig(plan.traces.otlp, plan.traces.protocol, plan.traces.sample_ratio)


def _resilience(plan: Plan) -> dict[str, Any]:
    """The sections that the fleet says anything of. The plan has router.yaml's own keys."""
    resilience = _without_nothing(plan.resilience.to_json())
    return {
        "limits": resilience.pop("limits", None),
        "retry": resilience.pop("retry", None),
        "resilience": resilience or None,
    }


def _without_nothing(document: Mapping[str, Any]) -> dict[str, Any]:
    """Without keys that hold nothing, and maps that hold none."""
    kept = {
        key: _without_nothing(value) if isinstance(value, Mapping) else value
        for key, value in document.items()
    }
    return {key: value for key, value in kept.items() if value is not None and value != {}}


def _variant(variant: PlannedVariant) -> VariantConfig:
    return VariantConfig(
        name=variant.name,
        accelerator=variant.accelerator,
        engine=variant.engine,
        simulated=variant.simulated,
        served_name=variant.served_name,
        apis=variant.apis,
        facts=variant.facts,
    )


def _external_endpoint(model: PlannedModel, variant: PlannedVariant) -> StaticEndpoint:
    url = urlsplit(variant.endpoint_url or "")
    return StaticEndpoint(
        name=external_name(model, variant),
        address=url.hostname or "",
        port=url.port or DEFAULT_PORTS[url.scheme],
        variant=variant.name,
        tls=_tls(variant) if url.scheme == "https" else None,
    )


def _tls(variant: PlannedVariant) -> EndpointTls:
    tls = variant.endpoint_tls
    if tls is None:
        return EndpointTls()
    return EndpointTls(tls.ca_file, tls.cert_file, tls.key_file, tls.server_name)
