"""Claims on devices: network cards beside the GPUs that they serve, and the cluster they need.

Called by `relations`. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from llmd_ctl.errors import Problem
from llmd_ctl.plan.manifests.manifest import Manifest, items, table, text
from llmd_ctl.profiles.catalog import Catalog
from llmd_ctl.profiles.rules.line import version_of

NETWORK = ("rdma", "dra.net")
# The first Kubernetes that serves a version of the API of claims; v1 is new enough for all drivers.
SERVED_SINCE: Mapping[str, str] = {"v1beta1": "1.32", "v1beta2": "1.33"}
API = "resource.k8s.io/"


def check_claims(objects: Sequence[Manifest]) -> Iterator[Problem]:
    """Tell what claims ask for in vain."""
    for one in objects:
        if not one.kind.startswith("ResourceClaim") or not one.group.startswith(API):
            continue
        path = ("spec", "spec") if one.kind == "ResourceClaimTemplate" else ("spec",)
        requests = items(one.data, *path, "devices", "requests")
        classes = [
            text(table(each, "exactly") or each, "deviceClassName") or "" for each in requests
        ]
        accelerated = [name for name in classes if name in drivers()]
        network = [name for name in classes if any(part in name for part in NETWORK)]
        constraints = items(one.data, *path, "devices", "constraints")
        paired = any((text(c, "matchAttribute") or "").endswith("pcieRoot") for c in constraints)
        if accelerated and network and not paired:
            message = f"Q02: {one.title} claims {accelerated[0]} and {network[0]}, not side by side"
            hint = "Add a constraint: matchAttribute resource.kubernetes.io/pcieRoot."
            yield Problem("LC3070", message, one.place((*path, "devices")), None, (), hint)
        yield from _cluster(one, accelerated)


def _cluster(one: Manifest, classes: Sequence[str]) -> Iterator[Problem]:
    version = one.group.removeprefix(API)
    since = SERVED_SINCE.get(version)
    for name in classes:
        needs = drivers()[name]
        if needs and since and version_of(since) < version_of(needs):
            message = f"Q07: {version} is served from Kubernetes {since}, and the driver of {name}"
            hint = f"Write {API}v1, or see that the cluster is {needs} or newer."
            place = one.place(("apiVersion",))
            yield Problem("LC3071", f"{message} needs {needs}", place, None, (), hint, "warning")


@cache
def drivers() -> Mapping[str, str | None]:
    """The device classes of accelerators, with the oldest Kubernetes of their drivers."""
    catalog = Catalog()
    known = [catalog.accelerator(name) for name in catalog.names("AcceleratorProfile")]
    claims = [one.spec.kubernetes.claim for one in known if one.spec.kubernetes is not None]
    return {claim.device_class: claim.kubernetes for claim in claims if claim is not None}
