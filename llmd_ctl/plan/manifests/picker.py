"""What an endpoint picker of llm-d counts prefixes in, against the engines whose events it follows.

Called by `relations`. The picker's configuration lies in a config map, as text in YAML. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from llmd_ctl.errors import Problem
from llmd_ctl.plan.manifests.lines import Read
from llmd_ctl.plan.manifests.manifest import Manifest, items, look, text, texts
from llmd_ctl.plan.manifests.recognise import Served
from llmd_ctl.spec.compose import compose
from llmd_ctl.spec.findings import Findings

CONFIG = "EndpointPickerConfig"
PRECISE = "precise-prefix-cache"
SIZE = "blockSize"
EVENTS = "--kv-events-config"


def check_picker(
    objects: Sequence[Manifest], engines: Sequence[tuple[Served, Read | None]]
) -> Iterator[Problem]:
    """Tell where a picker and an engine count in blocks of different sizes."""
    for one in objects:
        for key, said in texts(one.data, "data").items() if one.kind == "ConfigMap" else ():
            for size in _sizes(one, said) if CONFIG in said else ():
                yield from _differ(one, key, size, engines)


def _differ(
    one: Manifest, key: str, size: int, engines: Sequence[tuple[Served, Read | None]]
) -> Iterator[Problem]:
    for served, read in engines:
        if read is None or not served.manifest.here(one):
            continue
        sizes = {line.block_size for line in read.lines if line.says(EVENTS)}
        if sizes and sizes != {size} and "--block-size" not in read.unread:
            own = sizes.pop()
            has = f"has blocks of {own}" if own is not None else "says no --block-size"
            message = f"V15: the picker counts in blocks of {size}, and {served.title} {has}"
            place = read.at.get("--block-size", read.whole)
            hint = f"Set --block-size {size}, or {SIZE} in {one.title} ({key})."
            found = None if own is None else str(own)
            yield Problem("LC3070", message, place, found, (str(size),), hint)


def _sizes(one: Manifest, said: str) -> Iterator[int]:
    """The block sizes of the plugins that follow events."""
    for document in compose(Findings(replace(one.source, text=said))):
        data = document.root.plain()
        for plugin in items(data, "plugins"):
            if PRECISE in (text(plugin, "type") or ""):
                yield from _found(look(plugin, "parameters"))


def _found(data: Any) -> Iterator[int]:
    if isinstance(data, dict):
        for key, value in data.items():
            if key == SIZE and type(value) is int:
                yield value
            else:
                yield from _found(value)
