"""The Gateway before the router: whether it can be, and what nobody says of it.

Called by `planner`. Pure.
"""

from __future__ import annotations

from llmd_ctl.plan.place import Gateway, GatewayPods
from llmd_ctl.plan.placement import LLM_D
from llmd_ctl.plan.report import Path, Report
from llmd_ctl.spec import fleet as spec

AT: Path = ("spec", "router", "gateway")


def check(router: spec.Router, report: Report) -> None:
    """Report a gateway that could not speak to the router, and engines that nothing shuts off."""
    if router.kind != LLM_D:
        if router.gateway is not None and router.tls is not None:
            message = "a gateway speaks plain HTTP to the router, which is to speak TLS"
            hint = "Remove tls: the Gateway's listeners have the certificate."
            report.add("LC3050", message, AT, key=True, hint=hint)
        return
    if router.gateway is None or router.gateway.pods is None:
        message = "engines answer whoever reaches them: nothing says in which pods the gateway runs"
        report.warn("LC3057", message, AT if router.gateway is not None else (*AT[:2], "kind"))


def gateway_of(router: spec.Router) -> Gateway | None:
    """The gateway that the fleet names."""
    said = router.gateway
    if said is None:
        return None
    pods = None if said.pods is None else GatewayPods(said.pods.namespace, said.pods.labels)
    return Gateway(said.name, said.namespace, tuple(said.hostnames), pods)
