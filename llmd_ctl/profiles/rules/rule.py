"""One rule of an engine: when it speaks, what it requires, and what to do where that is not so.

Rules stand in tables beside this file, by what they are about; `check` asks all of those that a
line is of. A rule is data with two questions; it reports nothing and changes nothing. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from string import Formatter
from typing import Any

from msgspec import Struct, field

from llmd_ctl.errors import Severity
from llmd_ctl.profiles.rules.line import Line, Platform, version_of

Test = Callable[[Line], bool]
ROLES = {"block_size": "blockSize", "kv_dtype": "kvDtype"}  # of what messages name


def always(_line: Line) -> bool:
    """Every line."""
    return True


def nothing(_line: Line) -> Sequence[object]:
    """No values to name."""
    return ()


def no_words(_line: Line) -> Mapping[str, object]:
    """Nothing beside what a line knows."""
    return {}


class Rule(Struct, frozen=True):
    """A rule. `message` and `remedy` name what a `Line` knows in braces: {backend}, {model.dtype}.

    So may `at`. `words` are what they name beside that.
    `severity`: an error is refused by the engine, or gives wrong answers; a warning is taken and
    then ignored, reset or slow. `at` are flags, or variables of the environment, in whose place the
    finding is shown: the first that the line has. `allowed` are values that would be right.
    """

    id: str
    title: str
    source: str
    require: Test
    message: str
    remedy: str
    when: Test = always
    at: tuple[str, ...] = ()
    allowed: Callable[[Line], Sequence[object]] = nothing
    allowed_of: tuple[str, ...] = ()  # the flags that take them; none: the first of `at`
    words: Callable[[Line], Mapping[str, object]] = no_words
    severity: Severity = "error"
    engine: str = "vllm"
    platforms: tuple[Platform, ...] = ()  # none: all of the engine's
    # The first version of the engine that it speaks of; 0.24.0: 0.23.0 was read and has none of it.
    since: str = ""
    sized: bool = False  # a plan refuses it too, with what would fit (`plan.sizing`)
    before: str = ""  # the first version that it does not speak of any more

    def is_of(self, engine: str, version: str, platform: Platform | None) -> bool:
        """Whether it speaks of this engine here."""
        number = version_of(version)
        return (
            self.engine == engine
            and (not self.platforms or platform in self.platforms)
            and (not self.since or number >= version_of(self.since))
            and (not self.before or number < version_of(self.before))
        )

    def is_broken_by(self, line: Line) -> bool:
        """Whether it speaks of a line, and something is wrong with that."""
        return self.when(line) and not self.require(line)

    def finding(self, line: Line) -> Finding:
        """Return what is wrong with a line that breaks it."""
        words = _Words(line, self.words(line))
        places = [name.format_map(words) for name in self.at]
        at = next((name for name in places if line.says(name) or name in line.env), None)
        # Values of one flag in the place of another would be written there.
        shown = at is None or at in (self.allowed_of or places[:1])
        return Finding(
            rule=self,
            message=self.message.format_map(words) + _origin(self.message, line),
            remedy=self.remedy.format_map(words),
            at=at,
            found=None if at is None else _written(line.given.get(at, line.env.get(at))),
            allowed=tuple(str(value) for value in self.allowed(line)) if shown else (),
        )


class Finding(Struct, frozen=True):
    """A rule that a line breaks. `at`: the flag or variable it is about; None: the line as such."""

    rule: Rule
    message: str
    remedy: str
    at: str | None = None
    found: str | None = None  # the value there
    allowed: tuple[str, ...] = field(default=())


def _origin(template: str, line: Line) -> str:
    """Say who set the values that a message names, where no user wrote them."""
    names = [name for _, name, _, _ in Formatter().parse(template) if name]
    flags = dict.fromkeys(line.flag(ROLES[name]) if name in ROLES else name for name in names)
    told = [f"{flag} is {line.set_by[flag]}" for flag in flags if flag in line.set_by]
    return f" ({'; '.join(told)})" if told else ""


def _written(value: Any) -> str:
    if isinstance(value, dict | list):
        return json.dumps(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


class _Words(Mapping[str, Any]):
    """What a line knows, by name, for `str.format_map`."""

    def __init__(self, line: Line, own: Mapping[str, object]) -> None:
        self._line = line
        self._own = own

    def __getitem__(self, name: str) -> Any:
        if name in self._own:
            return self._own[name]
        if name.startswith("--"):
            return self._line[name]
        return getattr(self._line, name)

    def __iter__(self) -> Any:
        return iter(())

    def __len__(self) -> int:
        return 0
