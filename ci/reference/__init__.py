"""The pages under docs/reference/: written from types, profiles, rules, codes and verbs.

    python -m ci.reference            writes them all
    python -m ci.reference --check    compares; exit 1 where one is not what would be written

    fleet         fleet.md, capabilities.md: the annotated reference, the table of the plan
    accelerators  accelerators.md, accelerators-MAKER.md: as `explain` tells them
    profiles      engines.md, models.md: as `explain` tells them
    words         rules.md, errors.md, cli.md: rules, codes, and what `--help` says
    facts         how a list of what is known is written, markdown how all is

Called by `ci/generate` and `ci/lint`; `tests/house/test_reference_pages.py` compares too. Nothing
in a page is written by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from ci.reference import accelerators, fleet, profiles, words
from ci.reference.markdown import items, page, paragraph

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "reference"
PAGES: Mapping[str, tuple[str, Callable[[], str]]] = {
    "fleet.md": ("Every key of the fleet file: what it means, its type and default.", fleet.fleet),
    "capabilities.md": (
        "What each kind of target, and of router, cannot carry out of a fleet.", fleet.capabilities,
    ),
    "accelerators.md": (
        "Every accelerator: the figures that are compared most.", accelerators.overview,
    ),
    **{
        accelerators.file_of(maker): (
            f"{', '.join(names)}: all that is known, with its sources.",
            partial(accelerators.of_maker, maker),
        )
        for maker, names in accelerators.makers().items()
    },
    "engines.md": ("Every engine: what a plan decides by its flags, and where it runs.",
                   profiles.engines),
    "models.md": ("Every model: weights, layers, and what it keeps for each token.",
                  profiles.models),
    "rules.md": ("Every rule that keeps a command line legal, with its source.", words.rules),
    "errors.md": ("Every error code: what it means and what to do.", words.errors),
    "cli.md": ("Every verb and its options.", words.cli),
}  # fmt: skip


def texts() -> dict[str, str]:
    """Every page by its file's name, as it should be."""
    pages = {name: make() for name, (_, make) in PAGES.items()}
    return {"README.md": _index(), **pages}


def _index() -> str:
    return page(
        "Reference",
        paragraph(
            "Written by `ci/generate` from what the program itself goes by. On the command line "
            "`llmd-ctl explain` tells the same, one thing at a time."
        ),
        items(f"[{name}]({name}): {about}" for name, (about, _) in PAGES.items()),
    )
