"""The pod of an engine: what runs in it, with what of its node, and who it runs as.

Called by `engine`, and in parts by `router`. All of it follows from the variant's `Place`; what a
profile knows is in there already, so no vendor is named here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from llmd_ctl.plan import PlannedVariant
from llmd_ctl.plan.place import Accelerators, Cache, Nodes, Place, Secret
from llmd_ctl.plan.place import Container as Given
from llmd_ctl.render.kubernetes.document import cores, quantity
from llmd_ctl.render.kubernetes.pods import (
    Capabilities,
    Claim,
    Container,
    ContainerSecurity,
    EmptyDir,
    Expression,
    Handler,
    HostPath,
    HttpGet,
    KeyOf,
    Labels,
    Lifecycle,
    Mount,
    Named,
    PodClaim,
    PodSecurity,
    PodSpec,
    Port,
    Probe,
    Resources,
    Seccomp,
    Sleep,
    Spread,
    Toleration,
    ValueFrom,
    Variable,
    Variables,
    Volume,
)

HTTP = "http"
ENGINE_PORT = 8000  # llm-d's
HEALTH = "/health"
CACHE_MOUNT = "/var/cache/llmd"
PERIOD = 10
SLOWEST_ANSWER_SECONDS = 120  # of a busy engine, before it counts as hung
GRACE_SECONDS = 30  # for an engine to end, once nobody waits for it
DEFAULT_STARTUP_SECONDS = 600  # of a plan that does not say
HOSTNAME = "kubernetes.io/hostname"
PRIVILEGED_CAPABILITY = "SYS_ADMIN"  # Kubernetes refuses it where escalation is not allowed


class Part(Struct, frozen=True):
    """A volume, and where a container sees it."""

    volume: Volume
    mount: Mount


class Around(Struct, frozen=True):
    """What a pod is given beside its place: by the fleet, and by its variant."""

    account: str
    spread: Labels
    drain_seconds: int
    claims: tuple[PodClaim, ...] = ()
    files: tuple[Part, ...] = ()


def engine_pod(
    variant: PlannedVariant,
    place: Place,
    command: tuple[str, ...],
    around: Around,
    *,
    serves: bool,
) -> PodSpec:
    """A pod of a variant; one that does not `serve` computes for the first host of its replica."""
    parts = (*around.files, *_parts(place, simulated=variant.simulated))
    given, drain_seconds = place.container, around.drain_seconds
    container = Container(
        name="engine",
        image=place.image.pinned if place.image else "",
        command=command,
        env=variables(_environment(variant, place.cache), place.secrets),
        env_from=all_variables(place.secrets),
        ports=(Port(HTTP, ENGINE_PORT),) if serves else (),
        resources=resources(given, place.accelerators, around.claims),
        lifecycle=Lifecycle(Handler(Sleep(drain_seconds))) if drain_seconds else None,
        security_context=_security(place),
        volume_mounts=tuple(part.mount for part in parts),
    )
    if serves:
        container = _watched(container, variant.startup_seconds)
    pod = PodSpec(
        containers=(container,),
        service_account_name=around.account,
        termination_grace_period_seconds=drain_seconds + GRACE_SECONDS,
        runtime_class_name=given.runtime,
        host_ipc=given.host_ipc or None,
        security_context=_who(place),
        topology_spread_constraints=(Spread(1, HOSTNAME, "ScheduleAnyway", around.spread),),
        resource_claims=around.claims,
        volumes=tuple(part.volume for part in parts),
    )
    return on_nodes(pod, place.nodes)


def on_nodes(pod: PodSpec, nodes: Nodes) -> PodSpec:
    """A pod with what says where it may run, and what pulls its image."""
    return replace(
        pod,
        scheduler_name=nodes.scheduler,
        image_pull_secrets=tuple(Named(name) for name in nodes.image_pull_secrets),
        node_selector=dict(sorted(nodes.selector.items())),
        affinity=_affinity(nodes),
        tolerations=tuple(
            Toleration(one.key, one.operator, one.value, one.effect, one.toleration_seconds)
            for one in nodes.tolerations
        ),
    )


def escaped(word: str) -> str:
    """A word that Kubernetes hands on as it is: it expands $(NAME), and reads $$ as $."""
    return word.replace("$", "$$")


def variables(env: Mapping[str, str], secrets: Iterable[Secret]) -> tuple[Variable, ...]:
    """Variables by value, sorted, and then those that are keys of Secrets."""
    said = [Variable(name, escaped(env[name])) for name in sorted(env)]
    for one in secrets:
        if one.env is not None:
            key = KeyOf(one.name, one.key or one.env)
            said = [each for each in said if each.name != one.env]
            said.append(Variable(one.env, value_from=ValueFrom(key)))
    return tuple(said)


def all_variables(secrets: Iterable[Secret]) -> tuple[Variables, ...]:
    """Secrets of which each key is a variable."""
    return tuple(Variables(Named(one.name)) for one in secrets if one.env is None)


def resources(
    given: Given, accelerators: Accelerators, claims: tuple[PodClaim, ...] = ()
) -> Resources:
    """What a container asks for.

    Cores and memory are set aside and no bound: a bound would slow the engine, or end it for the
    weights that it reads through the page cache.
    """
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}
    if accelerators.resource is not None and accelerators.count:
        held = limits if "/" in accelerators.resource else requests
        held[accelerators.resource] = str(accelerators.count)
    if given.cpu is not None:
        requests["cpu"] = cores(given.cpu)
    if given.memory_bytes is not None:
        requests["memory"] = quantity(given.memory_bytes)
    if given.hugepages_bytes is not None:
        limits["hugepages-2Mi"] = quantity(given.hugepages_bytes)
    # Extended resources and huge pages are not overcommitted: both are asked for as they are bound.
    return Resources({**requests, **limits}, limits, tuple(Named(one.name) for one in claims))


def shared_memory(size: int | None) -> tuple[Part, ...]:
    """/dev/shm of a size; None: what the container runtime gives."""
    if size is None:
        return ()
    volume = Volume("shm", empty_dir=EmptyDir("Memory", quantity(size)))
    return (Part(volume, Mount("shm", "/dev/shm")),)


def _environment(variant: PlannedVariant, cache: Cache) -> dict[str, str]:
    """The plan's variables; below them, where the engine keeps what it need not make again."""
    kept = {name: f"{CACHE_MOUNT}/{folder}" for name, folder in cache.variables.items()}
    return {**kept, **variant.env}


def _parts(place: Place, *, simulated: bool) -> tuple[Part, ...]:
    given = place.container
    devices = [Mount(f"device-{i}", path) for i, path in enumerate(given.devices)]
    paths = [Mount(f"host-{i}", path, read_only=True) for i, path in enumerate(given.mounts)]
    return (
        *shared_memory(given.shm_bytes),
        *(() if simulated else (Part(_cache(place.cache), Mount("cache", CACHE_MOUNT)),)),
        *(
            Part(Volume(mount.name, host_path=HostPath(mount.mount_path)), mount)
            for mount in (*devices, *paths)
        ),
    )


def _cache(cache: Cache) -> Volume:
    if cache.path is not None:
        return Volume("cache", host_path=HostPath(cache.path, "DirectoryOrCreate"))
    if cache.claim is not None:
        return Volume("cache", persistent_volume_claim=Claim(cache.claim))
    size = None if cache.size_bytes is None else quantity(cache.size_bytes)
    return Volume("cache", empty_dir=EmptyDir(size_limit=size))


def _watched(container: Container, startup_seconds: int | None) -> Container:
    health = HttpGet(HEALTH, HTTP)
    budget = DEFAULT_STARTUP_SECONDS if startup_seconds is None else startup_seconds
    return replace(
        container,
        startup_probe=Probe(health, PERIOD, max(1, -(-budget // PERIOD))),
        readiness_probe=Probe(health, 5, 3),
        liveness_probe=Probe(health, PERIOD, SLOWEST_ANSWER_SECONDS // PERIOD),
    )


def _security(place: Place) -> ContainerSecurity:
    """Devices of the node are only let in for a privileged container."""
    given = place.container
    privileged = bool(given.devices)
    closed = not privileged and PRIVILEGED_CAPABILITY not in given.capabilities
    drop = () if numeric_user(place) is None or privileged else ("ALL",)
    return ContainerSecurity(
        privileged=privileged or None,
        allow_privilege_escalation=False if closed else None,
        capabilities=Capabilities(given.capabilities, drop),
    )


def numeric_user(place: Place) -> int | None:
    """The user of the image, where it is known to be a number and not root."""
    user = place.image.user if place.image else None
    number = (user or "").partition(":")[0]
    return int(number) if number.isdecimal() and int(number) else None


def _who(place: Place) -> PodSecurity:
    """Nobody is told to be somebody that the image was not made for."""
    user, given = numeric_user(place), place.container
    return PodSecurity(
        run_as_non_root=True if user is not None else None,
        run_as_user=user,
        fs_group=user,
        supplemental_groups=tuple(int(group) for group in given.groups if group.isdecimal()),
        seccomp_profile=Seccomp(given.seccomp),
    )


def _affinity(nodes: Nodes) -> dict[str, Any]:
    if not nodes.labels:
        return {}
    term = {"matchExpressions": [Expression(one.key, one.values) for one in nodes.labels]}
    required = {"nodeSelectorTerms": [term]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
