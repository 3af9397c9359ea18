"""Does a replica fit: the memory of one device, term by term.

    budget = memory x utilization, or where the engine's share is of something else (`budget_of`),
             what its share comes to
    left   = budget - weights - reserve - activations - window KV of prompts under way
    free   = left, or what the engine was told to take at most
    tokens = free x maxModelLen / (maxModelLen x KV per token + window KV and state per request)
    fits   = left covers what was told, and tokens >= maxModelLen

The verdict is a function of the printed numbers: `verdict` and `kv_tokens` are all there is to it.
Called by `planner`. Pure.
"""

from __future__ import annotations

import math
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from llmd_ctl.plan import memory
from llmd_ctl.plan.kept import Keeping, kept
from llmd_ctl.plan.records import Fit, Parallel, Verdict
from llmd_ctl.plan.units import counted
from llmd_ctl.profiles.shape import ModelShape

GIB = 2**30
Share = Literal["all", "static", "free"]


class Device(Struct, frozen=True):
    """The memory of one device and what the engine leaves of it."""

    memory_bytes: int
    utilization: float
    reserve_bytes: int
    collective_reserve_bytes: int  # more reserve where devices work together
    share_of: Share = "all"  # what the utilization is a share of


class Load(Struct, frozen=True):
    """What the engine is asked to hold."""

    max_model_len: int
    max_sequences: int
    max_batched_tokens: int
    block_size: int
    kv_format: str  # what a KV entry is made of (`memory.kv_format`)
    kv_bytes_limit: int | None = None  # as told; None: all that is left
    kv_bytes_default: int | None = None  # a host's modest limit when nothing was told
    window_kv_whole: bool = False  # the engine keeps KV that sliding windows have left behind
    prefixes: bool = False  # prefixes stay to be found again

    def keeping(self, tensor: int, stages: int) -> Keeping:
        """How requests are kept on the device of the largest of so many stages."""
        return Keeping(
            tensor=tensor,
            form=self.kv_format,
            block_size=self.block_size,
            max_model_len=self.max_model_len,
            stages=stages,
            prefixes=self.prefixes,
            windows_whole=self.window_kv_whole,
        )


def kv_tokens(fit: Fit) -> int:
    """Tokens that the free KV bytes hold, as requests of full length."""
    if fit.kv_bytes_free <= 0:
        return 0
    request = fit.max_model_len * fit.kv_bytes_per_token + constant_bytes(fit)
    return fit.kv_bytes_free * fit.max_model_len // request


def constant_bytes(fit: Fit) -> int:
    """Bytes of one request whatever its length."""
    return fit.window_bytes_per_request + fit.state_bytes_per_request


def verdict(fit: Fit) -> Verdict:
    """Say whether it fits, by the printed numbers alone."""
    left = bytes_left(fit)
    if fit.kv_bytes_limit is not None and left < fit.kv_bytes_limit:
        return "too-big"
    return "fits" if kv_tokens(fit) >= fit.needed_tokens else "too-big"


def bytes_left(fit: Fit) -> int:
    """Bytes that nothing but KV would take; negative when the rest is too big."""
    taken = fit.weight_bytes + fit.reserve_bytes + fit.activation_bytes
    return fit.budget_bytes - taken - fit.window_in_flight_bytes


def taken_share(fit: Fit) -> float:
    """The share of the memory budget that is taken before any KV."""
    return 1 - bytes_left(fit) / fit.budget_bytes


def fit_of(shape: ModelShape, parallel: Parallel, device: Device, load: Load) -> Fit:
    """Do the arithmetic for one device of a replica."""
    keep = kept(shape, load.keeping(parallel.tensor, parallel.pipeline))
    reserve = device.reserve_bytes
    if parallel.devices > 1:
        reserve += device.collective_reserve_bytes
    terms = Fit(
        verdict="too-big",
        memory_bytes=device.memory_bytes,
        utilization=device.utilization,
        budget_bytes=device.memory_bytes,
        weight_bytes=memory.weight_bytes(shape, parallel),
        reserve_bytes=reserve,
        activation_bytes=memory.activation_bytes(
            shape, parallel.tensor, load.max_batched_tokens, load.max_sequences
        ),
        window_in_flight_bytes=int(load.max_batched_tokens * keep.near_token),
        kv_bytes_limit=load.kv_bytes_limit,
        kv_bytes_free=0,
        kv_bytes_per_token=math.ceil(keep.token),
        window_bytes_per_request=int(keep.near_request),
        state_bytes_per_request=int(keep.state_request),
        kv_tokens=0,
        max_model_len=load.max_model_len,
        needed_tokens=load.max_model_len,
        concurrency=0.0,
        max_sequences=load.max_sequences,
    )
    budget = budget_of(terms, device)
    # A share of something else is told as the share of all that it comes to.
    share = device.utilization if device.share_of == "all" else budget / device.memory_bytes
    return _finished(replace(terms, budget_bytes=budget, utilization=share), load)


def budget_of(terms: Fit, device: Device) -> int:
    """Bytes that the engine takes, KV with all else: what its share leaves to KV, and the terms.

    all: of the memory. static: of the memory, for weights and KV alone; what a step needs lies
    beside them, and must fit there. free: of what weights and a step leave of the memory.
    """
    memory, share = device.memory_bytes, device.utilization
    if device.share_of == "static":
        beside = terms.reserve_bytes + terms.activation_bytes + terms.window_in_flight_bytes
        return min(memory, int(memory * share) + beside)
    if device.share_of == "free":
        left = bytes_left(terms)
        return memory - left + int(left * share) if left > 0 else memory
    return int(memory * share)


def _finished(numbers: Fit, load: Load) -> Fit:
    """Fill in what follows from the terms."""
    left = bytes_left(numbers)
    limit = load.kv_bytes_limit
    if limit is None and load.kv_bytes_default is not None and left > 0:
        limit = min(left, max(load.kv_bytes_default, _request_bytes(numbers, load.block_size)))
    free = left if limit is None else min(left, limit)
    sized = replace(numbers, kv_bytes_limit=limit, kv_bytes_free=free)
    tokens = kv_tokens(sized)
    known = replace(sized, kv_tokens=tokens, concurrency=round(tokens / load.max_model_len, 2))
    judged = replace(known, verdict=verdict(known))
    return replace(judged, lines=_lines(judged))


def _request_bytes(fit: Fit, block_size: int) -> int:
    """KV of one request of full length, in whole blocks."""
    blocks = -(-fit.max_model_len // block_size)
    return blocks * block_size * fit.kv_bytes_per_token + constant_bytes(fit)


def gib(count: float) -> str:
    """Bytes as people compare them."""
    return f"{count / GIB:.2f} GiB" if abs(count) >= GIB / 100 else f"{count / 2**20:.2f} MiB"


def _lines(fit: Fit) -> tuple[str, ...]:
    """The arithmetic, a line a step."""
    left = bytes_left(fit)
    lines = [
        f"{gib(fit.memory_bytes)} memory x {fit.utilization:g} = {gib(fit.budget_bytes)} budget",
        f"- {gib(fit.weight_bytes)} weights - {gib(fit.reserve_bytes)} reserve "
        f"- {gib(fit.activation_bytes)} activations",
    ]
    if fit.window_in_flight_bytes:
        lines.append(f"- {gib(fit.window_in_flight_bytes)} window KV of prompts under way")
    lines.append(f"= {gib(left)} left for KV")
    if fit.kv_bytes_limit is not None:
        lines.append(f"{gib(fit.kv_bytes_limit)} of it is what the engine takes for KV")
    window = (
        f", {gib(fit.window_bytes_per_request)} window KV a request"
        if fit.window_bytes_per_request
        else ""
    )
    if fit.state_bytes_per_request:
        window += f", {gib(fit.state_bytes_per_request)} state a request"
    lines.append(
        f"KV {fit.kv_bytes_per_token:,} bytes a token{window}: room for {fit.kv_tokens:,} tokens"
    )
    lines.append(
        f"{fit.kv_tokens:,} / {fit.max_model_len:,} tokens of context = "
        f"{counted(fit.concurrency, 'request')} of full length at once "
        f"(the engine takes {fit.max_sequences} of any length)"
    )
    return tuple(lines)
