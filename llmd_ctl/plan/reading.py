"""What a step reads of what requests keep, in the words of `ReplicaFacts`.

The facts know layers that see all of the context, and layers that see a window, of one width. Where
a model has several widths, or reads only the best of what it keeps, they are brought to the widest:
right for contexts longer than that, too little below. It is said in a note. A state is read and
written in each step, whatever the context. Called by `facts`. Pure.
"""

from __future__ import annotations

from msgspec import Struct

from llmd_ctl.plan.kept import Keeping, kept
from llmd_ctl.plan.memory import entry_bytes
from llmd_ctl.profiles.cache import CacheGroup
from llmd_ctl.profiles.shape import ModelShape


class Reading(Struct, frozen=True):
    """Bytes on one device, FLOPs before tensor parallelism."""

    token: float  # bytes for each token of context
    near_token: float  # bytes for each token within `near_tokens`
    near_tokens: int
    pair_flops: float
    near_pair_flops: float
    state: float  # bytes of one request in each step
    block_size: int
    notes: tuple[str, ...]


def reading(shape: ModelShape, how: Keeping) -> Reading:
    """Return what is read by one device for all layers."""
    keep = kept(shape, how)
    bounds = [_bound(group) for group in shape.cache]
    widest = max(bounds, default=0)
    token = near = pairs = near_pairs = 0.0
    for group, bound in zip(shape.cache, bounds, strict=True):
        if group.state is not None:
            continue
        share = bound / widest if bound else 1.0
        read = group.layers * entry_bytes(group, how.tensor, how.form) / group.every * share
        flops = group.layers * group.flops / group.every * share
        if bound:
            near, near_pairs = near + read, near_pairs + flops
        else:
            token, pairs = token + read, pairs + flops
    states = (g.layers * g.state.bytes(how.tensor) for g in shape.cache if g.state is not None)
    notes = list(_notes(shape, bounds))
    if how.prefixes and keep.state_block:
        notes.append(_prefix_note(keep.state_block, keep.token, keep.block_size))
    return Reading(
        token=token,
        near_token=near,
        near_tokens=widest,
        pair_flops=pairs,
        near_pair_flops=near_pairs,
        state=2.0 * sum(states),
        block_size=keep.block_size,
        notes=tuple(notes),
    )


def _bound(group: CacheGroup) -> int:
    """Tokens that a query sees at most; 0: all. What waits for compression is not read again."""
    return group.span or group.reads


def _notes(shape: ModelShape, bounds: list[int]) -> tuple[str, ...]:
    notes = []
    attending = {b for g, b in zip(shape.cache, bounds, strict=True) if b and g.flops}
    if len(attending) > 1:
        notes.append("layers see windows of several widths: speed is counted as if of the widest")
    if any(group.reads for group in shape.cache):
        notes.append("an index chooses what is read: its choosing is counted, not its sorting")
    if any(group.what == "latent" for group in shape.cache):
        notes.append("decoding from latents is counted with the FLOPs of prefill, which are fewer")
    return tuple(notes)


def _prefix_note(state: float, token: float, block: int) -> str:
    times = 1 + state / (token * block) if token else 0.0
    kept_as = f"{state / 2**20:.1f} MiB for each block of {block:,} tokens"
    return f"prefix caching keeps a state, {kept_as}: {times:.1f} times the bytes of KV alone"
