"""What is there: the inventory, this machine, prices; and what the plan leaves idle.

Called by `planner` before and after it plans the variants. Devices of a replica lie on one machine
(each pipeline stage may lie on another). Pure.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from msgspec import Struct

from llmd_ctl.plan.fit import gib
from llmd_ctl.plan.observed import Observed
from llmd_ctl.plan.records import Idle, PlannedVariant
from llmd_ctl.plan.report import Path, Report
from llmd_ctl.plan.spread import machines_of
from llmd_ctl.profiles.accelerator import Accelerator
from llmd_ctl.profiles.catalog import Catalog, UnknownProfile
from llmd_ctl.profiles.likely import told
from llmd_ctl.spec.fleet import FleetSpec, InventoryItem

Key = tuple[str | None, str]  # target and accelerator


class Placed(Struct, frozen=True):
    """A planned variant and where it stands in the file."""

    model: str
    variant: PlannedVariant
    path: Path

    @property
    def title(self) -> str:
        """Model and variant, for messages."""
        return f"{self.model}/{self.variant.name}"


def accelerator_at(catalog: Catalog, name: str, report: Report, path: Path) -> Accelerator | None:
    """Return a profile, or None when none has that name, which is reported."""
    try:
        return catalog.accelerator(name)
    except UnknownProfile as unknown:
        message = f"no accelerator profile is named {name}"
        known, hint = told(name, unknown.known)
        report.add("LC2010", message, path, found=name, allowed=known, hint=hint)
        return None


class Stock:
    """The accelerators that a fleet may use."""

    def __init__(
        self,
        spec: FleetSpec,
        catalog: Catalog,
        observed: Observed,
        report: Report,
        *,
        simulated: bool,
    ) -> None:
        """`simulated`: every engine is; then the inventory alone says what is there."""
        self._items: dict[Key, tuple[int, InventoryItem]] = {
            (item.target, item.accelerator): (index, item)
            for index, item in enumerate(spec.inventory)
        }
        self._listed = {item.target for item in spec.inventory}
        self._local = {one.name for one in spec.targets if one.kind == "local"}
        self._simulated = simulated
        self._catalog = catalog
        self._observed = observed
        self._report = report
        for index, item in enumerate(spec.inventory):
            accelerator_at(
                catalog, item.accelerator, report, ("spec", "inventory", index, "accelerator")
            )

    def here(self, accelerator: Accelerator) -> int:
        """Devices of this kind on this machine; a profile that extends another counts as it."""
        seen = self._observed.accelerators
        return next((seen[name] for name in accelerator.lineage if seen.get(name)), 0)

    def is_host(self, accelerator: str) -> bool:
        """Whether the device is the machine itself, which engines share."""
        return self._catalog.accelerator(accelerator).spec.host is not None

    def devices_per_node(self, target: str | None, accelerator: Accelerator) -> int:
        """Devices that one machine offers a replica."""
        item = self._items.get((target, accelerator.name))
        if item is not None and accelerator.spec.host is None:
            return item[1].devices_per_node
        return int(accelerator.spec.devices_per_node.over(1))

    def most_devices(self, target: str | None, accelerator: Accelerator) -> int | None:
        """Devices of all machines together, for stages of a replica; None: nobody counted them."""
        item = self._items.get((target, accelerator.name))
        return _listed(item[1]) if item is not None else None

    def price(self, target: str | None, accelerator: Accelerator) -> tuple[float | None, str]:
        """Return the price of a device for an hour, and where it is from."""
        item = self._items.get((target, accelerator.name))
        if item is not None and item[1].price_per_device_hour is not None:
            return item[1].price_per_device_hour, "the inventory"
        price = accelerator.spec.price_per_device_hour
        return price.value, price.source

    # --- checks over all variants ---

    def check_present(self, accelerator: Accelerator, needed: int, path: Path) -> None:
        """Refuse a local variant whose accelerator this machine does not have."""
        count = self.here(accelerator)
        if count >= needed:
            return
        found = f"{count} here" if count else "none here"
        message = f"{accelerator.name} is not on this machine"
        if count:
            message = f"this machine has {count} {accelerator.name}, the variant needs {needed}"
        allowed = tuple(sorted(name for name, n in self._observed.accelerators.items() if n))
        self._report.add("LC3014", message, path, found=found, allowed=allowed)

    def check_sharing(self, placed: Sequence[Placed]) -> None:
        """Warn of what would need devices of this machine dealt out to replicas.

        An engine takes the first devices that it finds. So one replica alone, of the only kind of
        accelerator here, gets what the plan says; a second one would get the first one's devices.
        `apply` refuses a plan with this warning.
        """
        users = [
            one for one in placed
            if one.variant.managed and not one.variant.simulated
            and one.variant.place is None and not self.is_host(one.variant.accelerator)
            and self.here(self._catalog.accelerator(one.variant.accelerator))
        ]  # fmt: skip
        kinds = [
            name for name, count in self._observed.accelerators.items()
            if count and not self.is_host(name)
        ]  # fmt: skip
        replicas = sum(one.variant.replicas for one in users)
        if not users or (replicas == 1 and len(kinds) == 1):
            return
        message = f"{replicas} replicas would take the same devices of {', '.join(kinds)}"
        if replicas == 1:
            message = f"the replica takes the first devices that it finds of {', '.join(kinds)}"
        self._report.warn("LC3023", message, (*users[-1].path, "accelerator"))

    def check_inventory(self, placed: Sequence[Placed]) -> None:
        """Refuse more replicas than the inventory has devices for."""
        wanted: dict[Key, list[Placed]] = defaultdict(list)
        for one in placed:
            if one.variant.managed and not self.is_host(one.variant.accelerator):
                wanted[one.variant.target, one.variant.accelerator].append(one)
        for key, users in wanted.items():
            entry = self._items.get(key)
            if entry is not None:
                self._check_item(entry[1], users)
            elif key[0] in self._listed and not self._observed.accelerators.get(key[1]):
                self._not_listed(key, users)

    def check_listed(self, placed: Sequence[Placed]) -> None:
        """Warn of what the inventory counts and this machine, which can tell, does not have."""
        for index, item in self._items.values():
            if item.target not in self._local:
                continue  # only this machine can tell what it has
            listed, there = _listed(item), self._there(item, placed)
            if there < listed:
                message = (
                    f"the inventory counts {listed} {item.accelerator}, this machine has "
                    f"{there or 'none'}: no more are planned with"
                )
                self._report.warn("LC3030", message, ("spec", "inventory", index))

    def _there(self, item: InventoryItem, placed: Sequence[Placed]) -> int:
        """Devices of an item: as listed where engines are simulated, else no more than are here."""
        if self.is_host(item.accelerator):
            return 1
        users = [
            one.variant for one in placed
            if (one.variant.target, one.variant.accelerator) == (item.target, item.accelerator)
        ]  # fmt: skip
        elsewhere = item.target not in self._local
        if self._simulated or elsewhere or any(variant.simulated for variant in users):
            return _listed(item)
        return min(_listed(item), self.here(self._catalog.accelerator(item.accelerator)))

    def _check_item(self, item: InventoryItem, users: Sequence[Placed]) -> None:
        total = _listed(item)
        needed = sum(u.variant.replicas * u.variant.devices_per_replica for u in users)
        parts = " + ".join(
            f"{u.title}: {u.variant.replicas} x {u.variant.devices_per_replica}" for u in users
        )
        if needed > total:
            message = (
                f"{needed} {item.accelerator} are needed ({parts}), "
                f"{total} are there (nodes: {item.nodes}, devices in each: {item.devices_per_node})"
            )
        elif not _packs(item, users):
            message = f"{parts} do not fit on {item.nodes} nodes of {item.devices_per_node}"
        else:
            self._check_most(item, users)
            return
        self._report.add(
            "LC3013", message, (*users[-1].path, "replicas"),
            found=str(needed), allowed=(str(total),),
            hint="Lower replicas or parallelism, or add nodes to the inventory.",
        )  # fmt: skip

    def _check_most(self, item: InventoryItem, users: Sequence[Placed]) -> None:
        """Warn where autoscaling may ask for more than there is: those replicas would wait."""
        most = {
            user.title: _most(user.variant) * user.variant.devices_per_replica for user in users
        }
        scaled = [user for user in users if user.variant.place and user.variant.place.autoscale]
        if scaled and sum(most.values()) > _listed(item):
            message = (
                f"{sum(most.values())} {item.accelerator} may be asked for "
                f"({' + '.join(f'{title}: {count}' for title, count in most.items())}), "
                f"{_listed(item)} are there"
            )
            self._report.warn("LC3031", message, (*scaled[-1].path, "autoscale"))

    def _not_listed(self, key: Key, users: Sequence[Placed]) -> None:
        listed = tuple(sorted(name for target, name in self._items if target == key[0]))
        for user in users:
            message = f"the inventory of {key[0]} lists no {key[1]}"
            self._report.add(
                "LC3013", message, (*user.path, "accelerator"), found=key[1], allowed=listed,
                hint="Add it to spec.inventory, or leave the whole inventory out.",
            )  # fmt: skip

    def check_host(
        self, placed: Sequence[Placed], hosts: Iterable[str], budget: int | None
    ) -> None:
        """Refuse engines that together take more memory than the machine gives them."""
        on_host = set(hosts)
        users = [
            one for one in placed
            if one.variant.accelerator in on_host and one.variant.managed and one.variant.fit
        ]  # fmt: skip
        if budget is None or not users:
            return
        taken = {one.title: _bytes_taken(one.variant) * one.variant.replicas for one in users}
        if sum(taken.values()) > budget:
            parts = " + ".join(f"{title}: {gib(count)}" for title, count in taken.items())
            whole = gib(sum(taken.values()))
            message = f"engines on this machine take {whole} of memory ({parts})"
            self._report.add(
                "LC3015", message, (*users[-1].path, "replicas"), found=whole,
                allowed=(f"up to {gib(budget)}",),
                hint="Lower replicas, maxModelLen or kvCacheMemoryBytes.",
            )  # fmt: skip

    def idle(self, placed: Sequence[Placed]) -> tuple[Idle, ...]:
        """What the inventory has and no variant uses."""
        out = []
        for (target, accelerator), (_, item) in self._items.items():
            if self.is_host(accelerator):
                continue
            devices = self._there(item, placed)
            used = sum(
                one.variant.replicas * one.variant.devices_per_replica
                for one in placed
                if one.variant.managed
                and (one.variant.target, one.variant.accelerator) == (target, accelerator)
            )
            if used < devices:
                left = devices - used
                price, _ = self.price(target, self._catalog.accelerator(accelerator))
                cost = None if price is None else round(left * price, 6)
                out.append(Idle(str(target), accelerator, devices, used, left, cost))
        return tuple(out)


def _most(variant: PlannedVariant) -> int:
    """Replicas that there may be at once."""
    scale = variant.place.autoscale if variant.place is not None else None
    return variant.replicas if scale is None else scale.max


def _listed(item: InventoryItem) -> int:
    """Devices that an item counts."""
    return item.nodes * item.devices_per_node


def _packs(item: InventoryItem, users: Sequence[Placed]) -> bool:
    """Whether what each replica has on one node finds room there: largest first, tightest node."""
    groups: Counter[int] = Counter()
    for user in users:
        parallel = user.variant.parallelism
        machines = machines_of(parallel, item.devices_per_node)
        groups[-(-parallel.devices // machines)] += user.variant.replicas * machines
    nodes = Counter({item.devices_per_node: item.nodes})  # by their free devices
    return all(_seat(nodes, size, groups[size]) for size in sorted(groups, reverse=True))


def _seat(nodes: Counter[int], size: int, count: int) -> bool:
    """Seat `count` groups of `size` devices; False when nodes run out."""
    for free in sorted(free for free in nodes if free >= size):
        while count and nodes[free]:
            each = min(free // size, count)  # of each of `many` alike nodes
            many = min(nodes[free], count // each)
            nodes[free] -= many
            nodes[free - each * size] += many
            count -= each * many
    return count == 0


def _bytes_taken(variant: PlannedVariant) -> int:
    fit = variant.fit
    if fit is None:
        return 0
    terms = fit.weight_bytes + fit.reserve_bytes + fit.activation_bytes + fit.window_in_flight_bytes
    return terms + max(0, fit.kv_bytes_free)
