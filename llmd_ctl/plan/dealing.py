"""Which host of a target, which of its devices and which port each replica gets.

For targets where nothing else deals: this machine, units and containers. Used by `planner`, which
refuses what finds no room, and by `render.addresses`. The same plan is dealt out in the same way
every time, so that units, containers and the router's endpoints agree. Pure.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from llmd_ctl.plan.place import HostDevices, PlannedTarget
from llmd_ctl.plan.records import PlannedModel, PlannedVariant
from llmd_ctl.plan.report import Report
from llmd_ctl.plan.stock import Placed

DEALT = ("systemd", "compose")
FIRST_PORT = 18000
HERE = ""
LONGEST_NAME = 63 - len("-9999")  # of a variant: a label of the DNS less the replica's number


class Seat(Struct, frozen=True):
    """Where one replica runs. `host` is empty where the target names none: the machine itself."""

    name: str  # the same at every rendering: of its unit, its container and its endpoint
    model: PlannedModel
    variant: PlannedVariant
    index: int
    host: str
    port: int
    devices: tuple[int, ...]  # as the variable counts them


class _Wish(Struct, frozen=True):
    model: PlannedModel
    variant: PlannedVariant
    index: int

    @property
    def devices(self) -> int:
        """Devices that it takes of a machine whose devices are counted, in whole numbers' worth."""
        known = self.variant.host_devices
        return (
            0 if known is None else -(-self.variant.devices_per_replica // known.unit) * known.unit
        )


class _Host(Struct):
    """What is taken of one host."""

    name: str
    taken: Counter[str]
    replicas: int = 0

    def free(self, wish: _Wish) -> int:
        """Devices that are left for a replica of this kind."""
        known = wish.variant.host_devices
        taken = self.taken[wish.variant.accelerator]
        if known is None or (known.variable is None and taken):
            return 0  # who does not know its devices takes the first ones
        return known.count - taken


def deal(
    target: PlannedTarget, models: Sequence[PlannedModel]
) -> tuple[tuple[Seat, ...], tuple[tuple[str, str], ...]]:
    """Deal out a target: its seats in the order of the plan, and who found no room.

    These are named by model and variant.

    Replicas are spread over the hosts; where that leaves one without room, they are packed.
    """
    wishes = [
        _Wish(model, variant, index)
        for model in models
        for variant in model.variants
        if variant.managed and variant.target == target.name
        for index in range(variant.replicas)
    ]
    hosts = target.hosts or (HERE,)
    taken, left = _take(wishes, hosts, spread=True)
    if left:
        taken, left = _take(wishes, hosts, spread=False)
    without = dict.fromkeys((wish.model.name, wish.variant.name) for wish in left)
    return tuple(_seats(wishes, taken, _names(models))), tuple(without)


def check(
    targets: Sequence[PlannedTarget],
    models: Sequence[PlannedModel],
    placed: Sequence[Placed],
    report: Report,
) -> None:
    """Report what has no room on the hosts of its target, and hosts that nobody can tell apart."""
    at = {(one.model, one.variant.name): one for one in placed}
    for target in targets:
        if target.kind not in DEALT:
            continue
        kinds = {
            one.variant.accelerator: one.path for one in placed
            if one.variant.target == target.name and one.variant.host_devices is not None
        }  # fmt: skip
        if len(kinds) > 1 and len(target.hosts) > 1:
            message = f"nobody says which hosts of {target.name} have which of {', '.join(kinds)}"
            hint = "Give each kind of machine a target of its own."
            path = (*list(kinds.values())[-1], "target")
            report.add("LC3054", message, path, found=target.name, hint=hint)
            continue
        for key in deal(target, models)[1]:
            user = at[key]
            known = user.variant.host_devices
            count = known.count if known is not None else 0
            message = f"{user.title} finds no room on {target.name}: {_told(target, count)}"
            if known is not None and known.variable is None:
                message += f", and nobody knows how to share {user.variant.accelerator}"
            report.add(
                "LC3013", message, (*user.path, "replicas"), found=str(user.variant.replicas)
            )


def _told(target: PlannedTarget, count: int) -> str:
    hosts = len(target.hosts) or 1
    return f"{hosts} host{'' if hosts == 1 else 's'} of {count} device{'' if count == 1 else 's'}"


_Taken = dict[int, tuple[str, tuple[int, ...]]]


def _take(
    wishes: Sequence[_Wish], names: Sequence[str], *, spread: bool
) -> tuple[_Taken, list[_Wish]]:
    """The host and devices of each wish, by its place in the list: the largest choose first."""
    hosts = [_Host(name, Counter()) for name in names]
    taken: _Taken = {}
    left = []
    for at, wish in sorted(enumerate(wishes), key=lambda one: -one[1].devices):
        wanted = wish.devices
        free = [(host, host.free(wish)) for host in hosts]
        fitting = [(host, count) for host, count in free if count >= wanted]
        if not fitting:
            left.append(wish)
            continue
        host, _ = min(
            fitting, key=lambda one: (-one[1], one[0].replicas) if spread else (one[1], 0)
        )
        first = host.taken[wish.variant.accelerator]
        host.taken[wish.variant.accelerator] += wanted
        host.replicas += 1
        taken[at] = host.name, _numbers(wish.variant.host_devices, first, wanted)
    return taken, left


def _numbers(known: HostDevices | None, first: int, count: int) -> tuple[int, ...]:
    if known is None:
        return ()
    return tuple(range(first // known.unit, (first + count) // known.unit))


def _names(models: Sequence[PlannedModel]) -> Mapping[tuple[str, str], str]:
    """What each variant is called: model and variant, with a digest where two would be one.

    So it is too where the name would be too long: containers are found by it, a label of the DNS.
    """
    pairs = [(model.name, variant.name) for model in models for variant in model.variants]
    plain = Counter("-".join(pair) for pair in pairs)
    return {
        pair: name if plain[name] == 1 and len(name) <= LONGEST_NAME else _told_apart(name, pair)
        for pair in pairs
        for name in ["-".join(pair)]
    }


def _told_apart(name: str, pair: tuple[str, str]) -> str:
    digest = _digest(pair)
    return f"{name[: LONGEST_NAME - len(digest) - 1].rstrip('-')}-{digest}"


def _digest(pair: tuple[str, str]) -> str:
    return hashlib.sha256("/".join(pair).encode()).hexdigest()[:6]


def _seats(
    wishes: Sequence[_Wish], taken: _Taken, names: Mapping[tuple[str, str], str]
) -> Iterator[Seat]:
    ports: Counter[str] = Counter()
    for at, wish in enumerate(wishes):
        if at in taken:
            host, devices = taken[at]
            port = FIRST_PORT + ports[host]
            ports[host] += 1
            name = f"{names[wish.model.name, wish.variant.name]}-{wish.index}"
            yield Seat(name, wish.model, wish.variant, wish.index, host, port, devices)
