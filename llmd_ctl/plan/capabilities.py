"""What each kind of target, and each router, can carry out of a fleet: one table, and its check.

Called by `planner`. A field that is not in the table is carried out everywhere. Nothing that was
written is lost silently: what a target cannot do is refused (LC3050) where the fleet would run
otherwise than it says, and else warned of (LC3051). `docs/reference/capabilities.md` is made from
this table. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

from msgspec import Struct

from llmd_ctl.plan.report import Path, Report
from llmd_ctl.spec import fleet as spec
from llmd_ctl.spec.loader import LoadedFleet
from llmd_ctl.spec.nodes import Node
from llmd_ctl.spec.shape import pattern
from llmd_ctl.spec.source import short_name

KINDS: tuple[str, ...] = ("local", "kubernetes", "systemd", "compose")
ROUTERS: tuple[str, ...] = ("llmd-ctl", "llm-d")


class Gap(Struct, frozen=True):
    """What cannot be carried out, why, and what to do instead."""

    verdict: Literal["refused", "ignored"]
    why: str
    hint: str | None = None


def _ignored(why: str, *kinds: str) -> dict[str, Gap]:
    return {kind: Gap("ignored", why) for kind in kinds}


def _refused(why: str, hint: str, *kinds: str) -> dict[str, Gap]:
    return {kind: Gap("refused", why, hint) for kind in kinds}


NO_NODES = _ignored("there are no nodes to choose from", "local", "systemd", "compose")
NOT_A_CLUSTER = ("local", "systemd", "compose")
CLUSTER_ONLY = "Remove it, or give the target kind: kubernetes."
FIXED = "Say replicas in the variant; a fixed number runs here."

BY_TARGET: Mapping[str, Mapping[str, Gap]] = {
    "namespace": _refused("only a cluster has namespaces", CLUSTER_ONLY, *NOT_A_CLUSTER),
    "provider": _refused("only a cluster has a provider", CLUSTER_ONLY, *NOT_A_CLUSTER),
    "deviceAllocation": _refused(
        "nothing hands devices out by request there", CLUSTER_ONLY, *NOT_A_CLUSTER
    ),
    "hosts": _refused(
        "only units are dealt out to hosts", "Remove it, or give the target kind: systemd.",
        "local", "kubernetes", "compose",
    ),
    "resources": _ignored("processes take what the machine has", "local"),
    "resources.shm": _ignored("units share the machine's /dev/shm", "systemd"),
    "nodeSelector": NO_NODES,
    "tolerations": NO_NODES,
    "imagePullSecrets": {
        **_ignored("no image is pulled", "local", "systemd"),
        **_ignored("images are pulled as whoever runs compose may", "compose"),
    },
    "secretRefs": _refused(
        "replicas get the environment of apply", "Set the variable where apply runs.", "local"
    ),
    "secretRefs[].key": _refused(
        "a file of variables has no keys of other names",
        "Call the variable in the file as env says, and remove key.",
        "systemd", "compose",
    ),
    "cache": _ignored("engines use the caches of whoever runs apply", "local"),
    "cache.claim": _refused(
        "volume claims are a cluster's", "Write cache: {path: …}.", "systemd", "compose"
    ),
    "cache.size": _ignored("a folder of the machine has no bound", "systemd", "compose"),
    "autoscale": _refused("nothing scales there yet", FIXED, *NOT_A_CLUSTER),
    "role": _refused(
        "prefill and decode apart need a cluster and a router of kind llm-d",
        "Remove role, or render for a target of kind kubernetes.",
        *NOT_A_CLUSTER,
    ),
    "topology": _refused("slices are handed out by clusters", CLUSTER_ONLY, *NOT_A_CLUSTER),
    "engine.image": _ignored("programs run there, no images", "local", "systemd"),
}  # fmt: skip
"""By key below a target, the defaults, a model or a variant: the kinds of target with a gap."""

BY_ROUTERS_TARGET: Mapping[str, Mapping[str, Gap]] = {
    "kind=llm-d": _refused(
        "the router of llm-d runs in a cluster", "Write kind: llmd-ctl.", *NOT_A_CLUSTER
    ),
    "replicas": _refused("one router runs on a machine", "Remove it, or write 1.", *NOT_A_CLUSTER),
    "env": _ignored("the router takes its configuration from a file", "local"),
    "gateway": _refused(
        "only a cluster has gateways",
        "Remove it, or give the router a cluster as target.",
        *NOT_A_CLUSTER,
    ),
    "resources": BY_TARGET["resources"],
    "resources.shm": _ignored("the router uses no shared memory", "systemd", "compose"),
    "nodeSelector": NO_NODES,
    "tolerations": NO_NODES,
    "imagePullSecrets": BY_TARGET["imagePullSecrets"],
    "secretRefs": _ignored("the router reads no secrets there", "local"),
    "secretRefs[].key": BY_TARGET["secretRefs[].key"],
    "image": BY_TARGET["engine.image"],
}
"""By key below spec.router: the kinds of the router's target with a gap."""

_OWN = "its own configuration says that"

BY_ROUTER: Mapping[str, Mapping[str, Gap]] = {
    "spec.models[].variants[].role": _refused(
        "our router does not hand requests from prefill to decode yet",
        "Write router: {kind: llm-d}, or remove role.",
        "llmd-ctl",
    ),
    "spec.models[].disaggregation": _refused(
        "our router does not hand requests from prefill to decode yet",
        "Write router: {kind: llm-d}, or remove it.",
        "llmd-ctl",
    ),
    **{
        f"{level}.autoscale.scaler=hpa": _refused(
            "its picker counts requests by pod, and an HPA cannot add them up",
            "Write scaler: keda.", "llm-d",
        )
        for level in ("spec.defaults", "spec.models[]", "spec.models[].variants[]")
    },
    "spec.models[].usage": _ignored("usage is counted as engines tell it", "llm-d"),
    "spec.models[].multimodal": _ignored("parts of prompts are counted by its own rules", "llm-d"),
    "spec.models[].slo": _ignored("it places by load and prefix, not by promises", "llm-d"),
    "spec.models[].variants[].endpoint": _refused(
        "it routes to pods of the cluster only", "Remove the variant, or write kind: llmd-ctl.",
        "llm-d",
    ),
    "spec.models[].variants[].apis": _ignored("it asks every endpoint for every API", "llm-d"),
    "spec.router.tls": _refused("its gateway ends TLS", "Configure the gateway.", "llm-d"),
    "spec.router.gateway.pods": _ignored("our router answers whoever reaches it", "llmd-ctl"),
    "spec.router.routing": _ignored("its picker weighs queue, KV cache and prefix", "llm-d"),
    "spec.router.resilience": _ignored("the gateway's own limits hold", "llm-d"),
    "spec.router.resources": _ignored(_OWN, "llm-d"),
    "spec.router.secretRefs": _ignored(_OWN, "llm-d"),
    "spec.observability.traces": _ignored("it is not told of a collector yet", "llm-d"),
}  # fmt: skip
"""By path, or PATH=VALUE: the kinds of router with a gap."""


NEUTRAL: Mapping[str, object] = {"role": "both", "replicas": 1, "kind": "llmd-ctl"}
"""By key: what says no more than leaving it out, and so is no gap."""

LISTED = frozenset(
    path.partition("=")[0].rpartition(".")[2]
    for table in (BY_TARGET, BY_ROUTERS_TARGET, BY_ROUTER)
    for path in table
)
"""The last keys of the tables' paths: most keys of a fleet are none of them."""


def check(loaded: LoadedFleet, report: Report) -> None:
    """Report everything that was written and that its target or the router cannot carry out."""
    checker = _Check(loaded, report)
    told: Path | None = None  # what is below a key comes right after it
    for path, node in loaded.document.root.walk():
        if path[-1] not in LISTED or node.value == NEUTRAL.get(str(path[-1]), node):
            continue
        below = told is not None and path[: len(told)] == told
        if not below and checker.tell(path, node):
            told = path


def router_target(loaded_spec: spec.FleetSpec) -> spec.Target:
    """The target that the router runs in: the one that is named, else the first."""
    named = loaded_spec.router.target
    return next((one for one in loaded_spec.targets if one.name == named), loaded_spec.targets[0])


class _Check:
    """One fleet against the table."""

    def __init__(self, loaded: LoadedFleet, report: Report) -> None:
        self.root = loaded.document.root
        self.report = report
        self.spec = loaded.fleet.spec
        self.kinds = {one.name: one.kind for one in self.spec.targets}
        self.router = router_target(self.spec)

    def tell(self, path: Path, node: Node) -> bool:
        """Report the gaps of one key; whether there is any."""
        whole, said = pattern(path), node.text()
        both = (whole, f"{whole}={said}")
        gaps = [BY_ROUTER.get(key, {}).get(self.spec.router.kind) for key in both]
        gap = next((one for one in gaps if one is not None), None)
        if gap is not None:
            self._say(path, gap, f"with router kind {self.spec.router.kind}")
        owner = _owner(path)
        key = pattern(path[owner:])
        if not key:
            return gap is not None
        if path[:2] == ("spec", "router"):
            found = self._gaps(BY_ROUTERS_TARGET, (key, f"{key}={said}"), {self.router.name})
        elif key in BY_TARGET:
            found = self._gaps(BY_TARGET, (key,), self._targets(path, owner, str(path[owner])))
        else:
            found = {}
        for target, each in found.items():
            self._say(path, each, f"on target {target} ({self.kinds[target]})")
        return gap is not None or bool(found)

    def _gaps(
        self,
        table: Mapping[str, Mapping[str, Gap]],
        keys: tuple[str, ...],
        targets: Iterable[str],
    ) -> dict[str, Gap]:
        found = {}
        for target in targets:
            for key in keys:
                gap = table.get(key, {}).get(self.kinds[target])
                if gap is not None:
                    found[target] = gap
        return found

    def _targets(self, path: Path, owner: int, key: str) -> list[str]:
        """The targets that what is written at a level reaches, in the order of the file."""
        if path[1] == "targets":
            return [self.spec.targets[int(path[2])].name]
        names = dict.fromkeys(
            target
            for where, target in self._variants(path)
            if path[1] != "models" or where[:owner] == path[:owner]
            if not self._overruled(where, owner, key)
        )
        return list(names)

    def _variants(self, path: Path) -> Iterator[tuple[Path, str]]:
        """The variants of the model that a path leads into; of all models where it leads to none.

        What is written in each of many models must not go through all of them each time.
        """
        models = self.spec.models
        numbers = [int(path[2])] if path[1] == "models" else range(len(models))
        for number in numbers:
            for index, variant in enumerate(models[number].variants):
                if variant.target is not None:
                    yield ("spec", "models", number, "variants", index), variant.target

    def _overruled(self, variant: Path, owner: int, key: str) -> bool:
        """Whether a level nearer to the variant says the key itself, or fixes its replicas."""
        nearer = [variant[:length] for length in (3, 5) if length > owner]
        keys = (key, "replicas") if key == "autoscale" else (key,)
        return any(self.root.at((*level, one)) is not None for level in nearer for one in keys)

    def _say(self, path: Path, gap: Gap, where: str) -> None:
        name = short_name(path)
        if gap.verdict == "refused":
            message = f"{name} is not possible {where}: {gap.why}"
            self.report.add("LC3050", message, path, key=True, hint=gap.hint)
        else:
            message = f"{name} does nothing {where}: {gap.why}"
            self.report.add("LC3051", message, path, key=True, severity="warning")


def _owner(path: Path) -> int:
    """How many steps lead to the level that a key stands in."""
    if path[:2] == ("spec", "targets"):
        return 3
    if path[:2] == ("spec", "models"):
        return 5 if path[3:4] == ("variants",) and len(path) > 4 else 3
    return 2
