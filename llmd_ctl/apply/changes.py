"""What a new plan changes, in terms people check before they say yes.

Used by `diff`, by `plan`'s summary and by apply. Pure. Whether a replica restarts is not guessed:
it is the comparison of replica names that the controller itself acts on. Whatever makes a replica
another one is a change of its variant, also when the plan says it of the model.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Literal

from llmd_ctl.plan import Plan
from llmd_ctl.render import Layout, ReplicaSpec, replica_specs

Json = dict[str, Any]
Slot = tuple[str, str]
Kind = Literal["add", "remove", "change", "scale", "start"]
RouterPart = Literal["reloads", "restarts"] | None
# What the plan derives from other fields: their change is said there.
DERIVED = {"fit", "capacity", "reasons", "ruledOut", "pricePerHour", "variants"}
# What the router reads of a model and of a variant; it takes another one over while it runs.
READ_BY_ROUTER = {
    "aliases", "slo", "objective", "scheduler", "usage", "multimodal",
    "accelerator", "engine", "servedName", "apis", "facts", "endpointUrl", "endpointTls",
}  # fmt: skip
COMMAND = "command"
NOTHING = "nothing"


@dataclass(frozen=True)
class Change:
    """One difference. `variant` None is the model itself, `model` None the fleet.

    `restarts` counts replicas that are drained, stopped and started anew, `stops` those that
    nothing replaces. `router`: it restarts for this, takes it over as it runs, or knows nothing.
    """

    kind: Kind
    model: str | None
    variant: str | None
    reasons: tuple[str, ...]
    restarts: int = 0
    stops: int = 0
    router: RouterPart = None

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
            return f"restarts {self.restarts}"
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
            reasons = _reasons(before.models[model.name], after.models[model.name])
            if reasons:
                found.append(Change("change", model.name, None, reasons, router=_told(reasons)))
    for slot, variant in after.variants.items():
        change = _variant_change(slot, before, after) if slot in before.variants else None
        if slot not in before.variants:
            found.append(Change("add", *slot, (_size(variant),)))
        elif change is not None:
            found.append(change)
        if running is not None:
            found += _missing(slot, before, after, running)
    for slot, variant in before.variants.items():
        if slot not in after.variants:
            stops = len(before.replicas.get(slot, {}))
            found.append(Change("remove", *slot, (_size(variant),), stops=stops))
    return tuple(found)


class _Side:
    """One plan, looked up by names: its documents without what is derived, and its replicas."""

    def __init__(self, plan: Plan | None) -> None:
        self.models: dict[str, Json] = {}
        self.variants: dict[Slot, Json] = {}
        self.replicas: dict[Slot, dict[int, ReplicaSpec]] = {}
        if plan is None:
            return
        for model in plan.to_json()["models"]:
            self.models[model["name"]] = _kept(model)
            for variant in model["variants"]:
                self.variants[model["name"], variant["name"]] = _kept(variant)
        for spec in replica_specs(plan, Layout(plan.fleet, ""), ""):
            self.replicas.setdefault((spec.model, spec.variant), {})[spec.index] = spec


def _fleet_changes(old: Plan | None, new: Plan) -> Iterator[Change]:
    if old is None:
        return
    before, after = old.to_json(), new.to_json()
    tls = _differences(before["routerTls"] or {}, after["routerTls"] or {}, "router.tls")
    told = (
        reason
        for name in ("traces", "resilience")
        for reason in _differences(before[name], after[name], name)
    )
    simulate = _differences(before["simulate"], after["simulate"], "simulate")
    groups: list[tuple[Iterator[str], RouterPart]] = [
        (simulate, None),
        (told, "reloads"),
        (tls, "restarts"),
    ]
    for found, router in groups:
        reasons = tuple(found)
        if reasons:
            yield Change("change", None, None, reasons, router=router)


def _told(reasons: Sequence[str]) -> RouterPart:
    """Whether the router reads what differs."""
    named = {re.split(r"[.:]", reason, maxsplit=1)[0] for reason in reasons}
    return "reloads" if named & READ_BY_ROUTER else None


def _variant_change(slot: Slot, before: _Side, after: _Side) -> Change | None:
    old, new = before.replicas.get(slot, {}), after.replicas.get(slot, {})
    replaced = [i for i in old if i in new and old[i].name != new[i].name]
    reasons = list(_reasons(before.variants[slot], after.variants[slot]))
    for i in replaced[:1]:  # all replicas of a variant differ in the same things
        reasons += _told_otherwise(old[i], new[i])
    if not reasons:
        return None
    scaled = all(reason.startswith("replicas:") for reason in reasons)
    kind: Kind = "scale" if scaled else "change"
    stops = sum(i not in new for i in old)
    router = _told(reasons) if not replaced else None  # a new replica reaches it in any case
    return Change(kind, *slot, tuple(dict.fromkeys(reasons)), len(replaced), stops, router)


def _told_otherwise(old: ReplicaSpec, new: ReplicaSpec) -> Iterator[str]:
    """What a simulated engine is told beyond its own variant, such as the model's aliases."""
    if old.engine_document is not None and new.engine_document is not None:
        yield from _differences(_shared(old.engine_document), _shared(new.engine_document), "")


def _shared(document: Json) -> Json:
    own = {"accessLog", "facts", "name", "seed"}
    return {key: item for key, item in document.items() if key not in own}


def _missing(slot: Slot, before: _Side, after: _Side, running: frozenset[str]) -> Iterator[Change]:
    """Replicas that both plans have and that don't run."""
    names = {spec.name for spec in after.replicas.get(slot, {}).values()}
    down = (names & {spec.name for spec in before.replicas.get(slot, {}).values()}) - running
    if down:
        yield Change("start", *slot, (f"{len(down)} of {len(names)} replicas don't run",))


def _size(variant: Json) -> str:
    if variant["endpointUrl"] is not None:
        return f"endpoint {variant['endpointUrl']}"
    return f"{variant['replicas']} × {variant['accelerator']}"


def _kept(document: Json) -> Json:
    return {key: value for key, value in document.items() if key not in DERIVED}


def _reasons(old: Json, new: Json) -> tuple[str, ...]:
    return tuple(_differences(old, new, ""))


def _differences(old: Any, new: Any, path: str) -> Iterator[str]:
    """`path: old → new` for every leaf that differs."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in {**old, **new}:
            yield from _differences(old.get(key), new.get(key), f"{path}.{key}" if path else key)
    elif old != new and path == COMMAND:
        yield from _words(old or [], new or [])
    elif old != new:
        yield f"{path}: {_shown(old)} → {_shown(new)}"


def _words(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    """The words of a command line that differ, each group after the flag that it follows."""
    for tag, i, end, j, stop in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        lead = 1 if i and j and old[i - 1].startswith("-") else 0
        gone, come = shlex.join(old[i - lead : end]), shlex.join(new[j - lead : stop])
        yield f"{COMMAND}: {gone or NOTHING} → {come or NOTHING}"


def _shown(value: Any) -> str:
    return NOTHING if value is None else str(value)
