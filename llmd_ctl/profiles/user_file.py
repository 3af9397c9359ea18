"""A user's profile file: each document against its type, merged with what it extends.

Called by `catalog` for each file that a fleet lists. Every fault is placed; a document in which
something is wrong is left out. It knows no profile by name.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

from llmd_ctl.errors import Problem
from llmd_ctl.profiles.accelerator import AcceleratorSpec
from llmd_ctl.profiles.built_in import Key, Profile, below, body, built_in, index
from llmd_ctl.profiles.document import Checker, fields_of, merge, missing
from llmd_ctl.profiles.engine import Engine, EngineSpec
from llmd_ctl.profiles.flag_value import check_settings
from llmd_ctl.profiles.model import ModelSpec
from llmd_ctl.spec.compose import compose
from llmd_ctl.spec.findings import Findings
from llmd_ctl.spec.kinds import MAP, TEXT, Inside
from llmd_ctl.spec.nodes import Document, Node
from llmd_ctl.spec.nodes import Path as KeyPath
from llmd_ctl.spec.source import SourceText, dotted

BODIES = {
    "AcceleratorProfile": AcceleratorSpec,
    "EngineProfile": EngineSpec,
    "ModelProfile": ModelSpec,
}
API_VERSION = "fleet.llmd-ctl.dev/v1alpha1"
TOP_KEYS = ("apiVersion", "kind", "metadata", "extends", "spec")


def read_profiles(source: SourceText, own: dict[Key, Profile]) -> list[Problem]:
    """Add the profiles of a file to `own`; return what is wrong with it."""
    findings = Findings(source)
    documents = compose(findings)
    if not documents and not findings.problems():
        findings.add("LC2009", "the file holds no profile", Node(1, 1, 1, None))
    for document in documents:
        _UserProfile(findings, document, source.file).add_to(own)
    return findings.problems()


class _UserProfile:
    """One document of a user's file."""

    def __init__(self, findings: Findings, document: Document, file: str) -> None:
        self.document = document
        self.file = file
        self.root = document.root
        self.extends = self.root.text("extends")
        self.checker = Checker(findings, document, partial=self.extends is not None)

    def add_to(self, own: dict[Key, Profile]) -> None:
        kind = self.root.text("kind")
        body = BODIES.get(kind or "")
        self._top(body)
        if body is None or kind is None:
            allowed = tuple(BODIES)
            self.checker.say(
                "LC2001", "kind says which kind of profile this is", ("kind",),
                found=kind or "nothing", allowed=allowed,
            )  # fmt: skip
            return
        name, spec = self._name(), self.root.at(("spec",))
        if spec is None:
            hint = "Add what it says of itself under spec:."
            if self.extends is not None:
                hint = f"Add `spec: {{}}`, or under spec: what differs from {self.extends}."
            self.checker.say("LC2003", 'the key "spec" is missing in a profile', (), hint=hint)
        if name is None or spec is None:
            return
        if self.checker.check(body, ("spec",)):
            self._check_engines(own)
            self._keep(own, kind, name, spec.plain())

    def _check_engines(self, own: Mapping[Key, Profile]) -> None:
        """What an accelerator says to engines must be what those take, as they are known so far."""
        path = ("spec", "engines")
        node = self.root.at(path)
        for name in node.value if node is not None and isinstance(node.value, dict) else ():
            found = own.get(("EngineProfile", name)) or built_in("EngineProfile", name)
            if found is not None:
                engine = Engine(name, found.origin, body(EngineSpec, found))
                check_settings(self.checker, engine, (*path, name, "settings"))

    def _name(self) -> str | None:
        """Return the profile's name; None, and a problem, where none can be read."""
        path: KeyPath = ("metadata", "name")
        metadata, name = self.root.get("metadata"), self.root.at(path)
        if name is not None and not isinstance(name.value, str):
            self.checker.wrong_kind(TEXT, name, path)
        elif name is None and metadata is not None and not isinstance(metadata.value, dict):
            self.checker.wrong_kind(MAP, metadata, path[:1], Inside(("name",), ("name",)))
        elif name is None:
            hint = "Write metadata: {name: …}, by which fleets and other profiles know it."
            message = 'the key "name" is missing in metadata'
            self.checker.say("LC2003", message, path[:1], hint=hint)
        return self.root.text(*path)

    def _top(self, body: Any) -> None:
        self._only((), TOP_KEYS, () if body is None else fields_of(body))
        self._only(("metadata",), ("name",))
        extends = self.root.get("extends")
        if extends is not None and not isinstance(extends.value, str):
            self.checker.wrong_kind(TEXT, extends, ("extends",))
        version = self.root.text("apiVersion")
        if version != API_VERSION:
            message = "apiVersion of a profile is the fleet's"
            self.checker.say(
                "LC2001", message, ("apiVersion",), found=version or "nothing",
                allowed=(API_VERSION,),
            )  # fmt: skip

    def _only(self, path: KeyPath, allowed: tuple[str, ...], in_spec: Container[str] = ()) -> None:
        """Refuse the keys of a map that it does not take, though `spec` may take them."""
        node = self.root.at(path)
        for key in node.value if node is not None and isinstance(node.value, dict) else ():
            if key not in allowed:
                message = f'unknown key "{key}" in {dotted(path) or "a profile"}'
                at = (*path, key)
                hint = f"Move {key} under spec:." if key in in_spec else None
                self.checker.say(
                    "LC2002", message, at, key=True, found=key, allowed=allowed, hint=hint
                )

    def _keep(self, own: dict[Key, Profile], kind: str, name: str, data: dict[str, Any]) -> None:
        lineage: tuple[str, ...] = (name,)
        before = own.get((kind, name))
        if before is not None and self.extends != name:
            message = f"a profile named {name} already stands in {before.origin}"
            self.checker.say("LC2014", message, ("metadata", "name"), found=name)
        if self.extends is not None:
            under = own.get((kind, self.extends)) or below(kind, self.extends)
            if under is None:
                known = {n for k, n in (*index(), *own) if k == kind}
                message = f'no profile "{self.extends}" to extend stands before this one'
                self.checker.say(
                    "LC2007", message, ("extends",), found=self.extends,
                    allowed=tuple(sorted(known)),
                )  # fmt: skip
                return
            lineage = (name, *(n for n in under.lineage if n != name))
            data = merge(under.data, data)
        for key in missing(BODIES[kind], data):
            hint = None if self.extends is None else f"Add it: {self.extends} does not say it."
            message = f'the key "{key}" is missing in spec'
            self.checker.say("LC2003", message, ("spec",), key=True, hint=hint)
            return
        profile = Profile(name, lineage, self.file, data)
        if kind == "EngineProfile":
            own[(kind, f"{name}@{data['version']}")] = profile
        own[(kind, name)] = profile
