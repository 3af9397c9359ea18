"""Every cell of the grid is legal, or refused by a rule that has a name; how many, is reviewed.

`grid.txt` says for each accelerator what share is refused, and by which rules most: a rule that
stops speaking, or speaks too often, is a changed line there. `pytest -s` prints it.
"""

import random
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from llmd_ctl.errors import LlmdError, codes
from llmd_ctl.profiles.rules import RULES
from tests.golden.grid.cells import (
    ACCELERATORS,
    BACKENDS,
    BEST,
    CATALOG,
    ENGINES,
    KV_TYPES,
    MODELS,
    Cell,
    cells,
    shapes,
    versions_of,
)
from tests.unit.plan.fleets import fleet_text, plan_text

EXPECTED = Path(__file__).parent / "grid.txt"
SHOWN = 4
SAMPLED = 3  # cells of each accelerator that are planned as fleets, of each verdict
OWN = frozenset({"cuda", "rocm", "xpu", "cpu"})  # the ports whose backends the table knows


@cache
def grid() -> dict[str, list[Cell]]:
    models = shapes()
    return {name: list(cells(name, models)) for name in ACCELERATORS}


def told(name: str, found: list[Cell]) -> str:
    refused = [cell for cell in found if cell.rules]
    by_rule = Counter(rule for cell in refused for rule in cell.rules)
    most = sorted(by_rule.items(), key=lambda item: (-item[1], item[0]))[:SHOWN]
    rules = ", ".join(f"{rule} {count}" for rule, count in most)
    versions = ", ".join(versions_of(CATALOG.accelerator(name)))
    share = 100 * len(refused) / len(found)
    return f"{name:20} {len(found)} cells {share:5.1f} % refused  {rules}  (vllm {versions})"


def test_the_refused_share_of_each_accelerator_is_the_reviewed_one(
    request: pytest.FixtureRequest,
) -> None:
    text = "".join(f"{told(name, found)}\n" for name, found in grid().items())
    sys.stdout.write(text)
    if request.config.getoption("--update-golden", default=False):
        EXPECTED.write_text(text)
    assert text == EXPECTED.read_text(), "review it, then: pytest tests/golden/grid --update-golden"


def test_every_two_values_stand_together_on_each_accelerator() -> None:
    for name, found in grid().items():
        all_of = versions_of(CATALOG.accelerator(name))
        assert {(c.backend, c.version) for c in found} == {(b, v) for b in BACKENDS for v in all_of}
        assert {(c.kv_type, c.version) for c in found} == {(k, v) for k in KV_TYPES for v in all_of}
        assert {(c.kind, c.version) for c in found} == {(m, v) for m in MODELS for v in all_of}
        assert {(c.backend, c.kv_type) for c in found} == {
            (b, k) for b in BACKENDS for k in KV_TYPES
        }
        assert {(c.backend, c.kind) for c in found} == {(b, m) for b in BACKENDS for m in MODELS}
        assert {(c.kv_type, c.kind) for c in found} == {(k, m) for k in KV_TYPES for m in MODELS}


def test_what_refuses_a_cell_has_a_name_and_a_remedy() -> None:
    names = {rule.id for rule in RULES} | set(codes())
    for found in grid().values():
        assert {rule for cell in found for rule in cell.rules} <= names


def test_a_legal_cell_names_a_backend_that_can_do_it() -> None:
    """By the table of the engine's own backends, read without a rule."""
    for found in grid().values():
        for cell in found:
            if cell.rules or cell.backend is None or cell.kind == "deepseek-v4":
                continue  # the last chooses for itself, whatever is named
            on = cell.accelerator.spec.architecture
            kernel = ENGINES.get(cell.version, BEST).kernel(cell.backend, on)
            vendor = cell.accelerator.spec.vendor
            if vendor in ("nvidia", "amd"):
                assert kernel is not None, cell
                assert cell.kind in (*kernel.models, "hybrid"), cell
                assert not kernel.kv_dtypes or cell.kv_type in kernel.kv_dtypes, cell


@pytest.mark.parametrize(
    "name", [n for n in ACCELERATORS if not CATALOG.accelerator(n).spec.engines["vllm"].not_yet]
)
def test_a_fleet_is_planned_or_refused_as_the_cell_is(name: str) -> None:
    chance = random.Random(name)
    found = grid()[name]
    legal = [cell for cell in found if not cell.rules]
    refused = [cell for cell in found if cell.rules and "LC3017" not in cell.rules]
    some = [chance.sample(each, min(SAMPLED, len(each))) for each in (legal, refused)]
    for cell in (*some[0], *some[1]):
        assert refusing(cell) == {rule for rule in cell.rules if rule not in codes()}, cell


def refusing(cell: Cell) -> set[str]:
    """The rules by which a plan refuses the fleet of a cell."""
    args = {"attentionBackend": cell.backend, "kvCacheDtype": cell.kv_type}
    said = ", ".join(
        f"{key}: {value}" for key, value in args.items() if value not in (None, "auto")
    )
    engine = f"engine: {{name: vllm, version: {cell.version}}}"
    on = f"accelerator: {cell.accelerator.name}, {engine}"
    variant = f"{{name: v, {on}, engineArgs: {{{said}}}}}"
    try:
        plan_text(fleet_text(f"- {variant}", uri=f"hf://{MODELS[cell.kind]}"))
    except LlmdError as error:
        return {p.message.partition(":")[0] for p in error.problems if p.code == "LC3040"}
    return set()


@pytest.mark.parametrize(
    "name", [n for n in ACCELERATORS if not CATALOG.accelerator(n).spec.engines["vllm"].not_yet]
)
def test_a_version_that_is_not_known_is_refused_by_name(name: str) -> None:
    variant = f"{{name: v, accelerator: {name}, engine: {{name: vllm, version: 0.18.0}}}}"
    with pytest.raises(LlmdError) as raised:
        plan_text(fleet_text(f"- {variant}", uri="hf://Qwen/Qwen3-8B"))
    assert "LC2011" in [problem.code for problem in raised.value.problems]
