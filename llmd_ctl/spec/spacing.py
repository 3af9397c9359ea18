"""A space or a colon that YAML needs and that is not there: where it is missing, what to write.

Called by `syntax` for lines that libyaml stumbled over, and by `translate` for a key that holds
more than a key. It judges nothing: what it is asked about was refused already. Pure.
"""

from __future__ import annotations

import re

from msgspec import Struct

DASH = re.compile(r"\s*(-)([A-Za-z{\[\"'].*)")
COLON = re.compile(r"\s*(?:- +)*\{?\s*(([A-Za-z]\w*):)([^\s/].*)")
NEITHER = re.compile(r"\s*(?:- +)*([A-Za-z]\w*)(?: +([^\s:#].*?))?\s*")
MOST_SHOWN = 60
MOST_READ = 256  # of a line: a longer one says no more


class Slip(Struct, frozen=True):
    """What is missing behind some characters of a line, and what to write."""

    column: int
    length: int
    message: str
    hint: str
    key: str = ""
    """The key that lacks the space; none where a dash does."""


def slip(line: str) -> Slip | None:
    """Find a dash or a key at the beginning of a line whose space, or colon, is missing."""
    dash = DASH.fullmatch(line[:MOST_READ])
    if dash is not None:
        hint = f"Put a space after the dash: - {_short(dash[2])}"
        return Slip(dash.start(1) + 1, 1, "there is no space after the dash", hint)
    colon = COLON.fullmatch(line[:MOST_READ])
    if colon is not None:
        message = f"there is no space after the colon of {colon[2]}"
        hint = f"Put a space after the colon: {colon[1]} {_short(colon[3])}"
        return Slip(colon.start(1) + 1, len(colon[1]), message, hint, colon[2])
    return None


def colonless(line: str) -> Slip | None:
    """Find a key at the beginning of a line that has no colon."""
    found = NEITHER.fullmatch(line[:MOST_READ])
    if found is None:
        return None
    key, value = found[1], found[2] or ""
    message = f"there is no colon after {key}"
    hint = f"Put a colon and a space after the key: {key}: {_short(value)}".rstrip(" ")
    return Slip(found.start(1) + 1, len(key), message, hint, key)


def _short(text: str) -> str:
    text = text.rstrip()
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}…"
