"""What a variant is planned with, and a variant once its words are understood.

Records that `planner`, `variant` and `measure` hand to each other; nothing is computed here.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from llmd_ctl.plan.engines import Chosen
from llmd_ctl.plan.models import Shapes
from llmd_ctl.plan.observed import Observed
from llmd_ctl.plan.place import Transfer
from llmd_ctl.plan.report import Path, Report
from llmd_ctl.plan.settings import Settings
from llmd_ctl.plan.stock import Stock
from llmd_ctl.profiles.accelerator import Accelerator
from llmd_ctl.profiles.catalog import Catalog
from llmd_ctl.profiles.shape import ModelShape
from llmd_ctl.spec import fleet as spec
from llmd_ctl.spec.loader import LoadedFleet


class Scene(Struct):
    """What every variant of a fleet is planned with."""

    loaded: LoadedFleet
    catalog: Catalog
    observed: Observed
    stock: Stock
    report: Report
    simulate: float | None
    rehearsal: bool = False  # nothing runs by this plan: only what the file itself says counts
    shapes: Shapes = field(default_factory=dict)

    @property
    def spec(self) -> spec.FleetSpec:
        """What the fleet file says."""
        return self.loaded.fleet.spec


class Ready(Struct, frozen=True):
    """A variant whose words are all understood."""

    variant: spec.Variant
    path: Path
    accelerator: Accelerator
    chosen: Chosen
    settings: Settings
    shape: ModelShape
    simulated: bool
    is_real: bool  # what would run is looked at: it is not simulated, or only for a rehearsal
    env: Mapping[str, str]  # that the fleet file says
    env_at: Mapping[str, Path]  # and where
    memory_bytes: int | None  # of the machine, or of the container elsewhere, where it is a device
    cores: int | None
    transfer: Transfer | None = None  # of one with a role
