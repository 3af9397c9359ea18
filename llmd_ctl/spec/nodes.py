"""YAML as nodes that know where they stand.

`compose` makes them, `checks` and `translate` read them, `plain` gives pydantic its data. Reading
is forgiving: asking a list for a key, or a number for its items, gives nothing, because the types
report a wrong kind once and every other check should then keep quiet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Union

from msgspec import Struct, field

from llmd_ctl.spec.scalars import Scalar

Path = tuple[str | int, ...]
Value = Union["dict[str, Node]", "list[Node]", Scalar]


class Node(Struct):
    """A map, a list or a scalar, and the key it stands under. Lines and columns count from 1."""

    line: int
    column: int
    length: int
    value: Value
    written: str = ""
    """A scalar as it stands in the file."""
    keys: dict[str, Node] = field(default_factory=dict)
    """Of a map: its keys as nodes."""
    size: int = 1
    """Nodes in the tree below and with this one, aliases counted as often as they are used."""
    height: int = 1

    def get(self, key: str) -> Node | None:
        """Return the value under a key of a map."""
        return self.value.get(key) if isinstance(self.value, dict) else None

    def at(self, path: Iterable[str | int]) -> Node | None:
        """Return the node at a path, or None when the path leads nowhere."""
        node: Node | None = self
        for step in path:
            if node is None:
                return None
            node = node.get(step) if isinstance(step, str) else node._item(step)
        return node

    def _item(self, index: int) -> Node | None:
        items = self.value
        return items[index] if isinstance(items, list) and 0 <= index < len(items) else None

    def items(self, *path: str | int) -> list[Node]:
        """Return the items of the list at a path; none when there is no list."""
        node = self.at(path)
        return node.value if node is not None and isinstance(node.value, list) else []

    def text(self, *path: str | int) -> str | None:
        """Return the text at a path; None when something else is there."""
        node = self.at(path)
        return node.value if node is not None and isinstance(node.value, str) else None

    def number(self, *path: str | int) -> int | None:
        """Return the whole number at a path; None when something else is there."""
        value = getattr(self.at(path), "value", None)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def plain(self) -> Any:
        """Return the data without places."""
        if isinstance(self.value, dict):
            return {key: child.plain() for key, child in self.value.items()}
        if isinstance(self.value, list):
            return [child.plain() for child in self.value]
        return self.value

    def walk(self, path: Path = ()) -> Iterator[tuple[Path, Node]]:
        """Yield every node below this one with its path, in the order of the file."""
        children: Iterable[tuple[str | int, Node]] = ()
        if isinstance(self.value, dict):
            children = self.value.items()
        elif isinstance(self.value, list):
            children = enumerate(self.value)
        for step, child in children:
            at = (*path, step)
            yield at, child
            if isinstance(child.value, dict | list):
                yield from child.walk(at)

    def describe(self) -> str:
        """Say what was found here, as a person would."""
        if isinstance(self.value, dict):
            return "a map" if self.value else "an empty map"
        if isinstance(self.value, list):
            return "a list" if self.value else "an empty list"
        if self.value is None:
            return "nothing"
        quoted = isinstance(self.value, str)
        return f'"{self.value}"' if quoted else self.written


class Document(Struct, frozen=True):
    """One YAML document: its root and the path-to-place lookup that every report goes through.

    `kept`: of lists that items were taken out of, where those that are left stood in the file.
    """

    root: Node
    kept: dict[Path, tuple[int, ...]] = field(default_factory=dict)

    def written(self, path: Path) -> Path:
        """Return a path as it is in the file."""
        out: list[str | int] = []
        for depth, step in enumerate(path):
            kept = self.kept.get(path[:depth], ())
            out.append(kept[step] if isinstance(step, int) and step < len(kept) else step)
        return tuple(out)

    def mark(self, path: Path, *, key: bool = False) -> Node:
        """Return the node to point at: the value at a path, or its key, or the nearest above."""
        for depth in range(len(path), 0, -1):
            parent = self.root.at(path[: depth - 1])
            step = path[depth - 1]
            if parent is None:
                continue
            wants_key = key or depth < len(path)
            if wants_key and isinstance(step, str) and step in parent.keys:
                return parent.keys[step]
            found = parent.at((step,))
            if found is not None:
                return found
        return self.root
