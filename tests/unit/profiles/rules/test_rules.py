"""Every rule: a line that breaks it, and one that does not.

The cases are `cases*.yaml`: those of `cases_ports.yaml` are of one vendor's port, and each says its
engine where that is not vLLM.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from llmd_ctl.profiles.rules import RULES
from llmd_ctl.profiles.rules.environment import OWN
from llmd_ctl.profiles.rules.line import platform_of
from tests.unit.profiles.rules.lines import CATALOG, judged

CASES: list[dict[str, Any]] = [
    case
    for file in sorted(Path(__file__).parent.glob("cases*.yaml"))
    for case in yaml.safe_load(file.read_text())
]
RULES_BY_ID = {rule.id: rule for rule in RULES}
NEWEST = "0.33.0"  # of vLLM
OF_THE_READER = {"V04"}  # it never reaches a line


def engine(case: dict[str, Any]) -> dict[str, Any]:
    return {"engine": case.get("engine", "vllm"), "version": case.get("version")}


def named(case: dict[str, Any]) -> str:
    return f"{case['rule']} {case['accelerator']} {' '.join(map(str, case['breaks']))}"


@pytest.mark.parametrize("case", CASES, ids=named)
def test_a_rule_speaks_of_the_line_that_breaks_it(case: dict[str, Any]) -> None:
    env, devices = case.get("env"), case.get("devices")
    found = judged(
        case["accelerator"], case["model"], case["breaks"], env=env, devices=devices, **engine(case)
    )
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
    words = engine(case) | {"version": case.get("passesVersion", case.get("version"))}
    found = judged(on, model, case["passes"], env=env, devices=devices, **words)
    assert (found.errors, found.warnings) == ([], [])


def of_the_newest(case: dict[str, Any]) -> bool:
    """Whether a line is as true of the newest version: it says none, and nothing changed in it."""
    rule = RULES_BY_ID.get(case["rule"])
    platform = platform_of(CATALOG.accelerator(case["accelerator"]).spec)
    own = case.get("engine", "vllm") == "vllm" and platform in OWN
    told = case.get("version") or case.get("passesVersion")
    return rule is not None and own and not told and rule.is_of("vllm", NEWEST, platform)


@pytest.mark.parametrize("case", [case for case in CASES if of_the_newest(case)], ids=named)
def test_the_newest_version_breaks_and_passes_as_the_best_known_one(case: dict[str, Any]) -> None:
    env, devices = case.get("env"), case.get("devices")
    on, model = case["accelerator"], case["model"]
    found = judged(on, model, case["breaks"], version=NEWEST, env=env, devices=devices)
    assert found.broke(case["rule"]), (found.errors, found.warnings)
    on, model = case.get("passesAccelerator", on), case.get("passesModel", model)
    env, devices = case.get("passesEnv", env), case.get("passesDevices", devices)
    found = judged(on, model, case["passes"], version=NEWEST, env=env, devices=devices)
    assert (found.errors, found.warnings) == ([], [])


def test_each_rule_has_a_case() -> None:
    assert {rule.id for rule in RULES} | OF_THE_READER == {case["rule"] for case in CASES}


def test_ids_are_unique_and_every_rule_cites_its_source() -> None:
    ids = [rule.id for rule in RULES]
    assert sorted(set(ids)) == sorted(ids)
    for rule in RULES:
        assert any(digit.isdigit() for digit in rule.source), f"{rule.id}: which version says so?"
        assert rule.title[0].isupper(), rule.id
        assert not rule.title.endswith("."), rule.id
        assert rule.remedy.endswith("."), rule.id


ODD: tuple[Any, ...] = (None, True, 0, -1, 10**30, 0.5, "", "x", [], [[]], {}, {"x": {}})


def bent(value: Any) -> Iterator[Any]:
    """The same JSON, with each of its values replaced by what nobody expects there."""
    yield from ODD
    if isinstance(value, dict):
        for key in value:
            yield from ({**value, key: other} for other in bent(value[key]))


def odd_lines(case: dict[str, Any]) -> Iterator[list[Any]]:
    words = case["breaks"]
    for at, word in enumerate(words):
        if isinstance(word, int):
            yield from ([*words[:at], other, *words[at + 1 :]] for other in (0, -1, 10**30))
        elif str(word).startswith("{"):
            for other in bent(json.loads(word)):
                yield [*words[:at], json.dumps(other), *words[at + 1 :]]


@pytest.mark.parametrize("case", CASES, ids=named)
def test_no_rule_falls_over_values_that_nobody_expects(case: dict[str, Any]) -> None:
    for words in odd_lines(case):
        judged(
            case["accelerator"], case["model"], words, devices=case.get("devices"), **engine(case)
        )
    for odd in ("", "x", "-1", "9" * 5000):
        env = dict.fromkeys(case.get("env", {}), odd)
        judged(case["accelerator"], case["model"], case["breaks"], env=env, **engine(case))
