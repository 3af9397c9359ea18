"""What would let a replica fit that does not: for the hint of a refusal.

Called by `sizing`. Each way is tried with the arithmetic of the refusal itself before it is named,
and none is named that the accelerator, the engine or the model cannot go. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from llmd_ctl.plan.fit import Device, Load, bytes_left, fit_of, gib
from llmd_ctl.plan.records import Fit, Parallel
from llmd_ctl.plan.report import Path
from llmd_ctl.profiles import split as splits
from llmd_ctl.profiles.accelerator import Accelerator
from llmd_ctl.profiles.shape import ModelShape

MOST_STAGES = 16  # nobody joins more machines for a replica
LEAST_CONTEXT = 256  # below it a context serves nobody, so it is no way out


class Refused(Struct, frozen=True):
    """A replica that does not fit: how it was split, and where its user said what.

    `split` makes the whole parallelism of a tensor parallelism, `reload` the load of a context.
    """

    accelerator: Accelerator
    shape: ModelShape
    device: Device
    devices: int  # that one machine offers
    load: Load
    fit: Fit
    tensor: int
    split: Callable[[int], Parallel]
    reload: Callable[[int], Load]
    tensor_at: Path | None
    kv_bytes_at: Path | None
    takes_stages: bool  # whether the engine has pipelines on this accelerator
    most_devices: int | None  # of all machines together; None: nobody counted them

    def way_out(self) -> str:
        """Say the first way that works."""
        return next(self._ways(), self._none())

    def _ways(self) -> Iterator[str]:
        yield from self._less_kv()
        yield from self._wider()
        yield from self._shorter()
        yield from self._staged()

    def _less_kv(self) -> Iterator[str]:
        """The engine was told to take more for KV than is left."""
        left = bytes_left(self.fit)
        if self.kv_bytes_at is None or not 0 < left < (self.fit.kv_bytes_limit or 0):
            return
        if self._fits(self.tensor, replace(self.load, kv_bytes_limit=left)):
            said = self.kv_bytes_at[-1]
            key = said if isinstance(said, str) else "kvCacheMemoryBytes"
            yield f"{key}: {left} is the most that fits."

    def _wider(self) -> Iterator[str]:
        for tensor in self._tensors():
            if tensor > self.tensor and self._fits(tensor, self.load):
                said = self.tensor_at[-1] if self.tensor_at is not None else "tensor"
                if said == "tensor":
                    yield f"parallelism: {{tensor: {tensor}}} fits."
                elif isinstance(said, str):
                    yield f"{said}: {tensor} fits."
                else:
                    yield f"Tensor parallelism {tensor} fits, instead of {self.tensor}."

    def _shorter(self) -> Iterator[str]:
        """The longest context that fits, found by halving: a shorter one never takes more."""
        length, too_long = 0, self.load.max_model_len
        while too_long - length > 1:
            middle = (length + too_long) // 2
            if self._fits(self.tensor, self.reload(middle)):
                length = middle
            else:
                too_long = middle
        if length >= LEAST_CONTEXT:
            yield f"maxModelLen: {length} is the longest that fits."

    def _staged(self) -> Iterator[str]:
        """The fewest stages of the widest split that one machine takes."""
        if not self.takes_stages or (self.tensor_at is not None and self.tensor_at[-1] != "tensor"):
            return
        whole = self.split(self._widest())
        for stages in range(whole.pipeline + 1, MOST_STAGES + 1):
            split = replace(whole, pipeline=stages)
            enough = self.most_devices is None or split.devices <= self.most_devices
            if not enough or splits.pipeline_objection(self.shape, stages) is not None:
                return
            if fit_of(self.shape, split, self.device, self.load).verdict == "fits":
                asked = f"{{tensor: {split.tensor}, pipeline: {stages}}}"
                yield f"It fits on {split.devices} devices with parallelism: {asked}."
                return

    def _widest(self) -> int:
        return max((self.tensor, *self._tensors()))

    def _tensors(self) -> list[int]:
        """What one machine takes, and the cloud hands out."""
        topology = self.accelerator.spec.topology
        groups = topology.groups if topology is not None else ()
        legal = splits.legal_tensors(self.shape, self.devices)
        return [tensor for tensor in legal if not groups or tensor in groups]

    def _fits(self, tensor: int, load: Load) -> bool:
        return fit_of(self.shape, self.split(tensor), self.device, load).verdict == "fits"

    def _none(self) -> str:
        if self.accelerator.spec.host is None:
            return "Use an accelerator with more memory, or a smaller model."
        given = f"engines get {gib(self.fit.budget_bytes)} of this machine's memory"
        return f"Use a smaller model or a machine with more memory: {given}."
