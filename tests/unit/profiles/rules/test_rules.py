"""Every rule: a line that breaks it, and one that does not.

The cases are `cases.yaml`, and `ports.yaml` those of one vendor's port.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml

from llmd_ctl.profiles.rules import RULES
from tests.unit.profiles.rules.lines import judged

CASES: list[dict[str, Any]] = [
    case
    for name in ("cases.yaml", "ports.yaml")
    for case in yaml.safe_load(Path(__file__).with_name(name).read_text())
]


def named(case: dict[str, Any]) -> str:
    return f"{case['rule']} {case['accelerator']} {' '.join(map(str, case['breaks']))}"


@pytest.mark.parametrize("case", CASES, ids=named)
def test_a_rule_speaks_of_the_line_that_breaks_it(case: dict[str, Any]) -> None:
    env, devices = case.get("env"), case.get("devices")
    found = judged(case["accelerator"], case["model"], case["breaks"], env=env, devices=devices)
    assert found.unread == []
    assert found.broke(case["rule"]), (found.errors, found.warnings)


@pytest.mark.parametrize("case", CASES, ids=named)
def test_no_rule_speaks_of_the_line_beside_it(case: dict[str, Any]) -> None:
    env = case.get("passesEnv", case.get("env"))
    on, model = (
        case.get("passesAccelerator", case["accelerator"]),
        case.get("passesModel", case["model"]),
    )
    devices = case.get("passesDevices", case.get("devices"))
    found = judged(on, model, case["passes"], env=env, devices=devices)
    assert (found.errors, found.warnings) == ([], [])


def test_each_rule_has_a_case() -> None:
    assert {rule.id for rule in RULES} == {case["rule"] for case in CASES}


def test_ids_are_unique_and_every_rule_cites_its_source() -> None:
    ids = [rule.id for rule in RULES]
    assert sorted(set(ids)) == sorted(ids)
    for rule in RULES:
        assert any(digit.isdigit() for digit in rule.source), f"{rule.id}: which version says so?"
        assert rule.title[0].isupper(), rule.id
        assert not rule.title.endswith("."), rule.id
        assert rule.remedy.endswith("."), rule.id
