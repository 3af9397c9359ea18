"""Which attention code an engine runs on an accelerator, for each class of model.

Types of `kind: AcceleratorProfile`, filled in by `document`. It says what is known of the engine's
own choice; a flag is given to an engine by `settings` alone. Rules and explanations read it. It
chooses nothing.
"""

from __future__ import annotations

from typing import Annotated

from llmd_ctl.profiles.number import Cited, Unknown, Words

# dense: plain attention, grouped or not. sinks: with attention sinks and windows (gpt-oss). mla:
# one latent for all heads. dsa: that, sparse. deepseek-v4: compressed KV. hybrid: with state-space
# or linear layers.
ModelClass = Annotated[str, Words(("dense", "sinks", "mla", "dsa", "deepseek-v4", "hybrid"))]


class Backend(Cited, frozen=True):
    """The backends of one class, in the order in which the engine tries them."""

    order: tuple[str, ...] = ()  # empty: not known, the engine chooses; or `unsupported` says why
    block_multiple: Annotated[
        int | None, Unknown("any block size is passed on, and the engine may refuse it")
    ] = None  # of the first of `order`
    block: Annotated[int | None, Unknown("several sizes are taken: multiples of blockMultiple")] = (
        None  # the only size of a block; the engine overrules another
    )
    advised: Annotated[str | None, Unknown("the engine's own choice is left alone")] = None
    unsupported: Annotated[str | None, Unknown("the class of model is served")] = None
    note: str = ""
