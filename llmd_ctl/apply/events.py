"""What apply and delete tell while they work, as typed events for whoever shows progress.

Made by `apply.py`, `delete.py` and `supervisor.py`, in the order of happening; the command line
turns them into lines. Nothing depends on anybody listening.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from llmd_ctl.apply.changes import Change


@dataclass(frozen=True)
class RevisionDesired:
    """The revision is on disk: from here on the controller works towards it."""

    revision: int
    changes: tuple[Change, ...]


@dataclass(frozen=True)
class NothingChanged:
    """The plan is the one that is desired already."""

    revision: int


@dataclass(frozen=True)
class DocumentSetAside:
    """A state document could not be read; it was kept under another name."""

    reason: str
    kept: str


@dataclass(frozen=True)
class ControllerStarted:
    """There was no controller; now there is."""

    pid: int


@dataclass(frozen=True)
class StateMoved:
    """A replica, or the router (`@router`), is in another state. `gone` is the last one."""

    name: str
    state: str
    reason: str


@dataclass(frozen=True)
class EndpointAnswered:
    """An endpoint answered through the router."""

    model: str
    endpoint: str
    latency_ms: float
    simulated: bool


@dataclass(frozen=True)
class EndpointSilent:
    """An endpoint gives no answer through the router yet, and is asked on.

    It is asked `since`, and `until` the limit of the apply; both are unix seconds.
    """

    model: str
    endpoint: str
    reason: str
    since: float
    until: float


@dataclass(frozen=True)
class ModelAnswered:
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
