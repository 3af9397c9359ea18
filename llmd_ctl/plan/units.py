"""Figures in words, as people write them in a fleet file: durations, dollars, counts.

Called by this package, `apply` and `cli` wherever a text says a figure. Pure.
"""

from __future__ import annotations

SCALES = (("h", 3_600_000_000), ("m", 60_000_000), ("s", 1_000_000), ("ms", 1_000), ("us", 1))
DIGITS = 3  # of a time that was computed; more would say that it is known so well


def duration(us: int) -> str:
    """The time in the largest unit that makes it a whole number; but 1.5s and not 1500ms."""
    whole = (i for i, (name, scale) in enumerate(SCALES) if us % scale == 0 and (us or name == "s"))
    at = next(whole)
    name, scale = SCALES[at]
    count = us // scale
    if count < 1000 or name not in {"ms", "us"}:
        return f"{count}{name}"
    return f"{count / 1000:.3f}".rstrip("0").rstrip(".") + SCALES[at - 1][0]


def about(us: float) -> str:
    """A computed time, to as many digits as it is worth."""
    whole = max(1, round(us))
    return duration(round(whole, DIGITS - len(str(whole))) if whole >= 10**DIGITS else whole)


def dollars(amount: float) -> str:
    """An amount with its cents, and with more digits only where it has them."""
    whole, _, cents = f"{amount:.6f}".rstrip("0").partition(".")
    return f"${whole}.{cents:0<2}"


def counted(number: float, what: str) -> str:
    """So many of something."""
    return f"{number:.9g} {what}{'' if number == 1 else 's'}"
