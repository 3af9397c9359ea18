"""YAML in blocks is what PyYAML writes, byte by byte, whatever stands in it."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from llmd_ctl.render import yaml_text
from llmd_ctl.render.blocks import Blocks
from llmd_ctl.render.kubernetes import document

WIDTHS = ((document, document.WIDE), (yaml_text, yaml_text.WIDTH))
WORDS = st.sampled_from(
    ("", "a", "on", "1e3", "0x1", "null", "--flag", "- a", "a: b", "a #b", "'", '"', "a\nb\n",
     "\n", " a", "a ", "a\n\n", "@0@", "{{ x }}", "é", "\x7f", "\x85", "\u2028", "😀", "x" * 130,
     "word " * 40, '{"a": 1, "b": [1, 2]}', "key: |\n  a\n", "\ta", "a\tb", "%a", "&a", "*a", "!a")
)  # fmt: skip
TEXTS = st.one_of(WORDS, st.text(max_size=30))
SCALARS = st.one_of(TEXTS, st.integers(), st.booleans(), st.none(), st.floats(allow_nan=False))
DOCUMENTS = st.recursive(
    SCALARS,
    lambda inside: st.one_of(
        st.lists(inside, max_size=4), st.dictionaries(TEXTS, inside, max_size=4)
    ),
    max_leaves=12,
)


def by_pyyaml(value: Any, module: Any, width: int) -> str:
    text: str = yaml.dump(
        value, Dumper=module._Dumper, sort_keys=False, width=width, allow_unicode=True
    )
    return text


@pytest.mark.parametrize(("module", "width"), WIDTHS, ids=("kubernetes", "yaml_text"))
@settings(max_examples=400, deadline=None)
@given(value=st.dictionaries(TEXTS, DOCUMENTS, max_size=4))
@example(value={"a": [["b", ["c\nd"]], {"e": {"f": "g\nh\n"}}]})
@example(value={"a": {"b": [{"c": "word " * 30, "d": ["word " * 30]}]}})
@example(value={"a": "b\n\n", "c": 1})
@example(value={"a": 1, "b": True, "c": 1.0})
@example(value={"a": 0.0, "b": -0.0, "c": 0})
@example(value={"a": ["\u2028", {"b": "\x85"}]})
@example(value={"a\n": [], "x" * 130: 1, " \u2028": {}})
def test_the_bytes_are_those_of_pyyaml(module: Any, width: int, value: dict[str, Any]) -> None:
    assert module.BLOCKS.text(value) == by_pyyaml(value, module, width)


@pytest.mark.parametrize("value", [{}, [], "a", 1, None, [[]], [{}], ["a\nb"], [[["a\nb"]]]])
def test_what_is_no_map_is_written_too(value: Any) -> None:
    assert document.BLOCKS.text(value) == by_pyyaml(value, document, document.WIDE)


@pytest.mark.parametrize("shared", [["a"], {"a": "b"}, [], {}])
def test_what_stands_in_two_places_is_written_as_the_dumper_does(shared: Any) -> None:
    value = {"first": shared, "second": {"third": [shared]}}
    for module, width in WIDTHS:
        assert module.BLOCKS.text(value) == by_pyyaml(value, module, width)


def test_a_plain_document_is_not_handed_to_the_dumper(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = Blocks(yaml.CSafeDumper, 100, aliases=False)
    asked: list[Any] = []
    dump = blocks._dump

    def noted(value: Any) -> str:
        asked.append(value)
        return dump(value)

    monkeypatch.setattr(blocks, "_dump", noted)
    assert blocks.text({"a": ["b", {"c": "b"}], "d": {}}) == "a:\n- b\n- c: b\nd: {}\n"
    assert asked == ["a", "b", "c", "d"]  # each text once
