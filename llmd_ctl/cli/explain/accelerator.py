"""The page of an accelerator: every figure with its source, and what is not known and what follows.

Called by `ask` and `ci/reference.py`. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_type_hints

from pydantic.alias_generators import to_camel

from llmd_ctl.cli.explain.leaves import leaves, missing
from llmd_ctl.cli.explain.page import Fact, Page, Section, said, section
from llmd_ctl.profiles.accelerator import Accelerator, AcceleratorSpec, EngineOn

# Of these null says "no", and nothing is lacking.
CHOICES = ("advised", "block", "unsupported")
APART = ("driver", "host", "topology", "kubernetes", "container", "transports")


def accelerator_page(accelerator: Accelerator) -> Page:
    """Explain an accelerator."""
    return Page(
        "accelerator",
        accelerator.name,
        accelerator.spec.description,
        (*_sections(accelerator), *section("not known", _missing(accelerator))),
        see=tuple(f"engine {name}" for name in accelerator.spec.engines),
    )


def _missing(accelerator: Accelerator) -> Iterator[Fact]:
    return (fact for fact in missing(accelerator.spec, None) if fact.name not in CHOICES)


def _sections(accelerator: Accelerator) -> Iterator[Section]:
    spec = accelerator.spec
    hints = get_type_hints(AcceleratorSpec, include_extras=True)
    figures: list[Fact] = []
    for key, hint in hints.items():
        if key not in (*APART, "engines", "description"):
            figures += leaves(getattr(spec, key), hint, to_camel(key))
    if len(accelerator.lineage) > 1:
        figures.append(said("extends", accelerator.lineage[1:]))
    figures.append(said("profile of", accelerator.origin))
    yield Section("figures", tuple(figures))
    for key in APART:
        yield from section(key, leaves(getattr(spec, key), hints[key], ""))
    for name, on in spec.engines.items():
        yield from section(f"engine {name}", leaves(on, EngineOn, ""))
