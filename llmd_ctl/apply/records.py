"""The documents in a fleet's state folder, as frozen records with their JSON forms.

Written by `apply` (Desired) and by the controller (Observed, router endpoints); read by both and
by `status`. Nothing here touches a file: `state.py` does. A record names a process by pid, start
time and command line, since a pid alone may have been given to somebody else.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

Json = dict[str, Any]
ReplicaState = Literal["starting", "ready", "draining", "stopping", "backoff"]
# What made a start fail, when that is known: a stranger has the port (`port`: it can't be another
# one; `conflict`: the next start takes another one), the command can't be run, it takes too long,
# the engine serves another model.
Trouble = Literal["port", "conflict", "command", "slow", "model"]
ROUTER_MARK = "@router"


class ProcessId(Struct, frozen=True):
    """One process for good: a pid that is used again has another start time."""

    pid: int
    start_time: int
    cmdline: tuple[str, ...]

    def to_json(self) -> Json:
        """The stored form."""
        return {"pid": self.pid, "startTime": self.start_time, "cmdline": list(self.cmdline)}

    @classmethod
    def from_json(cls, doc: Json) -> ProcessId:
        """Read what `to_json` wrote."""
        return cls(int(doc["pid"]), int(doc["startTime"]), tuple(doc["cmdline"]))


class Desired(Struct, frozen=True):
    """What `apply` or `delete` asked for. `plan` is the plan's JSON; None after a delete."""

    revision: int
    deleted: bool
    plan: Json | None

    def to_json(self) -> Json:
        """The stored form."""
        return {
            "version": 1,
            "revision": self.revision,
            "deleted": self.deleted,
            "plan": self.plan,
        }

    @classmethod
    def from_json(cls, doc: Json) -> Desired:
        """Read what `to_json` wrote."""
        return cls(int(doc["revision"]), bool(doc["deleted"]), doc["plan"])


class ReplicaRecord(Struct, frozen=True):
    """One replica as the controller sees it. `since` is unix seconds; `failures` in a row."""

    name: str
    model: str
    variant: str
    index: int
    port: int
    revision: int
    state: ReplicaState
    since: float
    reason: str
    process: ProcessId | None = None
    failures: int = 0
    restarts: int = 0
    trouble: Trouble | None = None

    def to_json(self) -> Json:
        """The stored form."""
        return {
            "name": self.name,
            "model": self.model,
            "variant": self.variant,
            "index": self.index,
            "port": self.port,
            "revision": self.revision,
            "state": self.state,
            "since": self.since,
            "reason": self.reason,
            "process": self.process.to_json() if self.process else None,
            "failures": self.failures,
            "restarts": self.restarts,
            "trouble": self.trouble,
        }

    @classmethod
    def from_json(cls, doc: Json) -> ReplicaRecord:
        """Read what `to_json` wrote."""
        process = doc["process"]
        return cls(
            name=doc["name"],
            model=doc["model"],
            variant=doc["variant"],
            index=int(doc["index"]),
            port=int(doc["port"]),
            revision=int(doc["revision"]),
            state=doc["state"],
            since=float(doc["since"]),
            reason=doc["reason"],
            process=ProcessId.from_json(process) if process else None,
            failures=int(doc["failures"]),
            restarts=int(doc["restarts"]),
            trouble=doc["trouble"],
        )


class RouterRecord(Struct, frozen=True):
    """The router as the controller sees it. `state`: starting, ready, backoff or stopping.

    `served`: it has been ready on this address once, so people may have it.
    """

    url: str
    admin_url: str
    state: str
    reason: str
    served: bool
    process: ProcessId | None = None
    failures: int = 0
    trouble: Trouble | None = None

    def to_json(self) -> Json:
        """The stored form."""
        return {
            "url": self.url,
            "adminUrl": self.admin_url,
            "state": self.state,
            "reason": self.reason,
            "served": self.served,
            "process": self.process.to_json() if self.process else None,
            "failures": self.failures,
            "trouble": self.trouble,
        }

    @classmethod
    def from_json(cls, doc: Json) -> RouterRecord:
        """Read what `to_json` wrote."""
        process = doc["process"]
        return cls(
            url=doc["url"],
            admin_url=doc["adminUrl"],
            state=doc["state"],
            reason=doc["reason"],
            served=bool(doc["served"]),
            process=ProcessId.from_json(process) if process else None,
            failures=int(doc["failures"]),
            trouble=doc["trouble"],
        )


class Observed(Struct, frozen=True):
    """What the controller `pid` last saw: of a dead one, this is only history.

    `converged`: all of `revision` is up, and nothing else is.
    """

    revision: int
    controller: str
    pid: int
    converged: bool
    deleted: bool
    router: RouterRecord | None
    replicas: tuple[ReplicaRecord, ...]
    problems: tuple[str, ...]

    def to_json(self) -> Json:
        """The stored form."""
        return {
            "version": 1,
            "revision": self.revision,
            "controller": self.controller,
            "pid": self.pid,
            "converged": self.converged,
            "deleted": self.deleted,
            "router": self.router.to_json() if self.router else None,
            "replicas": [replica.to_json() for replica in self.replicas],
            "problems": list(self.problems),
        }

    @classmethod
    def from_json(cls, doc: Json) -> Observed:
        """Read what `to_json` wrote."""
        router = doc["router"]
        return cls(
            revision=int(doc["revision"]),
            controller=doc["controller"],
            pid=int(doc["pid"]),
            converged=bool(doc["converged"]),
            deleted=bool(doc["deleted"]),
            router=RouterRecord.from_json(router) if router else None,
            replicas=tuple(ReplicaRecord.from_json(item) for item in doc["replicas"]),
            problems=tuple(doc["problems"]),
        )
