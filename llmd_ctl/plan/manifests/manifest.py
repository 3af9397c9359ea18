"""A Kubernetes object in a file: what it says, and where each of its values stands.

`read` makes them from a file's text; everything else of this package reads them. What is no object
is named, and not skipped in silence. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from llmd_ctl.errors import Place, Problem
from llmd_ctl.spec.compose import compose
from llmd_ctl.spec.findings import Findings
from llmd_ctl.spec.nodes import Document
from llmd_ctl.spec.source import SourceText

Path = tuple[str | int, ...]
TWICE, MEANS_TWO_THINGS = "LC1011", "LC1018"
IN_PART = "LC3072"
TEMPLATE = "{{"


def look(data: Any, *path: str | int) -> Any:
    """The value at a path; None where it leads nowhere, whatever stands there."""
    for step in path:
        if isinstance(data, Mapping) and isinstance(step, str):
            data = data.get(step)
        elif isinstance(data, list) and isinstance(step, int) and step < len(data):
            data = data[step]
        else:
            return None
    return data


def table(data: Any, *path: str | int) -> Mapping[str, Any]:
    """The map at a path; an empty one where there is none."""
    found = look(data, *path)
    return found if isinstance(found, Mapping) else {}


def items(data: Any, *path: str | int) -> list[Any]:
    """The list at a path; an empty one where there is none."""
    found = look(data, *path)
    return found if isinstance(found, list) else []


def text(data: Any, *path: str | int) -> str | None:
    """The text at a path; None where something else stands."""
    found = look(data, *path)
    return found if isinstance(found, str) else None


def texts(data: Any, *path: str | int) -> dict[str, str]:
    """The map of texts at a path, such as labels."""
    return {key: value for key, value in table(data, *path).items() if isinstance(value, str)}


class Manifest(Struct, frozen=True, dict=True):
    """One object. `root`: where it stands in its document, for an item of a List."""

    source: SourceText
    document: Document
    root: Path = ()

    @cached_property
    def data(self) -> Any:
        """What it says, without places."""
        node = self.document.root.at(self.root)
        return None if node is None else node.plain()

    @property
    def kind(self) -> str:
        """Its kind."""
        return text(self.data, "kind") or ""

    @property
    def group(self) -> str:
        """The group and version of its API."""
        return text(self.data, "apiVersion") or ""

    @property
    def name(self) -> str:
        """Its name."""
        return text(self.data, "metadata", "name") or "?"

    @property
    def namespace(self) -> str | None:
        """Its namespace; None: that of whoever applies it."""
        return text(self.data, "metadata", "namespace")

    @property
    def title(self) -> str:
        """Kind and name, for messages."""
        return f"{self.kind} {self.name}"

    def place(self, path: Path, *, key: bool = False) -> Place:
        """Where a value stands; what was left out stands where its map does."""
        mark = self.document.mark((*self.root, *path), key=key)
        return self.source.place(mark.line, mark.column, (*self.root, *path), mark.length)

    def here(self, other: Manifest) -> bool:
        """Whether two objects are in one namespace, as far as they say."""
        return None in (self.namespace, other.namespace) or self.namespace == other.namespace


def read(source: SourceText) -> tuple[list[Manifest], list[Problem]]:
    """The objects of a file, and what is wrong with it as YAML."""
    findings = Findings(source)
    documents = compose(findings)
    problems = [_told(problem, source) for problem in findings.problems()]
    manifests: list[Manifest] = []
    for document in documents:
        whole = Manifest(source, document)
        found = list(_objects(whole))
        manifests += found
        if not found:
            message = f"{source.file} holds what is no Kubernetes object: it is not judged"
            problems.append(_in_part(message, whole.place(())))
    if not documents and not problems:
        message = f"{source.file} holds no Kubernetes object"
        problems.append(_in_part(message, source.place(1, 1)))
    return manifests, problems


def _objects(whole: Manifest) -> Iterator[Manifest]:
    data = whole.data
    if not (isinstance(look(data, "kind"), str) and isinstance(look(data, "apiVersion"), str)):
        return
    if whole.kind != "List":
        yield whole
        return
    for index, _ in enumerate(items(data, "items")):
        item = replace(whole, root=("items", index))
        if isinstance(look(item.data, "kind"), str):
            yield item


def _in_part(message: str, place: Place) -> Problem:
    hint = "Give a folder of manifests alone, or ignore this where nothing runs by the file."
    return Problem(IN_PART, message, place, hint=hint, severity="warning")


def _told(problem: Problem, source: SourceText) -> Problem:
    """A fault of YAML as it matters in manifests."""
    if problem.code == TWICE:
        hint = "Keep one: of two, the last is taken, and all that the first says is lost."
        return replace(problem, message=f"Q03: {problem.message}", hint=hint)
    if problem.code == MEANS_TWO_THINGS:
        return replace(problem, severity="warning")
    if TEMPLATE in source.text and problem.code == "LC1010":
        hint = "This looks like a chart's template: judge what `helm template` makes of it."
        return replace(problem, hint=hint)
    return problem
