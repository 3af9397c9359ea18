"""One rule of a pair: prefill replicas that read prompts, and decode replicas that go on from them.

Rules stand in the table of `pairs`; `plan.pairs` judges the roles of a model with them, and the
pods of manifests. Beside `rule.Rule`, which sees one line, this sees both. Data with two questions;
it reports nothing. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from llmd_ctl.errors import Severity
from llmd_ctl.profiles.rules.line import Line

SideName = Literal["prefill", "decode"]


class Side(Struct, frozen=True):
    """One side's line, and its image where one is known."""

    line: Line
    image: str | None = None


class Pair(Struct, frozen=True):
    """Two sides of one model, and what is to hand KV over where no line says it."""

    prefill: Side
    decode: Side
    connector: str | None = None

    @property
    def lines(self) -> tuple[Line, Line]:
        """The lines, prefill first."""
        return self.prefill.line, self.decode.line

    def differ(self, question: Callable[[Line], object]) -> bool:
        """Whether the two sides answer a question differently."""
        first, second = (question(line) for line in self.lines)
        return first != second

    def words(self, question: Callable[[Line], object]) -> Mapping[str, object]:
        """What the sides answer, as the words {prefill} and {decode}."""
        first, second = (question(line) for line in self.lines)
        return {"prefill": first, "decode": second}


def always(_pair: Pair) -> bool:
    """Every pair."""
    return True


def no_words(_pair: Pair) -> Mapping[str, object]:
    """Nothing to name."""
    return {}


def nothing(_pair: Pair) -> Sequence[object]:
    """No values to name."""
    return ()


class PairRule(Struct, frozen=True):
    """A rule. `at`: flags, or variables, of the side that `on` names; the first that it has.

    `message` and `remedy` name `words` in braces. An error: KV never arrives, or arrives wrong.
    """

    id: str
    title: str
    source: str
    require: Callable[[Pair], bool]
    message: str
    remedy: str
    when: Callable[[Pair], bool] = always
    on: SideName = "decode"
    at: tuple[str, ...] = ()
    allowed: Callable[[Pair], Sequence[object]] = nothing
    words: Callable[[Pair], Mapping[str, object]] = no_words
    severity: Severity = "error"

    def judge(self, pair: Pair) -> PairFinding | None:
        """Return what is wrong with a pair; None: nothing is, or the rule does not speak of it."""
        if not self.when(pair) or self.require(pair):
            return None
        line = (pair.prefill if self.on == "prefill" else pair.decode).line
        words = self.words(pair)
        at = next((name for name in self.at if line.says(name) or name in line.env), None)
        return PairFinding(
            rule=self,
            message=self.message.format_map(words),
            remedy=self.remedy.format_map(words),
            at=at,
            allowed=tuple(str(value) for value in self.allowed(pair)),
        )


class PairFinding(Struct, frozen=True):
    """A rule that a pair breaks. `at`: the flag or variable of the side that the rule is on."""

    rule: PairRule
    message: str
    remedy: str
    at: str | None
    allowed: tuple[str, ...]
