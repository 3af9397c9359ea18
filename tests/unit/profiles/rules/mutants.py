"""Mutants of a piece of the rules' source: the same tree with one part of it changed.

Used by `mutation`. Changed are conditions alone: what a rule says, and where it says it, is read by
people. Each edit is made in place, given away, and taken back.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

# What a rule tells people; the rest of its arguments are conditions.
WORDS = frozenset({
    "id", "title", "source", "message", "remedy", "at", "allowed", "allowed_of", "words", "so",
    # Guards, which are changed in the rule itself.
    "severity", "since", "before", "platforms", "engine", "sized", "on",
})  # fmt: skip
COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
OTHER = {"any": "all", "all": "any", "min": "max", "max": "min"}
# Functions of which each further argument is one more name of a set, and how many come before.
NAMING = {"says": 0, "names": 0, "said": 1, "startswith": 0, "on_any": 0}
# What is taken where nobody says a number, by where it stands; nobody says fewer than none or one.
FALLS_BACK = "falls back"
FALLBACKS = {"number": 2, "fraction": 2, "above": 2, "get": 1}
NO_CONDITIONS = frozenset({"annotation", "returns", "targets", "target", "decorator_list", "args"})
TOLD = frozenset(
    {"Amiss", "Mapping", "cast", "own_at"}
)  # calls of which no argument is a condition


@dataclass(frozen=True)
class Edit:
    """One change: what is done, in words, and doing and undoing it."""

    line: int
    what: str
    do: Callable[[], None]
    undo: Callable[[], None]


def edits(tree: ast.AST) -> Iterator[Edit]:
    """Every change of a tree's conditions."""
    yield from _of_node(tree)
    for name, value in ast.iter_fields(tree):
        if name in NO_CONDITIONS and not isinstance(tree, ast.Call):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and _is_condition(tree, child):
                yield from edits(child)


def _is_condition(parent: ast.AST, child: ast.AST) -> bool:
    if isinstance(child, ast.keyword):
        return child.arg not in WORDS
    if isinstance(child, ast.JoinedStr):
        return False
    if isinstance(parent, ast.Call):
        return _called(parent) not in TOLD
    # `one, other = …`: a part that is gone leaves nothing to run.
    return not (isinstance(parent, ast.Subscript) and child is parent.slice
                and not isinstance(child, ast.Constant | ast.Slice))  # fmt: skip


def _called(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")


def _of_node(node: ast.AST) -> Iterator[Edit]:
    match node:
        case ast.BoolOp(values=values):
            word = "and" if isinstance(node.op, ast.And) else "or"
            for at, part in enumerate(list(values)):
                beside = values[at - 1]  # which is then asked twice
                yield _put(node, values, at, beside, f"`{word}` without {_text(part)}")
        case ast.Compare(ops=ops, comparators=others):
            for at, op in enumerate(list(ops)):
                turned = COMPARED[type(op)]()
                shown = f"{turned.__class__.__name__} instead, before {_text(others[at])}"
                yield _put(node, ops, at, turned, shown)
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            yield _set(node, "value", value + 1, f"{value} is {value + 1}")
            if not (node.kind == FALLS_BACK and value in (0, 1)):
                yield _set(node, "value", value - 1, f"{value} is {value - 1}")
        case ast.Constant(value=bool(value)):
            yield _set(node, "value", not value, f"{value} is {not value}")
        case ast.Tuple(elts=parts) if all(isinstance(part, ast.Name) for part in parts):
            if all(part.id.isupper() for part in parts if isinstance(part, ast.Name)):
                for part in list(parts):  # constants; values of a moment are no set of names
                    yield _without(node, parts, part, "without")
        case ast.Tuple(elts=parts, ctx=ast.Load()) | ast.List(elts=parts) | ast.Set(elts=parts):
            for part in list(parts):
                yield _without(node, parts, part, "without")
        case ast.Dict(keys=keys):
            for at in range(len(keys)):
                yield _without_key(node, at)
        case ast.Call():
            yield from _of_call(node)
        case ast.UnaryOp(op=ast.Not()):
            twice = ast.copy_location(ast.UnaryOp(ast.Not(), node.operand), node)
            yield _set(node, "operand", twice, f"no `not` before {_text(node.operand)}")
        case ast.If(test=test) | ast.IfExp(test=test):
            if isinstance(node, ast.IfExp) and "type(" in _text(test):
                _fall_back(node.orelse)
            for value in (True, False):
                shown = f"{value} instead of {_text(test)}"
                yield _set(node, "test", ast.copy_location(ast.Constant(value), test), shown)
        case ast.comprehension(ifs=ifs):
            for part in list(ifs):
                yield _without(node, ifs, part, "`if` without")


def _of_call(node: ast.Call) -> Iterator[Edit]:
    name, args = _called(node), node.args
    at = FALLBACKS.get(name, len(args))
    for part in args[at : at + 1]:
        _fall_back(part)
    if isinstance(node.func, ast.Name) and name in OTHER:
        yield _set(node.func, "id", OTHER[name], f"{OTHER[name]} for {_text(node)}")
    if len(args) > NAMING.get(name, len(args)) + 1:
        for part in args[NAMING[name] :]:
            yield _without(node, args, part, f"{name} without")
    if name == "split" and not args and isinstance(node.func, ast.Attribute):
        held = node.func.value
        if isinstance(held, ast.Constant) and isinstance(held.value, str):
            words = held.value.split()
            for word in words:
                rest = " ".join(each for each in words if each != word)
                yield _set(held, "value", rest, f"without {word!r}")


def _fall_back(tree: ast.AST) -> None:
    """Mark the numbers of what is taken where nobody says one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant):
            node.kind = FALLS_BACK


def _text(node: ast.AST) -> str:
    text = ast.unparse(node)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _put(node: ast.AST, held: list[Any], at: int, new: Any, what: str) -> Edit:
    old = held[at]

    def put(value: Any) -> None:
        held[at] = value

    return Edit(_line(node), what, lambda: put(new), lambda: put(old))


def _set(node: ast.AST, name: str, new: Any, what: str) -> Edit:
    old = getattr(node, name)
    return Edit(
        _line(node), what, lambda: setattr(node, name, new), lambda: setattr(node, name, old)
    )


def _without(node: ast.AST, held: list[Any], part: ast.AST, what: str) -> Edit:
    at = next(index for index, each in enumerate(held) if each is part)
    return Edit(
        _line(part, node), f"{what} {_text(part)}", lambda: held.pop(at),
        lambda: held.insert(at, part),
    )  # fmt: skip


def _without_key(node: ast.Dict, at: int) -> Edit:
    key, value = node.keys[at], node.values[at]

    def do() -> None:
        del node.keys[at], node.values[at]

    def undo() -> None:
        node.keys.insert(at, key)
        node.values.insert(at, value)

    return Edit(_line(key or node, node), f"without {_text(key or value)}", do, undo)


def _line(node: ast.AST, other: ast.AST | None = None) -> int:
    return int(getattr(node, "lineno", getattr(other, "lineno", 0)))
