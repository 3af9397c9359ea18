"""How engines are found, and who reaches them.

Called by `manifests`. Each variant has a headless Service: its name stands for the addresses of its
ready pods, which is what the router's source `dns` asks for. An engine asks for no key, so a
NetworkPolicy lets in only the router (or a gateway and its pickers), Prometheus, and the other
engines of the fleet.
"""

from __future__ import annotations

from llmd_ctl.plan import PlannedModel, PlannedVariant
from llmd_ctl.plan.place import PlannedRouter
from llmd_ctl.render.kubernetes.autoscale import LLM_D
from llmd_ctl.render.kubernetes.document import Meta
from llmd_ctl.render.kubernetes.names import ENGINE, ROUTER, Names
from llmd_ctl.render.kubernetes.objects import (
    Ingress,
    NetworkPolicy,
    Peer,
    PolicyPort,
    PolicySpec,
    Service,
    ServicePort,
    ServiceSpec,
)
from llmd_ctl.render.kubernetes.pod import ENGINE_PORT, HTTP
from llmd_ctl.render.kubernetes.pods import Labels

NAMESPACE_NAME = "kubernetes.io/metadata.name"  # that every namespace has
# As prometheus-operator and its charts call their pods, in whatever namespace.
PROMETHEUS = {"app.kubernetes.io/name": "prometheus"}


def engine_service(names: Names, model: PlannedModel, variant: PlannedVariant) -> Service:
    """The name under which the router finds the ready replicas of a variant."""
    return Service(
        Meta(names.engine(model, variant), names.engine_labels(model, variant)),
        ServiceSpec(
            selector=names.serving(model, variant),
            ports=(ServicePort(HTTP, ENGINE_PORT, HTTP),),
            cluster_ip="None",
            publish_not_ready_addresses=False,
        ),
    )


def engine_policy(names: Names, router: PlannedRouter | None) -> NetworkPolicy:
    """The wall around all engines of a fleet."""
    engines = Peer(Labels(names.fleet_labels(ENGINE)))
    return NetworkPolicy(
        Meta(names.engines, names.shared_labels()),
        PolicySpec(
            pod_selector=Labels(names.fleet_labels(ENGINE)),
            policy_types=("Ingress",),
            ingress=(
                Ingress(_askers(names, router), (PolicyPort(ENGINE_PORT),)),
                # Hosts of one replica, and prefill and decode, talk on ports that engines choose.
                Ingress((engines,)),
            ),
        ),
    )


def _askers(names: Names, router: PlannedRouter | None) -> tuple[Peer, ...]:
    """Who may ask engines; none: whoever reaches them.

    With llm-d's router a gateway sends the requests, and its pickers ask for metrics. Where nobody
    says in which pods it runs, and it need not run in pods, nobody can be kept out.
    """
    known = (
        Peer(Labels(names.fleet_labels(ROUTER))),
        Peer(Labels(PROMETHEUS), namespace_selector=Labels()),
    )
    if router is None or router.kind != LLM_D:
        return known
    pods = router.gateway.pods if router.gateway is not None else None
    if pods is None:
        return ()
    namespace = Labels({NAMESPACE_NAME: pods.namespace})
    which = Labels(pods.labels) if pods.labels else None
    return (*known, Peer(which, namespace_selector=namespace))
