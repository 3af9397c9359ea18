"""All that is known of accelerators, engines and models: what comes with llmd-ctl, and the user's.

`Catalog.load` reads the user's profile files; the built-in ones are read when they are asked for.
A user's profile that extends another (or a built-in one of its own name) changes single keys; one
that extends nothing stands alone and replaces a built-in of its name. What accelerators of one make
share is a family, which can be extended and is no accelerator. Called by `cli`, read by `plan`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, TypeVar

from llmd_ctl.errors import Problem, SpecInvalid
from llmd_ctl.profiles.accelerator import Accelerator, AcceleratorSpec
from llmd_ctl.profiles.document import Checker, build, merge, missing
from llmd_ctl.profiles.engine import Engine, EngineSpec
from llmd_ctl.profiles.flag_value import check_settings
from llmd_ctl.profiles.model import ModelProfile, ModelSpec
from llmd_ctl.spec.compose import compose
from llmd_ctl.spec.findings import Findings
from llmd_ctl.spec.nodes import Document, Node
from llmd_ctl.spec.nodes import Path as KeyPath
from llmd_ctl.spec.source import SourceText, dotted, read_source

T = TypeVar("T")
BUILT_IN = "llmd-ctl"
FOLDERS = "nvidia amd tpu gaudi intel cpu rebellions ascend aws engines models".split()
FAMILY = "AcceleratorFamily"
BODIES = {
    "AcceleratorProfile": AcceleratorSpec,
    "EngineProfile": EngineSpec,
    "ModelProfile": ModelSpec,
}
API_VERSION = "fleet.llmd-ctl.dev/v1alpha1"
TOP_KEYS = ("apiVersion", "kind", "metadata", "extends", "spec")

Key = tuple[str, str]  # kind, and the name; an engine's name is NAME@VERSION


class UnknownProfile(KeyError):
    """No profile of that name; `known` are those there are."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        super().__init__(name)
        self.name = name
        self.known = tuple(sorted(known))


@dataclass(frozen=True)
class _Profile:
    """A whole document's data, merged with what it extends."""

    name: str
    lineage: tuple[str, ...]
    origin: str
    data: Mapping[str, Any]


@dataclass
class Catalog:
    """Profiles by kind and name. Made by `load`; asking for the same one again costs nothing."""

    own: Mapping[Key, _Profile] = field(default_factory=dict)
    _made: dict[Key, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def load(cls, user_files: Sequence[Path] = ()) -> Catalog:
        """Read the user's profile files. Raises `SpecInvalid` with every problem of all of them."""
        own: dict[Key, _Profile] = {}
        problems: list[Problem] = []
        for path in user_files:
            try:
                source = read_source(path)
            except SpecInvalid as error:
                problems += error.problems
                continue
            problems += _read(source, own)
        if problems:
            raise SpecInvalid(problems)
        return cls(own)

    def accelerator(self, name: str) -> Accelerator:
        """Return an accelerator profile; raises `UnknownProfile`."""
        profile = self._find("AcceleratorProfile", name)
        return self._once(
            ("AcceleratorProfile", name),
            lambda: Accelerator(
                name, profile.lineage, profile.origin, _body(AcceleratorSpec, profile)
            ),
        )

    def engine(self, name: str, version: str | None = None) -> Engine:
        """Return an engine profile; without a version the one that is known best."""
        asked = f"{name}@{version}" if version else name
        profile = self._find("EngineProfile", asked)
        return self._once(
            ("EngineProfile", asked),
            lambda: Engine(name, profile.origin, _body(EngineSpec, profile)),
        )

    def model(self, name: str) -> ModelProfile:
        """Return a model profile by ORG/NAME; raises `UnknownProfile`."""
        profile = self._find("ModelProfile", name)
        return self._once(
            ("ModelProfile", name),
            lambda: ModelProfile(name, profile.origin, _body(ModelSpec, profile)),
        )

    def names(self, kind: str) -> tuple[str, ...]:
        """Return the names of all profiles of a kind, sorted."""
        return tuple(sorted({name for k, name in (*_index(), *self.own) if k == kind}))

    @property
    def families(self) -> Mapping[str, Any]:
        """How model families are made (`models/families.yaml`)."""
        return _families()

    def _find(self, kind: str, name: str) -> _Profile:
        found = self.own.get((kind, name)) or _built_in(kind, name)
        if found is None:
            raise UnknownProfile(name, self.names(kind))
        return found

    def _once(self, key: Key, make: Callable[[], T]) -> T:
        if key not in self._made:
            self._made[key] = make()
        made: T = self._made[key]
        return made


def _body(cls: type[Any], profile: _Profile) -> Any:
    return build(cls, profile.data, profile.origin)


# --- what comes with llmd-ctl --------------------------------------------------------------------


def _root() -> Traversable:
    return resources.files("llmd_ctl") / "profiles"


@cache
def _index() -> Mapping[Key, Traversable]:
    """Return the built-in profiles' files by kind and name; only names are read."""
    index: dict[Key, Traversable] = {}
    for folder in FOLDERS:
        for file in sorted((_root() / folder).iterdir(), key=lambda f: f.name):
            name = file.name.removesuffix(".yaml")
            if name == file.name or name in {"families"} or name.endswith((".flags", ".attention")):
                continue
            if folder == "engines":
                engine, _, version = name.rpartition("-")
                index[("EngineProfile", f"{engine}@{version}")] = file
                index[("EngineProfile", engine)] = file  # the newest: files are sorted
            elif folder == "models":
                index[("ModelProfile", name.replace("--", "/"))] = file
            elif name.endswith(".family"):
                index[(FAMILY, name.removesuffix(".family"))] = file
            else:
                index[("AcceleratorProfile", name)] = file
    return index


@cache
def _built_in(kind: str, name: str) -> _Profile | None:
    file = _index().get((kind, name))
    if file is None:
        return None
    document = _plain(file)
    data: Mapping[str, Any] = document["spec"]
    lineage = () if kind == FAMILY else (name,)
    under = _below(kind, document["extends"]) if "extends" in document else None
    if under is not None:
        data, lineage = merge(under.data, data), (*lineage, *under.lineage)
    flags = _root() / "engines" / f"{file.name.removesuffix('.yaml')}.flags.yaml"
    if kind == "EngineProfile" and flags.is_file():
        data = merge(data, {"flags": _plain(flags)["flags"]})
    return _Profile(name, lineage, BUILT_IN, data)


def _below(kind: str, name: str) -> _Profile | None:
    """Return what another profile of this kind may extend: one of its kind, or a family."""
    family = FAMILY if kind == "AcceleratorProfile" else kind
    return _built_in(kind, name) or _built_in(family, name)


@cache
def _families() -> Mapping[str, Any]:
    loaded: Mapping[str, Any] = _plain(_root() / "models" / "families.yaml")
    return loaded


def _plain(file: Traversable) -> Any:
    source = SourceText(file.name, file.read_text("utf-8"), Path())
    (document,) = compose(Findings(source))
    return document.root.plain()


# --- the user's files ----------------------------------------------------------------------------


def _read(source: SourceText, own: dict[Key, _Profile]) -> list[Problem]:
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

    def add_to(self, own: dict[Key, _Profile]) -> None:
        kind = self.root.text("kind")
        body = BODIES.get(kind or "")
        name = self.root.text("metadata", "name")
        self._top()
        if body is None or kind is None:
            allowed = tuple(BODIES)
            self.checker.say(
                "LC2001", "kind says which kind of profile this is", ("kind",),
                found=kind or "nothing", allowed=allowed,
            )  # fmt: skip
            return
        if name is None:
            self.checker.say("LC2003", 'the key "name" is missing in metadata', ("metadata",))
            return
        spec = self.root.at(("spec",))
        if spec is None:
            self.checker.say("LC2003", 'the key "spec" is missing in a profile', ())
            return
        if self.checker.check(body, ("spec",)):
            self._check_engines(Catalog(own))
            self._keep(own, kind, name, spec.plain())

    def _check_engines(self, known: Catalog) -> None:
        """What an accelerator says to engines must be what those take, as they are known so far."""
        path = ("spec", "engines")
        node = self.root.at(path)
        for name in node.value if node is not None and isinstance(node.value, dict) else ():
            try:
                check_settings(self.checker, known.engine(name), (*path, name, "settings"))
            except UnknownProfile:
                continue

    def _top(self) -> None:
        self._only((), TOP_KEYS)
        self._only(("metadata",), ("name",))
        extends = self.root.get("extends")
        if extends is not None and not isinstance(extends.value, str):
            message = "extends must be the name of a profile"
            self.checker.say("LC2004", message, ("extends",), found=extends.describe())
        version = self.root.text("apiVersion")
        if version != API_VERSION:
            message = "apiVersion of a profile is the fleet's"
            self.checker.say(
                "LC2001", message, ("apiVersion",), found=version or "nothing",
                allowed=(API_VERSION,),
            )  # fmt: skip

    def _only(self, path: KeyPath, allowed: tuple[str, ...]) -> None:
        """Refuse the keys of a map that it does not take."""
        node = self.root.at(path)
        for key in node.value if node is not None and isinstance(node.value, dict) else ():
            if key not in allowed:
                message = f'unknown key "{key}" in {dotted(path) or "a profile"}'
                at = (*path, key)
                self.checker.say("LC2002", message, at, key=True, found=key, allowed=allowed)

    def _keep(self, own: dict[Key, _Profile], kind: str, name: str, data: dict[str, Any]) -> None:
        lineage: tuple[str, ...] = (name,)
        before = own.get((kind, name))
        if before is not None and self.extends != name:
            message = f"a profile named {name} already stands in {before.origin}"
            self.checker.say("LC2014", message, ("metadata", "name"), found=name)
        if self.extends is not None:
            under = own.get((kind, self.extends)) or _below(kind, self.extends)
            if under is None:
                known = {n for k, n in (*_index(), *own) if k == kind}
                message = f'no profile "{self.extends}" to extend stands before this one'
                self.checker.say(
                    "LC2007", message, ("extends",), found=self.extends,
                    allowed=tuple(sorted(known)),
                )  # fmt: skip
                return
            lineage = (name, *(n for n in under.lineage if n != name))
            data = merge(under.data, data)
        for key in missing(BODIES[kind], data):
            self.checker.say("LC2003", f'the key "{key}" is missing in spec', ("spec",), key=True)
            return
        profile = _Profile(name, lineage, self.file, data)
        if kind == "EngineProfile":
            own[(kind, f"{name}@{data['version']}")] = profile
        own[(kind, name)] = profile
