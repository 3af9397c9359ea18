"""The accelerators that a word may be meant for, as people and vendors write them: for hints.

Called by `plan` for names that no profile has and by `cli` for what is no name. It judges nothing:
what it is asked about was refused already. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise

MOST_READ = 64
MOST_MEANT = 4
SHORTEST = 2  # of a word that may go on in letters: h100 in h100sxm


def likely(word: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return the names nearest to a word such as "A100-80GB"; none where no model is in it."""
    words = re.findall(r"[a-z0-9]+", word[:MOST_READ].casefold())
    joined = {"".join(pair) for pair in pairwise(words)}
    ranks = {name: _rank(name, words, joined) for name in names}
    best = max(ranks.values(), default=0.0)
    meant = tuple(sorted(name for name, rank in ranks.items() if rank == best))
    return meant if best > 0 and len(meant) <= MOST_MEANT else ()


def told(word: str, names: Sequence[str]) -> tuple[tuple[str, ...], str | None]:
    """Return all names, the likely ones first, and what to write; None where nothing is near."""
    meant = likely(word, names)
    if not meant:
        return tuple(names), None
    *others, last = meant
    hint = f"Write {', '.join(others)} or {last}." if others else f"Write {last}."
    return (*meant, *(name for name in names if name not in meant)), hint


def _rank(name: str, words: Sequence[str], joined: set[str]) -> float:
    """How much of a name is in the words: a model above its vendor, less what is not in them."""
    _, *models = name.split("-")
    if "".join(models) in words:
        return len(models) + 1.0
    found = [part for part in models if any(_same(part, word) for word in (*words, *joined))]
    exact = sum(part in words or part in joined for part in found)
    return len(found) + exact / 4 - (len(models) - len(found)) / 2 if found else 0.0


def _same(part: str, word: str) -> bool:
    """Whether one goes on in letters where the other ends: mi300 and mi300x, not a10 and a100."""
    short, long = sorted((part, word), key=len)
    return part == word or (
        len(short) >= SHORTEST and long.startswith(short) and long[len(short) :].isalpha()
    )
