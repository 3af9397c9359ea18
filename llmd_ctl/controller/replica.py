"""The life of one replica: starting → ready → draining → stopping → gone, or backoff after a crash.

Moved on by the loop, one step a tick. It decides nothing about the fleet: whether the replica is
wanted is an argument. A replica gets traffic only in `ready`, which it enters when its engine
answers with the right model name, and leaves before its process is asked to end.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

from llmd_ctl.apply.machine import (
    MARK_FLEET,
    MARK_PORT,
    MARK_REPLICA,
    MARK_STATE,
    Launch,
)
from llmd_ctl.apply.records import ReplicaRecord, ReplicaState
from llmd_ctl.controller.child import Child, Yard
from llmd_ctl.render import ReplicaSpec

Json = dict[str, Any]
log = logging.getLogger("llmd_ctl.controller")


class Replica:
    """One replica. `spec` is None for one that is no longer planned: it can only go."""

    def __init__(self, record: ReplicaRecord, spec: ReplicaSpec | None, yard: Yard) -> None:
        self.record = record
        self.spec = spec
        self.gone = False
        self._yard = yard
        self._entered = yard.machine.clock.monotonic()
        self._child = Child(record.name, yard, record.process)
        self._child.failures = record.failures
        self._child.restarts = record.restarts
        self._child.reason = record.reason
        self._child.trouble = record.trouble

    @classmethod
    def planned(cls, spec: ReplicaSpec, port: int, revision: int, yard: Yard) -> Replica:
        """A replica that has never been started; it starts in its first step."""
        record = ReplicaRecord(
            name=spec.name,
            model=spec.model,
            variant=spec.variant,
            index=spec.index,
            port=port,
            revision=revision,
            state="backoff",
            since=yard.machine.clock.wall(),
            reason="not started yet",
        )
        return cls(record, spec, yard)

    def advance(self, now: float, *, wanted: bool, drained: bool) -> None:
        """Move one step on. `drained`: the router has nothing open here and won't begin."""
        if not wanted or self.spec is None:
            self._leave(now, drained=drained)
        elif self.record.state == "backoff":
            self._start(now, self.spec)
        elif self.record.state == "stopping":
            self.gone = self._child.cleared(now)
        elif self._child.ended(now):
            self._enter(now, "backoff", self._child.reason)
        elif self.record.state == "draining":
            self._enter(now, "ready", "wanted again")
        elif self.record.state == "starting":
            self._look(now, self.spec)
        elif self.record.failures and now - self._entered >= self._yard.limits.stable_seconds:
            self._child.forgive()
            self._enter(now, "ready", "")

    def retry(self, now: float) -> None:
        """Start again now if it waits for its back-off to pass."""
        self._child.retry(now)

    def router_entry(self) -> Json | None:
        """Its entry in replicas.json; None while the router should not know it."""
        record = self.record
        if record.process is None or record.state in {"backoff", "stopping"}:
            return None
        return {
            "name": record.name,
            "model": record.model,
            "variant": record.variant,
            "address": "127.0.0.1",
            "port": record.port,
            "pid": record.process.pid,
            "startTime": record.process.start_time,
            "state": record.state,
            "revision": record.revision,
        }

    def _start(self, now: float, spec: ReplicaSpec) -> None:
        if now < self._child.retry_at:
            return
        port = self.record.port
        layout = self._yard.folder.layout
        config = spec.engine_config(port)
        if config is not None:
            path = Path(layout.engine_config(spec.name))
            self._yard.machine.files.write_atomic(path, config)
        launch = Launch(
            argv=spec.argv(port),
            env={
                **spec.env,
                MARK_FLEET: self._yard.folder.fleet,
                MARK_STATE: str(self._yard.folder.path),
                MARK_REPLICA: spec.name,
                MARK_PORT: str(port),
            },
            log=Path(layout.log(spec.name)),
        )
        if self._child.start(now, launch, (port,)):
            self._enter(now, "starting", "")
        elif self._child.failures != self.record.failures:
            self._enter(now, "backoff", self._child.reason)

    def _look(self, now: float, spec: ReplicaSpec) -> None:
        """Has the engine come up? Past its start-up time it is killed and tried again."""
        answer = self._yard.machine.network.engine(self.record.port, spec.model)
        if answer.ok:
            self._enter(now, "ready", "")
        elif now - self._entered >= spec.startup_seconds:
            self._child.condemn(
                now, f"not ready within {spec.startup_seconds:g} s: {answer.reason}"
            )
        elif answer.reason != self.record.reason:
            self.record = replace(self.record, reason=answer.reason)

    def _leave(self, now: float, *, drained: bool) -> None:
        """Out of traffic first, then out of the process table."""
        state = self.record.state
        if state == "ready":
            self._enter(now, "draining", "no longer in the plan")
        elif state == "draining" and not self._child.ended(now):
            if drained:
                self._stop(now, "drained")
            elif self._overdue(now):
                limit = self._yard.limits.drain_seconds
                self._stop(now, f"stopped with requests still open after {limit:g} s")
        elif state == "starting":
            self._stop(now, "no longer in the plan")
        else:
            self.gone = self._child.cleared(now)

    def _stop(self, now: float, reason: str) -> None:
        self._enter(now, "stopping", reason)
        self.gone = self._child.cleared(now)

    def _overdue(self, now: float) -> bool:
        return now - self._entered >= self._yard.limits.drain_seconds

    def _enter(self, now: float, state: ReplicaState, reason: str) -> None:
        if state != self.record.state:
            self._entered = now
        if (state, reason) != (self.record.state, self.record.reason):
            log.info("%s %s %s", self.record.name, state, reason)
        self.record = replace(
            self.record,
            state=state,
            reason=reason,
            since=self._yard.machine.clock.wall(),
            process=self._child.process,
            failures=self._child.failures,
            restarts=self._child.restarts,
            trouble=self._child.trouble,
        )
