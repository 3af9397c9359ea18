"""rules.md from the rules, errors.md from codes.yaml, cli.md from what `--help` prints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from ci.reference.markdown import code, heading, item, items, page, paragraph, plain
from llmd_ctl.cli.app import command
from llmd_ctl.cli.boundary import PROGRAM
from llmd_ctl.cli.explain.rule import open_template, versions
from llmd_ctl.errors import codes
from llmd_ctl.profiles.rules import RULES, TABLES, Rule
from llmd_ctl.profiles.rules.edges import Edge, edges

HELP_WIDTH = 92
GROUPS = {
    "LC10": "Fleet files", "LC20": "Profiles", "LC30": "Plan and fit",
    "LC40": "Apply and controller", "LC50": "Router", "LC60": "Command line",
}  # fmt: skip


def rules() -> str:
    """Every rule by the table that it stands in."""
    parts = [paragraph(
        f"{len(RULES)} rules. An error is refused (LC3040) unless the variant says `unsafe: true`; "
        "a warning (LC3041) is what the engine takes and then ignores, resets or does slowly. What "
        "a message takes from the command line stands in angle brackets."
    )]  # fmt: skip
    for table in TABLES:
        title = (table.__doc__ or "").partition("\n")[0].rstrip(".")
        parts += [heading(plain(title)), "\n".join(_rule(rule) for rule in table.RULES)]
    parts += [heading("Known, and kept otherwise"), "\n".join(map(_edge, edges().values()))]
    return page("Rules", *parts)


def _edge(edge: Edge) -> str:
    kept = [*edge.rules, *edge.codes, *(f"`{where}`" for where in edge.facts)]
    kept += ["docs/manifests.md"] if edge.manifests else []
    told = [f"Kept by {', '.join(kept)}."] if kept else []
    told += [f"Of the machines: {plain(edge.node)}."] if edge.node else []
    told += [f"No profile is of {plain(edge.absent)}."] if edge.absent else []
    return item(f"**{edge.id}** {plain(edge.title)}. {' '.join(told)}")


def _rule(rule: Rule) -> str:
    where = ", ".join(rule.platforms) or "all platforms"
    of = "" if versions(rule) == "all" else f" {versions(rule)}"
    at = f" At {', '.join(f'`{open_template(place)}`' for place in rule.at)}." if rule.at else ""
    return item(
        f"**{rule.id}** {plain(rule.title)} ({rule.severity}; {rule.engine}{of}, {where})."
        f" {_sentence(open_template(rule.message))} {_sentence(open_template(rule.remedy))}{at}"
        f" Source: {plain(rule.source)}."
    )


def _sentence(text: str) -> str:
    done = text.rstrip(".")
    return plain(f"{done[:1].upper()}{done[1:]}.")


def errors() -> str:
    """Every code, by what it is about."""
    parts = [paragraph(
        "A code stays what it is. Each error says what is wrong, where, what was found, what is "
        "allowed and what to do; `llmd-ctl explain LC1020` tells one."
    )]  # fmt: skip
    for prefix, title in GROUPS.items():
        known = {code_: doc for code_, doc in codes().items() if code_.startswith(prefix)}
        lines = (
            f"**{code_}** {plain(doc.meaning)} Such as: {plain(doc.example.rstrip('.'))}."
            f" {plain(doc.hint)}"
            for code_, doc in known.items()
        )
        parts += [heading(title), items(lines)]
    assert all(code_[:4] in GROUPS for code_ in codes()), "a group of codes without a title"
    return page("Error codes", *parts)


def cli() -> str:
    """What `--help` prints, verb by verb."""
    parts = [part for title, text in _helps(command(), None) for part in (title, code(text))]
    return page("Command line", *parts)


def _helps(verb: Any, parent: Any) -> Iterator[tuple[str, str]]:
    name = PROGRAM if parent is None else verb.name
    context = typer.Context(
        verb, info_name=name, parent=parent, terminal_width=HELP_WIDTH, max_content_width=HELP_WIDTH
    )
    yield heading(f"`{context.command_path}`"), verb.get_help(context)
    for inner in getattr(verb, "commands", {}).values():
        yield from _helps(inner, context)
