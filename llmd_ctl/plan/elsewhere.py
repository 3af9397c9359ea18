"""A variant on a target that is not this machine: which slice, how many hosts, and its place.

Called by `variant` once a replica has its size. What a cluster cannot hand out is refused with what
it can. Pure.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from llmd_ctl.plan.capabilities import router_target
from llmd_ctl.plan.claims import accelerators_of, is_claimed
from llmd_ctl.plan.command import Served, on_hosts, several_of
from llmd_ctl.plan.place import Accelerators, Container, HostDevices, Nodes, Place
from llmd_ctl.plan.placement import (
    CLUSTER,
    IN_CONTAINERS,
    Levels,
    autoscale_of,
    cache_of,
    container_of,
    image_of,
    in_cluster,
    levels_of,
    nodes_of,
    own_image,
)
from llmd_ctl.plan.records import Parallel
from llmd_ctl.plan.report import Path
from llmd_ctl.plan.scene import Ready, Scene
from llmd_ctl.plan.spread import machines_of
from llmd_ctl.profiles.accelerator import Accelerator
from llmd_ctl.spec import fleet as spec

LOCAL = "local"


class Slice(Struct, frozen=True):
    """A group of chips as a cluster hands it out, and the devices and hosts in it."""

    topology: str
    devices: int
    hosts: int


def slices_of(accelerator: Accelerator) -> list[Slice]:
    """Every slice of the accelerator's machine types: the smallest first, then the fewest hosts."""
    topology, cluster = accelerator.spec.topology, accelerator.spec.kubernetes
    if topology is None or cluster is None:
        return []
    found = [
        Slice(shape, chips_of(shape) * cluster.resource.devices, -(-chips_of(shape) // one.units))
        for one in topology.machines
        for shape in (*one.single, *one.several)
    ]
    return sorted(found, key=lambda one: (one.devices, one.hosts))


def chips_of(topology: str) -> int:
    """The chips of a shape such as 2x4."""
    count = 1
    for side in topology.split("x"):
        count *= int(side)
    return count


def target_of(fleet: spec.FleetSpec, name: str | None) -> spec.Target | None:
    """A target by name."""
    return next((one for one in fleet.targets if one.name == name), None)


def is_here(fleet: spec.FleetSpec, name: str | None) -> bool:
    """Whether a target is this machine."""
    target = target_of(fleet, name)
    return target is None or target.kind == LOCAL


def scaled(
    place: Place | None,
    fleet: spec.FleetSpec,
    model: spec.Model,
    variant: spec.Variant,
    in_flight: int,
) -> Place | None:
    """Add how it scales, by the requests that one replica carries at once."""
    if place is None:
        return None
    return replace(place, autoscale=autoscale_of(fleet, model, variant, in_flight))


def place_of(scene: Scene, model: spec.Model, ready: Ready, split: Parallel) -> Place | None:
    """Where the replicas of a variant run; None on this machine, and with a problem reported."""
    target = target_of(scene.spec, ready.variant.target)
    if target is None or target.kind == LOCAL:
        return None
    accelerator, path = ready.accelerator, ready.path
    levels = levels_of(scene.spec, model, ready.variant)
    known = accelerator.spec.kubernetes if target.kind == CLUSTER else None
    _check_reach(scene, target, path)
    if target.kind == CLUSTER and (known is None or known.resource.name is None):
        message = f"no profile says how a cluster hands out {accelerator.name}"
        hint = "Give its resource in a profile of your own (kubernetes.resource)."
        scene.report.add("LC3054", message, (*path, "accelerator"), hint=hint)
        return None
    hosts, topology, devices = _hosts(scene, ready, split, target)
    claimed = known is not None and is_claimed(scene, ready, target, known)
    if not ready.is_real:
        return _simulated(levels, target, devices)
    container = container_of(accelerator)
    if target.kind != CLUSTER:  # what a scheduler should set aside is no bound
        container = replace(container, cpu=None, memory_bytes=None)
    container = levels.container(container)
    if known is not None:
        container = in_cluster(container, known)
        _check_groups(scene, container, accelerator, path)
    elif container.host_ipc and target.kind in IN_CONTAINERS:
        _check_shared(scene, levels, accelerator, path)
    image = None
    if target.kind in IN_CONTAINERS:
        image = image_of(
            scene.spec, model, ready.variant, ready.chosen, accelerator, scene.report,
            (*path, "accelerator"),
        )  # fmt: skip
    return Place(
        image=image,
        container=container,
        secrets=levels.secrets,
        cache=cache_of(scene.spec, model, ready.variant),
        accelerators=(
            accelerators_of(known, devices, hosts, claimed=claimed) if known else Accelerators()
        ),
        nodes=levels.nodes(nodes_of(known, target.provider, topology) if known else Nodes()),
        hosts=hosts,
        devices=devices,
        topology=topology,
        transfer=ready.transfer,
    )


def started(
    scene: Scene, ready: Ready, place: Place, served: Served, command: tuple[str, ...]
) -> tuple[tuple[str, ...], Place]:
    """The command of the first host of a replica, and its place with what engine and model add."""
    engine, on = ready.chosen.engine, ready.chosen.on
    cache = replace(place.cache, variables=engine.spec.caches)
    mounts = (*place.container.mounts, served.model) if served.local else place.container.mounts
    place = replace(place, cache=cache, container=replace(place.container, mounts=mounts))
    if place.hosts == 1:
        return command, place
    several = several_of(engine, on)
    if several is None:
        message = f"{engine.name} does not run a replica over {place.hosts} machines"
        scene.report.add("LC3054", message, (*ready.path, "parallelism"))
        return command, place
    follow = on_hosts(several.follow, command, place.hosts)
    return on_hosts(several.lead, command, place.hosts), replace(place, follow=follow)


def ranks_leave_a_machine(scene: Scene, ready: Ready) -> bool:
    """Whether data-parallel ranks of one replica may be on several machines."""
    target = target_of(scene.spec, ready.variant.target)
    several = several_of(ready.chosen.engine, ready.chosen.on)
    return target is not None and target.kind == CLUSTER and several is not None and several.ranks


def joined_devices(scene: Scene, ready: Ready) -> int:
    """The devices of the slice that a variant names: they are joined whatever hosts they are in."""
    target, topology = target_of(scene.spec, ready.variant.target), ready.variant.topology
    if target is None or target.kind != CLUSTER or topology is None:
        return 0
    found = [one.devices for one in slices_of(ready.accelerator) if one.topology == topology]
    return max(found, default=0)


def _simulated(levels: Levels, target: spec.Target, devices: int) -> Place:
    """A simulated engine needs nothing that the file does not say; its price is of the devices."""
    return Place(
        image=own_image() if target.kind in IN_CONTAINERS else None,
        container=levels.container(Container()),
        secrets=levels.secrets,
        nodes=levels.nodes(Nodes()),
        devices=devices,
    )


def _check_shared(scene: Scene, levels: Levels, accelerator: Accelerator, path: Path) -> None:
    """Where the host's IPC is a container's, its /dev/shm is."""
    if any(each.resources.shm is not None for each in levels.levels):
        message = (
            f"resources.shm does nothing for {accelerator.name} in containers of a machine: it "
            "shares the machine's /dev/shm"
        )
        scene.report.warn("LC3051", message, (*path, "accelerator"))


def _check_groups(scene: Scene, given: Container, accelerator: Accelerator, path: Path) -> None:
    """A cluster knows groups by number alone."""
    names = [group for group in given.groups if not group.isdecimal()]
    if names:
        message = (
            f"the group {names[0]} of {accelerator.name} does nothing in a cluster: it knows"
            " numbers only"
        )
        scene.report.warn("LC3051", message, (*path, "accelerator"))


def host_devices_of(scene: Scene, ready: Ready) -> HostDevices | None:
    """How the devices of a machine are dealt out where no cluster does it."""
    target, accelerator = target_of(scene.spec, ready.variant.target), ready.accelerator
    if target is None or target.kind == CLUSTER or not ready.is_real or accelerator.spec.host:
        return None
    count = scene.stock.devices_per_node(ready.variant.target, accelerator)
    if target.kind == LOCAL:
        count = scene.stock.here(accelerator) or count
    known = accelerator.spec.visible_devices
    if known is None:
        return HostDevices(count)
    return HostDevices(
        count=count,
        variable=known.variable,
        unit=known.devices,
        container_variable=known.container_variable or None,
        driver=known.driver or None,
        privileged=known.privileged,
        paths=known.paths,
        classes=known.classes,
    )


def _hosts(
    scene: Scene, ready: Ready, split: Parallel, target: spec.Target
) -> tuple[int, str | None, int]:
    """How many machines a replica spans, the slice that it is given, and the devices in that."""
    said, path = ready.variant.topology, ready.path
    known = slices_of(ready.accelerator) if target.kind == CLUSTER else []
    if not known:
        if said is not None and target.kind == CLUSTER:
            message = f"{ready.accelerator.name} does not come in slices"
            scene.report.add("LC3054", message, (*path, "topology"), found=said, hint="Remove it.")
        devices = scene.stock.devices_per_node(ready.variant.target, ready.accelerator)
        hosts = machines_of(split, devices)
        if hosts > 1 and target.kind != CLUSTER:
            message = f"a replica of {split.devices} devices needs {hosts} machines"
            hint = "Give it fewer devices, or render for a target of kind kubernetes."
            scene.report.add("LC3054", message, (*path, "parallelism"), hint=hint)
        return hosts, None, split.devices
    wanted = [one for one in known if said is None or one.topology == said]
    fitting = [one for one in wanted if one.devices >= split.devices]
    if fitting:
        found = fitting[0]
        _warn_idle(scene, ready, split, found)
        return found.hosts, found.topology, found.devices
    allowed = dict.fromkeys(one.topology for one in known if one.devices >= split.devices)
    message = f"no slice holds {split.devices} devices of {ready.accelerator.name}"
    if said:
        message = f"a slice of {said} does not hold {split.devices} of {ready.accelerator.name}"
    if not wanted:
        message = f"no machine of {ready.accelerator.name} has slices of {said}"
    at = (*path, "topology") if said else (*path, "parallelism")
    scene.report.add("LC3054", message, at, found=said, allowed=tuple(allowed))
    return 1, None, split.devices


def _warn_idle(scene: Scene, ready: Ready, split: Parallel, given: Slice) -> None:
    idle = given.devices - split.devices
    if idle:
        message = (
            f"{ready.variant.name} uses {split.devices} devices of a slice of {given.topology}, "
            f"which has {given.devices}: {idle} idle, and are paid for"
        )
        at = ready.settings.path_of("tensor") or (*ready.path, "accelerator")
        scene.report.warn("LC3016", message, at)


def _check_reach(scene: Scene, target: spec.Target, path: Path) -> None:
    """The router reaches its own target, and hosts by name from everywhere."""
    home = router_target(scene.spec)
    if target.name == home.name or (target.kind == "systemd" and target.hosts):
        return
    if scene.simulate is not None and not scene.rehearsal:
        return
    message = f"the router runs in {home.name} ({home.kind}) and cannot reach {target.name}"
    scene.report.add("LC3055", message, (*path, "target"), found=target.name, allowed=(home.name,))
