"""What an attention backend of an engine can do: the table that rules on attention read.

Types of `kind: EngineProfile`. The table lies beside the engine's profile and cites the engine's
own source row by row. Which backend an engine tries first on an accelerator stands in `backend`.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import cache

from llmd_ctl.profiles.backend import ModelClass
from llmd_ctl.profiles.number import Cited


class Kernel(Cited, frozen=True):
    """One backend on some architectures. What is empty has no limit."""

    models: tuple[ModelClass, ...] = ()  # classes that it serves
    architectures: tuple[str, ...] = ()  # patterns: sm10?, gfx94*
    dtypes: tuple[str, ...] = ("bf16", "fp16")  # of the activations
    kv_dtypes: tuple[str, ...] = ()  # in the engine's words
    head_sizes: tuple[int, ...] = ()
    blocks: tuple[int, ...] = ()  # a block size must be a multiple of one of them
    images_see_whole: bool = False  # tokens of an image may attend both ways
    env: str = ""  # a variable that must be set to 1 before it can be named

    def runs_on(self, architecture: str) -> bool:
        """Whether an architecture is one of its own."""
        return not self.architectures or _is_one_of(architecture, self.architectures)

    def takes_block(self, size: int) -> bool:
        """Whether blocks of that many tokens can be cut into its own."""
        return not self.blocks or any(own > 0 and size % own == 0 for own in self.blocks)


@cache  # the few of the profiles, which every line of a fleet asks again
def _is_one_of(architecture: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(architecture, pattern) for pattern in patterns)
