"""No part of a rule can be changed without a case of the rule noticing it.

A message names the file, the line, the rules concerned and the change: add the case that is missing
to `edges/` for a rule of lines, to `pairs_edges.yaml`, or to `edges.yaml` of manifests for pods. A
part of which no case can be found does nothing: leave it out of the rule. `unnoticed.yaml` lists,
with the reason, the changes that nothing notices.
"""

from collections import Counter
from functools import cache

import pytest

from tests.unit.plan.manifests.test_pods import cases_of_pods
from tests.unit.profiles.rules.asked import of_lines, read
from tests.unit.profiles.rules.mutation import Judge, Mutant
from tests.unit.profiles.rules.sources import FOLDER, MACHINERY
from tests.unit.profiles.rules.test_pairs import cases_of_pairs

pytestmark = pytest.mark.slow
MODULES = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem not in MACHINERY)
UNNOTICED: dict[str, list[str]] = next(read("unnoticed.yaml")) or {}
KNOWN = Counter(name for listed in UNNOTICED.values() for name in listed)


@cache
def judge() -> Judge:
    return Judge([*of_lines(), *cases_of_pairs(), *cases_of_pods()])


def test_the_rules_that_are_changed_are_those_that_are_asked_and_their_cases_hold() -> None:
    assert judge().wrong() == []


def excess(alive: list[Mutant], known: Counter[str]) -> list[str]:
    """Those that survive beyond the known ones."""
    left = Counter(known)
    new = []
    for mutant in alive:
        left[mutant.name] -= 1
        if left[mutant.name] < 0:
            new.append(str(mutant))
    return new


@pytest.mark.parametrize("module", MODULES)
def test_each_change_of_a_rule_is_noticed(module: str) -> None:
    made, alive = judge().survivors(module)
    missing = excess(alive, KNOWN)
    told = f"{len(missing)} of {made} changes of {module}.py: a case is missing\n"
    assert missing == [], told + "\n".join(missing)
    of_module = {name: count for name, count in KNOWN.items() if name.startswith(f"{module} ")}
    stale = Counter(of_module) - Counter(mutant.name for mutant in alive)
    assert stale == {}, "these are noticed now: take them out of unnoticed.yaml"


def test_every_module_can_be_changed() -> None:
    assert {part.module.name for part in judge().tables.rules} <= set(MODULES)
