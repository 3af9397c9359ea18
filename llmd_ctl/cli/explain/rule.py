"""The page of a rule, and that of an error code.

Called by `ask` and `ci/reference.py`. Rules are of an engine's command line, of a pair of them or
of a pod; what else is known by such a number says what keeps it. What a message takes from a
command line stands in it in angle brackets. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from string import Formatter
from typing import Any

from llmd_ctl.cli.explain.page import Fact, Page, said, section
from llmd_ctl.errors import codes
from llmd_ctl.profiles.rules import RULES, Rule
from llmd_ctl.profiles.rules.edges import Edge, edges, fact
from llmd_ctl.profiles.rules.pair import PairRule
from llmd_ctl.profiles.rules.pairs import RULES as OF_PAIRS
from llmd_ctl.profiles.rules.pod import PodRule
from llmd_ctl.profiles.rules.pods import RULES as OF_PODS

AnyRule = Rule | PairRule | PodRule | Edge
_ALL: tuple[AnyRule, ...] = (*edges().values(), *OF_PODS, *OF_PAIRS, *RULES)
BY_ID = {rule.id: rule for rule in _ALL}


def rule_page(rule: AnyRule) -> Page:
    """Explain a rule."""
    if isinstance(rule, Edge):
        told, see = _kept(rule), ("rule", *rule.rules, *rule.codes)
    else:
        told, see = _rule(rule), ("rule",)
    return Page("rule", rule.id, rule.title, section("rule", told), see=see)


def _rule(rule: Rule | PairRule | PodRule) -> Iterator[Fact]:
    if isinstance(rule, PodRule):
        yield said("where it is broken", "told of a folder of manifests (docs/manifests.md)")
        yield said("remedy", rule.remedy)
        yield said("source", rule.source)
        return
    refused = "refused (LC3040)" if rule.severity == "error" else "warned of (LC3041)"
    yield said("where it is broken", refused)
    if isinstance(rule, Rule):
        yield from _of_an_engine(rule)
        return
    yield said("message", open_template(rule.message))
    yield said("remedy", open_template(rule.remedy))
    yield said("of", "prefill and decode replicas of one model, together")
    yield said("source", rule.source)


def _kept(edge: Edge) -> Iterator[Fact]:
    """What keeps a thing that is no rule of its own."""
    if edge.rules:
        yield said("kept by the rules", edge.rules)
    if edge.codes:
        yield said("told as", edge.codes)
    if edge.manifests:
        yield said("told of", "a folder of manifests (docs/manifests.md)")
    for where in edge.facts:
        yield said(where, _shown(fact(where)))
    if edge.node:
        yield said("of the machines", edge.node, note="no fleet says it: look at it there")
    if edge.absent:
        yield said("nobody can ask for it", f"no profile is of {edge.absent}")


def _shown(value: Any) -> Any:
    """A map by its keys: what is below them has a page of its own."""
    return tuple(value) if isinstance(value, Mapping) else value


def _of_an_engine(rule: Rule) -> Iterator[Fact]:
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
