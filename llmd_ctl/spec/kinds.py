"""What to write where a value has the wrong kind, such as a word where a map is meant: for hints.

Called by `translate` for fleets and by `profiles` for profile files. It knows no field by name: who
calls says which keys a map has. It judges nothing.
"""

from __future__ import annotations

import re
import shlex

from msgspec import Struct

from llmd_ctl.spec import meant
from llmd_ctl.spec.nodes import Node
from llmd_ctl.spec.scalars import ambiguity, resolve

MAP, LIST, TEXT = "a map", "a list", "text"
WHOLE, NUMBER, SWITCH = "a whole number", "a number", "true or false"
NUMBERS = (WHOLE, NUMBER)
MOST_SHOWN = 60
MOST_LINE = 300  # characters of a command line


class Inside(Struct, frozen=True):
    """What a map, or each item of a list, holds: its keys, and those that must be there.

    `example` is what stands between its braces in a hint, where keys are the user's own.
    """

    keys: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    example: str = ""

    def braces(self, given: str | None) -> str:
        """Write such a map; what was written becomes the one key that it may be meant for."""
        if self.example:
            return f"{{{self.example}}}"
        if given is not None and len(self.required) == 1:
            return f"{{{self.required[0]}: {given}}}"
        shown = self.required or self.keys[:1] or ("KEY",)
        return f"{{{', '.join(f'{key}: …' for key in shown)}}}"


ANY = Inside()


def remedy(wanted: str, lead: str, node: Node | None, inside: Inside = ANY) -> str:
    """Say what to write for a value of the wanted kind. `lead` stands before it: a key, or a -."""
    given = written(node)
    if wanted == MAP:
        return f"Write {lead} {inside.braces(given)}."
    if wanted == LIST:
        return _list(lead, node, given, inside)
    if node is not None and isinstance(node.value, dict | list):
        return f"Write one value after `{lead}`, without braces, brackets or a dash."
    return _scalar(wanted, lead, node, given)


def _list(lead: str, node: Node | None, given: str | None, inside: Inside) -> str:
    if node is not None and isinstance(node.value, dict) and inside.keys:
        return f"Put a dash before each item under `{lead}`, even if it is the only one."
    item = inside.braces(given) if inside.keys else given or "…"
    return f"Write {lead} [{item}]."


def _scalar(wanted: str, lead: str, node: Node | None, given: str | None) -> str:
    value = node.value if node is not None else None
    if value is None:
        return f"Write {wanted} after `{lead}`."
    if wanted.startswith(TEXT) and not isinstance(value, str):
        return f'Put it in quotes: "{given or "…"}".'
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


def command_line(items: list[Node]) -> str | None:
    """Write a list of one item for each word; None where the words cannot be told or are many."""
    words: list[str] = []
    for item in items:
        text = item.written
        if len(text) > MOST_LINE:
            return None
        try:
            parts = text.split(maxsplit=1) if re.search(r"[\[{]", text) else shlex.split(text)
        except ValueError:
            return None
        words += parts if text.startswith("-") else [text]
    shown = f"[{', '.join(map(_word, words))}]"
    return shown if len(shown) <= MOST_LINE and shown.isprintable() else None


def _word(text: str) -> str:
    """Write a word of a command line as an item of a list in brackets."""
    plain = re.fullmatch(r"[A-Za-z./-]*[A-Za-z][A-Za-z0-9._/=+-]*", text)
    if plain and isinstance(resolve(text), str) and ambiguity(text) is None:
        return text
    return "'" + text.replace("'", "''") + "'" if re.search(r'["\\]', text) else f'"{text}"'


def written(node: Node | None) -> str | None:
    """Return a scalar as it may stand in a hint; None for what is no scalar, empty or long."""
    if node is None or isinstance(node.value, dict | list) or node.value is None:
        return None
    text = node.written
    if not text or len(text) > MOST_SHOWN or '"' in text or not text.isprintable():
        return None
    needs_quotes = isinstance(node.value, str) and re.search(r"[,\[\]{}#']|: ", text)
    return f'"{text}"' if needs_quotes else text
