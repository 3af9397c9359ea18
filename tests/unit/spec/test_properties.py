"""However a fleet is spoilt, loading gives fleets or placed problems: nothing else, every time."""

from __future__ import annotations

from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from llmd_ctl.errors import Problem, codes, render_problem
from llmd_ctl.spec.loader import load_text
from llmd_ctl.spec.source import SourceText
from tests.unit.spec.conftest import VALID

TEXT = VALID.read_text("utf-8")
LINES = TEXT.splitlines()
DATA = yaml.safe_load(TEXT)
SCRAPS = (
    "\t|  |:|: |- |[|]|{|}|\"|'|&a |*a|!!x |? |>\n|%|@|#|<<: |---\n|...\n|é|字|null|yes|\\|~|1e9"
).split("|")

spots = st.integers(0, len(TEXT))
scraps = st.sampled_from(SCRAPS)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**25), 10**25),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["hf://a/b", "local", "vllm", "10ms", "http://h:1", "here", "nvidia-h100"]),
)
keys = st.text(max_size=6)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=8,
)


def problems_of(text: str) -> tuple[int, list[Problem]]:
    """Load text and hold every promise about what comes back."""
    reading = load_text(SourceText("fleet.yaml", text, VALID.parent))
    fleets, problems = reading.fleets, reading.problems
    lines = text.splitlines() or [""]
    for problem in problems:
        place = problem.place
        assert place is not None
        assert 1 <= place.line <= len(lines)
        assert place.text == lines[place.line - 1]
        assert 1 <= place.column <= len(place.text) + 1
        assert problem.code in codes()
        shown = render_problem(problem)
        assert problem.code in shown
        assert all(line.isprintable() for line in shown.splitlines())
    assert fleets or problems
    return len(fleets), problems


def readable(text: str) -> bool:
    """Whether a source would hand this text on: the rest is refused before it is YAML."""
    return all(c.isprintable() or c == "\n" for c in text)


@given(st.lists(st.tuples(spots, st.integers(0, 12), scraps), min_size=1, max_size=4))
def test_spoilt_text_gives_placed_problems(edits: list[tuple[int, int, str]]) -> None:
    text = TEXT
    for at, cut, scrap in edits:
        text = text[:at] + scrap + text[at + cut :]
    if readable(text):
        assert problems_of(text) == problems_of(text)


@given(st.text(max_size=200).filter(readable))
def test_any_text_gives_placed_problems(text: str) -> None:
    _, problems = problems_of(text)
    assert problems


@given(st.lists(st.sampled_from(LINES), max_size=40))
def test_any_mix_of_lines_gives_placed_problems(lines: list[str]) -> None:
    problems_of("\n".join(lines))


def _paths(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    steps = data if isinstance(data, dict) else range(len(data) if isinstance(data, list) else 0)
    out = [path]
    for step in steps:
        child = data[step]
        out += _paths(child, (*path, step))
    return out


def _with(data: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    copy = dict(data) if isinstance(data, dict) else list(data)
    copy[path[0]] = _with(data[path[0]], path[1:], value)
    return copy


@given(st.sampled_from(_paths(DATA)), values)
def test_any_value_anywhere_gives_placed_problems(path: tuple[Any, ...], value: Any) -> None:
    text = yaml.safe_dump(_with(DATA, path, value), allow_unicode=True)
    if readable(text):
        problems_of(text)


@given(st.sampled_from([p for p in _paths(DATA) if p]))
def test_a_removed_value_gives_a_fleet_or_placed_problems(path: tuple[Any, ...]) -> None:
    parent = DATA
    for step in path[:-1]:
        parent = parent[step]
    kept = parent.copy()
    del kept[path[-1]]
    problems_of(yaml.safe_dump(_with(DATA, path[:-1], kept)))
