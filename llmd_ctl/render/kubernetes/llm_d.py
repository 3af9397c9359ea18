"""The router of llm-d: InferencePools, and the HTTPRoute of a gateway that asks their pickers.

Called by `manifests` where the fleet says `router: {kind: llm-d}`. Each variant is a pool of its
own, weighed by the capacity that is planned for it; prefill and decode variants of a model are one
pool, whose picker joins them. Of several models, the gateway knows one by the header in which its
body-based routing says what the body asks for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from llmd_ctl.plan import Plan, PlannedModel, PlannedVariant
from llmd_ctl.plan.place import Gateway, PlannedRouter, PlannedTarget
from llmd_ctl.render.kubernetes.custom import (
    Backend,
    HeaderMatch,
    InferencePool,
    PickerRef,
    PoolSpec,
    PortNumber,
    RouteMatch,
)
from llmd_ctl.render.kubernetes.document import Meta, Object
from llmd_ctl.render.kubernetes.names import DOMAIN, ENGINE, SERVING, Names
from llmd_ctl.render.kubernetes.picker import GRPC_PORT, picker_objects
from llmd_ctl.render.kubernetes.pod import ENGINE_PORT
from llmd_ctl.render.kubernetes.pods import Labels
from llmd_ctl.render.kubernetes.route import route

GATEWAY = Gateway("llm-d-inference-gateway")  # as llm-d's guides name it
MODEL_HEADER = "X-Gateway-Model-Name"  # of the body-based routing of gateways
WEIGHTS = 1000  # that all pools of a model share
PREFILL, DECODE = "prefill", "decode"


class Pool(Struct, frozen=True):
    """Replicas among which one picker chooses."""

    name: str
    model: PlannedModel
    variants: tuple[PlannedVariant, ...]
    selector: dict[str, str]

    @property
    def is_apart(self) -> bool:
        """Whether prompts are read elsewhere than answers are written."""
        return any(one.role != "both" for one in self.variants)


def llm_d_objects(
    plan: Plan, names: Names, router: PlannedRouter, target: PlannedTarget
) -> tuple[Object, ...]:
    """All objects of the router of llm-d."""
    gateway = router.gateway or GATEWAY
    found: list[Object] = []
    for model in plan.models:
        pools = tuple(pools_of(names, model))
        for pool in pools:
            found.append(_pool(names, pool))
            found += picker_objects(
                names, router, pool.name, _labels(pool), model, apart=pool.is_apart
            )
        if pools:
            labels = {**names.router_labels(), f"{DOMAIN}/model": model.name}
            matches = _matches(model) if len(plan.models) > 1 else ()
            meta = Meta(names.joined(model), labels)
            found.append(route(meta, gateway, target, _backends(pools), matches))
    return tuple(found)


def pools_of(names: Names, model: PlannedModel) -> Iterator[Pool]:
    """The pools of a model, in the order of its variants."""
    managed = tuple(one for one in model.variants if one.place is not None)
    if any(one.role != "both" for one in managed):
        fleet = names.fleet_labels(ENGINE)
        selector = {**fleet, f"{DOMAIN}/model": model.name, SERVING: "true"}
        yield Pool(names.joined(model), model, managed, selector)
        return
    for variant in managed:
        serving = names.serving(model, variant)
        yield Pool(names.engine(model, variant), model, (variant,), serving)


def weights(pools: Sequence[Pool]) -> tuple[int, ...]:
    """The share of each pool in what all can do; a pool without replicas gets nothing."""
    rates = [_requests_per_second(pool.variants) for pool in pools]
    whole = sum(rates)
    if whole == 0:
        return tuple(1 for _ in pools)
    return tuple(max(1, round(WEIGHTS * rate / whole)) if rate else 0 for rate in rates)


def _requests_per_second(variants: Iterable[PlannedVariant]) -> float:
    """What replicas can do together; apart, the slower of the two sides bounds it."""
    sides = {"both": 0.0, PREFILL: 0.0, DECODE: 0.0}
    for one in variants:
        if one.capacity is None:
            continue
        load = one.capacity.workload
        rate = {
            "both": one.capacity.requests_per_second,
            PREFILL: one.capacity.prefill_tokens_per_second / load.prompt_tokens,
            DECODE: one.capacity.decode_tokens_per_second / load.output_tokens,
        }[one.role]
        sides[one.role] += rate * _replicas(one)
    return sides["both"] + min(sides[PREFILL], sides[DECODE])


def _replicas(variant: PlannedVariant) -> int:
    """Those that are there at first; of one that scales, at least one that may come."""
    scaled = variant.place.autoscale if variant.place else None
    return variant.replicas if scaled is None else max(1, scaled.min)


def _labels(pool: Pool) -> dict[str, str]:
    """What tells the series of a pool's picker from those of others."""
    said = {f"{DOMAIN}/model": pool.model.name}
    return said if pool.is_apart else {**said, f"{DOMAIN}/variant": pool.variants[0].name}


def _pool(names: Names, pool: Pool) -> InferencePool:
    return InferencePool(
        Meta(pool.name, {**names.router_labels(), **_labels(pool)}),
        PoolSpec(
            selector=Labels(pool.selector),
            target_ports=(PortNumber(ENGINE_PORT),),
            endpoint_picker_ref=PickerRef(
                names.picker(pool.name),
                PortNumber(GRPC_PORT),
                # Without its picker nobody knows who reads prompts and who writes answers.
                "FailClose" if pool.is_apart else "FailOpen",
            ),
        ),
    )


def _matches(model: PlannedModel) -> tuple[RouteMatch, ...]:
    """What tells the requests of one model from those of others."""
    called = (model.name, *model.aliases)
    return tuple(RouteMatch((HeaderMatch(MODEL_HEADER, name),)) for name in called)


def _backends(pools: tuple[Pool, ...]) -> tuple[Backend, ...]:
    """The pools of a model, each with its share."""
    return tuple(
        Backend("inference.networking.k8s.io", "InferencePool", pool.name, weight)
        for pool, weight in zip(pools, weights(pools), strict=True)
    )
