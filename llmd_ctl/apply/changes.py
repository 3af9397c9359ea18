"""What a new plan changes, in terms people check before they say yes.

Used by `diff`, by `plan`'s summary and by apply. Pure. Whether a replica restarts is not guessed:
it is the comparison of replica names that the controller itself acts on. Whatever makes a replica
another one is a change of its variant, also when the plan says it of the model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from llmd_ctl.apply.wording import Difference, Said, differences, said
from llmd_ctl.plan import Plan
from llmd_ctl.plan.units import counted
from llmd_ctl.render import Layout, ReplicaSpec, replica_specs

Json = dict[str, Any]
Slot = tuple[str, str]
Kind = Literal["add", "remove", "change", "scale", "start"]
RouterPart = Literal["reloads", "restarts"] | None
# What the plan derives from other fields: their change is said there.
DERIVED = {
    "fit", "capacity", "reasons", "ruledOut", "pricePerHour", "variants", "devicesPerReplica",
}  # fmt: skip
# What the router reads of a model and of a variant; it takes another one over while it runs.
READ_BY_ROUTER = {
    "aliases", "slo", "objective", "scheduler", "usage", "multimodal",
    "accelerator", "engine", "servedName", "apis", "facts", "endpointUrl", "endpointTls",
}  # fmt: skip


class Change(Struct, frozen=True):
    """One difference. `variant` None is the model itself, `model` None the fleet.

    `restarts` counts replicas that are drained, stopped and started anew, `stops` those that
    nothing replaces. `router`: it restarts for this, takes it over as it runs, or knows nothing.
    `keys`: for each reason, the key of the fleet file that says it, as `wording.Said` has it.
    """

    kind: Kind
    model: str | None
    variant: str | None
    reasons: tuple[str, ...]
    restarts: int = 0
    stops: int = 0
    router: RouterPart = None
    keys: tuple[str | None, ...] = ()

    @property
    def takes_away(self) -> bool:
        """Whether something that may serve now is gone, at least for a while."""
        gone = self.restarts > 0 or self.stops > 0 or self.router == "restarts"
        return self.kind == "remove" or gone

    @property
    def effect(self) -> str:
        """What it does to what runs, in words; nothing where its kind says it."""
        if self.router == "restarts":
            return "restarts the router"
        if self.restarts:
            return f"restarts {counted(self.restarts, 'replica')}"
        return "the router reloads" if self.router == "reloads" else ""

    def to_json(self) -> dict[str, Any]:
        """The published form."""
        return {
            "kind": self.kind,
            "model": self.model,
            "variant": self.variant,
            "reasons": list(self.reasons),
            "restarts": self.restarts,
            "router": self.router,
        }


def compare(old: Plan | None, new: Plan, running: frozenset[str] | None) -> tuple[Change, ...]:
    """Everything that applying `new` would do. `running`: names of live replicas, if known."""
    before, after = _Side(old), _Side(new)
    found = list(_fleet_changes(old, new))
    for model in new.models:
        if model.name in before.models:
            differ = list(differences(before.models[model.name], after.models[model.name]))
            if differ:
                found.append(_change("change", (model.name, None), said(differ), _told(differ)))
    for slot in after.variants:
        change = _variant_change(slot, before, after) if slot in before.variants else None
        if slot not in before.variants:
            found.append(_change("add", slot, [Said(_size(after.whole[slot]), "")]))
        elif change is not None:
            found.append(change)
        if running is not None:
            found += _missing(slot, before, after, running)
    for slot in before.variants:
        if slot not in after.variants:
            stops = len(before.replicas.get(slot, {}))
            found.append(Change("remove", *slot, (_size(before.whole[slot]),), stops=stops))
    return tuple(found)


class _Side:
    """One plan, looked up by names: its documents without what is derived, and its replicas.

    `whole` has the variants with all that is derived of them.
    """

    def __init__(self, plan: Plan | None) -> None:
        self.models: dict[str, Json] = {}
        self.variants: dict[Slot, Json] = {}
        self.whole: dict[Slot, Json] = {}
        self.replicas: dict[Slot, dict[int, ReplicaSpec]] = {}
        if plan is None:
            return
        for model in plan.to_json()["models"]:
            self.models[model["name"]] = _kept(model)
            for variant in model["variants"]:
                slot = (model["name"], variant["name"])
                self.variants[slot], self.whole[slot] = _kept(variant), variant
        for spec in replica_specs(plan, Layout(plan.fleet, ""), ""):
            self.replicas.setdefault((spec.model, spec.variant), {})[spec.index] = spec


def _change(
    kind: Kind,
    owner: tuple[str | None, str | None],
    found: Sequence[Said],
    router: RouterPart = None,
) -> Change:
    once: dict[str, str | None] = {}
    for one in found:
        once.setdefault(one.text, one.key)
    return Change(kind, *owner, tuple(once), router=router, keys=tuple(once.values()))


def _fleet_changes(old: Plan | None, new: Plan) -> Iterator[Change]:
    if old is None:
        return
    before, after = old.to_json(), new.to_json()
    groups: list[tuple[tuple[str, ...], RouterPart]] = [
        (("simulate",), None),
        (("traces", "resilience"), "reloads"),
        (("routerTls",), "restarts"),
    ]
    for names, router in groups:
        found = [one for name in names for one in differences(before[name], after[name], name)]
        if found:
            yield _change("change", (None, None), said(found), router)


def _told(found: Sequence[Difference]) -> RouterPart:
    """Whether the router reads what differs."""
    return "reloads" if {one.part for one in found} & READ_BY_ROUTER else None


def _variant_change(slot: Slot, before: _Side, after: _Side) -> Change | None:
    old, new = before.replicas.get(slot, {}), after.replicas.get(slot, {})
    replaced = [i for i in old if i in new and old[i].name != new[i].name]
    found = list(differences(before.variants[slot], after.variants[slot]))
    reasons = said(found)
    for i in replaced[:1]:  # all replicas of a variant differ in the same things
        reasons += said(_told_otherwise(old[i], new[i]))
    if not reasons:
        return None
    scaled = [one.path for one in found] == ["replicas"] and not replaced
    stops = sum(i not in new for i in old)
    router = _told(found) if not replaced else None  # a new replica reaches it in any case
    change = _change("scale" if scaled else "change", slot, reasons, router)
    return replace(change, restarts=len(replaced), stops=stops)


def _told_otherwise(old: ReplicaSpec, new: ReplicaSpec) -> list[Difference]:
    """What a simulated engine is told beyond its own variant, such as the model's aliases."""
    if old.engine_document is None or new.engine_document is None:
        return []
    return list(differences(_shared(old.engine_document), _shared(new.engine_document)))


def _shared(document: Json) -> Json:
    own = {"accessLog", "facts", "name", "seed"}
    return {key: item for key, item in document.items() if key not in own}


def _missing(slot: Slot, before: _Side, after: _Side, running: frozenset[str]) -> Iterator[Change]:
    """Replicas that both plans have and that don't run."""
    names = {spec.name for spec in after.replicas.get(slot, {}).values()}
    down = (names & {spec.name for spec in before.replicas.get(slot, {}).values()}) - running
    if down:
        verb = "does" if len(down) == 1 else "do"
        said = f"{len(down)} of {counted(len(names), 'replica')} {verb} not run"
        yield Change("start", *slot, (said,))


def _size(variant: Json) -> str:
    """What a variant takes, as the plan's table has it."""
    if variant["endpointUrl"] is not None:
        return f"endpoint {variant['endpointUrl']}"
    each = f"{variant['devicesPerReplica']} " if variant["devicesPerReplica"] > 1 else ""
    simulated = ", simulated" if variant["simulated"] else ""
    return f"{variant['replicas']} × {each}{variant['accelerator']}{simulated}"


def _kept(document: Json) -> Json:
    return {key: value for key, value in document.items() if key not in DERIVED}
