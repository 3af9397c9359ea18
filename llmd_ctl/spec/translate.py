"""Pydantic's errors as problems with places.

Called by `loader` with what pydantic said about one document. Here is where an unknown key, a key
that is not built yet, a missing key and a wrong kind get their words; the rules of single values
get theirs in `fields`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llmd_ctl.errors import closest
from llmd_ctl.spec import not_yet, shape
from llmd_ctl.spec.findings import Findings
from llmd_ctl.spec.nodes import Document, Path
from llmd_ctl.spec.source import dotted

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

KINDS = {
    "model_type": "a map",
    "model_attributes_type": "a map",
    "dict_type": "a map",
    "list_type": "a list",
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
}
LIMITS = {"greater_than_equal": ("at least", "ge"), "less_than_equal": ("at most", "le")}


def report(findings: Findings, document: Document, error: ValidationError) -> None:
    """Add a problem for each thing pydantic found that was not complained about before."""
    for detail in error.errors(include_url=False, include_input=False):
        path: Path = tuple(detail["loc"])
        is_key = path[-1:] == ("[key]",)
        path = path[:-1] if is_key else path
        if not findings.is_silent(path):
            _Report(findings, document, path, is_key=is_key).add(detail)


class _Report:
    """One error of pydantic's on its way to a problem."""

    def __init__(self, findings: Findings, document: Document, path: Path, *, is_key: bool) -> None:
        self.findings = findings
        self.document = document
        self.path = path
        self.pattern = shape.pattern(path)
        self.name = short_name(path)
        self.is_key = is_key
        node = document.root.at(path)
        self.found = None if node is None else node.describe()
        if is_key:
            self.found = str(path[-1])

    def add(self, detail: ErrorDetails) -> None:
        kind, context = detail["type"], detail.get("ctx", {})
        if kind == "extra_forbidden":
            self._unknown_key()
        elif kind == "missing":
            self._missing_key()
        elif self.found == "nothing":
            report_nothing(self.findings, self.document, self.path)
        elif kind == "literal_error":
            self._unknown_word()
        elif kind in KINDS:
            self._wrong_kind(KINDS[kind])
        elif kind in LIMITS:
            words, limit = LIMITS[kind]
            self._say("LC1025", f"{self.name} must be {words} {context[limit]:g}")
        elif kind == "too_short":
            self._say("LC1026", f"{self.name} needs at least one item")
        elif kind in {"string_too_short", "string_too_long"}:
            length = "empty" if kind.endswith("short") else "too long"
            self._say("LC1027", f"{self.name} is {length}")
        elif kind.startswith("LC"):
            self._say(kind, f"{self.name}: {context['message']}", context["hint"])
        else:
            self._say("LC1023", f"{self.name}: {detail['msg']}")

    def _say(self, code: str, message: str, hint: str | None = None, **more: Any) -> None:
        mark = self.document.mark(self.path, key=self.is_key)
        self.findings.add(code, message, mark, self.path, found=self.found, hint=hint, **more)

    def _unknown_key(self) -> None:
        key = str(self.path[-1])
        home = shape.pattern(self.path[:-1])
        mark = self.document.mark(self.path, key=True)
        what = not_yet.NOT_YET.get(home, {}).get(key)
        if what is not None:
            message = f"{key} is not built yet ({what})"
            self.findings.add("LC1050", message, mark, self.path, found=key)
            return
        allowed = shape.keys_at(home)
        message = f'unknown key "{key}" in {home or "a fleet"}'
        self.findings.add(
            "LC1020", message, mark, self.path, found=key, allowed=allowed, hint=_hint(key, allowed)
        )

    def _missing_key(self) -> None:
        home = dotted(self.path[:-1]) or "a fleet"
        mark = self.document.mark(self.path)
        message = f'the key "{self.path[-1]}" is missing in {home}'
        words = shape.SHAPE[self.pattern].words
        self.findings.add("LC1021", message, mark, self.path, allowed=words)

    def _unknown_word(self) -> None:
        node = self.document.root.at(self.path)
        word = node.written if node is not None and node.written else self.found
        what = not_yet.NOT_YET_WORDS.get(self.pattern, {}).get(word or "")
        allowed = shape.SHAPE[self.pattern.removesuffix("[]")].words
        self.found = word
        owner = self.path[-2:-1]
        field = dotted(self.path[-2:]) if owner and isinstance(owner[0], str) else self.name
        if what is not None:
            message = f"{self.name} {word} is not built yet ({what})"
            self._say("LC1051", message, allowed=allowed)
        else:
            self._say("LC1024", f"unknown {field}: {word}", allowed=allowed)

    def _wrong_kind(self, wanted: str) -> None:
        node = self.document.root.at(self.path)
        message = f"{self.name} must be {wanted}"
        hint = None
        if node is not None and not isinstance(node.value, dict | list):
            hint = _other_quotes(wanted, node.value, node.written)
        self._say("LC1023", message, hint)


def report_nothing(findings: Findings, document: Document, path: Path) -> None:
    """Add the problem of a key, or a list item, that has no value."""
    if findings.is_spoilt(document.mark(path)):
        return
    mark = document.mark(path, key=True)
    findings.add("LC1022", f"{short_name(path)} has no value", mark, path, found="nothing")


def short_name(path: Path) -> str:
    """Return the last key of a path with what follows it, such as extraArgs[1]."""
    keys = [depth for depth, step in enumerate(path) if isinstance(step, str)]
    return dotted(path[keys[-1] :]) if keys else "a fleet"


def _other_quotes(wanted: str, value: object, written: str) -> str | None:
    """Say when quotes, or their absence, made a value the wrong kind."""
    if wanted == "text" and not isinstance(value, str):
        return f'Put it in quotes: "{written}".'
    if wanted == "true or false" and isinstance(value, str) and value in {"true", "false"}:
        return f"Remove the quotes: {value}."
    if wanted.endswith("number") and isinstance(value, str) and value.strip().isdecimal():
        return f"Remove the quotes: {value.strip()}."
    return None


def _hint(key: str, allowed: tuple[str, ...]) -> str | None:
    """Say where a key belongs that is known elsewhere and resembles nothing here."""
    homes = sorted({*shape.HOMES.get(key, ()), *not_yet.homes_of(key)})
    if not homes or closest(key, allowed):
        return None
    return f"{key} belongs in {' or '.join(home or 'the top' for home in homes)}."
