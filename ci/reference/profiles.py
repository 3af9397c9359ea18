"""engines.md and models.md: the pages of `explain`, one below the other."""

from __future__ import annotations

from collections.abc import Iterator

from ci.reference.facts import facts
from ci.reference.markdown import heading, items, page, paragraph, plain, table
from llmd_ctl.cli.explain.engine import engine_page
from llmd_ctl.cli.explain.model import model_page
from llmd_ctl.cli.explain.page import Page, words
from llmd_ctl.profiles import Catalog, read_shape
from llmd_ctl.profiles.engine import argument_name

GIB = 1 << 30


def engines() -> str:
    """Each engine, and all flags that are known of it."""
    catalog = Catalog()
    names = [name for name in catalog.names("EngineProfile") if "@" in name]
    parts: list[str] = []
    for name in names:
        engine = catalog.engine(*name.split("@"))
        parts += _told(engine_page(engine, catalog))
        flags = (
            f"`{flag}` (`{argument_name(flag)}`): {known.type}"
            f"{', one of ' + plain(words(known.choices)) if known.choices else ''}"
            for flag, known in engine.spec.flags.items()
        )
        parts += [heading(f"Flags of {name}", 3), items(flags)]
    lead = paragraph(
        "`llmd-ctl explain flag NAME --engine ENGINE --accelerator ACCELERATOR` tells more of a "
        "flag: what profiles set and why, what is legal there, and which rules speak of it."
    )
    return page("Engines", lead, *parts)


def models() -> str:
    """A table of sizes, and each model with its layers."""
    catalog = Catalog()
    pages = []
    for name in catalog.names("ModelProfile"):
        spec = catalog.model(name).spec
        size = spec.weight_bytes.value if spec.weight_bytes is not None else None
        shape = read_shape(spec.config, catalog.families, weight_bytes=size)
        pages.append(model_page(name, shape, spec))
    head = ["model", "parameters", "GiB", "longest context", "KV bytes a token"]
    return page(
        "Models",
        paragraph(
            "Bytes are on one device, before anything is split, in the types that the model itself "
            "asks for. A local folder with a `config.json` of these families is planned as well."
        ),
        table(head, (_model_row(each) for each in pages)),
        *(part for each in pages for part in _told(each)),
    )


def _model_row(each: Page) -> list[str]:
    facts = {fact.name: fact for section in each.sections for fact in section.facts}
    first = next(fact for fact in facts.values() if fact.name.startswith("a token of context"))
    return [
        each.name,
        facts["parameters"].text.replace(" billion", " B"),
        f"{facts['all'].value / GIB:.1f}",
        f"{facts['longest context'].value:,}",
        f"{first.value:,}",
    ]


def _told(each: Page) -> Iterator[str]:
    yield heading(each.name)
    yield paragraph(plain(each.title))
    for section in each.sections:
        yield f"*{section.title}*"
        yield facts(section)
