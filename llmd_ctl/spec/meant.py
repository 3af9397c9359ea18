"""What a value was most likely meant to be, in the form that the format takes: for hints.

Called by `fields` for durations and sizes, by `profiles` for figures with a unit. It judges
nothing: what it is asked about was refused already, and what it returns may still be refused.
"""

from __future__ import annotations

import math
import re

QUANTITY = re.compile(
    r"\s*([-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)\s*([A-Za-zµ/$]*)\s*"
)
# The words that people use for a unit of time, by what the format calls it.
TIMES = {
    "h": ("h", "hr", "hrs", "hour", "hours"),
    "m": ("m", "min", "mins", "minute", "minutes"),
    "s": ("s", "sec", "secs", "second", "seconds"),
    "ms": ("ms", "msec", "msecs", "millis", "millisecond", "milliseconds"),
    "us": ("us", "µs", "usec", "usecs", "micros", "microsecond", "microseconds"),
}
TIME_OF = {word: unit for unit, words in TIMES.items() for word in words}
BINARY = {"k": 10, "m": 20, "g": 30}  # the first letter of a size's unit, as a power of two
MOST_WRITTEN = 64
LARGEST = 1e15  # up to here each whole number is one of its own as a float


def quantity(text: str) -> tuple[str, str] | None:
    """Return the number and the unit of a text such as "80 GB"; None where it is no such text."""
    match = QUANTITY.fullmatch(text) if len(text) <= MOST_WRITTEN else None
    return None if match is None else (match[1], match[2])


def duration(text: str) -> tuple[str, ...]:
    """Return the durations that a text may be meant to be; none where nothing can be told."""
    parts = re.findall(r"([0-9]+(?:\.[0-9]+)?)\s*([A-Za-zµ]*)\s*", text[:MOST_WRITTEN])
    if "".join(number + unit for number, unit in parts) != re.sub(r"\s", "", text) or not parts:
        return ()
    if len(parts) == 1 and not parts[0][1]:
        return (f"{parts[0][0]}ms", f"{parts[0][0]}s")
    named = [(number, TIME_OF.get(unit.lower(), "")) for number, unit in parts]
    units = [unit for _, unit in named]
    if "" in units or len(set(units)) < len(units):
        return ()
    order = list(TIMES)
    return ("".join(a + b for a, b in sorted(named, key=lambda part: order.index(part[1]))),)


def size(text: str) -> tuple[str, ...]:
    """Return the sizes in whole Ki, Mi or Gi that a text may be meant to be."""
    found = quantity(text)
    if found is None or not 0 < float(found[0]) < 2**40:
        return ()
    number, unit = float(found[0]), found[1].lower()
    if unit:
        power = BINARY.get(unit[0])
        fits = power is not None and re.fullmatch(r"[kmg](i?b?|bytes?)", unit)
        return (_binary(number * 2.0**power),) if power is not None and fits else ()
    if number < 2**20 and number == int(number):
        return tuple(f"{int(number)}{name}" for name in ("Ki", "Mi", "Gi"))
    return (_binary(number),)


def whole(text: str) -> tuple[str, ...]:
    """Return the whole numbers that a text may be meant to be: 32k, 32,768 or 8 GiB."""
    plain = re.sub(r"(?<=[0-9])[ ,_](?=[0-9]{3})", "", text[:MOST_WRITTEN].strip())
    if plain.isdecimal():
        return (plain,)
    found = quantity(plain)
    unit = re.fullmatch(r"([kmgt])(i?)(b?)", found[1].lower()) if found is not None else None
    if found is None or unit is None:
        return ()
    power = 1 + "kmgt".index(unit[1])
    bases = (1024,) if unit[2] else (1000,) if unit[3] else (1024, 1000)
    counts = [float(found[0]) * base**power for base in bases]
    return tuple(str(int(count)) for count in counts if 0 <= count < LARGEST)


def share(text: str) -> tuple[str, ...]:
    """Return the number that a text may be meant to be: 0.9 for 90%."""
    percent = re.fullmatch(r"\s*([0-9]{1,3}(?:\.[0-9]+)?)\s*%\s*", text)
    if percent is not None:
        return (f"{float(percent[1]) / 100:g}",)
    found = quantity(text)
    return (found[0],) if found is not None and not found[1] else ()


def _binary(count: float) -> str:
    """Write bytes in the largest unit in which they are whole; below Ki they are rounded up."""
    whole = max(1, math.ceil(count / 2**10)) * 2**10
    for name, power in (("Gi", 30), ("Mi", 20)):
        if whole % 2**power == 0:
            return f"{whole >> power}{name}"
    return f"{whole >> 10}Ki"
