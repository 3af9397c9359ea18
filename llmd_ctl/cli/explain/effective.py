"""What holds in a fleet for a key or a flag, of every variant concerned, and who set it.

Called by `ask` with a loaded fleet and its plan. Flags are the plan's settings, word for word;
what levels inherit is `levels`'; all else stands in the file or is a default. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from llmd_ctl.cli.explain.asked import Asked
from llmd_ctl.cli.explain.case import Case, Level
from llmd_ctl.cli.explain.field import children, default_of
from llmd_ctl.cli.explain.levels import INHERITED, row
from llmd_ctl.cli.explain.page import Effective, words
from llmd_ctl.errors import Place, UsageError
from llmd_ctl.plan import Plan
from llmd_ctl.plan.settings import ENGINE_DEFAULT, PLAN
from llmd_ctl.spec import LoadedFleet
from llmd_ctl.spec.shape import SHAPE
from llmd_ctl.spec.source import dotted

MODELS, VARIANTS, TARGETS = "spec.models", "spec.models[].variants", "spec.targets"
# The nearest first, and the list that picks among what it speaks of.
OWNERS = (f"{VARIANTS}[].", f"{MODELS}[].", f"{TARGETS}[].", "spec.defaults.")
# Fields that stand for a flag: by the role of it.
ROLES = {
    "maxModelLen": ("maxModelLen",),
    "revision": ("revision",),
    "tensor": ("parallelism", "tensor"),
    "pipeline": ("parallelism", "pipeline"),
    "data": ("parallelism", "data"),
    "expert": ("parallelism", "expert"),
}
OF_FLAGS = ("engineArgs", "maxModelLen", "parallelism")
LISTS = (MODELS, VARIANTS, TARGETS, "spec.inventory")  # shown item by item only
IN_FILE, FILLED_IN, BY_DEFAULT = "the fleet file", "filled in", "default"
OWN = "not set: the engine's own default"


def of_field(asked: Asked, loaded: LoadedFleet, cases: Sequence[Case]) -> tuple[Effective, ...]:
    """What holds of a key. Raises `UsageError` where the file has no such item."""
    _check_choice(asked, loaded)
    owner = next((each for each in OWNERS if asked.path.startswith(each)), None)
    key = asked.path.removeprefix(owner or "")
    head, _, rest = key.partition(".")
    concerned = [case for case in cases if _concerns(asked, case)]
    if owner is not None and head in (*INHERITED, *OF_FLAGS):
        return tuple(row for case in concerned for row in _of_case(case, head, asked.own or rest))
    plan = cases[0].plan if cases else None
    return tuple(_written(asked, loaded, plan))


def of_flag(flag: str, cases: Sequence[Case]) -> tuple[Effective, ...]:
    """What holds of a flag, and of keys inside it, of every variant whose engine has it."""
    rows = []
    for case in cases:
        chosen = case.chosen
        if chosen is not None and flag.partition(".")[0] in chosen.engine.spec.flags:
            inside = [name for name in case.planned.settings if name.startswith(f"{flag}.")]
            rows += [_setting(case, name) for name in (inside or [flag])]
    return tuple(rows)


def _of_case(case: Case, head: str, own: str) -> Iterator[Effective]:
    if head == "maxModelLen":
        yield _of_role(case, "maxModelLen", case.planned.max_model_len, "maxModelLen")
    elif not case.is_managed:
        yield Effective(case.title, head, "runs already: not managed", None, "whoever started it")
    elif head in INHERITED:
        yield from INHERITED[head](case, own)
    else:
        yield from _settings(case, head, own)


# --- flags ---


def _settings(case: Case, head: str, own: str) -> Iterator[Effective]:
    chosen = case.chosen
    if chosen is None:
        return
    if head == "parallelism":
        yield from _split(case, own)
    elif own:
        flag = chosen.engine.by_argument.get(own)
        if flag is not None:
            yield from of_flag(flag, [case])
    else:
        yield from (_setting(case, flag) for flag in case.planned.settings)


def _setting(case: Case, flag: str) -> Effective:
    setting = case.planned.settings.get(flag)
    if setting is None:
        return Effective(case.title, flag, OWN, None, ENGINE_DEFAULT)
    value = setting.value
    at = _place(case, flag, setting.set_by)
    return Effective(case.title, flag, words(value), value, setting.set_by, setting.overruled, at)


def _of_role(case: Case, role: str, value: Any, name: str) -> Effective:
    """A field that a flag stands for: the plan's value, by whoever set the flag."""
    chosen = case.chosen
    flag = chosen.engine.spec.roles.get(role) if chosen is not None else None
    setting = case.planned.settings.get(flag) if flag is not None else None
    if flag is None or setting is None:
        return row(case, name, value, ROLES[role], PLAN)
    by, over = setting.set_by, setting.overruled
    if by == ENGINE_DEFAULT and value > max(1, setting.value):
        by = PLAN  # it splits a replica of an engine whose flag stays as it was
    return Effective(case.title, name, words(value), value, by, over, _place(case, flag, by))


def _split(case: Case, own: str) -> Iterator[Effective]:
    for key in ("tensor", "pipeline", "data", "expert"):
        if own in {"", key}:
            value = getattr(case.planned.parallelism, key)
            yield _of_role(case, key, value, f"parallelism.{key}")


def _place(case: Case, flag: str, set_by: str) -> Place | None:
    """Where whoever set a flag wrote it; None for what stands in no file."""
    own = case.levels[-1]
    level = {"engineArgs": own, "extraArgs": own, **{each.title: each for each in case.levels}}
    found = level.get(set_by)
    if found is None:
        return None
    if set_by == "extraArgs":
        return case.loaded.place((*found.path, "extraArgs"))
    keys = _keys(case, found, flag.partition(".")[0])
    return case.loaded.place((*found.path, *keys)) if keys else None


def _keys(case: Case, level: Level, flag: str) -> tuple[str, ...]:
    engine = case.chosen.engine if case.chosen is not None else None
    assert engine is not None
    for key in case.said(level, "engineArgs") or ():
        if engine.by_argument.get(key) == flag:
            return ("engineArgs", key)
    for role, keys in ROLES.items():
        if engine.spec.roles.get(role) == flag and case.said(level, *keys) is not None:
            return keys
    return ("engineArgs",) if case.said(level, "engineArgs") else ()


# --- which variants ---


def _concerns(asked: Asked, case: Case) -> bool:
    """Whether what is asked of reaches a variant."""
    owner = next((each for each in OWNERS if asked.path.startswith(each)), "")
    if owner == f"{TARGETS}[].":
        targets = case.loaded.fleet.spec.targets
        at = next((n for n, one in enumerate(targets) if one.name == case.variant.target), -1)
        return at >= 0 and _is_chosen(asked.only.get(TARGETS), at, targets[at].name)
    return _is_chosen(asked.only.get(MODELS), case.model_at, case.model.name) and _is_chosen(
        asked.only.get(VARIANTS), case.variant_at, case.variant.name
    )


def _is_chosen(which: str | None, at: int, name: str | None) -> bool:
    return which is None or which in {name, str(at)}


def _check_choice(asked: Asked, loaded: LoadedFleet) -> None:
    """Refuse an item that the file does not have."""
    models = loaded.fleet.spec.models
    chosen = [
        (at, model) for at, model in enumerate(models)
        if _is_chosen(asked.only.get(MODELS), at, model.name)
    ]  # fmt: skip
    names = {
        MODELS: [model.name for model in models],
        VARIANTS: [variant.name for _, model in chosen for variant in model.variants],
        TARGETS: [target.name for target in loaded.fleet.spec.targets],
    }
    for path, which in asked.only.items():
        known = names.get(path)
        if known is not None and which not in known and not _is_index(which, len(known)):
            message = f"{loaded.source.file} has no {path}[{which}]"
            raise UsageError.of("LC6012", message, found=which, allowed=tuple(known))


def _is_index(which: str, length: int) -> bool:
    return which.isdecimal() and len(which) < 10 and int(which) < length


# --- what only stands in the file ---


def _written(asked: Asked, loaded: LoadedFleet, plan: Plan | None) -> Iterator[Effective]:
    if not asked.is_built:
        return
    dumped = loaded.fleet.model_dump(mode="json", by_alias=True)
    if asked.path in LISTS:
        yield from _items(replace(asked, path=f"{asked.path}[]"), dumped, loaded)
        return
    router = plan.router if plan is not None else None
    planned = {} if router is None else {
        "spec.router.target": router.target, "spec.router.replicas": router.replicas,
    }  # fmt: skip
    for path, value in _occurrences(dumped, asked):
        for each, inner in _below(asked.path, path, value):
            pattern = asked.path if each == path else f"{asked.path}.{'.'.join(each[len(path) :])}"
            yield _as_written(pattern, each, inner, loaded, planned.get(pattern))


def _items(asked: Asked, dumped: Any, loaded: LoadedFleet) -> Iterator[Effective]:
    """The items of a list of maps, by name alone: their keys are told one by one."""
    for path, item in _occurrences(dumped, asked):
        name = item.get("name") or item.get("accelerator")
        at = loaded.place(path)
        yield Effective(dotted(path), str(path[-2]), words(name), item, IN_FILE, (), at)


def _as_written(
    pattern: str, path: tuple[Any, ...], value: Any, loaded: LoadedFleet, planned: Any
) -> Effective:
    node = loaded.document.root.at(path)
    key = str(path[-1])
    if node is not None:
        text = node.written or words(node.plain())
        at = loaded.place(path)
        return Effective(dotted(path), key, text, value, IN_FILE, (), at)
    if planned is not None:
        return Effective(dotted(path), key, words(planned), planned, "plan")
    default = default_of(SHAPE[pattern])
    if value in (None, default.value) or SHAPE[pattern].section is not None:
        return Effective(dotted(path), key, default.text, value, BY_DEFAULT)
    return Effective(dotted(path), key, words(value), value, FILLED_IN)


def _below(
    pattern: str, path: tuple[Any, ...], value: Any
) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """A value, or where it is a map of the format each value in it."""
    shape = SHAPE[pattern]
    if shape.section is None or not isinstance(value, dict):
        yield path, value
        return
    for child in children(pattern):
        key = child.rpartition(".")[2]
        yield from _below(child, (*path, key), value.get(key))


def _occurrences(dumped: Any, asked: Asked) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Every place of a fleet that a path with [] stands for, with the value there."""
    found: list[tuple[tuple[Any, ...], Any]] = [((), dumped)]
    parts = asked.path.split(".")
    for depth, part in enumerate(parts):
        key = part.removesuffix("[]")
        here = ".".join(parts[: depth + 1]).removesuffix("[]")
        held = [((*path, key), value[key]) for path, value in found if value is not None]
        if not part.endswith("[]"):
            found = held
            continue
        found = [
            ((*path, at), item)
            for path, items in held
            for at, item in enumerate(items or ())
            if _is_chosen(asked.only.get(here), at, item.get("name"))
        ]
    return iter(found)
