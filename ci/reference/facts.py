"""The facts of a page of `explain` as a list, each with its source.

Called by `accelerators` and `profiles`.
"""

from __future__ import annotations

from ci.reference.markdown import items, plain
from llmd_ctl.cli.explain.page import Fact, Section
from llmd_ctl.cli.explain.view import cited


def facts(section: Section) -> str:
    """Return the list of a section's facts."""
    return items(map(fact_text, section.facts))


def fact_text(fact: Fact) -> str:
    """Return one fact, with its note and source behind it."""
    more = "; ".join(part for part in (fact.note, cited(fact)) if part)
    return f"`{fact.name}`: {plain(fact.text)}{f' ({plain(more)})' if more else ''}"
