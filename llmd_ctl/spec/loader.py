"""`read_fleets`: from file names to checked fleets, and every problem of every file at once.

Called by `cli` and by tests. Reads files and standard input, and nothing else: of the profile files
that a fleet lists it only looks whether they are there, since here is where their place is known.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct, field
from pydantic import ValidationError

from llmd_ctl.errors import Place, Problem, SpecInvalid
from llmd_ctl.spec import checks
from llmd_ctl.spec.compose import compose
from llmd_ctl.spec.findings import Findings
from llmd_ctl.spec.fleet import Fleet
from llmd_ctl.spec.nodes import Document, Node
from llmd_ctl.spec.nodes import Path as Steps
from llmd_ctl.spec.remainder import remainder
from llmd_ctl.spec.source import SourceText, read_source

# Keys of a `tls` section that name files.
CERTIFICATES = frozenset({"caFile", "certFile", "clientCaFile", "keyFile"})


class LoadedFleet(Struct, frozen=True):
    """A fleet, where it came from, and the hash of what it says."""

    fleet: Fleet
    source: SourceText
    spec_hash: str
    document: Document

    def place(self, path: tuple[str | int, ...], *, key: bool = False) -> Place:
        """Return where a value stands, such as ("spec", "models", 0, "uri"), with YAML's keys.

        With `key`, where its key stands. What was left out stands where its map does.
        """
        mark = self.document.mark(path, key=key)
        written = self.document.written(path)
        return self.source.place(mark.line, mark.column, written, mark.length)

    def resolve(self, path: str) -> Path:
        """Return a path of the fleet file, relative to the file, as an absolute one."""
        return local_path(self.source.folder, path)


class Reading(Struct, frozen=True):
    """What some sources say: the fleets, everything that is wrong, and what can be judged of it.

    `sound`: the fleets of sources in which nothing is wrong. `rest`: what is left of the others
    without what is wrong. `profiles`: the files that those list where nothing is left.
    """

    fleets: list[LoadedFleet] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    sound: list[LoadedFleet] = field(default_factory=list)
    rest: list[LoadedFleet] = field(default_factory=list)
    profiles: list[Path] = field(default_factory=list)


def load_fleets(sources: Sequence[str | Path]) -> list[LoadedFleet]:
    """Load every fleet of every source; "-" is standard input. Raises `SpecInvalid`."""
    reading = read_fleets(sources)
    if reading.problems:
        raise SpecInvalid(reading.problems)
    return reading.fleets


def read_fleets(sources: Sequence[str | Path]) -> Reading:
    """Read every fleet of every source, as far as that can be done."""
    whole = Reading()
    read: set[str] = set()
    for source in sources:
        name = str(source)
        if name in read:
            whole.problems.append(Problem("LC1005", f'"{name}" is given twice'))
            continue
        read.add(name)
        try:
            text = read_source(source)
        except SpecInvalid as error:
            whole.problems.extend(error.problems)
            continue
        part = load_text(text)
        whole.fleets.extend(part.fleets)
        whole.problems.extend(part.problems)
        whole.sound.extend(part.sound)
        whole.rest.extend(part.rest)
        whole.profiles.extend(part.profiles)
    whole.problems.extend(_repeated_fleets(whole.fleets))
    return whole


def spec_hash(fleet: Fleet) -> str:
    """Return a hash of what a fleet says, whatever its formatting, comments and order of keys."""
    said = fleet.model_dump(mode="json", by_alias=True)
    canonical = json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def load_text(source: SourceText) -> Reading:
    """Read the fleets of one source, and everything that is wrong with it."""
    findings = Findings(source)
    documents = compose(findings)
    if not documents and not findings.problems():
        findings.add("LC1004", "the file holds no fleet", Node(1, 1, 1, None))
    fleets, faults = [], []
    for document in documents:
        findings.start_document()
        fleet = _check(findings, document)
        if fleet is not None:
            fleets.append(LoadedFleet(fleet, source, spec_hash(fleet), document))
        faults.append(findings.faults())
    problems = findings.problems()
    if not problems:
        return Reading(fleets, sound=fleets)
    reading = Reading(fleets, problems)
    for document, wrong in zip(documents, faults, strict=True):
        left = _rest(source, document, wrong)
        if left is not None:
            reading.rest.append(left)
        else:
            reading.profiles.extend(_listed(source, document))
    return reading


def _rest(
    source: SourceText, document: Document, faults: frozenset[Steps] | None
) -> LoadedFleet | None:
    """What is left of a document without what is wrong, where that is a fleet."""
    left = document if not faults else remainder(document, faults)
    if left is None or faults is None:
        return None
    try:
        fleet = Fleet.model_validate(checks.fill(left), by_alias=True, by_name=False)
    except ValidationError:  # what was wrong is told already
        return None
    return LoadedFleet(fleet, source, spec_hash(fleet), left)


def _listed(source: SourceText, document: Document) -> Iterator[Path]:
    """The profile files that a document lists and that can be read."""
    for item in document.root.items("spec", "profiles"):
        if isinstance(item.value, str) and item.value:
            path = local_path(source.folder, item.value)
            if _unreadable(path) is None:
                yield path


def _check(findings: Findings, document: Document) -> Fleet | None:
    """Return the fleet of a document; None when the types refuse it. All problems are added."""
    checks.check(findings, document)
    _look_for_profiles(findings, document)
    _look_for_certificates(findings, document)
    fleet = None
    try:
        fleet = Fleet.model_validate(checks.fill(document), by_alias=True, by_name=False)
    except ValidationError as error:
        _refused(findings, document, error)
    for path, node in document.root.walk():
        if node.value is None and not findings.is_silent(path):
            _nothing(findings, document, path)
    return fleet


# A fleet without a fault does not wait for the modules that know how faults are told.


def _refused(findings: Findings, document: Document, error: ValidationError) -> None:
    from llmd_ctl.spec.translate import report

    report(findings, document, error)


def _nothing(findings: Findings, document: Document, path: Steps) -> None:
    from llmd_ctl.spec.translate import report_nothing

    report_nothing(findings, document, path)


def _look_for_profiles(findings: Findings, document: Document) -> None:
    """Complain of each listed profile file that cannot be read."""
    for index, item in enumerate(document.root.items("spec", "profiles")):
        if not isinstance(item.value, str) or not item.value:
            continue
        reason = _unreadable(local_path(findings.source.folder, item.value))
        if reason is not None:
            path = ("spec", "profiles", index)
            message = f'cannot read the profile file "{item.value}": {reason}'
            hint = "Give the path of a profile file, from this file's folder."
            findings.add("LC1001", message, item, path, found=item.value, hint=hint)


def _look_for_certificates(findings: Findings, document: Document) -> None:
    """Complain of each file for TLS that cannot be read."""
    for path, node in document.root.walk():
        if path[-1] not in CERTIFICATES or path[-2:-1] != ("tls",):
            continue
        if not isinstance(node.value, str) or not node.value:
            continue
        reason = _unreadable(local_path(findings.source.folder, node.value))
        if reason is not None:
            message = f'cannot read the file "{node.value}": {reason}'
            hint = "Give the path of a PEM file, from this file's folder."
            findings.add("LC1001", message, node, path, found=node.value, hint=hint)


def _unreadable(path: Path) -> str | None:
    """Say why a file cannot be read, without opening it: a pipe can be read only once."""
    try:
        path.stat()
    except (FileNotFoundError, ValueError):  # ValueError: a name that no file can have
        return "no such file"
    except OSError as error:
        return error.strerror
    if path.is_dir():
        return "it is a folder"
    return None if os.access(path, os.R_OK) else "permission denied"


def local_path(folder: Path, path: str) -> Path:
    """Return a path of a fleet file in `folder` as an absolute one."""
    return (folder / path.removeprefix("file://")).absolute()


def _repeated_fleets(loaded: list[LoadedFleet]) -> list[Problem]:
    """One name is one state folder, so two fleets of a run cannot share it."""
    problems = []
    first: dict[str, Place] = {}
    for one in loaded:
        name = one.fleet.metadata.name
        place = one.place(("metadata", "name"))
        if name in first:
            message = f'the fleet name "{name}" is already used at {first[name]}'
            problems.append(Problem("LC1060", message, place, name))
        first.setdefault(name, place)
    return problems
