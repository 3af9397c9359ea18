"""Prefill and decode apart: how each replica hands KV over.

Called by `variant` before a command line is judged. Connectors and transports are the profiles'.
Whether both sides go together is `pairs`. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from llmd_ctl.plan.engines import Chosen
from llmd_ctl.plan.place import Transfer
from llmd_ctl.plan.placement import PROTOCOLS, proxy_image
from llmd_ctl.plan.report import Path, Report
from llmd_ctl.plan.scene import Ready
from llmd_ctl.profiles.accelerator import Accelerator, EngineOn
from llmd_ctl.profiles.transfer import Transport
from llmd_ctl.spec import fleet as spec

BOTH, PREFILL, DECODE = "both", "prefill", "decode"
KV_ROLES = {PREFILL: "kv_producer", DECODE: "kv_consumer"}
# Taken where nobody names a network: any two hosts have it.
ANYWHERE = "tcp"


def transfer_of(ready: Ready, model: spec.Model, path: Path, report: Report) -> Ready | None:
    """A variant that knows how it hands KV over; None with a problem reported.

    `path` is the model's. One without a role, and a simulated one, stay as they are.
    """
    if ready.variant.role == BOTH or not ready.is_real:
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
    made = variables(ready.chosen, ready.accelerator, ready.variant.role, named)
    return replace(
        ready,
        env={**{name: one.value for name, one in made.items()}, **ready.env},
        transfer=Transfer(
            connector=connector,
            transport=named,
            address_variable=on.transfer.address_variable or None if on.transfer else None,
            resource=transport.resource or None if transport else None,
            capabilities=transport.capabilities if transport else (),
            proxy=proxy_image() if ready.variant.role == DECODE else None,
            protocol=PROTOCOLS[connector] if ready.variant.role == DECODE else None,
        ),
    )


class Variable(Struct, frozen=True):
    """A variable that a role brings, and whose it is."""

    value: str
    by: str


def variables(
    chosen: Chosen, accelerator: Accelerator, role: str, transport: str | None
) -> Mapping[str, Variable]:
    """The variables of one side: its engine's, and over them the transport's."""
    own = chosen.engine.spec.prefill_env if role == PREFILL else {}
    known = accelerator.spec.transports.get(transport) if transport is not None else None
    network = known.env if known is not None else {}
    by_engine = f"engine {chosen.engine.name}, role {role}"
    by_profile = f"profile {accelerator.name}, transport {transport}"
    return {
        **{name: Variable(each.value, by_engine) for name, each in own.items()},
        **{name: Variable(value, by_profile) for name, value in network.items()},
    }


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
