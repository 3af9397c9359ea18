"""What apply and delete tell while they work, as typed events for whoever shows progress.

Made by `apply.py`, `delete.py` and `supervisor.py`, in the order of happening; the command line
turns them into lines. Nothing depends on anybody listening.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from llmd_ctl.apply.changes import Change


class RevisionDesired(Struct, frozen=True):
    """The revision is on disk: from here on the controller works towards it."""

    revision: int
    changes: tuple[Change, ...]


class NothingChanged(Struct, frozen=True):
    """The plan is the one that is desired already."""

    revision: int


class DocumentSetAside(Struct, frozen=True):
    """A state document could not be read; it was kept under another name."""

    reason: str
    kept: str


class ControllerStarted(Struct, frozen=True):
    """There was no controller; now there is."""

    pid: int


class StateMoved(Struct, frozen=True):
    """A replica, or the router (`@router`), is in another state. `gone` is the last one."""

    name: str
    state: str
    reason: str


class EndpointAnswered(Struct, frozen=True):
    """An endpoint answered through the router."""

    model: str
    endpoint: str
    latency_ms: float
    simulated: bool


class EndpointSilent(Struct, frozen=True):
    """An endpoint gives no answer through the router yet, and is asked on.

    It is asked `since`, and `until` the limit of the apply; both are unix seconds.
    """

    model: str
    endpoint: str
    reason: str
    since: float
    until: float


class ModelAnswered(Struct, frozen=True):
    """The model answered on the data port, as users ask for it."""

    model: str
    latency_ms: float
    simulated: bool


ApplyEvent = (
    RevisionDesired
    | NothingChanged
    | DocumentSetAside
    | ControllerStarted
    | StateMoved
    | EndpointAnswered
    | EndpointSilent
    | ModelAnswered
)
Listen = Callable[[ApplyEvent], None]
