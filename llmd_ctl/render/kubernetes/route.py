"""Routes on the Gateway of a cluster: what brings requests to our router, or to llm-d's pools.

Called by `router` and `llm_d`. The Gateway is made by others, and has to allow these routes.
"""

from __future__ import annotations

from collections.abc import Iterable

from llmd_ctl.plan.place import Gateway, PlannedTarget
from llmd_ctl.render.kubernetes.custom import (
    Backend,
    GatewayRef,
    HTTPRoute,
    RouteMatch,
    RouteRule,
    RouteSpec,
    Timeouts,
)
from llmd_ctl.render.kubernetes.document import Meta

# Whose gateways take no times from routes: policies of the provider do (docs/kubernetes.md).
OWN_TIMES = ("gke",)


def route(
    meta: Meta,
    gateway: Gateway,
    target: PlannedTarget,
    backends: Iterable[Backend],
    matches: Iterable[RouteMatch] = (),
) -> HTTPRoute:
    """A route that ends no answer: gateways do after a while (Envoy's 15 s), and models go on."""
    timeouts = None if target.provider in OWN_TIMES else Timeouts()
    rule = RouteRule(tuple(backends), tuple(matches), timeouts)
    parents = (GatewayRef(gateway.name, gateway.namespace),)
    return HTTPRoute(meta, RouteSpec(parents, gateway.hostnames, (rule,)))
