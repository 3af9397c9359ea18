"""How KV leaves a device: to another replica, over which links, or into cheaper memory.

Types of `kind: AcceleratorProfile`, filled in by `document`. Prefill and decode apart, and KV that
lies elsewhere, are read from here by what renders them; until a fleet may ask for them `spec`
refuses both as "not yet". Nothing here moves a byte.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from msgspec import field

from llmd_ctl.profiles import number
from llmd_ctl.profiles.number import Cited, Unknown


class Transport(Cited, frozen=True):
    """One kind of network. Its variables are set all together or not at all."""

    env: Mapping[str, str] = field(default_factory=dict)
    resource: str = ""  # the extended resource of its network cards, one for each device
    capabilities: tuple[str, ...] = ()
    connector: Mapping[str, tuple[str, ...]] = field(
        default_factory=dict
    )  # kv_connector_extra_config
    note: str = ""


class Transfer(Cited, frozen=True):
    """The engine's way of handing KV from a prefill replica to a decode replica."""

    connector: Annotated[
        str | None, Unknown("prefill and decode apart are refused on this accelerator")
    ]
    also: tuple[str, ...] = ()  # other connectors that work
    buffers: tuple[str, ...] = ()  # where kv_buffer_device may lie, the default first
    side_channel_port: number.Port = number.Number(None, "none needed", "high")
    address_variable: str = ""  # that says where others reach it; empty: it finds out itself
    note: str = ""


class Offload(Cited, frozen=True):
    """The engine's way of keeping KV in main memory or on disk."""

    connector: Annotated[str | None, Unknown("offloaded KV is refused on this accelerator")]
    also: tuple[str, ...] = ()
    note: str = ""
