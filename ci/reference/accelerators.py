"""accelerators.md, and a page for the accelerators of each maker: what `explain` tells of them.

What is the same of all of a maker is said once, on top of its page; below stands what is each one's
own. Called by `ci.reference`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ci.reference.facts import facts
from ci.reference.markdown import anchor, heading, page, paragraph, plain, table
from llmd_ctl.cli.explain.accelerator import accelerator_page
from llmd_ctl.cli.explain.page import Page, Section
from llmd_ctl.profiles import Accelerator, Catalog, Number
from llmd_ctl.profiles.built_in import index

KIND = "AcceleratorProfile"
UNKNOWN = "-"
GB, TERA = 1e9, 1e12
SHARED = "All of them"


def makers() -> Mapping[str, tuple[str, ...]]:
    """The accelerators by the folder of their profiles."""
    found: dict[str, list[str]] = {}
    for name in Catalog().names(KIND):
        folder = Path(str(index()[(KIND, name)])).parent.name
        found.setdefault(folder, []).append(name)
    return {folder: tuple(names) for folder, names in sorted(found.items())}


def file_of(maker: str) -> str:
    """The page of a maker."""
    return f"accelerators-{maker}.md"


def overview() -> str:
    """A table of the figures that are compared most."""
    return page(
        "Accelerators",
        paragraph(
            "What is known of one device. A page for each maker has the rest, with where it is "
            "from and how far to trust it: *high* is measured or the maker's word, *medium* is of "
            "a like device or second hand, *low* is derived. A dash is not known. A profile of "
            "your own (`spec.profiles`) may say all of it anew."
        ),
        *(
            part
            for maker, names in makers().items()
            for part in (heading(f"[{maker}]({file_of(maker)})"), _figures(names))
        ),
    )


def of_maker(maker: str) -> str:
    """The accelerators of one maker, each with its sources."""
    names = makers()[maker]
    pages = [accelerator_page(Catalog().accelerator(name)) for name in names]
    shared = common(pages)
    top = [heading(SHARED), *_told(shared)] if shared else []
    return page(
        f"Accelerators: {maker}",
        paragraph(
            "How to read it is in [accelerators.md](accelerators.md)."
            + (" What holds of all comes first, and is not said again." if shared else "")
        ),
        _figures(names, linked=True),
        *top,
        *(part for each in pages for part in _own(each, shared)),
    )


def common(pages: Sequence[Page]) -> tuple[Section, ...]:
    """What every page says alike, of two and more."""
    if len(pages) < 2:
        return ()
    first, *others = pages
    known = [{part.title: set(map(repr, part.facts)) for part in each.sections} for each in others]
    kept = (
        Section(part.title, tuple(
            fact for fact in part.facts
            if all(repr(fact) in each.get(part.title, ()) for each in known)
        ))
        for part in first.sections
    )  # fmt: skip
    return tuple(part for part in kept if part.facts)


def _own(each: Page, shared: Sequence[Section]) -> Iterator[str]:
    said = {part.title: set(map(repr, part.facts)) for part in shared}
    yield heading(each.name)
    yield paragraph(plain(each.title))
    kept = (
        Section(part.title, tuple(
            fact for fact in part.facts if repr(fact) not in said.get(part.title, ())
        ))
        for part in each.sections
    )  # fmt: skip
    yield from _told(part for part in kept if part.facts)


def _told(sections: Iterator[Section] | Sequence[Section]) -> Iterator[str]:
    for part in sections:
        yield f"*{part.title}*"
        yield facts(part)


def _figures(names: Sequence[str], *, linked: bool = False) -> str:
    head = ["accelerator", "GB", "GB/s", "bf16 TFLOP/s", "$/h", "engines that are built"]
    titles = [f"[{name}](#{anchor(name)})" if linked else name for name in names]
    return table(head, (
        [title, *_row(Catalog().accelerator(name))]
        for name, title in zip(names, titles, strict=True)
    ))  # fmt: skip


def _row(one: Accelerator) -> list[str]:
    spec = one.spec
    built = [name for name, on in spec.engines.items() if not on.not_yet]
    bf16 = spec.flops.get("bf16", Number(None))
    return [
        _in(spec.memory_bytes, GB),
        _in(spec.memory_bandwidth, GB),
        _in(bf16, TERA),
        _in(spec.price_per_device_hour, 1),
        ", ".join(built) or UNKNOWN,
    ]


def _in(number: Number, unit: float) -> str:
    return UNKNOWN if number.value is None else f"{number.value / unit:.4g}"
