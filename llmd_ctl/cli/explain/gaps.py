"""What some targets, or a router, cannot carry out of a key: the table of the plan, by path.

Called by `field` and `ci/reference.py`. The table is `plan.capabilities`. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from llmd_ctl.plan.capabilities import BY_ROUTER, BY_ROUTERS_TARGET, BY_TARGET, Gap

ROUTER = "spec.router."
# The nearest first.
OWNERS = ("spec.models[].variants[].", "spec.models[].", "spec.targets[].", "spec.defaults.")


class At(Struct, frozen=True):
    """A gap, and the kind of target, or of router, that has it."""

    where: str
    gap: Gap
    word: str = ""  # only where the key says this


def gaps_of(path: str) -> Iterator[At]:
    """Yield the gaps of a key of the format, and of what it stands in."""
    for above in _from_the_top(path):
        for router, gap in BY_ROUTER.get(above, {}).items():
            yield At(f"router kind {router}", gap)
        yield from _of_targets(above)


def _of_targets(path: str) -> Iterator[At]:
    if path.startswith(ROUTER):
        yield from _rows(BY_ROUTERS_TARGET, path.removeprefix(ROUTER))
        return
    owner = next((owner for owner in OWNERS if path.startswith(owner)), None)
    if owner is not None:
        yield from _rows(BY_TARGET, path.removeprefix(owner))


def _rows(table: Mapping[str, Mapping[str, Gap]], key: str) -> Iterator[At]:
    for row, gaps in table.items():
        name, _, word = row.partition("=")
        if name == key:
            for kind, gap in gaps.items():
                yield At(f"target kind {kind}", gap, word)


def _from_the_top(path: str) -> Iterator[str]:
    parts = path.split(".")
    for length in range(1, len(parts) + 1):
        yield ".".join(parts[:length])
        if parts[length - 1].endswith("[]"):
            yield ".".join(parts[:length]).removesuffix("[]")
