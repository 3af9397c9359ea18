"""Replicas by rule: a KEDA ScaledObject, or a HorizontalPodAutoscaler, for a variant.

Called by `manifests`. Both follow the requests that are at the variant's replicas, as the router
counts them: more replicas come once each has, on average, most of what the plan says it carries.
Whatever scales a variant says how many there are, so its workload says no number.
"""

from __future__ import annotations

from llmd_ctl.plan import Plan, PlannedModel, PlannedVariant
from llmd_ctl.plan.place import Autoscale, Place
from llmd_ctl.render.kubernetes.custom import (
    Advanced,
    Behavior,
    External,
    HorizontalPodAutoscaler,
    HpaConfig,
    HpaSpec,
    Metric,
    MetricSpec,
    MetricTarget,
    Pace,
    ScaledObject,
    ScaledSpec,
    ScaleTarget,
    Trigger,
)
from llmd_ctl.render.kubernetes.document import Meta, Object
from llmd_ctl.render.kubernetes.names import Names
from llmd_ctl.render.kubernetes.objects import Deployment, LeaderWorkerSet
from llmd_ctl.render.kubernetes.pods import Labels

# Where prometheus-operator's own Service is, as kube-prometheus-stack installs it.
PROMETHEUS = "http://prometheus-operated.monitoring.svc:9090"
FULL_PERCENT = 80  # of what a replica carries: the rest is for those that come while another starts
POLL_SECONDS = 15  # as often as Prometheus reads
SETTLE_SECONDS = 300  # a replica that took minutes to start is not given up for a short calm
WAKE = "2m"  # how long one refused request keeps asking for a first replica
LLM_D = "llm-d"
REQUESTS, PICKED = "llmd_router_inflight_requests", "llm_d_epp_inflight_requests"


def scaler(
    plan: Plan, names: Names, model: PlannedModel, variant: PlannedVariant
) -> tuple[Object, ...]:
    """What scales a variant; nothing where its number is fixed."""
    place = variant.place
    if place is None or place.autoscale is None:
        return ()
    meta = Meta(names.engine(model, variant), names.engine_labels(model, variant))
    kind: type[Object] = LeaderWorkerSet if place.hosts > 1 else Deployment
    target = ScaleTarget(kind.API, kind.KIND, names.workload(model, variant))
    if place.autoscale.scaler == "hpa":
        labels = {"fleet": plan.fleet, "model": model.name, "variant": variant.name}
        return (HorizontalPodAutoscaler(meta, _hpa(place.autoscale, target, labels)),)
    query = in_flight(plan, names, model, variant, place)
    return (ScaledObject(meta, _scaled(place.autoscale, target, query)),)


def in_flight(
    plan: Plan, names: Names, model: PlannedModel, variant: PlannedVariant, place: Place
) -> str:
    """The requests at a variant's replicas, in Prometheus' words.

    With no replica nothing is at one: then each request that was refused counts, for a while.
    """
    fleet = {"fleet": plan.fleet}
    if plan.router is not None and plan.router.kind == LLM_D:
        pods = f'endpoint_name=~"{_pods(names, model, variant, place)}"'
        present = f'{PICKED}{{fleet="{plan.fleet}",{pods}}}'
        lacking = {**fleet, "model_name": model.name, "error_code": "ServiceUnavailable"}
        refused = f"llm_d_epp_request_error_total{_selected(lacking)}"
    else:
        present = REQUESTS + _selected({**fleet, "model": model.name, "variant": variant.name})
        lacking = {**fleet, "model": model.name, "code": "503"}
        refused = f"llmd_router_requests_total{_selected(lacking)}"
    query = f"(sum({present}) or vector(0))"
    if place.autoscale is not None and place.autoscale.min == 0:
        query += f" + (sum(increase({refused}[{WAKE}])) or vector(0))"
    return query


def _pods(names: Names, model: PlannedModel, variant: PlannedVariant, place: Place) -> str:
    """A pattern of the names of a variant's pods, to which the picker adds a rank."""
    made = "[0-9]+" if place.hosts > 1 else "[a-z0-9]+-[a-z0-9]+"
    return f"{names.workload(model, variant)}-{made}(-rank-[0-9]+)?"


def _selected(labels: dict[str, str]) -> str:
    """A selector of series. No name of a fleet, a model or a variant holds a quote."""
    return "{" + ",".join(f'{key}="{value}"' for key, value in labels.items()) + "}"


def _full(autoscale: Autoscale) -> str:
    return str(max(1, autoscale.in_flight * FULL_PERCENT // 100))


def _scaled(autoscale: Autoscale, target: ScaleTarget, query: str) -> ScaledSpec:
    return ScaledSpec(
        scale_target_ref=target,
        min_replica_count=autoscale.min,
        max_replica_count=autoscale.max,
        polling_interval=POLL_SECONDS,
        cooldown_period=SETTLE_SECONDS,
        advanced=Advanced(HpaConfig(Behavior(Pace(SETTLE_SECONDS)))),
        triggers=(
            Trigger(
                "prometheus",
                "AverageValue",
                {"serverAddress": PROMETHEUS, "query": query, "threshold": _full(autoscale)},
            ),
        ),
    )


def _hpa(autoscale: Autoscale, target: ScaleTarget, labels: dict[str, str]) -> HpaSpec:
    """By the external metrics API, which an adapter fills with what Prometheus has read."""
    metric = Metric(REQUESTS, Labels(labels))
    return HpaSpec(
        scale_target_ref=target,
        min_replicas=autoscale.min,
        max_replicas=autoscale.max,
        metrics=(MetricSpec(External(metric, MetricTarget(_full(autoscale)))),),
        behavior=Behavior(Pace(SETTLE_SECONDS)),
    )
