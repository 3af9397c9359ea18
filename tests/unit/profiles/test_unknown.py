"""What is not known is null, and for each thing that may be null the type says what follows."""

import inspect
import types
from collections.abc import Iterator, Mapping
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest
from msgspec import StructMeta

from llmd_ctl.profiles.accelerator import AcceleratorSpec
from llmd_ctl.profiles.number import Unknown, dimension, unknown


def inner(hint: Any) -> Iterator[Any]:
    """The types that a hint is made of."""
    yield hint
    if get_origin(hint) in (Union, types.UnionType, tuple, Mapping) or unknown(hint):
        for part in get_args(hint):
            yield from inner(part)


def sections(cls: Any, seen: set[Any]) -> set[Any]:
    """The records below one, itself included."""
    if cls in seen:
        return seen
    seen.add(cls)
    for hint in get_type_hints(cls, include_extras=True).values():
        for part in inner(hint):
            if isinstance(part, StructMeta):
                sections(part, seen)
    return seen


FOR_RENDERERS = sorted(
    (
        cls
        for cls in sections(AcceleratorSpec, set())
        if cls.__module__.rpartition(".")[2] != "accelerator" or cls is AcceleratorSpec
    ),
    key=lambda cls: cls.__name__,
)


@pytest.mark.parametrize("cls", FOR_RENDERERS, ids=lambda cls: cls.__name__)
def test_whatever_may_be_unknown_says_what_follows(cls: Any) -> None:
    source = inspect.getsource(cls)
    for name, hint in get_type_hints(cls, include_extras=True).items():
        may_be_none = type(None) in {p for part in inner(hint) for p in (part, *get_args(part))}
        if not may_be_none:
            continue
        (line,) = (line for line in source.splitlines() if line.startswith(f"    {name}:"))
        told = unknown(hint) or "# None: " in line
        assert told, name


def test_a_mark_without_an_effect_would_be_none() -> None:
    effects = [
        unknown(hint)
        for cls in FOR_RENDERERS
        for hint in get_type_hints(cls, include_extras=True).values()
        if any(isinstance(mark, Unknown) for mark in getattr(hint, "__metadata__", ()))
    ]
    assert len(effects) >= 12
    assert all(effect and effect[0].islower() for effect in effects)


def test_every_figure_that_may_be_null_says_what_follows() -> None:
    found = {
        dimension(part)
        for cls in sections(AcceleratorSpec, set())
        for hint in get_type_hints(cls, include_extras=True).values()
        for part in inner(hint)
    } - {None}
    nullable = [figure.null for figure in found if figure is not None and figure.null is not None]
    assert len(nullable) >= 10
    assert all(len(effect) > 20 for effect in nullable)
