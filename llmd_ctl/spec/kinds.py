"""What to write where a value has the wrong kind, such as a word where a map is meant: for hints.

Called by `translate` for fleets and by `profiles` for profile files. It knows no field by name: who
calls says which keys a map has. It judges nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from llmd_ctl.spec import meant
from llmd_ctl.spec.nodes import Node

MAP, LIST, TEXT = "a map", "a list", "text"
WHOLE, NUMBER, SWITCH = "a whole number", "a number", "true or false"
NUMBERS = (WHOLE, NUMBER)
MOST_SHOWN = 60


@dataclass(frozen=True)
class Inside:
    """What a map, or each item of a list, holds: its keys, and those that must be there.

    `example` is what stands between its braces in a hint, where keys are the user's own.
    """

    keys: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    example: str = ""

    def braces(self, written: str | None) -> str:
        """Write such a map; what was written becomes the one key that it may be meant for."""
        if self.example:
            return f"{{{self.example}}}"
        if written is not None and len(self.required) == 1:
            return f"{{{self.required[0]}: {written}}}"
        shown = self.required or self.keys[:1] or ("KEY",)
        return f"{{{', '.join(f'{key}: …' for key in shown)}}}"


ANY = Inside()


def remedy(wanted: str, lead: str, node: Node | None, inside: Inside = ANY) -> str:
    """Say what to write for a value of the wanted kind. `lead` stands before it: a key, or a -."""
    written = _written(node)
    if wanted == MAP:
        return f"Write {lead} {inside.braces(written)}."
    if wanted == LIST:
        return _list(lead, node, written, inside)
    if node is not None and isinstance(node.value, dict | list):
        return f"Write one value after `{lead}`, without braces, brackets or a dash."
    return _scalar(wanted, lead, node, written)


def _list(lead: str, node: Node | None, written: str | None, inside: Inside) -> str:
    if node is not None and isinstance(node.value, dict) and inside.keys:
        return f"Put a dash before each item under `{lead}`, even if it is the only one."
    item = inside.braces(written) if inside.keys else written or "…"
    return f"Write {lead} [{item}]."


def _scalar(wanted: str, lead: str, node: Node | None, written: str | None) -> str:
    value = node.value if node is not None else None
    if value is None:
        return f"Write {wanted} after `{lead}`."
    if wanted.startswith(TEXT) and not isinstance(value, str):
        return f'Put it in quotes: "{written or "…"}".'
    text = value.strip() if isinstance(value, str) else ""
    if wanted == SWITCH:
        plain = f"Write {lead} true or {lead} false."
        return f"Remove the quotes: {text}." if text in {"true", "false"} else plain
    if text.isdecimal():
        return f"Remove the quotes: {text}."
    if isinstance(value, float) and value.is_integer() and abs(value) < meant.LARGEST:
        return f"Write {lead} {int(value)}."
    known = meant.whole(text) if wanted == WHOLE else meant.share(text)
    if known:
        return f"Write {lead} {' or '.join(known)}."
    return f"Write digits{' alone' if wanted == WHOLE else ''} after `{lead}`, no unit or quotes."


def _written(node: Node | None) -> str | None:
    """Return a scalar as it may stand in a hint; None for what is no scalar, empty or long."""
    if node is None or isinstance(node.value, dict | list) or node.value is None:
        return None
    text = node.written
    if not text or len(text) > MOST_SHOWN or '"' in text or not text.isprintable():
        return None
    needs_quotes = isinstance(node.value, str) and re.search(r"[,\[\]{}#']|: ", text)
    return f'"{text}"' if needs_quotes else text
