"""Words for the shell: quoted so that a program gets exactly them.

Used by `script`. It knows POSIX quoting and nothing of what the words mean.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

PLAIN = re.compile(r"[A-Za-z0-9@%+:,./_-]+")  # no =, which the first word would be an assignment by


def quoted(word: str) -> str:
    """A word as the shell reads it back; between single quotes nothing has a meaning."""
    if PLAIN.fullmatch(word):
        return word
    return "'" + word.replace("'", "'\\''") + "'"


def command_line(argv: Sequence[str], open_places: Mapping[str, str]) -> str:
    """A command; words of `open_places` are replaced by text that the shell is to expand."""
    return " ".join(open_places.get(word) or quoted(word) for word in argv)
