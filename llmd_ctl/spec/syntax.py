"""What libyaml complains about, in words that say what to change.

Called by `compose` with the one error that ended a file.
"""

from __future__ import annotations

import yaml

from llmd_ctl.spec import shape
from llmd_ctl.spec.findings import Findings
from llmd_ctl.spec.nodes import Node
from llmd_ctl.spec.spacing import Slip, colonless, slip

UNCLOSED = {
    "while parsing a flow sequence": "the list that starts here is not closed with ]",
    "while parsing a flow mapping": "the map that starts here is not closed with }",
    "while scanning a quoted scalar": "the quote that starts here is not closed",
}
"""By what libyaml was doing: shown where the thing began, not where its end was missed."""

NO_COLON = "could not find expected ':'"
NO_KEY_HERE = "mapping values are not allowed in this context"

EXPLAINED = {
    "did not find expected node content": (
        "a value was expected here",
        "Give it a value, and close every bracket.",
    ),
    NO_KEY_HERE: (
        "a key cannot stand here",
        'Check the indentation; text that holds ": " goes into quotes.',
    ),
    "did not find expected key": (
        "a key was expected here",
        "Check the indentation, and that nothing follows a closing quote.",
    ),
    "did not find expected '-' indicator": (
        "a list item was expected here",
        "Start each item of a list with - in the same column.",
    ),
    "block sequence entries are not allowed in this context": (
        "a list cannot start here",
        "Start the list on a line of its own.",
    ),
    "found unknown escape character": (
        "this escape is not known inside double quotes",
        "Double the backslash, or use single quotes.",
    ),
}


def report_syntax(findings: Findings, error: yaml.YAMLError) -> None:
    """Add the problem for a YAML error."""
    problem = str(getattr(error, "problem", None) or "the text is not YAML")
    context = getattr(error, "context", None)
    mark = getattr(error, "problem_mark", None)
    message, hint = EXPLAINED.get(problem, (problem, None))
    unclosed = UNCLOSED.get(context or "")
    if unclosed and ("expected ','" in problem or "end of stream" in problem):
        message, hint, mark = unclosed, None, getattr(error, "context_mark", mark)
    line, column = (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)
    lines = findings.source.lines
    text = lines[line - 1] if line <= len(lines) else ""
    missing = _missing(lines, problem, line, getattr(error, "context_mark", None))
    if missing is not None:
        at, found = missing
        mark_at = Node(at, found.column, found.length, None)
        findings.add("LC1010", f"YAML: {found.message}", mark_at, hint=found.hint)
        return
    if "cannot start any token" in problem:
        message, hint = _odd_character(text[column - 1 : column])
        if text[: column - 1].strip() == "" and "\t" in text[:column]:
            message, hint = "a tab cannot indent YAML", "Indent with spaces."
    findings.add("LC1010", f"YAML: {message}", Node(line, column, 1, None), hint=hint)


def _missing(
    lines: list[str], problem: str, line: int, began: yaml.Mark | None
) -> tuple[int, Slip] | None:
    """The line that lacks a space or a colon, which libyaml misses only further down."""
    if problem == NO_COLON and began is not None and began.line < len(lines):
        text = lines[began.line]
        found = slip(text) or colonless(text)
        return None if found is None else (began.line + 1, found)
    if problem != NO_KEY_HERE:
        return None
    before = next((at for at in range(line - 1, 0, -1) if lines[at - 1].strip()), line)
    for at in (line, before):
        found = slip(lines[at - 1]) if at <= len(lines) else None
        if found is not None and (not found.key or found.key in shape.HOMES):
            return at, found
    return None


def _odd_character(character: str) -> tuple[str, str]:
    return f"a value cannot start with {character!r}", "Put the value in quotes."
