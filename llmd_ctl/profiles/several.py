"""How an engine is started where one replica spans several hosts.

Types of `kind: EngineProfile`, and of `kind: AcceleratorProfile` where an engine does it otherwise
there, filled in by `document`. `plan.command` makes the command lines; nothing here starts one.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import field

from llmd_ctl.profiles.number import Cited


class Several(Cited, frozen=True):
    """Words of the first host, and of the others.

    `{command}` is the whole command of one host, `{hosts}` how many there are. Open for whoever
    starts it stay `{leader}`, the address of the first, alone or with a port, and `{rank}`, which
    one it is. With `ranks`, data-parallel ranks may be on different hosts, and the first host
    answers for all of them.
    """

    lead: tuple[str, ...]
    follow: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    ranks: bool = False
    note: str = ""
