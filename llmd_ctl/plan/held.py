"""A model's weights as an engine holds them on an accelerator: some packed ones are unpacked.

Called by `variant`, before rules and sizing see the model. Which types, and the variable that
leaves them packed, is said by the accelerator's profile (`unpacked`). Pure.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from llmd_ctl.plan.engines import Chosen
from llmd_ctl.profiles.shape import DTYPE_BYTES, ModelShape

PACKED = "1"


def as_held(shape: ModelShape, chosen: Chosen, env: Mapping[str, str]) -> ModelShape:
    """Return a model with the bytes that its weights take; `env`: what the fleet sets."""
    switch = chosen.on.unpacked.get(shape.weight_dtype)
    if switch is None or _variable(switch, chosen, env) == PACKED:
        return shape
    plain = DTYPE_BYTES[shape.dtype]
    parts = (
        replace(part, weight_bytes=max(part.weight_bytes, float(part.parameters * plain)))
        for part in shape.parts
    )
    note = f"weights in {shape.weight_dtype} are unpacked to {shape.dtype} while they are loaded"
    notes = (*shape.notes, f"{note}; {switch}=1 leaves them packed" if switch else note)
    return replace(shape, parts=tuple(parts), weight_dtype=shape.dtype, notes=notes)


def _variable(name: str, chosen: Chosen, env: Mapping[str, str]) -> str:
    own = chosen.on.env.get(name)
    return env.get(name, own.value if own is not None else "")
