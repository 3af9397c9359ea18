"""What the tests of the fleet file share: a valid fleet, and loading text as a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmd_ctl.errors import Problem, SpecInvalid
from llmd_ctl.spec import LoadedFleet, load_fleets
from tests.unit.spec.told import Complain, Load

VALID = Path(__file__).parents[2] / "fixtures" / "spec" / "valid.yaml"


@pytest.fixture
def valid() -> str:
    return VALID.read_text("utf-8")


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Load text as fleet.yaml."""

    def from_text(text: str) -> list[LoadedFleet]:
        (tmp_path / "mine.yaml").touch()  # the profile file that the valid fleet lists
        file = tmp_path / "fleet.yaml"
        file.write_bytes(text.encode("utf-8", "surrogatepass"))
        return load_fleets([file])

    return from_text


@pytest.fixture
def complain(load: Load) -> Complain:
    """Load text that must be refused, and return the problems; each place must be in the text."""

    def from_text(text: str) -> list[Problem]:
        with pytest.raises(SpecInvalid) as refused:
            load(text)
        for problem in refused.value.problems:
            assert problem.place is not None
            lines = text.removeprefix("\ufeff").splitlines() or [""]
            assert problem.place.line <= len(lines)
            assert problem.place.text == lines[problem.place.line - 1]
            assert problem.place.column <= len(problem.place.text) + 1
        return list(refused.value.problems)

    return from_text
