"""One variant of a model: from what the fleet file says of it to what runs.

Called by `planner`, variant by variant. It brings the parts together in order: profiles, settings,
parallelism with fit, facts with capacity, command. A variant with an error gives None; the error is
in the report. Pure.
"""

from __future__ import annotations

from msgspec.structs import replace

from llmd_ctl import perf
from llmd_ctl.plan import room, spread
from llmd_ctl.plan.apis import offered
from llmd_ctl.plan.command import Served, command_of, environment_of
from llmd_ctl.plan.disaggregation import transfer_of
from llmd_ctl.plan.elsewhere import (
    host_devices_of,
    is_here,
    joined_devices,
    place_of,
    ranks_leave_a_machine,
    scaled,
    started,
)
from llmd_ctl.plan.engines import DEFAULT, Chosen, choose, reference, simulated
from llmd_ctl.plan.held import as_held
from llmd_ctl.plan.line import choose_blocks, judge, tell_longer_blocks
from llmd_ctl.plan.measure import check_promises, measure
from llmd_ctl.plan.models import ModelReader
from llmd_ctl.plan.pairs import Half
from llmd_ctl.plan.placement import levels_of, machine_of, variables_at
from llmd_ctl.plan.records import Capacity, EndpointTls, Parallel, PlannedVariant, Slo
from llmd_ctl.plan.report import Path, Report
from llmd_ctl.plan.scene import Ready, Scene
from llmd_ctl.plan.service import placed_by
from llmd_ctl.plan.settings import Settings
from llmd_ctl.plan.sizing import Sized, Sizing
from llmd_ctl.plan.stock import accelerator_at
from llmd_ctl.plan.units import counted, dollars, duration
from llmd_ctl.profiles.accelerator import Accelerator
from llmd_ctl.profiles.engine import Engine
from llmd_ctl.spec import fleet as spec

DEFAULTS: Path = ("spec", "defaults")


class VariantPlanner:
    """Plans the variants of one model."""

    def __init__(self, scene: Scene, model: spec.Model, path: Path, slo: Slo | None) -> None:
        self.scene = scene
        self.model = model
        self.path = path
        self.slo = slo
        self.reader = ModelReader(
            scene.catalog, scene.observed, scene.report, model, path, scene.shapes
        )
        self.halves: list[Half] = []  # all that were planned

    def plan(self, variant: spec.Variant, path: Path) -> PlannedVariant | None:
        """Return the planned variant, or None with its problems reported."""
        if variant.endpoint is not None:
            return self._external(variant, variant.endpoint, path)
        ready = self._ready(variant, path)
        if ready is not None:
            ready = transfer_of(ready, self.model, self.path, self.scene.report)
        if ready is None:
            return None
        choose_blocks(ready)
        legal = ready.chosen.is_simulated or judge(ready, self.model.uri, self.scene.report)
        ready.settings.check_unsafe()
        if not legal:
            return None
        sized = self._size(ready)
        if sized is None:
            return None
        self._check_machine(ready, sized)
        planned = self._planned(ready, sized)
        if planned is not None:
            self.halves.append(Half(ready, planned))
        return planned

    # --- understanding the words ---

    def _ready(self, variant: spec.Variant, path: Path) -> Ready | None:
        scene = self.scene
        accelerator = accelerator_at(
            scene.catalog, variant.accelerator, scene.report, (*path, "accelerator")
        )
        if accelerator is None:
            return None
        ref = reference(scene.spec, self.model, variant)
        at = self._engine_path(variant, path)
        chosen = choose(scene.catalog, ref, accelerator, scene.report, at)
        if chosen is None:
            return None
        settings = self._settings(variant, path, accelerator, chosen)
        is_simulated = scene.simulate is not None or chosen.is_simulated
        dtype = str(settings.value("dtype") or "auto")
        loads_here = not is_simulated and is_here(scene.spec, variant.target)
        shape = self.reader.shape(chosen.engine, dtype, exact=loads_here)
        if shape is None or not self.reader.check_version(chosen.engine, chosen.version, at):
            return None
        env = levels_of(scene.spec, self.model, variant).env
        shape = as_held(shape, chosen, env)
        memory, cores = scene.observed.memory_bytes, scene.observed.cores
        if not is_here(scene.spec, variant.target):
            memory, cores = machine_of(scene.spec, self.model, variant, accelerator)
        return Ready(
            variant, path, accelerator, chosen, settings, shape, is_simulated,
            is_real=not is_simulated or (scene.rehearsal and not chosen.is_simulated),
            env=env,
            env_at=variables_at(scene.spec, variant, path),
            memory_bytes=memory,
            cores=cores,
        )  # fmt: skip

    def _engine_path(self, variant: spec.Variant, path: Path) -> Path:
        """Where the engine was named; the accelerator where it was not."""
        if variant.engine is not None:
            return (*path, "engine")
        if self.model.engine is not None:
            return (*self.path, "engine")
        named = self.scene.spec.defaults.engine is not None
        return (*DEFAULTS, "engine") if named else (*path, "accelerator")

    def _settings(
        self, variant: spec.Variant, path: Path, accelerator: Accelerator, chosen: Chosen
    ) -> Settings:
        """Lay the levels over each other, lowest first."""
        model, defaults = self.model, self.scene.spec.defaults
        unsafe_at = (*path, "unsafe") if variant.unsafe else None
        settings = Settings(chosen.engine, accelerator, chosen.on, self.scene.report, unsafe_at)
        title = f"model {model.name}"
        if self._is_for(defaults.engine, None, chosen):
            settings.arguments(defaults.engine_args, "defaults", (*DEFAULTS, "engineArgs"))
        elif defaults.engine_args:
            settings.leave_out("defaults.engineArgs", defaults.engine or DEFAULT)
        settings.field("maxModelLen", model.max_model_len, title, (*self.path, "maxModelLen"))
        settings.field("revision", model.revision, title, (*self.path, "revision"))
        if self._is_for(model.engine, defaults.engine, chosen):
            settings.arguments(model.engine_args, title, (*self.path, "engineArgs"))
        elif model.engine_args:
            settings.leave_out("the model's engineArgs", model.engine or defaults.engine or DEFAULT)
        own = f"variant {variant.name}"
        settings.field("maxModelLen", variant.max_model_len, own, (*path, "maxModelLen"))
        split, at = variant.parallelism, (*path, "parallelism")
        settings.field("tensor", split.tensor, own, (*at, "tensor"))
        settings.field("pipeline", split.pipeline, own, (*at, "pipeline"))
        settings.field("data", split.data, own, (*at, "data"))
        settings.experts(split.expert, own, (*at, "expert"))
        settings.arguments(variant.engine_args, "engineArgs", (*path, "engineArgs"))
        settings.extra(variant.extra_args, "extraArgs", (*path, "extraArgs"))
        return settings

    def _is_for(
        self, ref: spec.EngineRef | None, below: spec.EngineRef | None, chosen: Chosen
    ) -> bool:
        """Whether a level's engineArgs, written for the engine it names, are for this variant's."""
        return (ref or below or DEFAULT).name == chosen.engine.name

    # --- sizing ---

    def _size(self, ready: Ready) -> Sized | None:
        return self._sizing(ready).size()

    def _sizing(self, ready: Ready) -> Sizing:
        scene, variant = self.scene, ready.variant
        devices = scene.stock.devices_per_node(variant.target, ready.accelerator)
        devices = max(devices, joined_devices(scene, ready))
        here = scene.stock.here(ready.accelerator) if is_here(scene.spec, variant.target) else 0
        most = scene.stock.most_devices(variant.target, ready.accelerator)
        if not ready.simulated and here:
            devices, most = min(devices, here), here
        return Sizing(
            title=f"{self.model.name}/{variant.name}",
            accelerator=ready.accelerator,
            chosen=ready.chosen,
            settings=ready.settings,
            env=ready.env,
            shape=ready.shape,
            devices=devices,
            spans=ranks_leave_a_machine(scene, ready),
            most_devices=most,
            memory_bytes=ready.memory_bytes,
            expert=variant.parallelism.expert,
            is_local=self.reader.is_local,
            path=ready.path,
            report=scene.report,
        )

    def _check_machine(self, ready: Ready, sized: Sized) -> None:
        """Nothing is simulated by accident."""
        elsewhere = not is_here(self.scene.spec, ready.variant.target)
        if ready.simulated or not ready.variant.replicas or elsewhere:
            return
        devices = sized.parallel.devices
        needed = devices if ready.accelerator.spec.host else devices * ready.variant.replicas
        self.scene.stock.check_present(ready.accelerator, needed, (*ready.path, "accelerator"))

    # --- the result ---

    def _planned(self, ready: Ready, sized: Sized) -> PlannedVariant | None:
        variant, chosen, split = ready.variant, ready.chosen, sized.parallel
        place = place_of(self.scene, self.model, ready, split)
        devices = split.devices if place is None else place.devices
        price, price_from = self._price(ready, devices)
        measured = measure(self.scene, ready, sized, self.slo, price)
        if measured is None:
            return None
        facts, capacity, notes = measured
        tell_longer_blocks(ready, facts.block_size, self.scene.report)
        title = f"{self.model.name}/{variant.name}"
        if self.slo is not None:
            check_promises(self.scene.report, title, capacity, self.slo, self.path)
        settings = _decided(ready, sized)
        served = self.reader.served(chosen.engine)
        if ready.simulated:
            engine = simulated(self.scene.catalog)
            command = command_of(engine, None, served, ())
            env: dict[str, str] = {}
        else:
            engine = chosen.engine
            in_image = place is not None and place.image is not None
            command = command_of(
                engine, chosen.executable, served, settings.words(), in_image=in_image
            )
            if place is not None:
                command, place = started(self.scene, ready, place, served, command)
            env = environment_of(engine, chosen.on, served, place.hosts if place else 1)
        env = dict(sorted({**env, **ready.env}.items()))
        return PlannedVariant(
            name=variant.name,
            accelerator=ready.accelerator.name,
            vendor=ready.accelerator.spec.vendor,
            target=variant.target,
            engine=engine.name,
            engine_version=None if ready.simulated else chosen.version,
            executable=None if ready.simulated else chosen.executable,
            simulated=ready.simulated,
            replicas=variant.replicas,
            parallelism=split,
            devices_per_replica=devices,
            endpoint_url=None,
            # What has one name only is asked by it, whichever name the client used.
            served_name=served.names[0] if _has_one_name(engine, served) else None,
            max_model_len=sized.load.max_model_len,
            settings=settings.all(),
            command=command,
            env=env,
            startup_seconds=int(chosen.on.startup_seconds.known),
            fit=sized.fit,
            capacity=capacity,
            facts=facts.to_json(),
            apis=offered(self.scene, ready, title),
            role=variant.role,
            place=scaled(place, self.scene.spec, self.model, variant, capacity.itl_batch),
            host_devices=host_devices_of(self.scene, ready),
            price_per_hour=None if price is None else price * variant.replicas,
            reasons=(
                *self._why(ready, sized, capacity),
                *spread.told(split, place.hosts if place else 1),
                *self._room(ready, sized),
                price_from,
                *notes,
            ),
            ruled_out=sized.ruled_out,
        )

    def _price(self, ready: Ready, devices: int) -> tuple[float | None, str]:
        """Return the price of a replica for an hour, and a line that says where it is from."""
        price, source = self.scene.stock.price(ready.variant.target, ready.accelerator)
        if price is None:
            remedy = "pricePerDeviceHour in the inventory sets one"
            return None, f"the price is not known ({source}); {remedy}"
        each = round(price * devices, 6)
        return each, f"{dollars(price)} a device and hour, by {source}"

    def _why(self, ready: Ready, sized: Sized, capacity: Capacity) -> tuple[str, ...]:
        engine = ready.chosen.title
        first = f"simulated: stands for {engine}" if ready.simulated else f"runs {engine}"
        lines = [first, *sized.reasons, *ready.chosen.notes, *ready.shape.notes]
        lines += ready.settings.left_out
        if sized.parallel.pipeline > 1:
            lines.append("its speed is that of one pipeline stage after the other, without overlap")
        promised = self.slo.itl_us if self.slo is not None else None
        if promised is not None and capacity.itl_us <= promised:
            most = counted(capacity.itl_batch, "request")
            lines.append(f"up to {most} at once keep slo.itl, {duration(promised)}")
        return (*lines, *placed_by(self.model, self.scene.spec.router.routing))

    def _room(self, ready: Ready, sized: Sized) -> tuple[str, ...]:
        """Say what a larger size would give where the chosen one leaves little room."""
        if ready.settings.path_of("tensor") is not None or not room.is_tight(sized):
            return ()
        line, wider = room.little_room(sized), self._sizing(ready).next_larger(sized)
        if wider is None:
            return (f"{line}; one machine has no larger size",)
        price, _ = self._price(ready, wider.parallel.devices)
        measured = measure(self.scene, ready, wider, self.slo, price)
        if measured is None:
            return (line,)
        return (line, room.larger(wider, measured[1], price, ready.variant.replicas))

    # --- what runs already ---

    def _external(
        self, variant: spec.Variant, endpoint: spec.ExternalEndpoint, path: Path
    ) -> PlannedVariant:
        """Plan nothing, but tell the router what can be known of it."""
        quiet = Report(self.scene.loaded)
        known = self._external_facts(variant, path, quiet)
        lengths = (variant.max_model_len, self.model.max_model_len)
        length = next((n for n in lengths if n is not None), None)
        reasons = ["runs already: routed to and not managed; its memory and flags are not checked"]
        facts, capacity, vendor = None, None, "unknown"
        if known is None:
            why = quiet.errors[0].message if quiet.errors else "nothing is known of it"
            left_out = ", and so not by its maxModelLen" if length is not None else ""
            title = f"{self.model.name}/{variant.name}"
            message = f"{title} is routed to without facts{left_out}: {why}"
            self.scene.report.warn("LC3022", message, (*path, "accelerator"))
            reasons.append("its speed is not known: the router starts from a guess and learns")
        else:
            facts, capacity, vendor = known
            length = length or facts.max_model_len
            reasons.append(
                "its speed is taken to be that of the smallest size that fits; the router learns"
            )
            reasons.append("its own size is not known and so its price is not: the router has none")
        ref = reference(self.scene.spec, self.model, variant)
        return PlannedVariant(
            name=variant.name,
            accelerator=variant.accelerator,
            vendor=vendor,
            target=None,
            engine=ref.name,
            engine_version=ref.version,
            executable=None,
            simulated=False,
            replicas=1,
            parallelism=Parallel(),
            devices_per_replica=0,
            endpoint_url=endpoint.url,
            endpoint_tls=self._endpoint_tls(endpoint.tls),
            served_name=endpoint.served_name,
            apis=variant.offers,
            max_model_len=length,
            capacity=capacity,
            facts=None if facts is None else facts.to_json(),
            reasons=tuple(reasons),
        )

    def _endpoint_tls(self, tls: spec.EndpointTls | None) -> EndpointTls | None:
        if tls is None:
            return None

        def absolute(path: str | None) -> str | None:
            return None if path is None else str(self.scene.loaded.resolve(path))

        ca, cert, key = absolute(tls.ca_file), absolute(tls.cert_file), absolute(tls.key_file)
        return EndpointTls(ca, cert, key, tls.server_name)

    def _external_facts(
        self, variant: spec.Variant, path: Path, quiet: Report
    ) -> tuple[perf.ReplicaFacts, Capacity, str] | None:
        """Return the facts of a replica of this kind, if it were planned here; never its price."""
        as_if = replace(self.scene, report=quiet, simulate=1.0)  # its weights need not be here
        planner = VariantPlanner(as_if, self.model, self.path, self.slo)
        ready = planner._ready(variant, path)
        sized = planner._size(ready) if ready is not None else None
        if ready is None or sized is None:
            return None
        measured = measure(as_if, ready, sized, self.slo, None)
        if measured is None:
            return None
        return measured[0], measured[1], ready.accelerator.spec.vendor


def _decided(ready: Ready, sized: Sized) -> Settings:
    """Return the settings of a variant with what its size says."""
    settings = ready.settings
    settings.decide("tensor", sized.parallel.tensor)
    settings.decide("maxModelLen", sized.load.max_model_len, "the model's own limit")
    limit = sized.fit.kv_bytes_limit
    if limit is not None and not ready.chosen.engine.spec.context_times_sequences:
        settings.decide("kvBytes", limit)
    settings.multiply_context()
    return settings


def _has_one_name(engine: Engine, served: Served) -> bool:
    return len(served.names) > 1 and "{name}" in engine.spec.command
