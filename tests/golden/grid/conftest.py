"""The option that rewrites the table: `pytest tests/golden/accelerators --update-golden`."""

import contextlib

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    with contextlib.suppress(ValueError):  # another folder of goldens may have added it
        parser.addoption("--update-golden", action="store_true", help="rewrite expected files")
