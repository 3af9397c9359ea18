"""Whether the cases of a rule notice it when one part of the rule is changed.

`survivors` is what `test_mutants` asks. A case is a line, a pair or a pod, and what a rule must say
of it: nothing, a warning or an error. A mutant that says the same of all of a rule's own cases
survives: a case is missing, or a part of the rule does nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from llmd_ctl.errors import Severity
from llmd_ctl.profiles.rules.line import Line, version_of
from llmd_ctl.profiles.rules.pair import Pair, PairRule
from llmd_ctl.profiles.rules.pod import Pod, PodRule
from llmd_ctl.profiles.rules.rule import Rule
from tests.unit.profiles.rules.sources import Part, Tables

AnyRule = Rule | PairRule | PodRule
# What is found in a mutant that cannot go on; a test falls over it.
FALLS = (
    ArithmeticError, AttributeError, LookupError, NameError, RuntimeError, StopIteration, TypeError,
    ValueError,
)  # fmt: skip
ANYTHING = "anything"  # but it must not fall over


@dataclass(frozen=True)
class Case:
    """What a rule is asked of, and what it must say: None, warning, error or anything."""

    rule: str
    of: Line | Pair | Pod
    says: str | None

    def __str__(self) -> str:
        if isinstance(self.of, Line):
            return f"{self.of.accelerator.name} {dict(self.of.given)} {dict(self.of.env)}"
        return type(self.of).__name__

    def notices(self, rule: AnyRule) -> bool:
        """Whether a rule says something else of it."""
        try:
            return said(rule, self.of) != self.says and self.says != ANYTHING
        except FALLS:
            return True


def said(rule: AnyRule, of: Line | Pair | Pod) -> str | None:
    """Return what a rule says: its severity, or None where it finds nothing wrong."""
    return rule.severity if _broken(rule, of) else None


def _broken(rule: AnyRule, of: Line | Pair | Pod) -> bool:
    if isinstance(rule, Rule) and isinstance(of, Line):
        spoken = rule.is_of(of.engine.name, of.version, of.platform)
        return spoken and rule.is_broken_by(of)
    if isinstance(rule, PairRule) and isinstance(of, Pair):
        return rule.when(of) and not rule.require(of)
    if isinstance(rule, PodRule) and isinstance(of, Pod):
        return any(True for _ in rule.find(of))
    raise AssertionError(rule.id)


@dataclass(frozen=True)
class Mutant:
    """A change that no case notices, and where."""

    module: str
    line: int
    what: str
    rules: tuple[str, ...]

    @property
    def name(self) -> str:
        """It, wherever it stands in its file."""
        return f"{self.module} [{' '.join(self.rules)}] {self.what}"

    def __str__(self) -> str:
        return f"{self.module}.py:{self.line} [{' '.join(self.rules)}] {self.what}"


class Judge:
    """Changes rules, and asks their cases."""

    def __init__(self, cases: Sequence[Case], tables: Tables | None = None) -> None:
        self.tables = tables or Tables()
        self._cases: dict[str, list[Case]] = defaultdict(list)
        for case in cases:
            self._cases[case.rule].append(case)
        self._rules: dict[Part, AnyRule] = {part: part.run() for part in self.tables.rules}

    def rules(self) -> Iterator[AnyRule]:
        """The rules as they are."""
        yield from self._rules.values()

    def wrong(self) -> list[str]:
        """Cases of which the rules as they are say something else."""
        return [
            f"{rule.id} must say {case.says} of {case}"
            for rule in self._rules.values()
            for case in self._cases[rule.id]
            if case.notices(rule)
        ]

    def survivors(self, module: str) -> tuple[int, list[Mutant]]:
        """How many changes a module allows, and those that no case notices."""
        made, alive = 0, []
        for part in self.tables.modules[module].parts:
            for mutant, noticed in self._mutants(part):
                made += 1
                if not noticed:
                    alive.append(mutant)
        return made, alive

    def _mutants(self, part: Part) -> Iterator[tuple[Mutant, bool]]:
        users = self.tables.rules_of(part)
        ids = tuple(self._rules[user].id for user in users)
        name = part.module.name
        if part.is_rule:
            for what, other in _guards(self._rules[part]):
                yield Mutant(name, part.tree.lineno, what, ids), self._noticed(other)
        if not users:
            return
        for edit in part.edits():
            yield Mutant(name, edit.line, edit.what, ids), self._edited(part, edit, users)

    def _edited(self, part: Part, edit: Any, users: Sequence[Part]) -> bool:
        try:
            with self.tables.changed(part, edit) as code:
                return any(
                    self._noticed(user.run(code if user is part else None)) for user in users
                )
        except FALLS:
            return True

    def _noticed(self, rule: AnyRule) -> bool:
        return any(case.notices(rule) for case in self._cases[rule.id])


def _never(_of: Any) -> bool:
    return False


def _always(_of: Any) -> bool:
    return True


def _same(one: Callable[[Any], bool], other: Callable[[Any], bool]) -> bool:
    """Whether two functions of one line do the same."""
    first, second = one.__code__, other.__code__
    return (first.co_code, first.co_consts[-1:]) == (second.co_code, second.co_consts[-1:])


def _guards(rule: AnyRule) -> Iterator[tuple[str, AnyRule]]:
    """A rule without one of its guards, or with one that is moved."""
    other: Severity = "warning" if rule.severity == "error" else "error"
    yield "other severity", replace(rule, severity=other)
    if isinstance(rule, PodRule):
        yield "never speaks", replace(rule, find=lambda _pod: iter(()))
        return
    yield "never speaks", replace(rule, when=_never)
    if not _same(rule.when, _always):
        yield "`when` is always", replace(rule, when=_always)
    if not _same(rule.require, _never):
        yield "`require` is never met", replace(rule, require=_never)
    if isinstance(rule, Rule):
        yield from _bounds(rule)


def _bounds(rule: Rule) -> Iterator[tuple[str, AnyRule]]:
    if rule.platforms:
        yield "on all platforms", replace(rule, platforms=())
    if len(rule.platforms) > 1:
        for one in rule.platforms:
            rest = tuple(each for each in rule.platforms if each != one)
            yield f"not on {one}", replace(rule, platforms=rest)
    if rule.since:
        for text in ("", *_beside(rule.since)):
            yield f"since {text or 'ever'}", replace(rule, since=text)
    if rule.before:
        for text in ("", *_beside(rule.before)):
            yield f"before {text or 'ever'}", replace(rule, before=text)


def _beside(version: str) -> Iterator[str]:
    """The versions before and after."""
    *most, last = version_of(version)[:2]
    for number in (last - 1, last + 1):
        yield ".".join(map(str, (*most, number, 0)))
