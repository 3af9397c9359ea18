"""How long a context may be, in words: why no longer, and where more than the plain limit is from.

Called by `sizing`. The limit itself is `ModelShape.max_positions`. Pure.
"""

from __future__ import annotations

from llmd_ctl.profiles.shape import ModelShape


def longer(shape: ModelShape, lifts: tuple[str, ...], *, is_local: bool) -> str | None:
    """Say why rope scaling of the model allows no more, or what makes the engine take it.

    Only the config.json of a model on this machine is its user's to change.
    """
    if not is_local or shape.rope_type == "default" or shape.max_positions > shape.positions:
        if not lifts:
            return None
        return (
            "Lower maxModelLen, or leave it out for all that the model takes. "
            f"{lifts[0]}=1 in env takes more, which it was not trained for."
        )
    return (
        f"Lower maxModelLen: of rope scaling {shape.rope_type}, vLLM 0.32.0 takes "
        "max_position_embeddings as already scaled. Raise that in the model's config.json where it "
        "is not."
    )


def stretched(shape: ModelShape, length: int) -> tuple[str, ...]:
    """Say that a context is longer than the model's positions, and by what."""
    if length <= shape.positions:
        return ()
    if length > shape.max_positions:
        return (
            f"context of {length:,} tokens, as asked for: the model's own is {shape.positions:,}",
        )
    return (
        f"context of {length:,} tokens by rope scaling {shape.rope_type}: the engine takes "
        f"{shape.max_positions:,} at most",
    )
