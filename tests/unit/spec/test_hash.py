"""The hash of a fleet: the same for what says the same, another for what says something else."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from llmd_ctl.spec import spec_hash
from llmd_ctl.spec.checks import fill
from llmd_ctl.spec.compose import compose
from llmd_ctl.spec.findings import Findings
from llmd_ctl.spec.fleet import Fleet
from llmd_ctl.spec.source import SourceText
from tests.unit.spec.conftest import VALID
from tests.unit.spec.told import Load

TEXT = VALID.read_text("utf-8")
DATA = yaml.safe_load(TEXT)


def hash_of(text: str) -> str:
    findings = Findings(SourceText("fleet.yaml", text, VALID.parent))
    (document,) = compose(findings)
    assert findings.problems() == []
    return spec_hash(Fleet.model_validate(fill(document), by_alias=True, by_name=False))


def _shuffled(data: Any, draw: st.DataObject) -> Any:
    if isinstance(data, dict):
        keys = draw.draw(st.permutations(list(data)))
        return {key: _shuffled(data[key], draw) for key in keys}
    if isinstance(data, list):
        return [_shuffled(item, draw) for item in data]
    return data


@given(
    st.data(), st.sampled_from(["block", "mixed", "flow"]), st.integers(2, 8), st.integers(20, 200)
)
def test_order_of_keys_and_formatting_do_not_matter(
    draw: st.DataObject, style: str, indent: int, width: int
) -> None:
    text = yaml.safe_dump(
        _shuffled(DATA, draw),
        sort_keys=False,
        default_flow_style={"block": False, "mixed": None, "flow": True}[style],
        indent=indent,
        width=width,
    )
    assert hash_of(text) == hash_of(TEXT)


BETWEEN = st.sampled_from(["# a comment", "", "   # {", "#\t"])
COUNT = len(TEXT.splitlines())


@given(st.lists(BETWEEN, min_size=COUNT, max_size=COUNT))
def test_comments_and_empty_lines_do_not_matter(between: list[str]) -> None:
    lines = [part for pair in zip(TEXT.splitlines(), between, strict=True) for part in pair]
    assert hash_of("\n".join(lines)) == hash_of(TEXT)


def test_saying_a_default_does_not_matter() -> None:
    assert hash_of(TEXT.replace("sampleRatio: 0.5", "sampleRatio: 1.0")) == hash_of(
        TEXT.replace(", sampleRatio: 0.5", "")
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("name: prod", "name: other"),
        ("replicas: 4", "replicas: 5"),
        ("p95: 800ms", "p95: 801ms"),
        ("objective: latency", "objective: cost"),
        ("blockSize: 16", 'blockSize: "16"'),
        ("enforceEager: true", "enforceEager: 1"),
        ("[--seed, ", "[--speed, "),
        ("2.95", "2.96"),
        ("./mine.yaml", "./yours.yaml"),
        ("unsafe: true", "unsafe: false"),
    ],
)
def test_what_says_something_else_has_another_hash(before: str, after: str) -> None:
    assert hash_of(TEXT.replace(before, after, 1)) != hash_of(TEXT)


def test_a_loaded_fleet_carries_the_hash(load: Load) -> None:
    assert load(TEXT)[0].spec_hash == hash_of(TEXT)
