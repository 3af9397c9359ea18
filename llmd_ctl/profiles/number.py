"""A number that is known: its value, where it comes from, and how far it can be trusted.

Every figure of a profile is one of these, so that a plan can say what it rests on. `Dimension` says
which units a figure may be written in, what range is possible, and what follows when it is not
known (null): a missing figure never turns into a guess or a zero without that being said.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Literal

from msgspec import Struct, field

from llmd_ctl.errors import closest
from llmd_ctl.spec.meant import quantity

Confidence = Literal["high", "medium", "low"]
RANK: dict[Confidence, int] = {"low": 0, "medium": 1, "high": 2}


class Words(Struct, frozen=True, eq=False):
    """The keys that a map may have, or the words that a text may be."""

    allowed: tuple[str, ...]


class Unknown(Struct, frozen=True, eq=False):
    """Marks a text that may be null, which is "not known", and says what follows from it."""

    effect: str


class Cited(Struct, frozen=True, kw_only=True):
    """What is known but is no figure: its source, and how far to trust it, stand beside it."""

    source: str = ""
    confidence: Confidence = "low"


DTYPES = ("fp32", "bf16", "fp16", "fp8", "int8", "fp4", "nvfp4", "mxfp4", "int4")
Dtype = Annotated[str, Words(DTYPES)]
Group = Annotated[str, Words(("2", "4", "8", "16", "32", "64"))]  # devices that work together


class Number(Struct, frozen=True):
    """A figure in its dimension's first unit; `value` None is "not known"."""

    value: float | None
    source: str = ""
    confidence: Confidence = "low"

    @property
    def known(self) -> float:
        """The value of a figure that cannot be null."""
        if self.value is None:
            raise ValueError("a figure that must be known is null")
        return self.value

    def over(self, default: float) -> float:
        """Return the value, or `default` where it is not known."""
        return default if self.value is None else self.value


def least(numbers: Iterable[Number]) -> Confidence:
    """Return the confidence of a result that rests on all of `numbers`."""
    return min((n.confidence for n in numbers), key=RANK.__getitem__, default="low")


class Dimension(Struct, frozen=True, eq=False):  # one of a kind, and hashable whatever its units
    """What a figure measures. `units` maps each unit to its size in the first one."""

    name: str
    units: Mapping[str, float] = field(default_factory=dict)
    low: float = 0.0
    high: float = 1e18
    above_low: bool = False  # whether `low` itself is excluded
    whole: bool = False
    null: str | None = None  # what follows from null; None: null is refused

    @property
    def range(self) -> str:
        """The allowed range, in words."""
        start = f"above {self.low:g}" if self.above_low else f"{self.low:g} or more"
        kind = "a whole number, " if self.whole else ""
        first = next(iter(self.units), "")
        whole = [unit for unit, size in self.units.items() if (self.high / size).is_integer()]
        unit = max(whole, key=self.units.__getitem__, default=first)
        most = f"{self.high / self.units.get(unit, 1):.10g} {unit}".rstrip()
        of = f" of {first}" if self.whole and first else ""
        return f"{kind.replace(',', f'{of},')}{start}, at most {most}"

    def written(self, key: str, text: str) -> str:
        """How to write such a figure under a key, with the number and the unit that `text` has."""
        number, unit = quantity(text) or ("…", "")
        parts = [f"value: {number}"]
        if self.units:
            parts.append(f"unit: {self._unit(unit) or '…'}")
        return f"{key}: {{{', '.join(parts)}, source: where it is from, confidence: low}}"

    def _unit(self, word: str) -> str | None:
        """Return the unit that a word spells; bits and bytes are told apart."""
        if word in self.units:
            return word
        bits = {unit for unit in self.units if "bit" in unit}
        alike = [unit for unit in self.units if not bits or (unit in bits) == ("b" in word)]
        return closest(word, alike) if word else None

    def allows(self, value: float) -> bool:
        """Whether a value in the first unit is possible at all."""
        if not (self.low < value if self.above_low else self.low <= value) or value > self.high:
            return False
        return not self.whole or value == int(value)


_BYTES = {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_RATE = {"B/s": 1, "GB/s": 1e9, "TB/s": 1e12, "Gbit/s": 1.25e8}
_FLOPS = {"FLOP/s": 1, "GFLOP/s": 1e9, "TFLOP/s": 1e12, "PFLOP/s": 1e15}
_TIME = {"us": 1, "ms": 1e3, "s": 1e6}
_FRACTION = {"low": 0.0, "high": 1.0, "above_low": True}

Memory = Annotated[
    Number,
    Dimension(
        "memory", _BYTES, high=2**50, above_low=True, whole=True,
        null="on a host the machine's own is taken, as observed; elsewhere nothing is planned",
    ),
]  # fmt: skip
Size = Annotated[Number, Dimension("size", _BYTES, high=2**50, whole=True)]
Bandwidth = Annotated[
    Number,
    Dimension(
        "bandwidth", _RATE, high=1e15, above_low=True,
        null="no speed can be told, so nothing is planned on it, and the refusal says so",
    ),
]  # fmt: skip
LinkBandwidth = Annotated[
    Number,
    Dimension(
        "bandwidth", _RATE, high=1e15, above_low=True,
        null="the bytes of collectives are counted as free, and the plan says so",
    ),
]  # fmt: skip
Flops = Annotated[
    Number,
    Dimension(
        "speed", _FLOPS, high=1e18, above_low=True,
        null="the device computes with weights of this kind at the speed of bf16",
    ),
]  # fmt: skip
Fraction = Annotated[Number, Dimension("fraction", **_FRACTION)]
Tokens = Annotated[Number, Dimension("tokens", high=1e6)]
Factor = Annotated[Number, Dimension("factor", high=100, above_low=True)]
Duration = Annotated[
    Number, Dimension("duration", _TIME, high=1e9, null="this overhead is counted as 0")
]
Seconds = Annotated[Number, Dimension("duration", {"s": 1, "min": 60}, high=1e5, above_low=True)]
Count = Annotated[
    Number,
    Dimension(
        "count", low=1, high=1024, whole=True,
        null="a node is taken to have one, unless the inventory says more",
    ),
]  # fmt: skip
Domain = Annotated[
    Number,
    Dimension(
        "count", low=1, high=65536, whole=True,
        null="devices of different nodes are taken to share no fast links",
    ),
]  # fmt: skip
Shm = Annotated[
    Number,
    Dimension(
        "size", _BYTES, high=2**50, whole=True,
        null="a container keeps its runtime's own shared memory, usually 64 MiB",
    ),
]  # fmt: skip
Request = Annotated[
    Number,
    Dimension(
        "size", _BYTES, high=2**50, whole=True,
        null="a container asks for none of it, and gets what the node has left",
    ),
]  # fmt: skip
Cores = Annotated[
    Number,
    Dimension(
        "cores", high=4096, above_low=True,
        null="a container asks for no cores, and gets what the node has left",
    ),
]  # fmt: skip
Port = Annotated[
    Number,
    Dimension("port", low=1, high=65535, whole=True, null="the engine's own port is taken"),
]
Price = Annotated[
    Number,
    Dimension("price", {"$/h": 1}, high=1e6, null='the cost is shown as "unknown", never as 0'),
]


def dimension(hint: object) -> Dimension | None:
    """Return the dimension of an annotated figure's type, or None for any other type."""
    return next((m for m in getattr(hint, "__metadata__", ()) if isinstance(m, Dimension)), None)


def unknown(hint: object) -> str | None:
    """Return what follows where a text is null, or None where it may not be."""
    found = (m.effect for m in getattr(hint, "__metadata__", ()) if isinstance(m, Unknown))
    return next(found, None)


def words(hint: object) -> tuple[str, ...] | None:
    """Return the keys that an annotated map's keys are limited to, or None for any key."""
    found = (m.allowed for m in getattr(hint, "__metadata__", ()) if isinstance(m, Words))
    return next(found, None)
