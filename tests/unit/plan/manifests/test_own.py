"""What llmd-ctl renders itself, judged as if somebody else had written it."""

from pathlib import Path

import pytest

from tests.unit.plan.manifests.folders import judged_folder

GOLDEN = Path(__file__).parents[3] / "golden" / "render"
RENDERED = sorted(path.parent.name for path in GOLDEN.glob("*/kustomize"))
MEANT = ("Q19", "Q31")  # names that a fleet gives and a cluster holds; an image of the user's own


def test_there_is_something_rendered() -> None:
    assert RENDERED


@pytest.mark.parametrize("name", RENDERED)
def test_it_has_engines_and_nothing_is_wrong_with_them(name: str) -> None:
    found = judged_folder(GOLDEN / name / "kustomize")
    assert found.engines
    told = [each.message for each in found.problems if each.code != "LC3072"]
    assert [message for message in told if message.partition(":")[0] not in MEANT] == []
