"""Where in a fleet file the key of a change stands, for the text that people read.

Called by `planning`. What stands in no file (a plan file was given, a key was removed, the value
was computed) is left as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from llmd_ctl.apply.changes import Change
    from llmd_ctl.spec import LoadedFleet

    Path = tuple[str | int, ...]


def placed(changes: Iterable[Change], loaded: LoadedFleet) -> tuple[Change, ...]:
    """Return the changes with `file:line` behind each reason that has a place."""
    return tuple(replace(change, reasons=tuple(_reasons(change, loaded))) for change in changes)


def _reasons(change: Change, loaded: LoadedFleet) -> Iterator[str]:
    owner = _owner(change, loaded)
    for number, reason in enumerate(change.reasons):
        key = change.keys[number] if number < len(change.keys) else None
        path = None if key is None else _path(owner, key)
        if path is None or loaded.document.root.at(path) is None:
            yield reason
        else:
            place = loaded.place(path, key=True)
            yield f"{reason}  ({place.file}:{place.line})"


def _path(owner: Path | None, key: str) -> Path | None:
    steps = tuple(key.split(".")) if key else ()
    if steps[:1] == ("spec",):
        return steps
    return None if owner is None else (*owner, *steps)


def _owner(change: Change, loaded: LoadedFleet) -> Path | None:
    """The path of the model or the variant that changes."""
    for i, model in enumerate(loaded.fleet.spec.models):
        if model.name == change.model and change.variant is None:
            return ("spec", "models", i)
        for j, variant in enumerate(model.variants):
            if (model.name, variant.name) == (change.model, change.variant):
                return ("spec", "models", i, "variants", j)
    return None
