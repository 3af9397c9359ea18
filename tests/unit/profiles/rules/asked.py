"""The cases of all rules, read from the files beside this one: lines, pairs of lines, and pods.

`cases*.yaml` hold one line that breaks a rule and one beside it of which no rule speaks. `edges/`
hold, rule by rule, lines close to where a rule begins and ends: `breaks` or `passes`, and what is
otherwise than in the rule's first case. Of those that pass, other rules may speak.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from msgspec.structs import replace

from llmd_ctl.profiles.rules.line import Line
from tests.unit.profiles.rules.lines import line_of
from tests.unit.profiles.rules.mutation import ANYTHING, Case

HERE = Path(__file__).parent
ODD: tuple[Any, ...] = (None, True, 0, -1, 10**30, 0.5, "", "x", [], [[]], {}, {"x": {}})
OF_LINES = ("accelerator", "model", "engine", "version", "env", "devices", "config", "uri")
Said = dict[str, Any]


def read(pattern: str) -> Iterator[Any]:
    """Return what stands in the files of a pattern, in order."""
    for file in sorted(HERE.glob(pattern)):
        yield yaml.safe_load(file.read_text("utf-8"))


CASES: list[Said] = [case for listed in read("cases*.yaml") for case in listed]
EDGES: dict[str, list[Said]] = {}
for _of in read("edges/*.yaml"):
    assert not EDGES.keys() & _of.keys(), "a rule has its edges in one file"
    EDGES |= _of


@cache
def first_cases() -> Mapping[str, Said]:
    """Return the first case of each rule, which its edges go out from."""
    return {case["rule"]: case for case in reversed(CASES)}


def severity(case: Said) -> str:
    """Return what a rule says of the line that breaks it."""
    return "warning" if case.get("warns") else "error"


def line(case: Said, words: list[Any]) -> Line:
    """Return the line of a case."""
    more = {key: case[key] for key in OF_LINES[2:] if case.get(key) is not None}
    read_line, heard = line_of(case["accelerator"], case["model"], words, **more)
    assert heard.problems == [], (case, heard.problems)
    return read_line


def passing(case: Said) -> Said:
    """Return a case as it is for the line that passes."""
    own = {key: case.get(f"passes{key[0].upper()}{key[1:]}", case.get(key)) for key in OF_LINES}
    return {**own, "passes": case["passes"]}


def edges(rule: str) -> Iterator[tuple[str | None, Line]]:
    """Return what a rule says of lines near its edges."""
    first = first_cases()[rule]
    for edge in EDGES.get(rule, ()):
        case = {**{key: first.get(key) for key in OF_LINES}, **edge}
        if "breaks" in edge:
            yield severity(first), line(case, edge["breaks"])
        if "passes" in edge:
            yield None, line(case, edge["passes"])


def bent(value: Any) -> Iterator[Any]:
    """Yield the same JSON, with each of its values replaced by what nobody expects there."""
    yield from ODD
    if isinstance(value, dict):
        for key in value:
            yield from ({**value, key: other} for other in bent(value[key]))


def odd(one: Line) -> Iterator[Line]:
    """Yield a line with values that nobody expects."""
    for flag, value in one.given.items():
        others = bent(value) if isinstance(value, dict | list) else ()
        for other in (0, -1, 10**30) if type(value) is int else others:
            yield replace(one, given={**one.given, flag: other})
    for text in ("", "x", "-1", "9" * 5000) if one.env else ():
        yield replace(one, env=dict.fromkeys(one.env, text))


def of_lines() -> Iterator[Case]:
    """Return every case of a rule of lines."""
    for case in CASES:
        broken = line(case, case["breaks"])
        yield Case(case["rule"], broken, severity(case))
        yield Case(case["rule"], line(passing(case), case["passes"]), None)
        yield from (Case(case["rule"], other, ANYTHING) for other in odd(broken))
    for rule in EDGES:
        yield from (Case(rule, one, says) for says, one in edges(rule))


def words_of(one: Line) -> str:
    """Return a line as messages of tests show it."""
    given = json.dumps(one.given, default=str)
    return f"{one.engine.name} {one.version} on {one.accelerator.name}: {given}"
