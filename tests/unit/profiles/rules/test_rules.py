"""Every rule: a line that breaks it, one that does not, and lines near its edges (`asked`)."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from llmd_ctl.profiles.rules import RULES
from llmd_ctl.profiles.rules.environment import OWN
from llmd_ctl.profiles.rules.line import platform_of
from tests.unit.profiles.rules.asked import (
    CASES,
    EDGES,
    bent,
    edges,
    passing,
    severity,
    words_of,
)
from tests.unit.profiles.rules.lines import CATALOG, judged
from tests.unit.profiles.rules.mutation import said

BY_ID = {rule.id: rule for rule in RULES}
NEWEST = "0.33.0"  # of vLLM
OF_THE_READER = {"V04"}  # it never reaches a line


def judge(case: dict[str, Any], words: list[Any], **more: Any) -> Any:
    own = {key: case.get(key) for key in ("version", "env", "devices", "config")}
    own["engine"] = case.get("engine") or "vllm"
    return judged(case["accelerator"], case["model"], words, **{**own, **more})


def named(case: dict[str, Any]) -> str:
    return f"{case['rule']} {case['accelerator']} {' '.join(map(str, case['breaks']))}"


@pytest.mark.parametrize("case", CASES, ids=named)
def test_a_rule_speaks_of_the_line_that_breaks_it(case: dict[str, Any]) -> None:
    found = judge(case, case["breaks"])
    assert found.unread == []
    assert found.says(case["rule"]) == severity(case), (found.errors, found.warnings)


@pytest.mark.parametrize("case", CASES, ids=named)
def test_no_rule_speaks_of_the_line_beside_it(case: dict[str, Any]) -> None:
    found = judge(passing(case), case["passes"])
    assert (found.errors, found.warnings) == ([], [])


def of_the_newest(case: dict[str, Any]) -> bool:
    """Whether a line is as true of the newest version: it says none, and nothing changed in it."""
    rule = BY_ID.get(case["rule"])
    platform = platform_of(CATALOG.accelerator(case["accelerator"]).spec)
    own = case.get("engine", "vllm") == "vllm" and platform in OWN
    told = case.get("version") or case.get("passesVersion")
    return rule is not None and own and not told and rule.is_of("vllm", NEWEST, platform)


@pytest.mark.parametrize("case", [case for case in CASES if of_the_newest(case)], ids=named)
def test_the_newest_version_breaks_and_passes_as_the_best_known_one(case: dict[str, Any]) -> None:
    found = judge(case, case["breaks"], version=NEWEST)
    assert found.says(case["rule"]) == severity(case), (found.errors, found.warnings)
    found = judge(passing(case), case["passes"], version=NEWEST)
    assert (found.errors, found.warnings) == ([], [])


@pytest.mark.parametrize("rule", EDGES)
def test_a_rule_begins_and_ends_at_its_edges(rule: str) -> None:
    for says, line in edges(rule):
        assert said(BY_ID[rule], line) == says, (rule, words_of(line))


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
        judge(case, words)
    for odd in ("", "x", "-1", "9" * 5000):
        judge(case, case["breaks"], env=dict.fromkeys(case.get("env", {}), odd))
