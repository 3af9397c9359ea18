"""What `apply` and `delete` tell, as lines for people. Called by both verbs and by `demo`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llmd_ctl.apply.events import ApplyEvent
    from llmd_ctl.cli.progress import Progress

LASTING = {"ready", "backoff", "gone"}


def describe(event: ApplyEvent, progress: Progress) -> None:
    """Show one event of an apply: what is reached stays on the screen, what is passing does not."""
    from llmd_ctl.apply import events

    match event:
        case events.RevisionDesired(revision, _):
            progress.done(f"revision {revision} is desired")
        case events.NothingChanged(revision):
            progress.done(f"revision {revision} is desired already")
        case events.DocumentSetAside(reason, kept):
            progress.done(f"{reason}; it is kept as {kept}")
        case events.ControllerStarted(pid):
            progress.done(f"the controller runs (pid {pid})")
        case events.StateMoved(name, state, reason):
            who = "router" if name.startswith("@") else name
            text = f"{who} {state}{f': {reason}' if reason else ''}"
            if state in LASTING:
                progress.done(text)
            else:
                progress.update(text, passing=True)
        case events.EndpointAnswered(_, endpoint, latency_ms, simulated):
            said = " (simulated)" if simulated else ""
            progress.done(f"{endpoint} answers through the router in {latency_ms:.0f} ms{said}")
        case events.EndpointSilent(_, endpoint, reason, since, until):
            progress.done(
                f"{endpoint} gives no answer through the router yet: {reason} "
                f"(asked since {_time(since)}, until {_time(until)} at most: --timeout)"
            )
        case events.ModelAnswered(model, latency_ms, _):
            progress.done(f"model {model} answers in {latency_ms:.0f} ms")


def _time(unix_seconds: float) -> str:
    """The time of day, where the person is."""
    return time.strftime("%H:%M:%S", time.localtime(unix_seconds))


def describe_deletion(event: ApplyEvent, progress: Progress) -> None:
    """Show one event of a delete: that something still runs is no news there."""
    from llmd_ctl.apply import events

    if isinstance(event, events.StateMoved) and event.state != "gone":
        progress.update(f"{event.name.removeprefix('@')} {event.state}", passing=True)
    else:
        describe(event, progress)
