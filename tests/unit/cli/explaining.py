"""Questions for `explain` as tests ask them: of the built-in profiles, or of a fleet's text."""

from pathlib import Path

from llmd_ctl.cli.explain.ask import Question, explain
from llmd_ctl.cli.explain.case import cases
from llmd_ctl.cli.explain.page import Fact, Page
from llmd_ctl.plan import Plan, plan
from llmd_ctl.profiles import Catalog
from llmd_ctl.spec import load_fleets
from tests.unit.plan.fleets import MACHINE


def page(*words: str, accelerator: str | None = None, engine: str | None = None) -> Page:
    """An explanation without a fleet."""
    return explain(words, Question(Catalog.load(), accelerator, engine))


def facts(found: Page, title: str) -> dict[str, Fact]:
    """The facts of a section by name; none where the page has no such section."""
    sections = [each for each in found.sections if each.title == title]
    return {fact.name: fact for section in sections for fact in section.facts}


def question(folder: Path, text: str, *, simulate: float | None = 1.0) -> tuple[Question, Plan]:
    """A question of a fleet, planned as `explain` plans it, and the plan."""
    file = folder / "fleet.yaml"
    file.write_text(text)
    (loaded,) = load_fleets([file])
    catalog = Catalog.load()
    made = plan(loaded, catalog, MACHINE, simulate, rehearsal=simulate is not None)
    return Question(catalog, loaded=loaded, cases=tuple(cases(loaded, catalog, made))), made
