"""From profiles and a model's shape to `ReplicaFacts`: the numbers that perf, router and sim share.

Rates are a data sheet's peak times what engines reach of it; bytes and FLOPs come from the shape.
No time is computed here: that is `llmd-perf`. Called by `planner`. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from llmd_ctl.perf import ReplicaFacts
from llmd_ctl.plan import memory
from llmd_ctl.plan.fit import Load
from llmd_ctl.plan.kept import most_requests
from llmd_ctl.plan.reading import reading
from llmd_ctl.plan.records import Fit, Parallel
from llmd_ctl.plan.units import counted
from llmd_ctl.profiles.accelerator import Accelerator, Collective
from llmd_ctl.profiles.engine import Engine
from llmd_ctl.profiles.number import Number, least
from llmd_ctl.profiles.shape import DTYPE_BYTES, ModelShape

# A dtype to those whose figures stand in for it, nearest first.
NEAREST = {
    "bf16": ("fp16", "fp32"),
    "fp16": ("bf16", "fp32"),
    "fp32": ("bf16",),
    "fp8": ("int8", "bf16"),
    "int8": ("fp8", "bf16"),
    "mxfp4": ("fp4", "fp8", "bf16"),
    "nvfp4": ("fp4", "fp8", "bf16"),
    "int4": ("fp4", "fp8", "bf16"),
}
# Packed weights that are unpacked to the activations' dtype unless the device computes with fp4.
UNPACKED = {"mxfp4": "fp4", "nvfp4": "fp4", "int4": "int4"}
COMPUTING = "computing speed"
COLLECTIVES_PER_LAYER = 2  # after attention and after the feed-forward


class Rates(Struct, frozen=True):
    """Achieved rates of one device, with what had to stand in for a missing figure."""

    weight_bandwidth: float
    kv_bandwidth: float
    gemm_flops: float
    attention_flops: float
    numbers: tuple[Number, ...]
    notes: tuple[str, ...]


class Replica(Struct, frozen=True):
    """What a replica is made of."""

    accelerator: Accelerator
    engine: Engine
    shape: ModelShape
    parallel: Parallel
    load: Load
    cores: int
    speed: float
    prefix_caching: bool
    price_per_hour: float | None


def facts_of(replica: Replica, fit: Fit) -> tuple[ReplicaFacts, tuple[str, ...]]:
    """Return the facts, and in words what is not known or stood in for.

    Raises ValueError where a figure is missing that nothing can stand in for.
    """
    rates = _rates(replica)
    shape, parallel, load = replica.shape, replica.parallel, replica.load
    step_us, token_us, notes = _overheads(replica)
    own = replica.engine.spec.overhead
    read = reading(shape, load.keeping(parallel.tensor, 1))
    most = most_requests(shape, load.keeping(parallel.tensor, parallel.pipeline), fit.kv_bytes_free)
    if most < load.max_sequences:
        notes = (*notes, f"there is room for the states of {counted(most, 'request')} at once")
    # Ranks serve side by side: what each does of a step is divided, what they hold is added up.
    ranks = parallel.data
    spread = parallel.tensor * ranks
    facts = ReplicaFacts(
        speed=replica.speed,
        weight_bytes=_read_bytes(replica),
        expert_bytes=_expert_bytes(replica),
        experts=shape.experts,
        experts_per_token=shape.experts_per_token,
        flops_per_token=_flops_per_token(shape) / spread,
        attention_flops_per_pair=read.pair_flops / spread,
        window_attention_flops_per_pair=read.near_pair_flops / spread,
        window_tokens=read.near_tokens,
        kv_bytes_per_token=read.token / ranks,
        window_kv_bytes_per_token=read.near_token / ranks,
        weight_bandwidth=rates.weight_bandwidth,
        kv_bandwidth=rates.kv_bandwidth,
        gemm_flops=rates.gemm_flops,
        gemm_half_tokens=replica.accelerator.spec.efficiency.gemm_half_tokens.known * ranks,
        attention_flops=rates.attention_flops,
        step_us=step_us,
        sequence_us=(own.sequence_us.over(0.0) + read.state / rates.kv_bandwidth * 1e6) / ranks,
        token_us=token_us / ranks,
        request_us=own.request_us.over(0.0),
        max_batched_tokens=load.max_batched_tokens * ranks,
        max_sequences=min(load.max_sequences, most) * ranks,
        kv_tokens=max(1, fit.kv_tokens) * ranks,
        block_size=read.block_size,
        max_model_len=load.max_model_len,
        prefix_caching=replica.prefix_caching,
        confidence=least(rates.numbers),
        price_per_hour=replica.price_per_hour,
    )
    if ranks > 1:
        notes = (*notes, *_of_ranks(shape, ranks))
    return facts, (*rates.notes, *notes, *read.notes)


def _of_ranks(shape: ModelShape, ranks: int) -> Iterator[str]:
    """What planning ranks as one engine leaves out."""
    yield (
        f"{ranks} data-parallel ranks are planned as one engine: a prompt that comes alone runs on "
        f"one of them, and takes up to {ranks} times the time to first token"
    )
    if shape.experts:
        yield "exchanges of tokens between ranks, for experts, are not counted"


def _rates(replica: Replica) -> Rates:
    spec, shape = replica.accelerator.spec, replica.shape
    notes: list[str] = []
    numbers: list[Number] = [spec.memory_bandwidth, spec.efficiency.kv, spec.efficiency.attention]

    def pick(figures: dict[str, Number], dtype: str, what: str) -> Number:
        for name in (dtype, *NEAREST.get(dtype, ("bf16",))):
            number = figures.get(name)
            if number is not None and number.value is not None:
                if name != dtype:
                    flatters = dtype == "fp32" and what == COMPUTING
                    note = f"{what} of {dtype} is not known: that of {name} is taken"
                    notes.append(f"{note}, which is too fast" if flatters else note)
                numbers.append(number)
                return number
        raise ValueError(f"{what} is known for no dtype")

    if spec.memory_bandwidth.value is None:
        raise ValueError("its memory bandwidth is not known")
    flops = dict(spec.host.flops_per_core if spec.host else spec.flops)
    compute = _compute_dtype(flops, shape)
    scale = replica.cores if spec.host else 1
    bandwidth = spec.memory_bandwidth.known
    weight = pick(dict(spec.efficiency.weight), shape.weight_dtype, "speed of reading weights")
    peak = pick(flops, compute, COMPUTING).known * scale
    reached = pick(dict(spec.efficiency.gemm), compute, "share of the computing speed").known
    # A profile's share of attention is one of bf16; a host's was measured whatever the dtype.
    slow = shape.dtype == "fp32" and not spec.host
    half = pick(flops, "fp32" if slow else "bf16", COMPUTING).known * scale
    return Rates(
        weight_bandwidth=bandwidth * weight.known,
        kv_bandwidth=bandwidth * spec.efficiency.kv.known,
        gemm_flops=peak * reached,
        attention_flops=half * spec.efficiency.attention.known,
        numbers=tuple(numbers),
        notes=tuple(dict.fromkeys(notes)),
    )


def _compute_dtype(flops: dict[str, Number], shape: ModelShape) -> str:
    """The dtype of matrix multiplication: that of the weights where the device has it."""
    wanted = UNPACKED.get(shape.weight_dtype, shape.weight_dtype)
    number = flops.get(wanted)
    return wanted if number is not None and number.value is not None else shape.dtype


def _read_bytes(replica: Replica) -> float:
    """Weights that a step reads: all but experts, and rows of the input embedding (a few)."""
    shape, tensor = replica.shape, replica.parallel.tensor
    tied = any(part.name == "head" and not part.parameters for part in shape.parts)
    left_out = {"experts", "tower"} if tied else {"experts", "tower", "embedding"}
    read = (p for p in shape.parts if p.name not in left_out)
    return sum(memory.part_bytes(part, tensor, replica.parallel.data) for part in read)


def _expert_bytes(replica: Replica) -> float:
    shape, tensor = replica.shape, replica.parallel.tensor
    experts = (part for part in shape.parts if part.name == "experts")
    return sum(memory.part_bytes(part, tensor, replica.parallel.data) for part in experts)


def _flops_per_token(shape: ModelShape) -> float:
    """FLOPs of a token in the layers. The head works on one token a sequence: left out."""
    share = shape.experts_per_token / shape.experts if shape.experts else 1.0
    total = 0.0
    for part in shape.parts:
        if part.name == "experts":
            total += 2 * part.parameters * share
        elif part.name not in {"embedding", "head", "norms", "tower"}:
            total += 2 * part.parameters
    return total


def _overheads(replica: Replica) -> tuple[float, float, tuple[str, ...]]:
    """Return fixed microseconds a step, those a token, and what is not known of them."""
    overhead, shape = replica.accelerator.spec.overhead, replica.shape
    step = replica.engine.spec.overhead.step_us.over(0.0)
    step += shape.layers * overhead.layer_us.over(0.0)
    notes = []
    if replica.engine.spec.overhead.step_us.value is None:
        notes.append(f"{replica.engine.name}'s own time per step is not known: counted as 0")
    if overhead.layer_us.value is None:
        notes.append(
            f"launch time per layer on {replica.accelerator.name} is not known: counted as 0"
        )
    if replica.parallel.tensor == 1:
        return step, 0.0, tuple(notes)
    collective = _collective(replica)
    if collective is None or collective.floor_us.value is None:
        notes.append("the least time of an exchange between devices is not known: counted as 0")
    count = COLLECTIVES_PER_LAYER * shape.layers
    floor = collective.floor_us.over(0.0) if collective else 0.0
    step += count * floor * overhead.collective_factor.known
    link = collective.bandwidth if collective else replica.accelerator.spec.link_bandwidth
    if link.value is None:
        notes.append("the bandwidth between devices is not known: exchanges are counted as free")
        return step, 0.0, tuple(notes)
    moved = count * shape.hidden * DTYPE_BYTES[shape.dtype]
    return step, moved / link.value * 1e6, tuple(notes)


def _collective(replica: Replica) -> Collective | None:
    """The figures of the group, or of the next larger one that is known."""
    known = replica.accelerator.spec.overhead.collectives
    sizes = sorted(int(size) for size in known if size.isdigit())
    fitting = [size for size in sizes if size >= replica.parallel.tensor] or sizes[-1:]
    return known[str(fitting[0])] if fitting else None
