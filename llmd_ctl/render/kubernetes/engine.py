"""A variant as what runs it: a Deployment, or a LeaderWorkerSet where a replica spans hosts.

Called by `manifests`. The command is the plan's, word for word; what is open in it is filled with
what the cluster gives. Where something scales the variant, no number of replicas is said.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from llmd_ctl.plan import HOST, PORT, Plan, PlannedModel, PlannedVariant
from llmd_ctl.plan.place import LEADER, RANK, Place
from llmd_ctl.render.kubernetes.document import Meta, Object
from llmd_ctl.render.kubernetes.names import DOMAIN, SERVING, Names
from llmd_ctl.render.kubernetes.network import engine_service
from llmd_ctl.render.kubernetes.objects import (
    ComputeDomain,
    ConfigMap,
    Deployment,
    DeploymentSpec,
    GroupTemplate,
    LeaderWorkerSet,
    LeaderWorkerSetSpec,
    ResourceClaimTemplate,
    Rolling,
    Rollout,
    Strategy,
)
from llmd_ctl.render.kubernetes.pod import (
    DEFAULT_STARTUP_SECONDS,
    ENGINE_PORT,
    Around,
    Part,
    engine_pod,
    escaped,
)
from llmd_ctl.render.kubernetes.pods import (
    Labels,
    Mount,
    Named,
    PodClaim,
    PodMeta,
    PodTemplate,
    Volume,
)
from llmd_ctl.render.kubernetes.sidecar import joined, serving_port
from llmd_ctl.render.process import engine_document

ANY_ADDRESS = "0.0.0.0"  # a pod is reached by its own address
SIMULATED = ("llmd-engine", "--config")
CONFIG_MOUNT = "/etc/llmd-ctl/engine"
CONFIG_FILE = "engine.json"
DEFAULT_DRAIN_MS = 30_000  # as the router's limits.drainMs
SLACK_SECONDS = 600  # for images to be pulled, beside the start itself
# What the controller of LeaderWorkerSets puts into each container; Kubernetes fills them in.
FILLED = {
    HOST: ANY_ADDRESS, LEADER: "$(LWS_LEADER_ADDRESS)", RANK: "$(LWS_WORKER_INDEX)",
}  # fmt: skip
EXCLUSIVE = "leaderworkerset.sigs.k8s.io/exclusive-topology"
DOMAIN_CLAIM, DEVICES_CLAIM = "domain", "devices"
CHANNELS = frozenset({"compute-domain-default-channel.nvidia.com"})  # claims that a domain makes


def engine_objects(
    plan: Plan, names: Names, model: PlannedModel, variant: PlannedVariant
) -> tuple[Object, ...]:
    """All objects of one variant."""
    place = variant.place
    if place is None:
        return ()
    document = _engine_json(model, variant) if variant.simulated else None
    meta = Meta(names.workload(model, variant), names.engine_labels(model, variant))
    maker = _Maker(plan, names, model, variant, place, document)
    files = (ConfigMap(meta, {CONFIG_FILE: document}),) if document is not None else ()
    workload = maker.group(meta) if place.hosts > 1 else maker.deployment(meta)
    service = engine_service(names, model, variant)
    return (*files, *maker.domain(), *maker.devices(), workload, service)


def drain_seconds(plan: Plan) -> int:
    """How long a request may still run when its engine, or router, is to end."""
    drain = plan.resilience.limits.drain_ms
    return -(-(DEFAULT_DRAIN_MS if drain is None else drain) // 1000)


class _Maker:
    """One variant's workload."""

    def __init__(
        self,
        plan: Plan,
        names: Names,
        model: PlannedModel,
        variant: PlannedVariant,
        place: Place,
        document: str | None,
    ) -> None:
        self.plan, self.names, self.model, self.variant = plan, names, model, variant
        self.place, self.document = place, document
        self.replicas = None if place.autoscale else variant.replicas

    def deployment(self, meta: Meta) -> Deployment:
        """Replicas of one host each."""
        spec = DeploymentSpec(
            selector=Labels(self.names.selector(self.model, self.variant)),
            template=self._template(self._words(self.variant.command), serves=True),
            strategy=Strategy(self._rolling()),
            replicas=self.replicas,
            progress_deadline_seconds=startup_seconds(self.variant) + SLACK_SECONDS,
        )
        return Deployment(meta, spec)

    def group(self, meta: Meta) -> LeaderWorkerSet:
        """Replicas of several hosts each; the first host answers requests."""
        joined = self.place.nodes.joined_by
        annotations = {EXCLUSIVE: joined} if joined is not None else {}
        template = GroupTemplate(
            size=self.place.hosts,
            leader_template=self._template(self._words(self.variant.command), serves=True),
            worker_template=self._template(self._words(self.place.follow), serves=False),
        )
        spec = LeaderWorkerSetSpec(self.replicas, Rollout(self._rolling()), template)
        return LeaderWorkerSet(Meta(meta.name, meta.labels, annotations), spec)

    def domain(self) -> tuple[Object, ...]:
        """What joins the hosts of a replica by fast links, where it has to be claimed."""
        found = self.place.accelerators.domain_class
        if found is None or self.place.hosts == 1:
            return ()
        meta = self._claimed(DOMAIN_CLAIM)
        if found in CHANNELS:
            channel = {"resourceClaimTemplate": {"name": meta.name}}
            # 0: as many nodes as claim it, so that replicas may come and go.
            name = self.names.engine(self.model, self.variant)
            return (ComputeDomain(Meta(name, meta.labels), {"numNodes": 0, "channel": channel}),)
        return (claim_template(meta, DOMAIN_CLAIM, {"deviceClassName": found}),)

    def devices(self) -> tuple[Object, ...]:
        """What each pod claims its accelerators by, where they are claimed."""
        given = self.place.accelerators
        if given.device_class is None:
            return ()
        exactly = {"deviceClassName": given.device_class, "count": given.count}
        return (claim_template(self._claimed(DEVICES_CLAIM), DEVICES_CLAIM, exactly),)

    def _claimed(self, claim: str) -> Meta:
        """Who the template of a claim is: a ComputeDomain makes its own by the same name."""
        name = f"{self.names.engine(self.model, self.variant)}-{claim}"
        return Meta(name, self.names.engine_labels(self.model, self.variant))

    def _claims(self) -> tuple[PodClaim, ...]:
        made = {DOMAIN_CLAIM: self.domain(), DEVICES_CLAIM: self.devices()}
        return tuple(PodClaim(one, self._claimed(one).name) for one, found in made.items() if found)

    def _rolling(self) -> Rolling:
        """One after the other, without accelerators to spare; a single replica is doubled."""
        scaled = self.place.autoscale
        fewest = scaled.min if scaled else self.variant.replicas
        return Rolling(0, 1) if fewest > 1 else Rolling(1, 0)

    def _template(self, command: tuple[str, ...], *, serves: bool) -> PodTemplate:
        names, variant = self.names, self.variant
        labels = names.engine_labels(self.model, variant)
        annotations = _facts(variant, self.place)
        files: tuple[Part, ...] = ()
        if self.document is not None:
            volume = Volume("config", config_map=Named(names.workload(self.model, variant)))
            files = (Part(volume, Mount("config", CONFIG_MOUNT, read_only=True)),)
            annotations[f"{DOMAIN}/config"] = digest(self.document)
        around = Around(
            names.engines,
            Labels(names.selector(self.model, variant)),
            drain_seconds(self.plan),
            self._claims(),
            files,
        )
        pod = engine_pod(variant, self.place, command, around, serves=serves)
        pod = joined(pod, self.place)
        return PodTemplate(
            PodMeta({**labels, SERVING: "true"} if serves else labels, annotations), pod
        )

    def _words(self, command: tuple[str, ...]) -> tuple[str, ...]:
        if self.document is not None:
            return (*SIMULATED, f"{CONFIG_MOUNT}/{CONFIG_FILE}")
        given = {**FILLED, PORT: str(serving_port(self.variant))}
        return tuple(_filled(word, given) for word in command)


def claim_template(meta: Meta, request: str, exactly: Mapping[str, Any]) -> ResourceClaimTemplate:
    """What every pod makes a claim of its own from, with one request."""
    requests = [{"name": request, "exactly": exactly}]
    return ResourceClaimTemplate(meta, {"spec": {"devices": {"requests": requests}}})


def _filled(word: str, given: Mapping[str, str]) -> str:
    """A word of a command, with what the cluster gives; the leader's address may have a port."""
    name, colon, port = word.partition(":")
    if word in given or (name == LEADER and port.isdecimal()):
        return given[name] + colon + port
    return escaped(word)


def startup_seconds(variant: PlannedVariant) -> int:
    """How long a start may take."""
    known = variant.startup_seconds
    return DEFAULT_STARTUP_SECONDS if known is None else known


def digest(text: str) -> str:
    """What tells one content from another, in an annotation."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _facts(variant: PlannedVariant, place: Place) -> dict[str, str]:
    """What people ask of a pod, in its annotations."""
    image_user = place.image.user if place.image else None
    engine = " ".join(filter(None, (variant.engine, variant.engine_version)))
    facts = {
        "engine": engine,
        "devices": str(place.devices or variant.devices_per_replica),
        "hosts": str(place.hosts) if place.hosts > 1 else None,
        "topology": place.topology,
        "max-model-len": None if variant.max_model_len is None else str(variant.max_model_len),
        "runs-as": image_user or "as the image says",
    }
    return {f"{DOMAIN}/{name}": value for name, value in facts.items() if value is not None}


def _engine_json(model: PlannedModel, variant: PlannedVariant) -> str:
    """engine.json, the same for all replicas: they differ by their addresses."""
    document = {
        **engine_document(model, variant, 0),
        "name": f"{model.name}-{variant.name}",
        "listen": f"{ANY_ADDRESS}:{ENGINE_PORT}",
    }
    return json.dumps(document, indent=2) + "\n"
