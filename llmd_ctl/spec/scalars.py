"""What a plain (unquoted) YAML word means: nothing, true or false, a number, or text.

YAML 1.2's rules. A word that YAML 1.1 tools read as something else (`yes`, `010`, `1_000`,
`1:30`) is refused by `ambiguity`, so that a fleet means the same to every
reader. Called by `compose`.
"""

from __future__ import annotations

import re

Scalar = str | int | float | bool | None

NOTHING = frozenset({"", "~", "null", "Null", "NULL"})
BOOLEANS = {
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip
INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*)")
HEXADECIMAL = re.compile(r"0x[0-9a-fA-F]+")
FLOAT = re.compile(r"[-+]?(\.[0-9]+|(0|[1-9][0-9]*)(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
INFINITE = re.compile(r"[-+]?\.(inf|Inf|INF)")
NOT_A_NUMBER = frozenset({".nan", ".NaN", ".NAN"})
OLD_BOOLEAN = re.compile(r"yes|Yes|YES|no|No|NO|on|On|ON|off|Off|OFF")
OLD_NUMBER = re.compile(r"[-+]?(0[0-9_]+|0[ob][0-9_]+|[0-9]+_[0-9_]*|[1-9][0-9]*(:[0-5]?[0-9])+)")
FIRST_OF_OLD = "yYnNoO+-0123456789"  # how those two begin: most words need no closer look

MOST_DIGITS = 400
"""Longer numbers stay text: Python refuses to convert them, and no field takes one."""


def resolve(word: str) -> Scalar:
    """Return the value of a plain word."""
    if word in NOTHING:
        return None
    if word in BOOLEANS:
        return BOOLEANS[word]
    if word[0] not in "+-.0123456789" or len(word) > MOST_DIGITS:
        return word
    if INTEGER.fullmatch(word):
        return int(word)
    if HEXADECIMAL.fullmatch(word):
        return int(word, 16)
    if FLOAT.fullmatch(word):
        return float(word)
    if INFINITE.fullmatch(word):
        return float(word.replace(".", ""))
    return float("nan") if word in NOT_A_NUMBER else word


def ambiguity(word: str) -> str | None:
    """Return what to write instead of a plain word that tools disagree on, else None."""
    if word[:1] not in FIRST_OF_OLD:
        return None
    if OLD_BOOLEAN.fullmatch(word):
        truth = "true" if word.lower() in {"yes", "on"} else "false"
        return f'Write {truth}, or "{word}" in quotes if it is text.'
    if OLD_NUMBER.fullmatch(word):
        return f'Write a plain decimal number, or "{word}" in quotes if it is text.'
    return None
