"""Pydantic's errors as problems with places.

Called by `loader` with what pydantic said about one document. Here is where an unknown key, a key
that is not built yet, a missing key and a wrong kind get their words; the rules of single values
get theirs in `fields`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from llmd_ctl.errors import closest, codes
from llmd_ctl.spec import kinds, meant, not_yet, shape, unknown
from llmd_ctl.spec.findings import Findings
from llmd_ctl.spec.nodes import Document, Node, Path
from llmd_ctl.spec.source import dotted, short_name

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

UNKNOWN = "extra_forbidden"
KINDS = {
    "model_type": kinds.MAP,
    "model_attributes_type": kinds.MAP,
    "dict_type": kinds.MAP,
    "list_type": kinds.LIST,
    "string_type": kinds.TEXT,
    "int_type": kinds.WHOLE,
    "int_from_float": kinds.WHOLE,
    "float_type": kinds.NUMBER,
    "bool_type": kinds.SWITCH,
}
LIMITS = {"greater_than_equal": ("at least", "ge"), "less_than_equal": ("at most", "le")}
# The keys of a map that are the user's own: what they look like.
OWN_KEYS = {"engineArgs": "maxNumSeqs: 128"}
# Where a bare value stands for a map: the key that it is most likely meant for.
BARE = {"ttft": "p95", "itl": "p95"}
COMMAND_LINE = "extraArgs"


def report(findings: Findings, document: Document, error: ValidationError) -> None:
    """Add a problem for each thing pydantic found that was not complained about before."""
    # An unknown key may be meant for one that is then missing: that is told once.
    details = error.errors(include_url=False, include_input=False)
    for detail in sorted(details, key=lambda one: one["type"] != UNKNOWN):
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
        self.name = short_name(path) or "a fleet"
        self.is_key = is_key
        node = document.root.at(path)
        self.found = None if node is None else node.describe()
        if is_key:
            self.found = str(path[-1])

    def add(self, detail: ErrorDetails) -> None:
        kind, context = detail["type"], detail.get("ctx", {})
        if kind == UNKNOWN:
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
            self._out_of_range(f"{words} {_plainly(context[limit])}")
        elif kind == "too_short":
            self._no_item()
        elif kind == "string_too_short":
            self._say("LC1027", f"{self.name} is empty")
        elif kind == "string_too_long":
            hint = f"Write at most {context['max_length']} characters."
            self._say("LC1027", f"{self.name} is too long", hint)
        elif kind.startswith("LC"):
            if self._is_section():  # the message says which of its keys do not fit
                self.found = None
            split = self._split() if kind == "LC1042" else None
            self._say(kind, f"{self.name}: {context['message']}", split or context["hint"])
        else:
            self._say("LC1023", f"{self.name}: {detail['msg']}")

    def _is_section(self) -> bool:
        return self.pattern in shape.SECTIONS

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
        lines = self.findings.source.lines
        line = lines[mark.line - 1][mark.column - 1 :] if mark.line <= len(lines) else ""
        meant_for = unknown.meant(key, home, self._beside(), line)
        self.findings.add(
            "LC1020", message, mark, self.path, found=key, allowed=allowed, hint=meant_for.hint
        )
        self._silence_meant(meant_for.key, dashed=key.startswith("-"))

    def _silence_meant(self, key: str | None, *, dashed: bool) -> None:
        """Say nothing of a key that is missing only because it is written wrongly.

        What begins with a dash that is no item's was meant for the empty key before it.
        """
        home, beside = self.path[:-1], self._beside()
        if dashed:
            keys = list(beside)
            before = keys[: keys.index(str(self.path[-1]))][-1:]
            if before and beside[before[0]].value is None:
                self.findings.silence((*home, before[0]))
        if key is not None and key not in beside:
            self.findings.silence((*home, key))

    def _beside(self) -> dict[str, Node]:
        """The map that the key stands in."""
        above = self.document.root.at(self.path[:-1])
        return above.value if above is not None and isinstance(above.value, dict) else {}

    def _split(self) -> str | None:
        """The whole command line with each word an item of its own."""
        path = self.path[:-1] if isinstance(self.path[-1], int) else self.path
        node = self.document.root.at(path)
        items = [] if node is None else node.value if isinstance(node.value, list) else [node]
        if not all(isinstance(item.value, str) and item.value for item in items):
            return None
        shown = kinds.command_line(items)
        return None if shown is None else f"Write {path[-1]}: {shown}."

    def _missing_key(self) -> None:
        home = dotted(self.path[:-1]) or "a fleet"
        mark = self.document.mark(self.path)
        message = f'the key "{self.path[-1]}" is missing in {home}'
        words = shape.SHAPE[self.pattern].words
        hint = (
            f"Add `{self.path[-1]}: {words[0]}` on a line of its own." if len(words) == 1 else None
        )
        self.findings.add("LC1021", message, mark, self.path, allowed=words, hint=hint)

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
            near = closest(word or "", allowed)
            hint = None if near is None else f"Write {near}."
            self._say("LC1024", f"unknown {field}: {word}", hint, allowed=allowed)

    def _wrong_kind(self, wanted: str) -> None:
        message = f"{self.name} must be {wanted}"
        if not self.path:
            self._say("LC1023", message, codes()["LC1004"].hint)
            return
        key, inside = self.path[-1], self._inside()
        lead = f"{key}:" if isinstance(key, str) else "-"
        node = self.document.root.at(self.path)
        if key in BARE and node is not None:
            node = replace(node, written=next(iter(meant.duration(node.written)), ""))
        hint = kinds.remedy(wanted, lead, node, inside)
        if key == COMMAND_LINE and wanted == kinds.LIST:
            hint = self._split() or hint
        if inside.example:
            hint = f"{hint} Raw flags go into a variant's extraArgs."
        self._say("LC1023", message, hint, allowed=self._legal(wanted, inside))

    def _legal(self, wanted: str, inside: kinds.Inside) -> tuple[str, ...]:
        if wanted == kinds.MAP:
            return inside.keys
        field = shape.SHAPE.get(self.pattern)
        return (field.range,) if field is not None and wanted in kinds.NUMBERS else ()

    def _inside(self) -> kinds.Inside:
        """What the map, or each item of the list, at this path holds."""
        section = shape.SECTIONS.get(self.pattern)
        if section is None:
            return kinds.Inside(example=OWN_KEYS.get(self.name, ""))
        bare = BARE.get(str(self.path[-1])) if self.path else None
        required = shape.required_of(section) if bare is None else (bare,)
        return kinds.Inside(shape.keys_of(section), required)

    def _out_of_range(self, limit: str) -> None:
        field = shape.SHAPE[self.pattern]
        default = "the default" if field.default is None else field.default
        hint = f"Write {field.range}, or leave {self.name} out for {default}."
        self._say("LC1025", f"{self.name} must be {limit}", hint, allowed=(field.range,))

    def _no_item(self) -> None:
        field = shape.SHAPE[self.pattern]
        hint = "Add one, or remove the key."
        if field.info.is_required() and field.section is not None:
            first = shape.required_of(field.section)
            hint = f"Add one: - {{{', '.join(f'{key}: …' for key in first)}}}."
        self._say("LC1026", f"{self.name} needs at least one item", hint, allowed=field.words)


def report_nothing(findings: Findings, document: Document, path: Path) -> None:
    """Add the problem of a key, or a list item, that has no value."""
    if findings.is_spoilt(document.mark(path)):
        return
    mark = document.mark(path, key=True)
    findings.add("LC1022", f"{short_name(path)} has no value", mark, path, found="nothing")


def _plainly(limit: float) -> str:
    """A limit in digits: none of them is left out."""
    return str(int(limit)) if limit == int(limit) else f"{limit:g}"
