"""The tables of rules as source: statements that depend on each other, any of which can be changed.

Used by `mutation`. The modules are run a second time, statement by statement, apart from those that
everything else has imported, so that a change here is seen by nobody else. What a statement names,
and what is made of it, is run again after a change, and put back afterwards.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from llmd_ctl.profiles import rules
from tests.unit.profiles.rules.mutants import WORDS, Edit, edits

FOLDER = Path(rules.__file__).parent
PACKAGE = rules.__name__
MACHINERY = {"__init__", "edges", "line", "rule", "pair", "pod", "sglang"}  # they hold no rule
SAID_IN_ALL = {"RULES", "OWN"}


@dataclass(eq=False)
class Part:
    """A statement of a module, or one rule of its table."""

    module: Module
    tree: ast.stmt | ast.expr
    names: tuple[str, ...] = ()  # what it defines

    @property
    def is_rule(self) -> bool:
        return isinstance(self.tree, ast.expr)

    @cached_property
    def code(self) -> CodeType:
        return self.compiled()

    def compiled(self) -> CodeType:
        """Its code as the tree is now."""
        if isinstance(self.tree, ast.expr):
            return compile(ast.Expression(self.tree), self.module.name, "eval")
        return compile(ast.Module([self.tree], []), self.module.name, "exec")

    def run(self, code: CodeType | None = None) -> Any:
        """Run it where it stands; the rule, if it is one."""
        return eval(code or self.code, self.module.space)

    def edits(self) -> Iterator[Edit]:
        """Every change of it."""
        return edits(self.tree)

    @cached_property
    def needs(self) -> frozenset[Part]:
        """The parts that its conditions name, and those that they name."""
        found: dict[Part, None] = {}
        todo = [self]
        while todo:
            for part in todo.pop().named:
                if part not in found:
                    found[part] = None
                    todo.append(part)
        return frozenset(found)

    @cached_property
    def named(self) -> list[Part]:
        parts = (self.module.part(name) for name in _names(self.tree))
        return [part for part in parts if part is not None and part is not self]


@dataclass(eq=False)
class Module:
    """A module of the folder, run for itself."""

    name: str
    space: dict[str, Any]
    parts: list[Part] = field(default_factory=list)
    taken: dict[str, tuple[Module, str]] = field(default_factory=dict)  # imported, by own name

    def part(self, name: str) -> Part | None:
        """What defines a name here, or where it is imported from."""
        if name in self.taken:
            module, there = self.taken[name]
            return module.part(there)
        return next((part for part in self.parts if name in part.names), None)


class Tables:
    """All modules of the folder, and the rules in them."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self._folder = folder
        self.modules: dict[str, Module] = {}
        for path in sorted(folder.glob("*.py")):
            if path.stem not in MACHINERY:
                self._load(path.stem)
        self.parts = [part for module in self.modules.values() for part in module.parts]
        self.rules = [part for part in self.parts if part.is_rule]

    def _load(self, name: str) -> Module:
        if name in self.modules:
            return self.modules[name]
        path = self._folder / f"{name}.py"
        made = ModuleType(f"{PACKAGE}.{name}")
        module = Module(name, made.__dict__)
        for tree in ast.parse(path.read_text("utf-8"), str(path)).body:
            if isinstance(tree, ast.ImportFrom) and (tree.module or "").startswith(PACKAGE):
                self._import(module, tree)
            else:
                module.parts.extend(_parts(module, tree))
        self.modules[name] = module
        return module

    def _import(self, module: Module, tree: ast.ImportFrom) -> None:
        stem = (tree.module or "").removeprefix(PACKAGE).lstrip(".")
        for each in tree.names:
            own = each.asname or each.name
            if stem and stem not in MACHINERY:
                there = self._load(stem)
                module.taken[own] = (there, each.name)
                module.space[own] = there.space[each.name]
            elif not stem and each.name not in MACHINERY:
                module.space[own] = self._load(each.name)  # of which only RULES are asked
            else:
                one = ast.ImportFrom(tree.module, [each], 0)
                Part(module, ast.copy_location(one, tree)).run()

    @contextmanager
    def changed(self, part: Part, edit: Edit) -> Iterator[CodeType]:
        """Have a part otherwise, and all that is made of it."""
        kept: list[tuple[dict[str, Any], str, Any]] = []
        edit.do()
        try:
            ast.fix_missing_locations(part.tree)
            code = part.compiled()
        finally:
            edit.undo()
        try:
            if part.is_rule:
                yield code
                return
            self._again(part, code, kept)
            for other in self._of.get(part, ()):
                self._again(other, None, kept)
            yield code
        finally:
            for space, name, value in reversed(kept):
                space[name] = value

    def _again(
        self, part: Part, code: CodeType | None, kept: list[tuple[dict[str, Any], str, Any]]
    ) -> None:
        places = [(part.module.space, name, name) for name in part.names]
        for name in part.names:
            places += self._takers.get((part.module.name, name), [])
        kept += [(space, own, space[own]) for space, own, _ in places]
        part.run(code)
        for space, own, name in places:
            space[own] = part.module.space[name]

    @cached_property
    def _takers(self) -> dict[tuple[str, str], list[tuple[dict[str, Any], str, str]]]:
        found: dict[tuple[str, str], list[tuple[dict[str, Any], str, str]]] = {}
        for module in self.modules.values():
            for own, (there, name) in module.taken.items():
                found.setdefault((there.name, name), []).append((module.space, own, name))
        return found

    @cached_property
    def _of(self) -> dict[Part, list[Part]]:
        """What is made of each part, in the order in which it is run."""
        found: dict[Part, list[Part]] = {}
        for part in self.parts:
            if not part.is_rule:
                for needed in part.needs:
                    found.setdefault(needed, []).append(part)
        return found

    def rules_of(self, part: Part) -> list[Part]:
        """The rules that a part is a condition of."""
        return [rule for rule in self.rules if rule is part or part in rule.needs]


def _parts(module: Module, tree: ast.stmt) -> Iterator[Part]:
    names = tuple(_defined(tree))
    if set(names) & SAID_IN_ALL and isinstance(tree, ast.Assign | ast.AnnAssign):
        held = tree.value.elts if isinstance(tree.value, ast.Tuple) else []
        if any(isinstance(each, ast.Call) for each in held):
            yield from (Part(module, each) for each in held if isinstance(each, ast.Call))
            return
        if any(isinstance(each, ast.Starred) for each in held):
            return
    part = Part(module, tree, names)
    part.run()
    yield part


def _defined(tree: ast.stmt) -> Iterator[str]:
    match tree:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Assign(targets=targets):
            yield from (n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name)):
            yield name


def _names(tree: ast.AST) -> Iterator[str]:
    """The names in a tree, but for those that only words are made of."""
    if isinstance(tree, ast.Name):
        yield tree.id
    if isinstance(tree, ast.keyword) and tree.arg in WORDS:
        return
    for child in ast.iter_child_nodes(tree):
        yield from _names(child)
