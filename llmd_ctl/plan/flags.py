"""Words for an engine against its flag table: arguments in camelCase, and raw flags.

Called by `settings`. The table knows every flag with its type and choices; nothing here knows one
by name. What an engine would refuse only once it has started is refused here, with a place.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from llmd_ctl.errors import closest
from llmd_ctl.plan import flag_hint
from llmd_ctl.plan.abbreviation import completed
from llmd_ctl.plan.records import Scalar
from llmd_ctl.plan.report import Path, Report
from llmd_ctl.profiles.engine import Engine, Flag, flag_name
from llmd_ctl.profiles.flag_value import (
    WORDS,
    Fault,
    as_text,
    unfit,
    unfit_text,
    unusable,
    whole_of,
    wrong_kind,
)

NEAR = 5
SHORT = 2  # characters of a flag of one letter, such as -O
DECIMAL = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")


class Given(Struct, frozen=True):
    """A flag that somebody set. `words` is how it stands on a command line."""

    flag: str
    value: Scalar
    words: tuple[str, ...]
    path: Path

    @property
    def base(self) -> str:
        """The flag of the engine's table: without what follows a dot, a key of its JSON value."""
        return self.flag.partition(".")[0]


def written(flag: str, known: Flag | None, value: Scalar) -> tuple[str, ...]:
    """Return a flag and its value as words of a command line; none for a flag that is off."""
    if known is not None and known.type == "bool":
        if value is True:
            return (flag,)
        return (f"--no-{flag.removeprefix('--')}",) if known.negatable else ()
    return (flag, as_text(value))


class FlagReader:
    """Reads what one user wrote for one engine."""

    def __init__(
        self, engine: Engine, report: Report, instead: Mapping[str, str] | None = None
    ) -> None:
        """`instead`: what to write in place of a flag that nobody may set, where it is known."""
        self.engine = engine
        self._instead = instead or {}
        self.report = report
        self.title = f"{engine.name} {engine.spec.version}"

    @cached_property
    def _removed(self) -> Mapping[str, str]:
        """What to do about flags that are gone, whichever way their words are joined."""
        return {flag.replace("_", "-"): hint for flag, hint in self.engine.spec.removed.items()}

    # --- engineArgs ---

    def argument(self, name: str, value: Scalar, path: Path) -> Given | None:
        """Read one of `engineArgs`; None when it is refused."""
        flag = self.engine.by_argument.get(name)
        if flag is None:
            negated = flag_hint.for_negated(self.engine, name, value)
            if negated is not None:
                message = f"{self.title} has no argument {name}"
                self.report.add("LC2020", message, path, key=True, found=name, hint=negated)
            else:
                self._not_there("argument", name, self.engine.by_argument, path)
            return None
        known = self.engine.spec.flags[flag]
        if self._refused(flag, path) or self._faulty(
            unfit(self.engine, flag, value), as_text(value), path, flag
        ):
            return None
        if known.nargs not in (None, "?"):
            return Given(flag, value, (flag, *as_text(value).split()), path)
        return Given(flag, value, written(flag, known, value), path)

    # --- extraArgs ---

    def raw(self, words: Sequence[str], path: Path) -> list[Given]:
        """Read `extraArgs`, as the engine's own parser would."""
        given = []
        at = 0
        while at < len(words):
            taken, one = self._next(words, at, path)
            at += taken
            given += [] if one is None else [one]
        return given

    def _next(self, words: Sequence[str], at: int, path: Path) -> tuple[int, Given | None]:
        """Return how many words were read, and the flag they set."""
        word, here = words[at], (*path, at)
        name, equals, attached = self._parts(word)
        flag, off = self._flag(name)
        if flag is None:
            flag, off = completed(self.engine, name)
            if flag is not None:
                self._tell_short(name, flag, here)
        if flag is None:
            self._unknown(word, words[at - 1] if at else None, here)
            # The value of a flag that is not known is not to be complained about as well.
            return (2 if _is_value(words, at + 1) and not equals else 1), None
        known = self.engine.spec.flags[flag]
        values = [attached] if equals else list(self._values(known, words, at + 1))
        taken = 1 + (0 if equals else len(values))
        if self._refused(flag, here):
            return taken, None
        if off or (known.type == "bool" and known.nargs is None):
            return taken, self._switch(flag, known, values, here, off=off)
        if not values and known.nargs not in {"?", "*"}:
            message = f"{flag} needs a value"
            hint = f"Write {WORDS[known.type]} as the next item, or with = behind it."
            self.report.add("LC2021", message, here, found=word, hint=hint)
            return taken, None
        dotted = "." in name
        places = [here] if equals else [(*path, at + 1 + n) for n in range(len(values))]
        if not dotted and not all(
            [self._parses(flag, known, text, p) for text, p in zip(values, places, strict=True)]
        ):
            return taken, None
        label = f"{flag}.{name.split('.', 1)[1]}" if dotted else flag
        return taken, Given(
            label, self._value(known, values, dotted=dotted), (label, *values), here
        )

    def _parts(self, word: str) -> tuple[str, str, str]:
        """Return a flag's name and the value attached to it: --flag=value, or -Fvalue."""
        if len(word) > SHORT and not word.startswith("--") and word[:SHORT] in self._short:
            return word[:SHORT], "=", word[SHORT:].removeprefix("=")
        return word.partition("=")

    @cached_property
    def _short(self) -> frozenset[str]:
        """The spellings of one letter."""
        return frozenset(name for name in self.engine.by_spelling if len(name) == SHORT)

    def _flag(self, name: str) -> tuple[str | None, bool]:
        """Return the flag that a word names, and whether it turns it off."""
        spelt = self.engine.by_spelling
        base = name.split(".", 1)[0]
        inside = self.engine.spec.dotted and "." in name and base in spelt
        if inside and self.engine.spec.flags[spelt[base]].type == "json":
            return spelt[base], False
        if name in spelt:
            return spelt[name], False
        plain = "--" + name[2:].replace("_", "-") if name.startswith("--") else name
        if plain in spelt:
            return spelt[plain], False
        if plain in self.engine.by_opposite:
            return self.engine.by_opposite[plain], True
        positive = "--" + plain.removeprefix("--no-")
        if plain.startswith("--no-") and positive in spelt:
            flag = spelt[positive]
            return (flag, True) if self.engine.spec.flags[flag].negatable else (None, False)
        return None, False

    def _tell_short(self, name: str, flag: str, path: Path) -> None:
        """Warn of a flag that is not written out."""
        message = f"V04: {name} stands for {flag} only while no other flag begins so"
        hint = f"Write {flag}, which every version reads alike."
        self.report.add("LC3041", message, path, found=name, hint=hint, severity="warning")

    def _values(self, known: Flag, words: Sequence[str], start: int) -> Iterator[str]:
        if known.type == "bool" and known.nargs is None:
            return
        most = 1 if known.nargs in (None, "?") else len(words)
        for at in range(start, min(len(words), start + most)):
            if not _is_value(words, at):
                return
            yield words[at]

    def _switch(
        self, flag: str, known: Flag, values: Sequence[str], path: Path, *, off: bool
    ) -> Given | None:
        if values:
            other = f"write --no-{flag[2:]}" if known.negatable else "remove it"
            hint = f"Write {flag} alone, or {other}."
            self.report.add("LC2021", f"{flag} takes no value", path, found=values[0], hint=hint)
            return None
        return Given(flag, not off, written(flag, known, not off), path)

    def _value(self, known: Flag, values: Sequence[str], *, dotted: bool) -> Scalar:
        if len(values) != 1 or dotted:
            return " ".join(values)
        if known.type == "int" and (number := whole_of(known, values[0])) is not None:
            return number
        return float(values[0]) if known.type == "float" else values[0]

    # --- what is allowed ---

    def _parses(self, flag: str, known: Flag, text: str, path: Path) -> bool:
        number = whole_of(known, text) if known.type == "int" else None
        if (known.type == "int" and number is None) or (
            known.type == "float" and not DECIMAL.fullmatch(text)
        ):
            return not self._faulty(wrong_kind(self.engine, flag), text, path, flag)
        read = text if number is None else str(number)
        return not self._faulty(unfit_text(self.engine, flag, read), text, path, flag)

    def _refused(self, flag: str, path: Path) -> bool:
        fault = unusable(self.engine, flag)
        if fault is not None:
            fault = replace(fault, hint=self._instead.get(flag))
        return self._faulty(fault, flag, path)

    def _faulty(self, fault: Fault | None, found: str, path: Path, flag: str | None = None) -> bool:
        if fault is not None:
            hint = fault.hint
            if hint is None and flag is not None and fault.code == "LC2021":
                hint = flag_hint.for_kind(flag, self.engine.spec.flags[flag].type, found)
            self.report.add(
                fault.code, fault.message, path,
                key=fault.of_flag, found=found, allowed=fault.allowed, hint=hint,
            )  # fmt: skip
        return fault is not None

    def _unknown(self, word: str, before: str | None, path: Path) -> None:
        """Report a word that names no flag; `before` is the word that it follows."""
        name = word.partition("=")[0]
        if word.startswith("-"):
            self._not_there("flag", name, self.engine.by_spelling, path)
            return
        flag, equals, _ = (before or "").partition("=")
        known = flag if self._flag(flag)[0] is not None else None
        hint = flag_hint.for_stray(known, has_value=bool(equals))
        self.report.add("LC2026", f"{word} is the value of no flag", path, found=word, hint=hint)

    def _not_there(self, what: str, name: str, known: Mapping[str, str], path: Path) -> None:
        flag = flag_name(name) if what == "argument" else name.replace("_", "-")
        gone = self._removed.get(flag)
        if gone is not None:
            message = f"{self.title} has no {what} {name}"
            self.report.add("LC2020", message, path, key=what == "argument", found=name, hint=gone)
            return
        allowed = self._near(name, known)
        hint = flag_hint.for_unknown(self.engine, closest(name, allowed), raw=what == "flag")
        message = f"{self.title} has no {what} {name}"
        self.report.add(
            "LC2020", message, path, key=what == "argument", found=name, allowed=allowed, hint=hint
        )

    def _near(self, name: str, known: Mapping[str, str]) -> tuple[str, ...]:
        """Return what may be meant, nearest first; of hundreds of flags a few are enough."""
        spec = self.engine.spec
        usable = [
            word for word, flag in known.items() if flag not in {*spec.reserved, *spec.not_yet}
        ]
        return tuple(difflib.get_close_matches(name, usable, n=NEAR, cutoff=0.5))


def _is_value(words: Sequence[str], at: int) -> bool:
    """Whether a word is there and is a value: no flag, though it may be a negative number."""
    if at >= len(words):
        return False
    return not words[at].startswith("-") or bool(DECIMAL.fullmatch(words[at]))
