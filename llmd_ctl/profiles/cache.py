"""What the layers of a model keep for each request: groups of layers that keep alike.

Made by `attention`, `latent`, `compressed` and `recurrent`, read by `plan`, which knows parallelism
and the engine's blocks. It holds numbers of the model alone and divides nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct, field

# full: every token of the context.  window: the last `span` tokens.  chunk: those since the last
# multiple of `span`.  state: a constant, whatever the length.
Keep = Literal["full", "window", "chunk", "state"]


class State(Struct, frozen=True):
    """A recurrent state. Its heads and channels are divided by tensor parallelism."""

    heads: int
    key_heads: int  # where fewer heads have keys than values, else the same; divided too
    head_elements: int  # of one head's state
    head_bytes: int  # of one of these elements
    channels: int  # of the convolution, without those of groups
    groups: int  # of channels that heads share; each device has at least one whole group
    group_channels: int
    taps: int  # tokens that the convolution remembers
    channel_bytes: int

    def bytes(self, tensor: int) -> int:
        """Bytes on one of `tensor` devices."""
        groups = self.groups if self.groups % tensor == 0 else tensor
        channels = (self.channels + groups * self.group_channels) // tensor
        head = self.heads // tensor * self.head_elements * self.head_bytes
        return channels * self.taps * self.channel_bytes + head


class CacheGroup(Struct, frozen=True):
    """Layers that keep the same of every token, or the same state.

    A token takes `heads` x `width` elements of the cache's dtype, or `fixed` bytes whatever that
    is, or the bytes that `packed` has for it. `heads` are divided by tensor parallelism, at least
    one on each device; a latent has one, so every device has it all.
    """

    keep: Keep
    layers: int
    what: str  # attention, latent, indexer, compressor, or the kind of state
    heads: int = 1
    width: int = 0
    fixed: int = 0
    packed: Mapping[str, int] = field(default_factory=dict)
    every: int = 1  # tokens that share one entry
    span: int = 0  # of a window or chunk, in tokens
    block: int = 0  # tokens of a block where the engine has no choice; 0: the engine's
    reads: int = 0  # tokens that one query reads at most; 0: all that are kept
    flops: int = 0  # of one query-key pair in one layer, before parallelism
    state: State | None = None
