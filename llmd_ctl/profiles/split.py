"""How many ways a replica may be split, and which of them are legal.

The rules are those of vLLM 0.32.0: attention heads and the feed-forward width divide evenly, and KV
heads either divide evenly or are replicated evenly. Called by plan's sizing and by the rules. Pure.
"""

from __future__ import annotations

from llmd_ctl.profiles.shape import ModelShape


def tensor_objection(shape: ModelShape, tensor: int) -> str | None:
    """Say why a model cannot be split `tensor` ways; None when it can."""
    for heads in shape.heads:
        if heads % tensor:
            return f"{heads} attention heads are not divisible by {tensor}"
    for heads in shape.kv_heads:
        if heads % tensor and tensor % heads:
            return f"{heads} KV heads and {tensor} do not divide each other"
    for state in (group.state for group in shape.cache if group.state is not None):
        if state.groups > 1 and state.groups % tensor:
            return f"{state.groups} groups of state channels are not divisible by {tensor}"
    if shape.dense_width % tensor:
        return f"the feed-forward width {shape.dense_width} is not divisible by {tensor}"
    return None


def legal_tensors(shape: ModelShape, devices: int) -> tuple[int, ...]:
    """Return every legal tensor parallelism on at most `devices` devices."""
    return tuple(n for n in range(1, devices + 1) if tensor_objection(shape, n) is None)


def candidates(shape: ModelShape, devices: int) -> tuple[int, ...]:
    """Return what the plan tries by itself, smallest first: the legal powers of two."""
    powers = (1 << exponent for exponent in range(devices.bit_length()))
    return tuple(n for n in powers if tensor_objection(shape, n) is None)


def pipeline_objection(shape: ModelShape, pipeline: int) -> str | None:
    """Say why a model cannot be cut into `pipeline` stages; None when it can."""
    if pipeline > shape.layers:
        return f"{shape.layers} layers cannot be cut into {pipeline} stages"
    return None


def expert_objection(shape: ModelShape, expert: int, devices: int) -> str | None:
    """Say why experts cannot be spread `expert` ways over the devices of all ranks; None: they can.

    vLLM spreads them over tensor x data devices, and knows no other number.
    """
    if not shape.experts:
        return "the model has no experts"
    if shape.experts % expert:
        return f"{shape.experts} experts are not divisible by {expert}"
    if expert != devices:
        return f"experts are spread over the {devices} devices of a replica's ranks, not {expert}"
    return None
