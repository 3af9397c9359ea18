"""The page of a model: its layers, its weights, and what it keeps for each token and request.

Called by `ask` and `ci/reference.py`. The numbers are those that a plan counts with, on one device
and before anything is split. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator

from llmd_ctl.cli.explain.page import Fact, Page, said, section
from llmd_ctl.plan.kept import Keeping, kept
from llmd_ctl.plan.memory import ELEMENT_BYTES, entry_bytes, kv_format
from llmd_ctl.profiles import ModelShape
from llmd_ctl.profiles.cache import CacheGroup
from llmd_ctl.profiles.model import ModelSpec

BLOCK = 16  # tokens, as vLLM's own default
GIB, MIB = 1 << 30, 1 << 20
SPLITS = {
    "even": "split evenly over devices",
    "kv": "split by KV heads",
    "expert": "split by experts",
    "none": "whole on each device",
}


def model_page(name: str, shape: ModelShape, spec: ModelSpec | None) -> Page:
    """Explain a model; `spec` is what its profile says beside its config."""
    return Page(
        "model",
        name,
        spec.description if spec is not None and spec.description else f"family {shape.family}",
        (
            *section("model", _model(shape)),
            *section("weights", _weights(shape)),
            *section("kept for each token and request, on one device", _kept(shape)),
            *section("notes", _notes(shape, spec)),
        ),
        see=("spec.models[].uri",),
    )


def _model(shape: ModelShape) -> Iterator[Fact]:
    yield said("family", shape.family)
    yield Fact("parameters", f"{shape.parameters / 1e9:,.2f} billion", shape.parameters)
    yield said("layers", shape.layers)
    yield said("hidden size", shape.hidden)
    yield said("heads", shape.heads, note="tensor parallelism must divide them")
    if shape.kv_heads:
        yield said("KV heads", shape.kv_heads, note="on more devices than that they are copied")
    if shape.experts:
        active = f"{shape.experts}, of which a token takes {shape.experts_per_token}"
        yield Fact("experts", active, shape.experts)
    yield said("vocabulary", shape.vocabulary)
    rope = "" if shape.rope_type == "default" else f"with rope scaling ({shape.rope_type})"
    yield Fact("longest context", f"{shape.max_positions:,} tokens", shape.max_positions, note=rope)
    yield said("kind of attention", shape.traits.kind)


def _weights(shape: ModelShape) -> Iterator[Fact]:
    total = int(shape.weight_bytes)
    yield Fact("all", f"{total / GIB:,.1f} GiB", total)
    yield said("stored as", shape.weight_dtype)
    yield said("computed in", shape.dtype)
    sizes: dict[tuple[str, str], float] = {}
    for part in shape.parts:
        key = (part.name, SPLITS[part.split])
        sizes[key] = sizes.get(key, 0.0) + part.weight_bytes
    for (name, split), size in sizes.items():
        if size:
            yield Fact(name, f"{size / MIB:,.0f} MiB", int(size), note=split)


def _kept(shape: ModelShape) -> Iterator[Fact]:
    forms = [form for form in (kv_format(shape, "auto"), kv_format(shape, "fp8")) if form]
    for form in dict.fromkeys(forms):
        how = Keeping(1, form, BLOCK, shape.max_positions)
        whole = kept(shape, how)
        yield Fact(f"a token of context, {form}", f"{whole.token:,.0f} bytes", round(whole.token))
        if whole.near_request:
            size = round(whole.near_request)
            yield Fact(f"a request's windows, {form}", f"{size:,} bytes", size)
        if whole.state_request:
            size = round(whole.state_request)
            yield Fact(f"a request's state, {form}", f"{size:,} bytes", size)
    for number, group in enumerate(shape.cache, 1):
        yield _group(number, group, tuple(dict.fromkeys(forms)))


def _group(number: int, group: CacheGroup, forms: tuple[str, ...]) -> Fact:
    what = f"{group.layers} layers of {group.what}"
    reach = {
        "full": "every token",
        "window": f"the last {group.span:,} tokens",
        "chunk": f"chunks of {group.span:,} tokens",
        "state": "a state",
    }[group.keep]
    if group.state is not None:
        size = group.state.bytes(1)
        return Fact(f"group {number}", f"{what}: {reach} of {size:,} bytes a layer",
                    {"keep": group.keep, "layers": group.layers, "bytes": size})  # fmt: skip
    known = [form for form in forms if form in ELEMENT_BYTES or form in group.packed or group.fixed]
    sizes = {form: entry_bytes(group, 1, form) for form in known}
    each = " or ".join(f"{size:,} bytes ({form})" for form, size in sizes.items())
    shared = f", one entry for {group.every} tokens" if group.every > 1 else ""
    value = {"keep": group.keep, "layers": group.layers, "bytes": sizes, "every": group.every}
    return Fact(f"group {number}", f"{what}: {reach}, {each} a layer and entry{shared}", value)


def _notes(shape: ModelShape, spec: ModelSpec | None) -> Iterator[Fact]:
    if spec is not None:
        yield Fact("config", spec.source, spec.source, confidence=spec.confidence)
        if spec.unconfirmed:
            yield said("not confirmed", spec.unconfirmed)
        for engine, version in spec.min_version.items():
            yield said(f"first {engine}", version)
    for note in shape.notes:
        yield said("note", note)
