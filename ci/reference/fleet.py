"""fleet.md from the types and the annotated reference; capabilities.md from the plan's table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ci.reference.markdown import anchor, heading, items, page, paragraph, plain, table
from llmd_ctl.cli.explain.field import children, default_of, kind_of, meaning_of
from llmd_ctl.plan.capabilities import (
    BY_ROUTER,
    BY_ROUTERS_TARGET,
    BY_TARGET,
    KINDS,
    NEUTRAL,
    ROUTERS,
    Gap,
)
from llmd_ctl.spec.not_yet import NOT_YET, NOT_YET_WORDS
from llmd_ctl.spec.shape import SHAPE, FieldShape

WORDS = {"refused": "refused", "ignored": "warned of"}
TOP = "the file"


def fleet() -> str:
    """Every key, section by section; a section that several levels have where it first stands."""
    parts = [paragraph(
        "One YAML document is one fleet. Each section below is a map of the file, or each item of "
        "a list; an unknown key is an error with its place. `llmd-ctl explain PATH` tells one key, "
        "and with `--file fleet.yaml` what holds there and who set it. What targets and routers "
        "cannot carry out is in [capabilities.md](capabilities.md)."
    )]  # fmt: skip
    first = _first()
    for home in first.values():
        parts += [heading(_title(home)), items(_key(path, first) for path in _keys(home))]
    later = [
        (f"{home}.{key}", what) for home, keys in NOT_YET.items() for key, what in keys.items()
    ]
    words = [
        (f"{path}: {word}", what)
        for path, table_ in NOT_YET_WORDS.items() for word, what in table_.items()
    ]  # fmt: skip
    parts += [
        heading("Known and not built yet"),
        paragraph("Using one is an error (LC1050, LC1051): it is never ignored."),
        items(f"`{name}`: {plain(what)}" for name, what in (*later, *words)),
    ]
    return page("The fleet file", *parts)


def _first() -> dict[object, str]:
    """The sections by type, each with the path where it first stands."""
    found: dict[object, str] = {"": ""}
    for path, shape in SHAPE.items():
        if shape.section is not None:
            found.setdefault(shape.section, path)
    return found


def _title(home: str) -> str:
    many = f"{home}[]" in {path.rpartition(".")[0] for path in SHAPE}
    return f"`{home}{'[]' if many else ''}`" if home else TOP.capitalize()


def _keys(home: str) -> tuple[str, ...]:
    return children(home) if home else tuple(path for path in SHAPE if "." not in path)


def _key(path: str, first: Mapping[object, str]) -> str:
    shape = SHAPE[path]
    kind = kind_of(shape.info.annotation, tuple(shape.info.metadata))
    allowed = f"; {' '.join(f'`{word}`' for word in shape.words)}" if shape.words else ""
    if shape.range and not shape.words:
        allowed = f"; {shape.range}"
    where = _where(shape, first)
    need = _need(shape)
    name = path.rpartition(".")[2]
    return f"**`{name}`** ({kind}{allowed}; {need}): {plain(meaning_of(path))}{where}"


def _need(shape: FieldShape) -> str:
    if shape.info.is_required():
        return "may be left out as said" if default_of(shape).text == "none" else "required"
    return f"default {plain(default_of(shape).text)}"


def _where(shape: FieldShape, first: Mapping[object, str]) -> str:
    if shape.section is None:
        return ""
    title = _title(first[shape.section])
    return f" Keys: [{title}](#{anchor(title)})."


# --- what cannot be carried out ---


def capabilities() -> str:
    """One table for targets, one for the router's target, one for routers, each with reasons."""
    neutral = ", ".join(f"`{key}: {value}`" for key, value in NEUTRAL.items())
    return page(
        "What targets and routers cannot carry out",
        paragraph(
            "A key that is not in a table is carried out everywhere. *Refused* is an error "
            "(LC3050): the fleet would run otherwise than it says. *Warned of* (LC3051) does "
            "nothing there. "
            f"What says no more than leaving it out ({neutral}) is neither."
        ),
        heading("Keys of targets, defaults, models and variants, by kind of target"),
        *_table(BY_TARGET, KINDS),
        heading("Keys of `spec.router`, by kind of its target"),
        *_table(BY_ROUTERS_TARGET, KINDS),
        heading("Keys by kind of router"),
        *_table(BY_ROUTER, ROUTERS),
    )


def _table(gaps: Mapping[str, Mapping[str, Gap]], kinds: tuple[str, ...]) -> Iterator[str]:
    rows = [
        [f"`{key}`", *(WORDS[row[kind].verdict] if kind in row else "yes" for kind in kinds)]
        for key, row in gaps.items()
    ]
    yield table(["key", *kinds], rows)
    yield items(reason for key, row in gaps.items() for reason in _reasons(key, row))


def _reasons(key: str, row: Mapping[str, Gap]) -> Iterator[str]:
    same: dict[Gap, list[str]] = {}
    for kind, gap in row.items():
        same.setdefault(gap, []).append(kind)
    for gap, kinds in same.items():
        remedy = f". {gap.hint.rstrip('.')}" if gap.hint else ""
        yield f"`{key}` ({', '.join(kinds)}): {plain(gap.why)}{plain(remedy)}."
