"""How a replica is split so that it fits: what the user said is checked, the rest is chosen.

Called by `variant`. Unsaid tensor parallelism is the smallest legal power of two that fits; what
was tried and dropped is kept as `ruled_out`. A refusal names the numbers and what is legal. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from llmd_ctl.plan import context, memory
from llmd_ctl.plan.command import several_of
from llmd_ctl.plan.engines import Chosen
from llmd_ctl.plan.fit import Device, Load, fit_of, gib
from llmd_ctl.plan.kept import Keeping, kept
from llmd_ctl.plan.records import Fit, Parallel
from llmd_ctl.plan.report import Path, Report
from llmd_ctl.plan.settings import Settings
from llmd_ctl.plan.spread import machines_of
from llmd_ctl.plan.way_out import Refused
from llmd_ctl.profiles import split as splits
from llmd_ctl.profiles.accelerator import Accelerator
from llmd_ctl.profiles.flag_value import MOST
from llmd_ctl.profiles.rules.line import ON
from llmd_ctl.profiles.shape import ModelShape

SHARES = {
    "static": "the share of the memory for weights and KV alone",
    "free": "the share for KV of what all else leaves of the memory",
}


class Sized(Struct, frozen=True):
    """A replica that fits, and why it is split as it is."""

    parallel: Parallel
    load: Load
    fit: Fit
    reasons: tuple[str, ...]
    ruled_out: tuple[str, ...]


class Sizing(Struct, frozen=True, dict=True):
    """One replica to be sized. `devices` are those that one machine offers."""

    title: str
    accelerator: Accelerator
    chosen: Chosen
    settings: Settings
    env: Mapping[str, str]  # as the fleet says it
    shape: ModelShape
    devices: int
    spans: bool  # whether data-parallel ranks may be on several machines
    most_devices: int | None  # of all machines together; None: nobody counted them
    memory_bytes: int | None  # of a host, as observed
    expert: int | None  # expert parallelism as said
    is_local: bool  # whether the model lies on this machine
    path: Path
    report: Report

    def size(self) -> Sized | None:
        """Return how the replica is split so that it fits; None, and problems, if it does not."""
        load, device, stages = self._load(), self._device(), self._stages()
        tensors = self._tensors
        if load is None or device is None or stages is None or not tensors:
            return None
        ruled_out = list(self._illegal())
        fit: Fit | None = None
        for tensor in tensors:
            split = Parallel(tensor, stages, self._ranks(), self._experts(tensor))
            fit = fit_of(self.shape, split, device, load)
            if fit.verdict == "fits":
                reasons = self._reasons(split, load, device, fit)
                return Sized(split, load, fit, reasons, tuple(sorted(ruled_out, key=_tensor)))
            ruled_out.append(f"tensor {tensor}: {_shortfall(fit)}")
        if fit is not None:
            self._too_big(fit, tensors[-1], device, load)
        return None

    def next_larger(self, sized: Sized) -> Sized | None:
        """The next size on one machine, of those that the plan chooses from; None: there is none.

        Only for what was `sized` here, and whose parallelism nobody said.
        """
        device = self._device()
        larger = [tensor for tensor in self._tensors if tensor > sized.parallel.tensor]
        if device is None or not larger:
            return None
        tensor = min(larger)
        split = replace(sized.parallel, tensor=tensor, expert=self._experts(tensor))
        return replace(sized, parallel=split, fit=fit_of(self.shape, split, device, sized.load))

    # --- what the user said ---

    def _load(self) -> Load | None:
        value = self.settings.whole
        if not all([self._is_possible(role, most) for role, most in MOST.items()]):
            return None
        length = value("maxModelLen") or self.shape.max_positions
        form = self._kv_format()
        if not self._length_is_legal(length) or form is None:
            return None
        return self._load_of(length, form)

    def _load_of(self, length: int, form: str) -> Load:
        """What the engine is asked to hold with a context of this length."""
        value = self.settings.whole
        sequences = value("maxSequences") or 1
        limit = value("kvBytes")
        if self.chosen.engine.spec.context_times_sequences:
            whole = kept(self.shape, Keeping(1, form, 1, length, windows_whole=True))
            limit = int(sequences * (length * whole.token + whole.state_request))
        default = self.chosen.on.kv_default_bytes
        return Load(
            max_model_len=length,
            max_sequences=sequences,
            max_batched_tokens=self._step_tokens() or length,
            block_size=value("blockSize") or 1,
            kv_format=form,
            kv_bytes_limit=limit,
            kv_bytes_default=int(default.known) if default is not None else None,
            window_kv_whole=self._keeps_window_kv(),
            prefixes=self.settings.value("prefixCaching") is not False,
        )

    def _step_tokens(self) -> int | None:
        """Tokens of a step; None: as many as a context has."""
        said = self.settings.whole("maxBatchedTokens")
        unlimited = self.chosen.engine.spec.unlimited.get("maxBatchedTokens")
        return None if said == unlimited else said

    def _keeps_window_kv(self) -> bool:
        """Whether sliding-window layers keep the KV of the whole context."""
        return bool(self.shape.window_layers) and self.settings.value("windowKvWhole") is True

    def _is_possible(self, role: str, most: int) -> bool:
        value = self.settings.whole(role)
        unlimited = self.chosen.engine.spec.unlimited.get(role)
        if value is None or value == unlimited or 0 < value <= most:
            return True
        flag = self.chosen.engine.spec.roles.get(role, role)
        allowed = f"1 to {most}"
        self.report.add(
            "LC2021", f"{flag} cannot be {value}", self._where(role), found=str(value),
            allowed=(allowed,), hint=f"Write {allowed}, or leave it out for the default.",
        )  # fmt: skip
        return False

    def _length_is_legal(self, length: int) -> bool:
        if length <= self.shape.max_positions or self._is_length_lifted():
            return True
        message = f"the model takes at most {self.shape.max_positions:,} tokens"
        self.report.add(
            "LC3012", message, self._where("maxModelLen"), found=str(length),
            allowed=(f"1 to {self.shape.max_positions}",),
            hint=context.longer(
                self.shape, self.chosen.engine.spec.lifts_context, is_local=self.is_local
            ),
        )  # fmt: skip
        return False

    def _is_length_lifted(self) -> bool:
        """Whether the engine is told that the model's own length is no limit."""
        lifts = set(self.chosen.engine.spec.lifts_context)
        on = {name for name, text in self.env.items() if text.strip().lower() in ON}
        return not lifts.isdisjoint(on | {flag.partition(".")[0] for flag in self.settings.said()})

    def _kv_format(self) -> str | None:
        asked = str(self.settings.value("kvDtype") or "auto")
        form = memory.kv_format(self.shape, asked)
        if form is not None:
            return form
        message = f"the size of a KV cache of type {asked} is not built yet"
        legal = tuple(name for name in self._kv_words() if memory.kv_format(self.shape, name))
        self.report.add("LC3017", message, self._where("kvDtype"), found=asked, allowed=legal)
        return None

    def _kv_words(self) -> tuple[str, ...]:
        """Types of KV that the model can have here, in the engine's words."""
        engine, on = self.chosen.engine, self.chosen.on
        known = on.attention.get(self.shape.traits.kind)
        architecture = self.accelerator.spec.architecture
        kernels = [engine.kernel(name, architecture) for name in (known.order if known else ())]
        words = {word for kernel in kernels if kernel is not None for word in kernel.kv_dtypes}
        taken = on.kv_dtypes or words or set(memory.KV_FORMATS)
        return tuple(name for name in memory.KV_FORMATS if name in taken)

    def _stages(self) -> int | None:
        stages = self.settings.whole("pipeline") or 1
        if stages == 1:
            return 1
        reason = self.chosen.on.unsupported.get("pipeline")
        reason = reason or splits.pipeline_objection(self.shape, stages)
        if reason is not None:
            message = f"pipeline parallelism {stages} is not possible: {reason}"
            legal = "1" if "pipeline" in self.chosen.on.unsupported else f"1 to {self.shape.layers}"
            self.report.add(
                "LC3011", message, self._where("pipeline"), found=str(stages), allowed=(legal,)
            )
            return None
        return stages

    def _ranks(self) -> int:
        """Data-parallel ranks behind one address; the plan chooses none by itself."""
        return max(1, self.settings.whole("data") or 1)

    def _room(self) -> int:
        """The devices of a machine that one rank may take."""
        return self.devices if self.spans else self.devices // self._ranks()

    def _further(self) -> str | None:
        """Where ranks may leave their machine, if their engine lets them."""
        several = several_of(self.chosen.engine, self.chosen.on)
        if several is None or not several.ranks:
            return None
        return "Lower data or tensor; on a target of kind kubernetes ranks may leave a machine."

    @cached_property
    def _tensors(self) -> tuple[int, ...]:
        """Return the tensor parallelisms to try, smallest first; none, and a problem: illegal."""
        if self.settings.path_of("tensor") is None:
            return self._expert_tensors(self._candidates)
        tensor = self.settings.whole("tensor") or 1
        objection, hint = splits.tensor_objection(self.shape, tensor), None
        if tensor > self._room():
            objection = f"a machine has {self.devices} {self.accelerator.name}"
            if self._room() < self.devices:
                objection += f", {self._ranks()} ranks take {tensor * self._ranks()}"
                hint = self._further()
        if objection is not None:
            legal = splits.legal_tensors(self.shape, self._room())
            message = f"tensor parallelism {tensor} is not possible: {objection}"
            self.report.add(
                "LC3011", message, self._where("tensor"), found=str(tensor),
                allowed=tuple(str(n) for n in legal), hint=hint,
            )  # fmt: skip
            return ()
        return self._expert_tensors((tensor,))

    @cached_property
    def _candidates(self) -> tuple[int, ...]:
        """What the plan tries: of groups that devices come in, where any can be used whole."""
        found = splits.candidates(self.shape, self._room())
        if not found:
            message = f"a machine has {self.devices} {self.accelerator.name}"
            self.report.add(
                "LC3011", f"data parallelism {self._ranks()} is not possible: {message}",
                self._where("data"), found=str(self._ranks()), allowed=(f"1 to {self.devices}",),
                hint=self._further(),
            )  # fmt: skip
        topology = self.accelerator.spec.topology
        if topology is None:
            return found
        whole = tuple(n for n in found if self._on_a_machine(n) in topology.groups)
        return whole or found

    def _on_a_machine(self, tensor: int) -> int:
        """The devices of one machine that a replica of this size takes."""
        split = Parallel(tensor, data=self._ranks())
        return split.devices // (machines_of(split, self.devices) if self.spans else 1)

    def _expert_tensors(self, tensors: tuple[int, ...]) -> tuple[int, ...]:
        """Keep those that go with the expert parallelism that was said, here or by a flag."""
        if not self._by_experts() or not tensors:
            return tensors
        told, ranks = self.settings.value("expert"), self._ranks()
        counted = told if type(told) is int else self.expert
        said = counted if counted != 1 else None
        objections = {
            n: splits.expert_objection(self.shape, said or n * ranks, n * ranks) for n in tensors
        }
        kept = tuple(n for n, objection in objections.items() if objection is None)
        if not kept:
            self._no_experts(tensors, said, objections[tensors[-1]])
        return kept

    def _no_experts(self, tensors: tuple[int, ...], said: int | None, why: str | None) -> None:
        """Refuse the expert parallelism with those that go with the tensor parallelisms."""
        all_ranks = [n * self._ranks() for n in tensors]
        good = [n for n in all_ranks if splits.expert_objection(self.shape, n, n) is None]
        legal = tuple(str(n) for n in sorted({1, *good}))
        found, hint = str(said or "true"), None
        if not self.shape.experts:
            hint = "Remove it; only models with experts are split this way."
        elif said is None:
            legal, hint = ("false",), "Remove it, or choose a tensor parallelism that divides them."
        message = f"expert parallelism is not possible: {why}"
        where = self._where("expert")
        self.report.add("LC3011", message, where, found=found, allowed=legal, hint=hint)

    def _experts(self, tensor: int) -> int:
        return tensor * self._ranks() if self.shape.experts and self._by_experts() else 1

    def _by_experts(self) -> bool:
        """Whether whole experts are dealt out: a switch, or how many ways."""
        value = self.settings.value("expert")
        return value is True or (type(value) is int and value > 1)

    # --- the device ---

    def _device(self) -> Device | None:
        spec, on = self.accelerator.spec, self.chosen.on
        total = spec.memory_bytes.value
        if total is None and spec.host is not None:
            total = self.memory_bytes
        if total is None:
            message = f"how much memory {self.accelerator.name} has here is not known"
            self.report.add("LC3018", message, (*self.path, "accelerator"), found="nothing")
            return None
        share = self._utilization()
        if share is None:
            return None
        return Device(
            int(total),
            share,
            int(on.reserve_bytes.known),
            int(on.collective_reserve_bytes.over(0)),
            "all" if spec.host is not None else self.chosen.engine.spec.share_of,
        )

    def _utilization(self) -> float | None:
        """The share of a device's memory that the engine may take."""
        host = self.accelerator.spec.host
        if host is not None:
            return host.memory_share.known
        value = self.settings.value("utilization")
        told = self.settings.path_of("kvBytes") is not None
        if told and self.settings.path_of("utilization") is None:
            return 1.0  # the engine ignores the share when it is told how much KV to take
        share = float(value) if isinstance(value, int | float) else 1.0
        if 0 < share <= 1:
            return share
        self.report.add(
            "LC2021", "the share of memory is above 0 and at most 1", self._where("utilization"),
            found=str(value), hint="Write 0.92 for 92 %, or leave it out for the default.",
        )  # fmt: skip
        return None

    # --- words ---

    def _where(self, role: str) -> Path:
        return self.settings.path_of(role) or (*self.path, "accelerator")

    def _illegal(self) -> list[str]:
        """Say which powers of two were never tried, and why."""
        if self.settings.path_of("tensor") is not None:
            return []
        powers = [1 << n for n in range(1, self.devices.bit_length()) if 1 << n <= self.devices]
        found = ((n, splits.tensor_objection(self.shape, n)) for n in powers)
        lines = [f"tensor {n}: {objection}" for n, objection in found if objection is not None]
        candidates = self._candidates
        return [
            *lines,
            *(
                f"tensor {n}: the cluster hands out no group of {self._on_a_machine(n)}"
                for n in splits.candidates(self.shape, self._room())
                if n not in candidates
            ),
        ]

    def _share(self, fit: Fit, device: Device) -> list[str]:
        """Say what the engine's share is of, where that is not the memory for all it takes."""
        if device.share_of not in SHARES:
            return []
        flag = self.chosen.engine.spec.roles.get("utilization", "its share")
        of = SHARES[device.share_of]
        return [f"{flag} {device.utilization:g} is {of}: {fit.utilization:.1%} of it in all"]

    def _reasons(self, split: Parallel, load: Load, device: Device, fit: Fit) -> tuple[str, ...]:
        lines = [*self._split_reasons(split, load, device), *self._share(fit, device)]
        if load.window_kv_whole:
            flag = self.chosen.engine.spec.roles["windowKvWhole"]
            lines.append(
                f"{flag}: window layers keep the KV of the whole context, and it is counted"
            )
        return (*lines, *context.stretched(self.shape, load.max_model_len))

    def _split_reasons(self, split: Parallel, load: Load, device: Device) -> tuple[str, ...]:
        if self.settings.path_of("tensor") is not None:
            return ()
        if split.tensor == self._tensors[0]:
            return ("one device holds a replica",) if split.devices == 1 else ()
        taken = f"{split.devices} devices (tensor {split.tensor})"
        line = f"a replica takes {taken}, the fewest that fit"
        return (line, *self._for_the_share(split, load, device))

    def _for_the_share(self, split: Parallel, load: Load, device: Device) -> tuple[str, ...]:
        """Say so where a replica takes more devices because it may use less of each."""
        flag = self.settings.engine.spec.roles.get("utilization", "")
        profile = self.chosen.on.settings.get(flag)
        usual = profile.value if profile else self.settings.engine.spec.defaults.get(flag)
        if self.settings.path_of("utilization") is None or not isinstance(usual, float):
            return ()
        roomy = replace(device, utilization=usual)
        for tensor in self._tensors:
            fewer = replace(split, tensor=tensor, expert=self._experts(tensor))
            if tensor < split.tensor and fit_of(self.shape, fewer, roomy, load).verdict == "fits":
                set_by = self.settings.all()[flag].set_by
                return (
                    f"because {flag} is {device.utilization:g} (by {set_by}): "
                    f"with the usual {usual:g}, tensor {tensor} would fit",
                )
        return ()

    def _too_big(self, fit: Fit, tensor: int, device: Device, load: Load) -> None:
        where = self.settings.path_of("tensor") or (*self.path, "accelerator")
        count = f"{tensor} x " if tensor > 1 else ""
        message = (
            f"{self.title} does not fit on {count}{self.accelerator.name}: {'; '.join(fit.lines)}"
        )
        self.report.add(
            "LC3010",
            message,
            where,
            found=_shortfall(fit),
            hint=self._refused(fit, tensor, device, load).way_out(),
        )

    def _refused(self, fit: Fit, tensor: int, device: Device, load: Load) -> Refused:
        stages = self.settings.whole("pipeline") or 1
        return Refused(
            accelerator=self.accelerator,
            shape=self.shape,
            device=device,
            devices=self._room(),
            load=load,
            fit=fit,
            tensor=tensor,
            split=lambda wide: Parallel(wide, stages, self._ranks(), self._experts(wide)),
            reload=lambda length: self._load_of(length, load.kv_format),
            tensor_at=self.settings.path_of("tensor"),
            kv_bytes_at=self.settings.path_of("kvBytes"),
            takes_stages="pipeline" not in self.chosen.on.unsupported,
            most_devices=self.most_devices,
        )


def _tensor(line: str) -> int:
    """The tensor parallelism that a line of `ruled_out` is about."""
    return int(line.removeprefix("tensor ").partition(":")[0])


def _shortfall(fit: Fit) -> str:
    """What is missing, in a few words."""
    if fit.kv_bytes_free <= 0:
        return f"{gib(-fit.kv_bytes_free)} too little before any KV"
    if fit.kv_tokens < fit.needed_tokens:
        return f"room for {fit.kv_tokens:,} tokens of context, {fit.needed_tokens:,} are needed"
    return f"{gib(fit.kv_bytes_limit or 0)} of KV do not fit into {gib(fit.kv_bytes_free)}"
