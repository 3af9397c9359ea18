"""From YAML text to documents of nodes, with every fault placed and none raised as it is.

Called by `loader`. Works on libyaml's events with a stack of its own, so that depth and the growth
of aliases are bounded before they cost anything. A syntax error ends the file; a repeated key, an
odd tag or a key that is not text is reported and reading goes on.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import yaml
from msgspec import Struct, field

from llmd_ctl.spec.findings import Findings
from llmd_ctl.spec.nodes import Document, Node, Value
from llmd_ctl.spec.scalars import ambiguity, resolve

MOST_NODES = 200_000
DEEPEST = 64
MERGE = "<<"
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f]")  # without tab and line feed
TEXT_TAGS = frozenset({"!", "tag:yaml.org,2002:str"})
CONTAINER_TAGS = frozenset({None, "!", "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"})


class _Bounds(Exception):
    """The document is deeper or larger than any fleet; it was reported."""


class _Open(Struct):
    """A map or list whose end was not seen yet."""

    node: Node
    anchor: str | None
    is_flow: bool
    key: Node | None = None
    merges: list[Node] = field(default_factory=list)


def compose(findings: Findings) -> list[Document]:
    """Return the documents that hold something, up to where the source stops being YAML."""
    composer = _Composer(findings)
    try:
        composer.run()
    except yaml.YAMLError as error:
        from llmd_ctl.spec.syntax import report_syntax  # not needed where there is no fault

        report_syntax(findings, error)
    except _Bounds:
        pass
    return composer.documents


class _Composer:
    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self.parser = yaml.CSafeLoader(findings.source.text)
        self.stack: list[_Open] = []
        self.anchors: dict[str, Node | None] = {}
        self.root: Node | None = None
        self.documents: list[Document] = []

    def run(self) -> None:
        steps: dict[type, Callable[[Any], None]] = {
            yaml.ScalarEvent: self._take,
            yaml.MappingStartEvent: self._open,
            yaml.MappingEndEvent: self._close,
            yaml.SequenceStartEvent: self._open,
            yaml.SequenceEndEvent: self._close,
            yaml.AliasEvent: self._alias,
            yaml.DocumentStartEvent: self._start,
            yaml.DocumentEndEvent: self._end,
        }
        while self.parser.check_event():
            event = self.parser.get_event()
            step = steps.get(type(event))
            if step is not None:
                step(event)

    def _start(self, _event: yaml.DocumentStartEvent) -> None:
        self.anchors, self.root = {}, None

    def _end(self, _event: yaml.DocumentEndEvent) -> None:
        if self.root is not None and self.root.value is not None:
            self.documents.append(Document(self.root))

    def _take(self, event: yaml.ScalarEvent) -> None:
        self._place(self._scalar(event), event.anchor)

    def _open(self, event: yaml.MappingStartEvent | yaml.SequenceStartEvent) -> None:
        is_map = isinstance(event, yaml.MappingStartEvent)
        node = _node(event, {} if is_map else [])
        if event.tag not in CONTAINER_TAGS or (event.tag or "").endswith(
            "seq" if is_map else "map"
        ):
            self._refuse_tag(node, event.tag)
        if event.anchor is not None:
            self.anchors[event.anchor] = None
        self.stack.append(_Open(node, event.anchor, bool(event.flow_style)))

    def _close(self, event: yaml.Event) -> None:
        done = self.stack.pop()
        end = event.end_mark
        if done.is_flow and end is not None and end.line + 1 == done.node.line:
            done.node.length = end.column + 1 - done.node.column
        for merged in done.merges:
            self._merge(done.node, merged)
        self._place(done.node, done.anchor)

    def _alias(self, event: yaml.AliasEvent) -> None:
        name = event.anchor or ""
        here = _node(event, None, f"*{name}")
        if name not in self.anchors:
            known = tuple(sorted(f"&{anchor}" for anchor in self.anchors))
            message = f'no anchor "&{name}" stands before this alias'
            self.findings.add("LC1012", message, here, found=here.written, allowed=known)
        elif self.anchors[name] is None:
            message = f'the alias "*{name}" stands inside its own anchor'
            self.findings.add("LC1012", message, here, found=here.written)
        self._place(self.anchors.get(name) or here, None)

    def _scalar(self, event: yaml.ScalarEvent) -> Node:
        text = event.value
        if not event.implicit[0]:
            return self._text(event)
        node = _node(event, resolve(text), text)
        instead = ambiguity(text)
        if instead is not None:
            message = f"YAML tools disagree on what {text} means"
            self.findings.add("LC1018", message, node, found=text, hint=instead)
        return node

    def _text(self, event: yaml.ScalarEvent) -> Node:
        """A scalar that is quoted, or has a tag."""
        node = _node(event, event.value, event.value)
        if not event.implicit[1] and event.tag not in TEXT_TAGS:
            self._refuse_tag(node, event.tag)
        control = CONTROL.search(event.value)
        if control is not None:
            message, found = "the text holds a control character", f"U+{ord(control[0]):04X}"
            self.findings.add("LC1017", message, node, found=found)
        return node

    def _place(self, node: Node, anchor: str | None) -> None:
        """Put a finished node where it belongs: root, list item, key or value."""
        if anchor is not None:
            self.anchors[anchor] = node
        if not self.stack:
            self.root = node
            return
        top = self.stack[-1]
        if isinstance(top.node.value, list):
            top.node.value.append(node)
            self._grow(top.node, node)
        elif top.key is None:
            top.key = node
        else:
            key, top.key = top.key, None
            self._put(top, key, node)

    def _put(self, top: _Open, key: Node, node: Node) -> None:
        entries = top.node.value
        assert isinstance(entries, dict)
        if key.written == MERGE and key.value == MERGE:
            top.merges.append(node)
        elif not isinstance(key.value, str):
            message = "a key must be text"
            self.findings.add("LC1015", message, key, found=key.describe())
        elif key.value in entries:
            first = top.node.keys[key.value]
            message = f'the key "{key.value}" is already set in line {first.line}'
            self.findings.add("LC1011", message, key, found=key.value)
        else:
            entries[key.value] = node
            top.node.keys[key.value] = key
            self._grow(top.node, node)

    def _merge(self, into: Node, merged: Node) -> None:
        """Take over what `<<` names; keys written in the map itself win, then earlier maps."""
        sources = merged.value if isinstance(merged.value, list) else [merged]
        for source in sources:
            if not isinstance(source.value, dict):
                message = "<< takes a map, or a list of maps"
                self.findings.add("LC1016", message, source, found=source.describe())
                continue
            assert isinstance(into.value, dict)
            for key, node in source.value.items():
                if key not in into.value:
                    into.value[key] = node
                    into.keys[key] = source.keys[key]
                    self._grow(into, node)

    def _grow(self, parent: Node, child: Node) -> None:
        parent.size += child.size
        if child.height >= parent.height:
            parent.height = child.height + 1
        if parent.size > MOST_NODES:
            self._too_much(child, f"the document grows past {MOST_NODES} values")
        if parent.height > DEEPEST:
            self._too_much(child, f"the document is nested deeper than {DEEPEST} levels")

    def _too_much(self, node: Node, message: str) -> None:
        self.findings.add("LC1013", message, node)
        raise _Bounds

    def _refuse_tag(self, node: Node, tag: str | None) -> None:
        found = (tag or "").replace("tag:yaml.org,2002:", "!!")
        self.findings.add("LC1014", "the tag is not known here", node, found=found)


def _node(event: yaml.NodeEvent, value: Value, written: str = "") -> Node:
    start, end = event.start_mark, event.end_mark
    if start is None or end is None:  # only events made by hand have no marks
        return Node(1, 1, 1, value, written)
    length = end.column - start.column if end.line == start.line else 1
    return Node(start.line + 1, start.column + 1, length or 1, value, written)
