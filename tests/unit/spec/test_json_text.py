"""JSON that somebody else wrote is read, or is a `ValueError`; it never ends the stack."""

import pytest

from llmd_ctl.spec.json_text import read_json


@pytest.mark.parametrize("depth", [65, 66, 900, 3000, 100_000])
@pytest.mark.parametrize(("start", "end"), [("[", "]"), ('{"a":', "}"), ('[{"a":', "}]")])
def test_what_is_nested_too_deeply_is_refused(depth: int, start: str, end: str) -> None:
    with pytest.raises(ValueError, match="nested deeper than 64 levels"):
        read_json(start * depth + "1" + end * depth)


@pytest.mark.parametrize("text", ["[" * 64 + "1" + "]" * 64, b'{"a": [1, "b", null]}', "7", "{}"])
def test_what_is_ordinary_is_read(text: str | bytes) -> None:
    assert read_json(text) is not None


@pytest.mark.parametrize("text", ["", "{", "9" * 5000, b"\xff", "\x00"])
def test_what_is_no_json_is_refused(text: str | bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_json(text)
