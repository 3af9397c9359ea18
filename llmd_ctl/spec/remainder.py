"""What of a wrong document can be judged all the same: the parts in which nothing is wrong.

Called by `loader`, so that what is wrong elsewhere in a fleet is told in the same run. It takes out
the engine argument, the variant, the model or the section that a fault lies in. It never changes
the document that it is given, and never guesses what a wrong value was meant to be.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from llmd_ctl.spec.nodes import Document, Node, Path

MODELS: Path = ("spec", "models")
# Without these, what is left says nothing of what its writer wanted.
NEEDED = {"targets", "defaults", "profiles", "models"}


def remainder(document: Document, faults: Iterable[Path]) -> Document | None:
    """Return the document without what is wrong; None when no model or nothing certain is left."""
    out = {_part(path) for path in faults}
    if not out or any(len(part) < 2 or part[0] != "spec" for part in out):
        return None
    if any(len(part) == 2 and part[1] in NEEDED for part in out):
        return None
    for at, model in enumerate(document.root.items(*MODELS)):
        variants = range(len(model.items("variants")))
        if variants and all((*MODELS, at, "variants", one) in out for one in variants):
            out.add((*MODELS, at))
    kept: dict[Path, tuple[int, ...]] = {}
    root = _without(document.root, (), (), out, kept)
    if not root.items(*MODELS):
        return None
    return Document(root, kept)


def _part(path: Path) -> Path:
    """The smallest part around a fault that can be left out."""
    if path[:2] != MODELS or len(path) < 3:
        return path[:2]
    if path[3:4] != ("variants",) or len(path) < 5:
        return path[:6] if _is_argument(path, 3) else path[:3]
    return path[:7] if _is_argument(path, 5) else path[:5]


def _is_argument(path: Path, at: int) -> bool:
    return path[at : at + 1] == ("engineArgs",) and len(path) > at + 1


def _without(
    node: Node, path: Path, new: Path, out: set[Path], kept: dict[Path, tuple[int, ...]]
) -> Node:
    """The node without the parts in `out`; `path` is its own, `new` the one it will have."""
    if not any(part[: len(path)] == path for part in out):
        return node
    if isinstance(node.value, dict):
        left = {
            key: _without(child, (*path, key), (*new, key), out, kept)
            for key, child in node.value.items()
            if (*path, key) not in out
        }
        return replace(node, value=left)
    if isinstance(node.value, list):
        places = tuple(at for at in range(len(node.value)) if (*path, at) not in out)
        kept[new] = places
        items = [
            _without(node.value[at], (*path, at), (*new, n), out, kept)
            for n, at in enumerate(places)
        ]
        return replace(node, value=items)
    return node
