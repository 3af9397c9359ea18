"""`plan`: a fleet, what is known and what was observed, to what will run.

The one entry of this package. It goes through the fleet variant by variant, collects every problem,
and raises them all together; a plan that is returned works by its own numbers. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from llmd_ctl.plan.capabilities import check as check_capabilities
from llmd_ctl.plan.capabilities import router_target
from llmd_ctl.plan.dealing import check as check_dealing
from llmd_ctl.plan.elsewhere import LOCAL
from llmd_ctl.plan.gateway import check as check_gateway
from llmd_ctl.plan.gateway import gateway_of
from llmd_ctl.plan.loopback import check as check_loopback
from llmd_ctl.plan.observed import Observed
from llmd_ctl.plan.pairs import join
from llmd_ctl.plan.place import PlannedRouter, PlannedTarget
from llmd_ctl.plan.placement import CLUSTER, LLM_D, router_image, router_place
from llmd_ctl.plan.records import (
    Multimodal,
    Plan,
    PlannedModel,
    RouterTls,
    Simulate,
    Summary,
    Traces,
)
from llmd_ctl.plan.report import Path, Report
from llmd_ctl.plan.resilience import taken_over
from llmd_ctl.plan.scene import Scene
from llmd_ctl.plan.service import check_prices, check_routing, promise
from llmd_ctl.plan.stock import Placed, Stock
from llmd_ctl.plan.variant import VariantPlanner
from llmd_ctl.profiles.catalog import Catalog
from llmd_ctl.spec import fleet as spec
from llmd_ctl.spec.loader import LoadedFleet

GRPC_PORT = ":4317"
OURS = "llmd-ctl"
CLUSTER_ROUTERS = 2  # so that one may go while the other serves
EMPTY = "Place a variant there (target: …), or remove it."


def plan(
    loaded: LoadedFleet,
    catalog: Catalog,
    observed: Observed,
    simulate: float | None,
    *,
    rehearsal: bool = False,
) -> Plan:
    """Plan a fleet; `simulate` is the speed of simulated engines, None runs real ones.

    A `rehearsal` simulates only to check what the file says: what simulated engines lack is no
    fault of it.
    Raises `SpecInvalid` when words of the file are wrong, `DoesNotFit` when it cannot work; either
    carries every problem.
    """
    report = Report(loaded)
    fleet = loaded.fleet
    stock = Stock(fleet.spec, catalog, observed, report, simulated=simulate is not None)
    scene = Scene(loaded, catalog, observed, stock, report, simulate, rehearsal)
    _name_replaced(catalog, report)
    check_capabilities(loaded, report)
    check_gateway(fleet.spec.router, report)
    if simulate is None or rehearsal:
        check_loopback(fleet.spec, report)
    placed: list[Placed] = []
    models = tuple(
        _model(scene, index, model, placed) for index, model in enumerate(fleet.spec.models)
    )
    stock.check_inventory(placed)
    stock.check_sharing(placed)
    _check_hosts(stock, catalog, observed, placed)
    targets = _targets(fleet.spec)
    check_dealing(targets, models, placed, report)
    _name_tags(fleet.spec, models, report)
    report.raise_errors()
    stock.check_listed(placed)
    router = _router(fleet.spec, report)
    _name_empty(targets, placed, router, report)
    return Plan(
        fleet=fleet.metadata.name,
        spec_hash=loaded.spec_hash,
        simulate=None if simulate is None else Simulate(simulate),
        summary=_summary(placed, stock),
        models=models,
        warnings=report.warnings,
        idle=stock.idle(placed),
        traces=_traces(fleet.spec.observability),
        resilience=taken_over(fleet.spec.router.resilience),
        router_tls=_router_tls(loaded),
        targets=targets,
        router=router,
    )


def _model(scene: Scene, index: int, model: spec.Model, placed: list[Placed]) -> PlannedModel:
    path: Path = ("spec", "models", index)
    routing = scene.loaded.fleet.spec.router.routing
    slo = promise(model, path, scene.report)
    check_routing(model, path, routing, scene.report)
    planner = VariantPlanner(scene, model, path, slo)
    variants = []
    for number, variant in enumerate(model.variants):
        where: Path = (*path, "variants", number)
        planned = planner.plan(variant, where)
        if planned is not None:
            variants.append(planned)
            placed.append(Placed(model.name, planned, where))
    joined = join(model, planner.halves, scene.report)
    check_prices(model, variants, routing, scene.report)
    lengths = [v.max_model_len for v in variants if v.max_model_len is not None]
    return PlannedModel(
        name=model.name,
        aliases=tuple(model.aliases),
        uri=model.uri,
        revision=model.revision,
        max_model_len=max(lengths, default=None),
        slo=slo,
        objective=routing.objective,
        scheduler=routing.scheduler,
        variants=tuple(variants),
        usage=model.usage,
        multimodal=Multimodal(**vars(model.multimodal)),
        disaggregation=joined,
    )


def _name_tags(fleet: spec.FleetSpec, models: Sequence[PlannedModel], report: Report) -> None:
    """Warn of images of llm-d's router that are taken by their tags."""
    if fleet.router.kind != LLM_D:
        return
    named = [] if fleet.router.image else [router_image(fleet)]
    transfers = [v.place.transfer for m in models for v in m.variants if v.place is not None]
    named += [one.proxy for one in transfers if one is not None and one.proxy is not None]
    for image in dict.fromkeys(each for each in named if each.digest is None):
        message = f"the image {image.reference} has no known digest: its tag is rendered"
        report.warn("LC3053", message, ("spec", "router", "kind"))


def _name_empty(
    targets: Sequence[PlannedTarget],
    placed: Sequence[Placed],
    router: PlannedRouter,
    report: Report,
) -> None:
    """Warn of targets in which nothing runs: what is rendered for them starts nothing."""
    used = {router.target, *(one.variant.target for one in placed)}
    for number, target in enumerate(targets):
        if target.name not in used:
            told = f"target {target.name} ({target.kind}) stays empty: no variant is placed there"
            report.warn("LC3051", told, ("spec", "targets", number, "name"), hint=EMPTY)


def _name_replaced(catalog: Catalog, report: Report) -> None:
    """Warn of profiles of the user's under whose names others would look for built-in ones."""
    built_in = Catalog()
    for (kind, name), profile in catalog.own.items():
        if "@" not in name and name in built_in.names(kind):  # an engine is there without, too
            message = f"the {kind} {name} of {profile.origin} takes the place of the built-in one"
            report.warn("LC2035", message, ("spec", "profiles"))


def _check_hosts(
    stock: Stock, catalog: Catalog, observed: Observed, placed: Sequence[Placed]
) -> None:
    """Engines on the machine itself share its memory."""
    real = [
        one for one in placed
        if one.variant.fit is not None and not one.variant.simulated and one.variant.place is None
    ]  # fmt: skip
    profiles = {
        one.variant.accelerator: catalog.accelerator(one.variant.accelerator) for one in real
    }
    shares = {name: p.spec.host.memory_share.known for name, p in profiles.items() if p.spec.host}
    if shares and observed.memory_bytes is not None:
        stock.check_host(real, shares, int(observed.memory_bytes * min(shares.values())))


def _summary(placed: Sequence[Placed], stock: Stock) -> Summary:
    managed = [one for one in placed if one.variant.managed]
    shared = {one.variant.accelerator for one in managed if stock.is_host(one.variant.accelerator)}
    own = [one.variant for one in managed if one.variant.accelerator not in shared]
    unpriced = tuple(one.title for one in managed if one.variant.price_per_hour is None)
    prices = [one.variant.price_per_hour or 0.0 for one in managed]
    return Summary(
        fits=True,
        price_per_hour=None if unpriced else round(sum(prices), 6),
        replicas=sum(one.variant.replicas for one in managed),
        devices=len(shared) + sum(v.replicas * v.devices_per_replica for v in own),
        unpriced=unpriced,
    )


def _router_tls(loaded: LoadedFleet) -> RouterTls | None:
    tls = loaded.fleet.spec.router.tls
    if tls is None:
        return None
    clients = tls.client_ca_file
    return RouterTls(
        cert_file=str(loaded.resolve(tls.cert_file)),
        key_file=str(loaded.resolve(tls.key_file)),
        client_ca_file=None if clients is None else str(loaded.resolve(clients)),
    )


def _targets(fleet: spec.FleetSpec) -> tuple[PlannedTarget, ...]:
    return tuple(
        PlannedTarget(one.name, one.kind, one.namespace, one.provider, tuple(one.hosts or ()))
        for one in fleet.targets
    )


def _router(fleet: spec.FleetSpec, report: Report) -> PlannedRouter:
    target = router_target(fleet)
    said = fleet.router
    replicas = said.replicas or (CLUSTER_ROUTERS if target.kind == CLUSTER else 1)
    if target.kind == LOCAL:
        return PlannedRouter(said.kind, target.name, replicas)
    place, env = router_place(fleet, target)
    if place.image is not None and said.image is None and said.kind == OURS:
        message = f"the image {place.image.reference} has no known digest: its tag is rendered"
        hint = "Name it by digest: router: {image: NAME@sha256:…}."
        report.warn("LC3053", message, ("spec", "router"), hint=hint)
    return PlannedRouter(said.kind, target.name, replicas, env, place, gateway_of(said))


def _traces(observability: spec.Observability) -> Traces | None:
    traces = observability.traces
    if traces is None:
        return None
    default = "grpc" if traces.otlp.rstrip("/").endswith(GRPC_PORT) else "http/protobuf"
    return Traces(traces.otlp, traces.protocol or default, traces.sample_ratio)
