"""The page of a rule of an engine, and that of an error code.

Called by `ask` and `ci/reference.py`. What a rule's message takes from a command line stands in it
in angle brackets. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from string import Formatter

from llmd_ctl.cli.explain.page import Fact, Page, said, section
from llmd_ctl.errors import codes
from llmd_ctl.profiles.rules import RULES, Rule

BY_ID = {rule.id: rule for rule in RULES}


def rule_page(rule: Rule) -> Page:
    """Explain a rule."""
    return Page("rule", rule.id, rule.title, section("rule", _facts(rule)), see=("rule",))


def _facts(rule: Rule) -> Iterator[Fact]:
    refused = "refused (LC3040)" if rule.severity == "error" else "warned of (LC3041)"
    yield said("where it is broken", refused)
    yield said("message", open_template(rule.message))
    yield said("remedy", open_template(rule.remedy))
    yield said("engine", rule.engine)
    yield said("platforms", rule.platforms or ("all of the engine's",))
    yield said("versions", versions(rule))
    if rule.at:
        yield said("speaks of", tuple(open_template(place) for place in rule.at))
    yield said("source", rule.source)


def versions(rule: Rule) -> str:
    """Return the versions of its engine that a rule speaks of, in words."""
    limits = ((rule.since, "from {}"), (rule.before, "before {}"))
    return ", ".join(words.format(version) for version, words in limits if version) or "all"


def open_template(text: str) -> str:
    """Return a message with what it takes from the line in angle brackets."""
    return "".join(
        literal + (f"<{name}>" if name is not None else "")
        for literal, name, _, _ in Formatter().parse(text)
    )


def error_page(code: str) -> Page:
    """Explain an error code."""
    doc = codes()[code]
    facts = [said("example", doc.example), said("what to do", doc.hint)]
    return Page("error", code, doc.meaning, section("error", facts), see=("error",))
