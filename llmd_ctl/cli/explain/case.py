"""One variant of a loaded fleet beside its plan: what it runs, and the levels that speak of it.

Called by `effective` and `levels`. Whatever decides something is asked of `plan` itself, so that an
explanation cannot differ from what is planned. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

from msgspec import Struct

from llmd_ctl.plan import Plan, PlannedVariant
from llmd_ctl.plan.engines import Chosen, choose, reference
from llmd_ctl.plan.report import Path, Report
from llmd_ctl.profiles import Accelerator, Catalog
from llmd_ctl.profiles.catalog import UnknownProfile
from llmd_ctl.spec import LoadedFleet
from llmd_ctl.spec import fleet as spec


class Level(Struct, frozen=True):
    """A level of a fleet that may say something of a variant."""

    title: str  # in the words of a plan's settings
    path: Path


class Case(Struct, frozen=True, dict=True):
    """A variant. `planned` is of a rehearsal: as if every accelerator were there."""

    loaded: LoadedFleet
    catalog: Catalog
    plan: Plan
    model_at: int
    variant_at: int
    planned: PlannedVariant

    @property
    def model(self) -> spec.Model:
        """Its model."""
        return self.loaded.fleet.spec.models[self.model_at]

    @property
    def variant(self) -> spec.Variant:
        """The variant as the file has it."""
        return self.model.variants[self.variant_at]

    @property
    def title(self) -> str:
        """Its name for people."""
        return f"{self.model.name}/{self.variant.name}"

    @property
    def path(self) -> Path:
        """Where it stands in the file."""
        return ("spec", "models", self.model_at, "variants", self.variant_at)

    @property
    def levels(self) -> tuple[Level, ...]:
        """The levels, the lowest first."""
        targets = [
            Level(f"target {one.name}", ("spec", "targets", index))
            for index, one in enumerate(self.loaded.fleet.spec.targets)
            if one.name == self.variant.target
        ]
        model = Level(f"model {self.model.name}", self.path[:3])
        own = Level(f"variant {self.variant.name}", self.path)
        return (Level("defaults", ("spec", "defaults")), *targets, model, own)

    @property
    def is_managed(self) -> bool:
        """Whether llmd-ctl starts it."""
        return self.variant.endpoint is None

    @cached_property
    def accelerator(self) -> Accelerator | None:
        """Its accelerator; None: no profile has it, and it runs already."""
        try:
            return self.catalog.accelerator(self.variant.accelerator)
        except UnknownProfile:
            return None

    @cached_property
    def chosen(self) -> Chosen | None:
        """Its engine there; None for what runs already."""
        if self.accelerator is None or not self.is_managed:
            return None
        ref = reference(self.loaded.fleet.spec, self.model, self.variant)
        return choose(self.catalog, ref, self.accelerator, Report(self.loaded), self.path)

    def said(self, level: Level, *keys: str) -> Any:
        """What a level says at a key, as it stands in the file; None where it says nothing."""
        node = self.loaded.document.root.at((*level.path, *keys))
        return None if node is None else node.plain()


def cases(loaded: LoadedFleet, catalog: Catalog, plan: Plan) -> Iterator[Case]:
    """Yield every variant of a fleet."""
    for model_at, model in enumerate(plan.models):
        for variant_at, planned in enumerate(model.variants):
            yield Case(loaded, catalog, plan, model_at, variant_at, planned)
