"""YAML in blocks, byte by byte as PyYAML writes it, in a tenth of its time: no node for each value.

Used by `yaml_text` and `kubernetes.document`, each with a dumper of its own, which is asked once
for each text how it is written. What takes several lines is written by it where it stands; what is
not plain maps, lists and scalars, or stands in two places, is written by it as a whole. Pure.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import yaml

SCALARS = frozenset({str, int, float, bool, type(None)})
LISTS = (list, tuple)
LONGEST_KEY = 100  # a longer one may be written as `? key`, as one with a line break is
REMEMBERED = 16_384  # texts


class _NotPlain(Exception):
    """The dumper has to write the whole document."""


class Blocks:
    """Writes documents as a dumper does that breaks lines at `width`."""

    def __init__(self, dumper: type[yaml.CSafeDumper], width: int, *, aliases: bool) -> None:
        """`aliases`: whether the dumper writes an object that stands in two places once."""
        self._dumper = dumper
        self._width = width
        self._aliases = aliases
        # Typed: 1 and True would be one key.
        self._scalar = lru_cache(REMEMBERED, typed=True)(self._alone)

    def text(self, document: Any) -> str:
        """The document's text, its keys in their order."""
        if not document:
            return self._dump(document)
        out: list[str] = []
        try:
            self._write(document, "", "", out, set())
        except _NotPlain:
            return self._dump(document)
        return "".join(out)

    def _dump(self, value: Any) -> str:
        text: str = yaml.dump(
            value, Dumper=self._dumper, sort_keys=False, width=self._width, allow_unicode=True
        )
        return text

    def _alone(self, value: object) -> str:
        """How a scalar is written where it stands alone."""
        return self._dump(value).removesuffix("\n").removesuffix("\n...")

    def _write(self, value: Any, first: str, rest: str, out: list[str], seen: set[int]) -> None:
        """Write a map or a list: its first line begins with `first`, those below with `rest`."""
        kind = type(value)
        if self._aliases:
            self._once(value, seen)
        if kind is dict:
            for key, item in value.items():
                lead = f"{first}{self._key(key)}:"
                if type(item) is dict and item:
                    out.append(f"{lead}\n")
                    self._write(item, f"{rest}  ", f"{rest}  ", out, seen)
                elif type(item) in LISTS and item:  # stands no deeper than its key
                    out.append(f"{lead}\n")
                    self._write(item, rest, rest, out, seen)
                else:
                    out.append(self._line(f"{lead} ", item, {key: item}, rest, seen))
                first = rest
        elif kind in LISTS:
            for item in value:
                if type(item) in (dict, *LISTS) and item:
                    self._write(item, f"{first}- ", f"{rest}  ", out, seen)
                else:
                    out.append(self._line(f"{first}- ", item, [item], rest, seen))
                first = rest
        else:
            raise _NotPlain

    def _line(self, lead: str, item: Any, whole: Any, rest: str, seen: set[int]) -> str:
        """The line of a scalar or of something empty; `whole` is the item in what it stands in."""
        if type(item) not in SCALARS:
            if item or type(item) not in (dict, *LISTS):
                raise _NotPlain
            if self._aliases:
                self._once(item, seen)
            return f"{lead}{'{}' if type(item) is dict else '[]'}\n"
        # 0.0 and -0.0 are one key.
        text = self._alone(item) if type(item) is float and not item else self._scalar(item)
        if not text.isprintable() or (" " in text and len(lead) + len(text) >= self._width):
            return self._lines(lead, whole, len(rest) // 2)
        return f"{lead}{text}\n"

    def _lines(self, lead: str, whole: Any, depth: int) -> str:
        """The lines of an item that takes several, as the dumper writes them at this depth."""
        above = depth if isinstance(whole, dict) else depth + 1
        for _ in range(above):
            whole = {"k": whole}
        text = self._dump(whole)
        if text.endswith("\n...\n"):  # its line breaks go on to the end of the document
            raise _NotPlain
        return lead + text.split("\n", above)[above][len(lead) :]

    def _key(self, key: Any) -> str:
        if type(key) is not str or len(key) > LONGEST_KEY or not key.isprintable():
            raise _NotPlain
        return self._scalar(key)

    def _once(self, value: object, seen: set[int]) -> None:
        if id(value) in seen:
            raise _NotPlain
        seen.add(id(value))
