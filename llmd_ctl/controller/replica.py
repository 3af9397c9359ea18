"""The life of one replica: starting → ready → draining → stopping → gone, or backoff after a crash.

Moved on by the loop, one step a tick. It decides nothing about the fleet: whether the replica is
wanted is an argument. A replica gets traffic only in `ready`, which it enters when its engine
answers with the right model name, and leaves before its process is asked to end.

Engines listen long after their port was chosen, some of them (SO_REUSEPORT) beside another program.
A replica whose port a stranger shares is stopped, and after the ordinary back-off started on
another port; the stranger is only named.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from llmd_ctl.apply.address import NoPort, PortBook
from llmd_ctl.apply.machine import (
    MARK_FLEET,
    MARK_PORT,
    MARK_REPLICA,
    MARK_STATE,
    Health,
    Launch,
)
from llmd_ctl.apply.records import ReplicaRecord, ReplicaState
from llmd_ctl.controller.child import Child, Yard, taken
from llmd_ctl.render import ReplicaSpec

Json = dict[str, Any]
log = logging.getLogger("llmd_ctl.controller")


class Replica:
    """One replica. `spec` is None for one of an earlier plan: it serves until it has to go."""

    def __init__(
        self, record: ReplicaRecord, spec: ReplicaSpec | None, yard: Yard, ports: PortBook
    ) -> None:
        self.record = record
        self.spec = spec
        self.gone = False
        self._yard = yard
        self._ports = ports
        self._entered = yard.machine.clock.monotonic()
        self._port_seen = self._entered
        self._misnamed_since: float | None = None
        self._conflict: str | None = None
        self._child = Child(record.name, yard, record.process)
        self._child.failures = record.failures
        self._child.restarts = record.restarts
        self._child.reason = record.reason
        self._child.trouble = record.trouble

    @classmethod
    def planned(
        cls, spec: ReplicaSpec, port: int, revision: int, yard: Yard, ports: PortBook
    ) -> Replica:
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
        return cls(record, spec, yard, ports)

    def advance(self, now: float, *, wanted: bool, drained: bool) -> None:
        """Move one step on. `drained`: the router has nothing open here and won't begin."""
        spec, state = self.spec, self.record.state
        if not wanted:
            self._leave(now, drained=drained)
        elif state == "ready":
            self._serve(now)
        elif spec is None:  # of an earlier plan, and down: there is nothing to start it from
            self._leave(now, drained=drained)
        elif state == "backoff":
            self._start(now, spec)
        elif state == "stopping":
            self.gone = self._child.cleared(now)
        elif self._child.ended(now):
            self._enter(now, "backoff", self._child.reason)
        elif state == "draining":
            self._settle(now, drained=drained)
        else:
            self._look(now, spec)

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
        if now < self._child.retry_at or self._child.sweep():
            return
        port = self._find_port(now)
        if port is None:
            return
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
        self._port_seen, self._misnamed_since, self._conflict = now, None, None
        if self._child.start(now, launch):
            self._enter(now, "starting", f"on port {port}")
        else:
            self._enter(now, "backoff", self._child.reason)

    def _find_port(self, now: float) -> int | None:
        """Its port, or another one when a stranger listens there; None: not in this tick."""
        port = self.record.port
        stranger = self._yard.machine.processes.listener(port)
        if stranger is None:
            return port
        reason = taken(port, stranger)
        try:
            moved = self._ports.move_engine(self.record.name, port)
        except NoPort as error:
            self._child.fail(now, f"{reason}; {error}", "port")
            self._enter(now, "backoff", self._child.reason)
            return None
        if moved is not None:
            log.info("%s: %s; it gets port %d", self.record.name, reason, moved)
            self.record = replace(self.record, port=moved)
        return moved

    def _look(self, now: float, spec: ReplicaSpec) -> None:
        """Has the engine come up? One that can't any more is killed and tried again."""
        limits = self._yard.limits
        health = self._yard.machine.network.engine(self.record.port, spec.model)
        if not health.misnamed:
            self._misnamed_since = None
        elif self._misnamed_since is None:
            self._misnamed_since = now
        pause = 0.0 if health.ok else limits.port_starting_seconds
        conflict = self._find_conflict(now, pause, health)
        if conflict is not None:
            self._child.condemn(conflict, "conflict")
        elif health.ok:
            self._enter(now, "ready", "")
        elif self._misnamed_since is not None and (
            now - self._misnamed_since >= limits.misnamed_seconds
        ):
            self._child.condemn(health.reason, "model")
        elif now - self._entered >= spec.startup_seconds:
            text = f"not ready within {spec.startup_seconds:g} s: {health.reason}"
            self._child.condemn(text, "slow")
        elif health.reason != self.record.reason:
            self.record = replace(self.record, reason=health.reason)

    def _serve(self, now: float) -> None:
        """Ready: failures are forgotten in time, and a stranger may still come to the port."""
        if self._child.ended(now):
            self._enter(now, "backoff", self._child.reason)
            return
        limits = self._yard.limits
        self._conflict = self._find_conflict(now, limits.port_ready_seconds, None)
        if self._conflict is not None:
            self._enter(now, "draining", self._conflict)
        elif self.record.failures and now - self._entered >= limits.stable_seconds:
            self._child.forgive()
            self._enter(now, "ready", "")

    def _settle(self, now: float, *, drained: bool) -> None:
        """Draining, but wanted: because of a conflict, or it wasn't wanted for a moment."""
        if self._conflict is None:
            self._enter(now, "ready", "wanted again")
        elif drained or self._overdue(now):
            self._child.condemn(self._conflict, "conflict")

    def _find_conflict(self, now: float, pause: float, health: Health | None) -> str | None:
        """Who shares the port, looked at after a pause since the last look.

        A process that can't be looked into may be the engine itself, started by a wrapper as
        another user: it is a stranger only when it serves another model.
        """
        process = self._child.process
        if process is None or now - self._port_seen < pause:
            return None
        self._port_seen = now
        record = self.record
        found = self._yard.machine.processes.intruder(
            record.port, process, self._yard.folder.path, record.name
        )
        misnamed = health is not None and health.misnamed
        if found is None or (found.pid is None and not misnamed):
            return None
        return taken(record.port, found)

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
