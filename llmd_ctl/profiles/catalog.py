"""All that is known of accelerators, engines and models: what comes with llmd-ctl, and the user's.

`Catalog.load` reads the user's profile files; the built-in ones are read when they are asked for.
A user's profile that extends another (or a built-in one of its own name) changes single keys; one
that extends nothing stands alone and replaces a built-in of its name. What accelerators of one make
share is a family, which can be extended and is no accelerator. Called by `cli`, read by `plan`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct, field

from llmd_ctl.errors import Problem, SpecInvalid
from llmd_ctl.profiles.accelerator import Accelerator, AcceleratorSpec
from llmd_ctl.profiles.built_in import Key, Profile, body, built_in, families, index
from llmd_ctl.profiles.engine import Engine, EngineSpec
from llmd_ctl.profiles.model import ModelProfile, ModelSpec
from llmd_ctl.profiles.user_file import read_profiles
from llmd_ctl.spec.source import read_source

T = TypeVar("T")


class UnknownProfile(KeyError):
    """No profile of that name; `known` are those there are."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        super().__init__(name)
        self.name = name
        self.known = tuple(sorted(known))


class Catalog(Struct):
    """Profiles by kind and name. Made by `load`; asking for the same one again costs nothing."""

    own: Mapping[Key, Profile] = field(default_factory=dict)
    _made: dict[Key, Any] = field(default_factory=dict)

    @classmethod
    def load(cls, user_files: Sequence[Path] = ()) -> Catalog:
        """Read the user's profile files. Raises `SpecInvalid` with every problem of all of them."""
        own: dict[Key, Profile] = {}
        problems: list[Problem] = []
        for path in user_files:
            try:
                source = read_source(path)
            except SpecInvalid as error:
                problems += error.problems
                continue
            problems += read_profiles(source, own)
        if problems:
            raise SpecInvalid(problems)
        return cls(own)

    def accelerator(self, name: str) -> Accelerator:
        """Return an accelerator profile; raises `UnknownProfile`."""
        profile = self._find("AcceleratorProfile", name)
        return self._once(
            ("AcceleratorProfile", name),
            lambda: Accelerator(
                name, profile.lineage, profile.origin, body(AcceleratorSpec, profile)
            ),
        )

    def engine(self, name: str, version: str | None = None) -> Engine:
        """Return an engine profile; without a version the one that is known best."""
        asked = f"{name}@{version}" if version else name
        profile = self._find("EngineProfile", asked)
        return self._once(
            ("EngineProfile", asked),
            lambda: Engine(name, profile.origin, body(EngineSpec, profile)),
        )

    def model(self, name: str) -> ModelProfile:
        """Return a model profile by ORG/NAME; raises `UnknownProfile`."""
        profile = self._find("ModelProfile", name)
        return self._once(
            ("ModelProfile", name),
            lambda: ModelProfile(name, profile.origin, body(ModelSpec, profile)),
        )

    def names(self, kind: str) -> tuple[str, ...]:
        """Return the names of all profiles of a kind, sorted."""
        return tuple(sorted({name for k, name in (*index(), *self.own) if k == kind}))

    @property
    def families(self) -> Mapping[str, Any]:
        """How model families are made (`models/families.yaml`)."""
        return families()

    def _find(self, kind: str, name: str) -> Profile:
        found = self.own.get((kind, name)) or built_in(kind, name)
        if found is None:
            raise UnknownProfile(name, self.names(kind))
        return found

    def _once(self, key: Key, make: Callable[[], T]) -> T:
        if key not in self._made:
            self._made[key] = make()
        made: T = self._made[key]
        return made
