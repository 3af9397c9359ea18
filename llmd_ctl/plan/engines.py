"""Which engine a variant runs, in which version, and how it runs on the accelerator.

Called by `variant`. A simulated engine takes the place of another one: it has flags of its own, and
the place on the accelerator (reserve, block size, …) of the engine it stands for. Pure.
"""

from __future__ import annotations

from msgspec import Struct

from llmd_ctl.plan.report import Path, Report
from llmd_ctl.profiles.accelerator import Accelerator, EngineOn
from llmd_ctl.profiles.catalog import Catalog, UnknownProfile
from llmd_ctl.profiles.engine import Engine
from llmd_ctl.spec import fleet as spec

DEFAULT = spec.EngineRef(name="vllm")
SIMULATED = "sim"


class Chosen(Struct, frozen=True):
    """An engine on an accelerator. `engine` is what the settings are written for."""

    engine: Engine
    on: EngineOn
    version: str
    executable: str | None
    notes: tuple[str, ...]

    @property
    def title(self) -> str:
        """Name, version and package, for people."""
        if self.is_simulated:
            return f"any engine like {self.engine.spec.stands_for}"
        return f"{self.engine.name} {self.version} ({self.on.package})"

    @property
    def is_simulated(self) -> bool:
        """Whether the engine itself is the simulated one, with or without --simulate."""
        return self.engine.spec.stands_for is not None


def reference(fleet: spec.FleetSpec, model: spec.Model, variant: spec.Variant) -> spec.EngineRef:
    """Return the engine that the nearest level names."""
    return variant.engine or model.engine or fleet.defaults.engine or DEFAULT


def choose(
    catalog: Catalog, ref: spec.EngineRef, accelerator: Accelerator, report: Report, path: Path
) -> Chosen | None:
    """Return the engine on this accelerator; None, and a problem, where it does not run."""
    engine = _engine(catalog, ref, accelerator, report, path)
    if engine is None:
        return None
    runs_as = engine.spec.stands_for or engine.name
    on = accelerator.spec.engines.get(runs_as)
    if on is None or (on.not_yet and engine.spec.stands_for is None):
        _refuse(engine, accelerator, report, path)
        return None
    if engine.spec.stands_for is None:
        _check_flags(engine, accelerator, on, report, path)
    version = ref.version or (engine.spec.version if engine.spec.stands_for else on.version)
    if ref.version and on.version and ref.version != on.version:
        message = f"{on.package} goes with {engine.name} {on.version}, not {ref.version}"
        report.warn(
            "LC3021",
            message,
            (*path, "version"),
            hint=f"Leave the version out for {accelerator.name}.",
        )
    return Chosen(
        engine,
        on,
        version or engine.spec.version,
        ref.executable or on.executable,
        on.notes if engine.spec.stands_for is None else (),
    )


def _refuse(engine: Engine, accelerator: Accelerator, report: Report, path: Path) -> None:
    engines = accelerator.spec.engines
    why = engines[engine.name].not_yet if engine.name in engines else None
    message = f"no profile says how {engine.name} runs on {accelerator.name}"
    never = engine.spec.not_on.get(accelerator.spec.vendor)
    if never and engine.name not in engines:
        message = f"{engine.name} does not run on {accelerator.name}: {never}"
    allowed = tuple(sorted(name for name, on in engines.items() if not on.not_yet))
    hint = None if allowed else "Start it yourself and route to it (endpoint)."
    if why:
        message = f"{engine.name} on {accelerator.name} is not built yet: {why}"
        hint = "Route to one that runs already (endpoint), or plan it with engine: {name: sim}."
    report.add("LC2013", message, path, found=engine.name, allowed=allowed, hint=hint)


def simulated(catalog: Catalog) -> Engine:
    """Return the simulated engine."""
    return catalog.engine(SIMULATED)


def _engine(
    catalog: Catalog, ref: spec.EngineRef, accelerator: Accelerator, report: Report, path: Path
) -> Engine | None:
    """Return the profile whose flags are checked.

    A version that only this accelerator has is checked by the table of the best known one.
    """
    on = accelerator.spec.engines.get(ref.name)
    own = on.version if on is not None else None
    version = None if ref.version == own else ref.version
    try:
        return catalog.engine(ref.name, version)
    except UnknownProfile as unknown:
        known = {n.partition("@")[2] for n in unknown.known if n.startswith(f"{ref.name}@")}
        message = f"{ref.name} {ref.version} is not known"
        report.add(
            "LC2011", message, (*path, "version"),
            found=ref.version, allowed=sorted(known if own is None else {*known, own}),
            hint="Use a known version, or give an EngineProfile that extends "
            f"{ref.name} and says version: {ref.version}.",
        )  # fmt: skip
        return None


def _check_flags(
    engine: Engine, accelerator: Accelerator, on: EngineOn, report: Report, path: Path
) -> None:
    """A profile's settings are words for the engine too."""
    for flag in on.settings:
        if flag not in engine.spec.flags:
            profile = f"profile {accelerator.name} ({accelerator.origin})"
            message = f"{profile} sets {flag}, which {engine.name} does not have"
            hint = f"Mend or remove it in that profile, under engines.{engine.name}.settings."
            allowed = tuple(sorted(engine.spec.flags))
            report.add("LC2020", message, path, found=flag, allowed=allowed, hint=hint)
