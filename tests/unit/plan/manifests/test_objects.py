"""What objects say of each other, case by case, and that no condition can change unnoticed.

`objects.yaml` has the cases: a clean manifest with changes and further objects, and exactly the
rules that speak of it. Every changed condition of the modules below makes some case say otherwise;
`unnoticed` there lists those that cannot, with the reason.
"""

import ast
import copy
import importlib
import inspect
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any
from unittest.mock import patch

import pytest
import yaml

from llmd_ctl.errors import Problem
from llmd_ctl.plan.manifests import relations
from llmd_ctl.plan.manifests.kustomization import check_kustomization, fragments
from llmd_ctl.plan.manifests.manifest import read
from llmd_ctl.spec.source import SourceText
from tests.unit.plan.manifests.folders import judged, rule_of
from tests.unit.plan.manifests.test_pods import changed, put
from tests.unit.profiles.rules.mutants import Edit, edits
from tests.unit.profiles.rules.mutation import FALLS

pytestmark = pytest.mark.slow
MODULES = ("relations", "references", "pairs", "picker", "claims", "kustomization")
FILE: dict[str, Any] = yaml.safe_load((Path(__file__).parent / "objects.yaml").read_text("utf-8"))
OBJECTS: list[dict[str, Any]] = FILE["objects"]
KUSTOMIZATIONS: list[dict[str, Any]] = FILE["kustomizations"]
KNOWN = Counter(name for listed in FILE["unnoticed"].values() for name in listed)


def text_of(case: dict[str, Any]) -> str:
    """The manifests of a case."""
    own = [changed(case)] if "of" in case else []
    also = [copy.deepcopy(FILE["made"][each["is"]]) for each in case.get("also", ())]
    for one, each in zip(also, case.get("also", ()), strict=True):
        put(one, each.get("change", {}))
    return "---\n".join([*own, *(yaml.safe_dump(one) for one in also)])


@cache
def folders() -> list[tuple[dict[str, Any], tuple[Any, ...]]]:
    """Each case, read once: its objects, pods and engines."""
    found: list[tuple[Any, ...]] = []

    def kept(*given: Any) -> Iterator[Problem]:
        found.append(given)
        return iter(())

    with patch.object(relations, "check", kept):
        for case in OBJECTS:
            judged(text_of(case))
    return list(zip(OBJECTS, found, strict=True))


def of_kustomization(case: dict[str, Any]) -> tuple[list[str], list[str]]:
    """What is said of one that lies in a folder `base`, beside files; and which are its patches."""
    source = SourceText("base/kustomization.yaml", yaml.safe_dump(case["says"]), Path())
    ((one,), _) = read(source)
    files = case.get("files", ())
    told = check_kustomization(one, files, lambda path: path in case.get("there", files))
    return named(list(told)), list(fragments(one))


ERRORS = {"LC3040", "LC3070"}


def named(problems: Sequence[Problem]) -> list[str]:
    """The rules that speak, how strictly, where, and what they allow instead."""
    return sorted(
        f"{rule_of(each)} {each.severity} {' '.join([each.place.path, *each.allowed])}".rstrip()
        for each in problems
        if each.place is not None and (each.code in ERRORS) == (each.severity == "error")
    )


def wrong() -> Iterator[str]:
    """The cases of which something else is said."""
    for case, given in folders():
        told = named(list(relations.check(*given)))
        if told != sorted(case["rules"]):
            yield f"{told} of {case}"
    for case in KUSTOMIZATIONS:
        both = of_kustomization(case)
        if both != (sorted(case["rules"]), case.get("fragments", [])):
            yield f"{both} of {case}"


def test_each_case_says_what_it_says() -> None:
    assert list(wrong()) == []


def functions(module: ModuleType) -> Iterator[tuple[FunctionType, Callable[[], None]]]:
    """The functions that a module defines, and how what they keep is forgotten."""
    for value in list(vars(module).values()):
        inner = inspect.unwrap(value) if callable(value) else value
        if isinstance(inner, FunctionType) and inner.__module__ == module.__name__:
            yield inner, getattr(value, "cache_clear", lambda: None)


@contextmanager
def edited(module: ModuleType, code: CodeType) -> Iterator[None]:
    """Have the functions and constants of a module as other code makes them."""
    made = ModuleType(module.__name__)
    made.__file__ = module.__file__
    exec(code, vars(made))
    constants = {name: value for name, value in vars(module).items() if name.isupper()}
    before = [(own, own.__code__, forget) for own, forget in functions(module)]
    vars(module).update({name: vars(made)[name] for name in constants})
    other = {new.__name__: new.__code__ for new, _ in functions(made)}
    for own, _, forget in before:
        own.__code__ = other[own.__name__]
        forget()
    try:
        yield
    finally:
        vars(module).update(constants)
        for own, old, forget in before:
            own.__code__ = old
            forget()


def compiled(tree: ast.Module, edit: Edit) -> CodeType:
    """The code of a tree with an edit."""
    edit.do()
    try:
        return compile(ast.fix_missing_locations(tree), "edited", "exec")
    finally:
        edit.undo()


def survivors(name: str) -> Iterator[str]:
    """Changes of which no case says anything else."""
    module = importlib.import_module(f"llmd_ctl.plan.manifests.{name}")
    tree = ast.parse(inspect.getsource(module))
    for edit in [each for part in tree.body for each in edits(part)]:
        try:
            with edited(module, compiled(tree, edit)):
                noticed = next(wrong(), None) is not None
        except FALLS:
            noticed = True
        if not noticed:
            yield f"{name} {edit.what}"


@pytest.mark.parametrize("module", MODULES)
def test_each_change_of_a_condition_is_noticed(module: str) -> None:
    alive = Counter(survivors(module))
    known = Counter({name: n for name, n in KNOWN.items() if name.startswith(f"{module} ")})
    assert alive - known == {}, "a case is missing in objects.yaml"
    assert known - alive == {}, "these are noticed now: take them out of `unnoticed`"
