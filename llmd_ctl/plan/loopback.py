"""Addresses by which a router in a container reaches nobody but itself, though they are written.

Called by `planner`. 127.0.0.1 is the machine only where the router is a process of it: in a pod or
a container it is the router, which would send requests to itself. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from llmd_ctl.plan.capabilities import router_target
from llmd_ctl.plan.placement import IN_CONTAINERS
from llmd_ctl.plan.report import Path, Report
from llmd_ctl.spec import fleet as spec

LOCALHOST = "localhost"


def check(fleet: spec.FleetSpec, report: Report) -> None:
    """Refuse every such address of a fleet whose router runs in a container."""
    home = router_target(fleet)
    if home.kind not in IN_CONTAINERS:
        return
    for path, url in _written(fleet):
        host = urlsplit(url).hostname or ""
        if _is_own(host):
            message = f"the router runs in {home.name} ({home.kind}), where {host} is itself"
            hint = "Write the address by which others reach it."
            report.add("LC3055", message, path, found=url, hint=hint)


def _written(fleet: spec.FleetSpec) -> Iterator[tuple[Path, str]]:
    for i, model in enumerate(fleet.models):
        for j, variant in enumerate(model.variants):
            if variant.endpoint is not None:
                path: Path = ("spec", "models", i, "variants", j, "endpoint", "url")
                yield path, variant.endpoint.url
    traces = fleet.observability.traces
    if traces is not None:
        yield ("spec", "observability", "traces", "otlp"), traces.otlp


def _is_own(host: str) -> bool:
    from ipaddress import ip_address

    try:
        address = ip_address(host)
    except ValueError:
        return host == LOCALHOST or host.endswith(f".{LOCALHOST}")
    return address.is_loopback or address.is_unspecified
