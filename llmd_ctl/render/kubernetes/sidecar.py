"""What prefill and decode apart add to the pod of an engine.

Called by `engine`. Where answers are written, llm-d's proxy stands before the engine: it has the
prompt read elsewhere first. Others have to reach each engine by the pod's own address, and its
network cards are asked for beside the accelerators.
"""

from __future__ import annotations

from msgspec.structs import replace

from llmd_ctl.plan import PlannedVariant
from llmd_ctl.plan.place import Image, Place, Transfer
from llmd_ctl.render.kubernetes.pod import ENGINE_PORT, HTTP
from llmd_ctl.render.kubernetes.pods import (
    Capabilities,
    Container,
    ContainerSecurity,
    FieldRef,
    PodSpec,
    Port,
    Probe,
    Resources,
    ValueFrom,
    Variable,
)

BEHIND, BEHIND_PORT = "engine", 8200  # where llm-d's proxy looks for the engine


def serving_port(variant: PlannedVariant) -> int:
    """Where the engine itself listens."""
    transfer = variant.place.transfer if variant.place else None
    return BEHIND_PORT if transfer and transfer.proxy else ENGINE_PORT


def joined(pod: PodSpec, place: Place) -> PodSpec:
    """A pod that hands KV over; one that does not stays as it is."""
    transfer = place.transfer
    if transfer is None:
        return pod
    engine = _reachable(pod.containers[0], transfer, place.accelerators.count)
    proxy = transfer.proxy
    if proxy is None or not engine.ports:
        return replace(pod, containers=(engine, *pod.containers[1:]))
    behind = replace(
        engine,
        ports=(Port(BEHIND, BEHIND_PORT),),
        startup_probe=_behind(engine.startup_probe),
        readiness_probe=_behind(engine.readiness_probe),
        liveness_probe=_behind(engine.liveness_probe),
    )
    return replace(
        pod, containers=(behind, *pod.containers[1:]), init_containers=(_proxy(transfer, proxy),)
    )


def _reachable(engine: Container, transfer: Transfer, devices: int) -> Container:
    said = engine.env
    name = transfer.address_variable
    if name is not None and all(one.name != name for one in said):
        own = ValueFrom(field_ref=FieldRef("status.podIP"))
        said = (*said, Variable(name, value_from=own))
    cards = {transfer.resource: str(max(1, devices))} if transfer.resource else {}
    asked, given = engine.resources, engine.security_context.capabilities or Capabilities()
    added = dict.fromkeys((*given.add, *transfer.capabilities))
    return replace(
        engine,
        env=said,
        resources=Resources({**asked.requests, **cards}, {**asked.limits, **cards}, asked.claims),
        security_context=replace(
            engine.security_context, capabilities=replace(given, add=tuple(added))
        ),
    )


def _behind(probe: Probe | None) -> Probe | None:
    if probe is None or probe.http_get is None:
        return probe
    return replace(probe, http_get=replace(probe.http_get, port=BEHIND))


def _proxy(transfer: Transfer, image: Image) -> Container:
    """It starts before the engine and ends after it."""
    return Container(
        name="proxy",
        image=image.pinned,
        args=(
            f"--port={ENGINE_PORT}",
            f"--vllm-port={BEHIND_PORT}",
            f"--kv-connector={transfer.protocol}",
            "--secure-proxy=false",
        ),
        restart_policy="Always",
        ports=(Port(HTTP, ENGINE_PORT),),
        security_context=ContainerSecurity(
            allow_privilege_escalation=False, capabilities=Capabilities(drop=("ALL",))
        ),
    )
