"""How devices of one kind come together: in a node, in a machine type, in a domain of fast links.

Types of `kind: AcceleratorProfile`, filled in by `document`. What renders for clouds reads them,
and the rules that tell which groups a cloud hands out. It computes nothing.
"""

from __future__ import annotations

from msgspec import Struct

from llmd_ctl.profiles import number
from llmd_ctl.profiles.number import Cited


class Machine(Cited, frozen=True):
    """A cloud's machine type with the device, and the slices that are made of it."""

    name: str
    units: int  # of the extended resource in one machine; a pod asks for all of them
    single: tuple[str, ...] = ()  # topologies of one machine, such as 2x4
    several: tuple[str, ...] = ()  # topologies over several machines
    note: str = ""


class Topology(Struct, frozen=True):
    """Where devices stand. `groups`: how many of a node a cluster gives a pod; empty: any."""

    domain_devices: number.Domain  # that reach each other over `link`, whatever their nodes
    link: str  # its name
    groups: tuple[int, ...] = ()
    device: str = ""  # what an engine's rank is, where it is less than a card or chip
    cores: int = 1  # in a device, where the maker counts them
    machines: tuple[Machine, ...] = ()
