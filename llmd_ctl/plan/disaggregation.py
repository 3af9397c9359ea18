"""Prefill and decode apart: how each replica hands KV over, and whether both sides agree.

Called by `variant` before a command line is judged (`transfer_of`), and by `planner` once all
variants of a model are planned (`check_pairs`). Connectors and transports are the profiles'; what
two engines must agree on is what their handshake compares. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from llmd_ctl.plan.place import Disaggregation, Transfer
from llmd_ctl.plan.placement import PROTOCOLS, PROXY
from llmd_ctl.plan.records import PlannedVariant
from llmd_ctl.plan.report import Path, Report
from llmd_ctl.plan.scene import Ready
from llmd_ctl.profiles.accelerator import EngineOn
from llmd_ctl.profiles.transfer import Transport
from llmd_ctl.spec import fleet as spec
from llmd_ctl.spec.placement import Disaggregation as Said

BOTH, PREFILL, DECODE = "both", "prefill", "decode"
KV_ROLES = {PREFILL: "kv_producer", DECODE: "kv_consumer"}
# Taken where nobody names a network: any two hosts have it.
ANYWHERE = "tcp"


@dataclass(frozen=True)
class Side:
    """One planned variant with a role, and what it was planned with."""

    variant: PlannedVariant
    ready: Ready


def transfer_of(ready: Ready, model: spec.Model, path: Path, report: Report) -> Ready | None:
    """A variant that knows how it hands KV over; None with a problem reported.

    `path` is the model's. One without a role, and a simulated one, stay as they are.
    """
    if ready.variant.role == BOTH or ready.simulated:
        return ready
    connector = _connector(ready, model, path, report)
    named, transport = _transport(ready, model, path, report)
    if connector is None or (transport is None and named is not None):
        return None
    if named == ANYWHERE and (model.disaggregation is None or not model.disaggregation.transport):
        message = f"{ready.variant.name} hands KV over by TCP, as no transport is named"
        report.warn("LC3064", message, (*ready.path, "role"))
    on = ready.chosen.on
    words = _words(KV_ROLES[ready.variant.role], connector, on, transport)
    ready.settings.decide("kvTransfer", json.dumps(words, separators=(",", ":")))
    _check_own(ready, transport, report)
    prefills = ready.variant.role == PREFILL
    own = ready.chosen.engine.spec.prefill_env if prefills else {}
    return replace(
        ready,
        env={
            **{name: each.value for name, each in own.items()},
            **(transport.env if transport else {}),
            **ready.env,
        },
        transfer=Transfer(
            connector=connector,
            transport=named,
            address_variable=on.transfer.address_variable or None if on.transfer else None,
            resource=transport.resource or None if transport else None,
            capabilities=transport.capabilities if transport else (),
            proxy=PROXY if ready.variant.role == DECODE else None,
            protocol=PROTOCOLS[connector] if ready.variant.role == DECODE else None,
        ),
    )


def _connector(ready: Ready, model: spec.Model, path: Path, report: Report) -> str | None:
    """The connector that the fleet names, else the accelerator's own."""
    known = ready.chosen.on.transfer
    where = f"{ready.chosen.title} on {ready.accelerator.name}"
    named = (known.connector, *known.also) if known is not None else ()
    allowed = tuple(name for name in named if name in PROTOCOLS)
    if not allowed or "kvTransfer" not in ready.chosen.engine.spec.roles:
        message = f"no way to hand KV over is known of {where}"
        report.add("LC3060", message, (*ready.path, "role"), found=ready.variant.role)
        return None
    said = model.disaggregation.connector if model.disaggregation else None
    if said is not None and said not in allowed:
        at = (*path, "disaggregation", "connector")
        message = f"{where} hands no KV over by {said} with llm-d's router"
        report.add("LC3061", message, at, found=said, allowed=allowed)
        return None
    return said or allowed[0]


def _transport(
    ready: Ready, model: spec.Model, path: Path, report: Report
) -> tuple[str | None, Transport | None]:
    """The network by name, and what is known of it; None: connectors of its own need no more."""
    known = ready.accelerator.spec.transports
    said = model.disaggregation.transport if model.disaggregation else None
    named = said or (ANYWHERE if ANYWHERE in known else None)
    found = known.get(named) if named else None
    if said is not None and found is None:
        message = f"nothing is known of {said} between devices of {ready.accelerator.name}"
        at = (*path, "disaggregation", "transport")
        report.add("LC3062", message, at, found=said, allowed=tuple(known))
    return named, found


def _words(
    role: str, connector: str, on: EngineOn, transport: Transport | None
) -> Mapping[str, object]:
    words: dict[str, object] = {"kv_connector": connector, "kv_role": role}
    if on.transfer and on.transfer.buffers:
        words["kv_buffer_device"] = on.transfer.buffers[0]
    if transport and transport.connector:
        extra = {key: list(values) for key, values in transport.connector.items()}
        words["kv_connector_extra_config"] = extra
    return words


def _check_own(ready: Ready, transport: Transport | None, report: Report) -> None:
    """A transport's variables work together: one that the fleet says otherwise is told."""
    for name, value in (transport.env if transport else {}).items():
        said = ready.env.get(name, value)
        if said != value:
            message = f"{name}={said} takes the place of {value}, which the transport needs whole"
            report.warn("LC3065", message, ready.env_at[name])


# --- pairs ---


def check_pairs(model: spec.Model, sides: Sequence[Side], report: Report) -> Disaggregation | None:
    """What joins the replicas of a model; None where no variant has a role."""
    apart = [side for side in sides if side.ready.transfer is not None]
    for side in sides if apart else ():
        if side.variant.role == BOTH:
            message = f"{side.variant.name} has no role beside variants that have one"
            report.add("LC3063", message, (*side.ready.path, "accelerator"))
    for prefill in (side for side in apart if side.variant.role == PREFILL):
        for decode in (side for side in apart if side.variant.role == DECODE):
            _check_pair(prefill, decode, report)
    transfers = [side.ready.transfer for side in apart if side.ready.transfer is not None]
    if not transfers:
        return None
    said = model.disaggregation or Said()
    return Disaggregation(transfers[0].connector, transfers[0].transport, said.min_prompt_tokens)


def _check_pair(prefill: Side, decode: Side, report: Report) -> None:
    title = f"prefill {prefill.variant.name} and decode {decode.variant.name}"
    at = (*decode.ready.path, "role")
    for what, one, other, hint in _differences(prefill, decode):
        message = f"{title} differ in {what}: {one} and {other}"
        report.add("LC3063", message, at, hint=hint)
    blocks = [_whole(side, "blockSize") for side in (prefill, decode)]
    if None not in blocks and not _blocks_fit(blocks[0] or 1, blocks[1] or 1, prefill):
        message = f"{title}: blocks of {blocks[1]} tokens are no multiple of {blocks[0]}"
        hint = "Set blockSize of both to the same value."
        report.add("LC3063", message, at, hint=hint)
    split = [side.variant.parallelism.tensor for side in (prefill, decode)]
    if split[0] > split[1]:
        message = (
            f"{title}: splitting prompts {split[0]} ways and answers {split[1]} is known to fail"
        )
        hint = "Split answers as many ways as prompts, or more (vLLM issue 43523)."
        report.warn("LC3066", message, at, hint=hint)


def _blocks_fit(prefill: int, decode: int, side: Side) -> bool:
    """Larger blocks take whole smaller ones; recurrent states have none."""
    hybrid = side.ready.shape.traits.kind == "hybrid"
    return prefill == decode if hybrid else decode % prefill == 0


def _differences(prefill: Side, decode: Side) -> Iterator[tuple[str, Any, Any, str]]:
    for what, of, hint in COMPARED:
        one, other = of(prefill), of(decode)
        if one != other:
            yield what, one, other, hint
    hybrid = prefill.ready.shape.traits.kind == "hybrid"
    one, other = (side.variant.parallelism.tensor for side in (prefill, decode))
    if hybrid and one != other:
        yield "tensor parallelism", one, other, "Recurrent states go between equal splits."


def _connector_of(side: Side) -> str | None:
    return side.ready.transfer.connector if side.ready.transfer else None


def _whole(side: Side, role: str) -> int | None:
    return side.ready.settings.whole(role)


def _engine(side: Side) -> str:
    return side.ready.chosen.title


def _dtype(side: Side) -> str:
    said = str(side.ready.settings.value("dtype") or "auto")
    return side.ready.shape.dtype if said == "auto" else said


def _kv_dtype(side: Side) -> str:
    said = str(side.ready.settings.value("kvDtype") or "auto")
    return _dtype(side) if said == "auto" else said


COMPARED: tuple[tuple[str, Callable[[Side], object], str], ...] = (
    (
        "connector",
        _connector_of,
        "Name one that both have: disaggregation: {connector: …}; without one, put both roles on"
        " accelerators that share it.",
    ),
    ("engine", _engine, "Run one engine in one version on both sides."),
    ("dtype", _dtype, "Set dtype of both to the same value."),
    ("KV dtype", _kv_dtype, "Set kvCacheDtype of both to the same value."),
)
"""What two engines compare before KV passes between them (facts of NIXL's handshake)."""
