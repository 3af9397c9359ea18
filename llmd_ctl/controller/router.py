"""The router as the controller's child: configured, started, reloaded, stopped last.

Driven by the loop. It writes router.yaml and never reads it back: what counts is what the router
itself says in its status, also that it takes a change over only when it is started again.
"""

from __future__ import annotations

import logging
import secrets
from pathlib import Path

from msgspec.structs import replace

from llmd_ctl.apply.address import (
    ADMIN_PORTS,
    DATA_PORTS,
    ROUTER_ADMIN,
    ROUTER_DATA,
    PortBook,
)
from llmd_ctl.apply.machine import (
    MARK_FLEET,
    MARK_PORT,
    MARK_REPLICA,
    MARK_STATE,
    Launch,
)
from llmd_ctl.apply.records import ROUTER_MARK, ReplicaRecord, RouterRecord
from llmd_ctl.controller.adopt import Adoption
from llmd_ctl.controller.child import Child, Yard, taken
from llmd_ctl.plan import Plan
from llmd_ctl.render import RouterPlace
from llmd_ctl.router.answer import RouterStatus

log = logging.getLogger("llmd_ctl.controller")
KEY_BYTES = 24
# A router that hasn't answered for this long after its start is killed and started again.
STARTUP_SECONDS = 30.0


class RouterChild:
    """One fleet's router."""

    def __init__(self, yard: Yard, python: str, ports: PortBook, adoption: Adoption) -> None:
        self.status: RouterStatus | None = None
        self.place: RouterPlace | None = None
        self._served = adoption.router_served
        self._ports = ports
        self._yard = yard
        self._python = python
        self._child = Child(ROUTER_MARK, yard, adoption.router)
        self._state = "starting"
        self._since = yard.machine.clock.monotonic()
        self._text: str | None = None
        self._tls = False
        self._drain_seconds = yard.limits.drain_seconds

    def find_place(self) -> RouterPlace | None:
        """The router's ports, kept once it has served there; None while another fleet chooses."""
        if self.place is None:
            data = self._ports.claim(ROUTER_DATA, DATA_PORTS)
            admin = self._ports.claim(ROUTER_ADMIN, ADMIN_PORTS)
            if data is not None and admin is not None:
                self.place = RouterPlace(data, admin, self._tls)
        return self.place

    def configure(self, text: str, plan: Plan) -> None:
        """Write router.yaml when it changed; a router that runs is told to read it again."""
        self._tls = plan.router_tls is not None
        if self.place is not None:
            self.place = replace(self.place, tls=self._tls)
        # The longest that was ever asked for: one that drains may still go by the plan before.
        drain = (plan.resilience.limits.drain_ms or 0) / 1_000
        self._drain_seconds = max(self._drain_seconds, drain)
        if text == self._text:
            return
        files = self._yard.machine.files
        if self._yard.folder.admin_key() is None:
            self._yard.folder.write_admin_key(secrets.token_hex(KEY_BYTES))
        path = Path(self._yard.folder.layout.router_config)
        if files.read(path) != text.encode():
            files.write_atomic(path, text.encode())
        self._text = text
        if self.status is not None:  # it answers, so its signal handlers are in place
            self._child.hang_up()

    def advance(self, now: float, place: RouterPlace) -> None:
        """Start it, or see how it is. One that can't take its configuration over goes first."""
        if self._state == "stopping" and not self._left(now, self._drain_seconds):
            return
        if self._child.process is None:
            self._start(now, place)
        elif self._child.ended(now):
            self._enter(now, "backoff")
            self.status = None
        else:
            self._look(now, place)
            if self.status is not None and self.status.needs_restart:
                log.info("router: it is started again to take over how it listens")
                self._left(now, self._drain_seconds)

    def watch(self, now: float, place: RouterPlace) -> None:
        """See how it is, without starting it again: its fleet is being deleted."""
        if self._child.process is None or self._child.ended(now):
            self.status = None
        elif self._state != "stopping":
            self._look(now, place)

    def has_nothing_open(self, record: ReplicaRecord) -> bool:
        """Has it seen that the replica drains, and ended all its requests?

        Silence proves nothing; but a router that is gone has no requests.
        """
        if self._child.process is None:
            return True
        if self.status is None:
            return False
        endpoint = self.status.endpoint(record.model, record.name)
        if endpoint is None:
            return True
        return endpoint.state == "draining" and endpoint.inflight == 0

    def stopped(self, now: float) -> bool:
        """Ask it to end; True once it is gone."""
        return self._left(now, 0.0)

    def _left(self, now: float, patience: float) -> bool:
        self._state = "stopping"
        self.status = None
        return self._child.cleared(now, patience)

    def retry(self, now: float) -> None:
        """Start again now if it waits for its back-off to pass."""
        self._child.retry(now)

    def record(self) -> RouterRecord | None:
        """What is said about it; None before it has ports."""
        if self.place is None:
            return None
        return RouterRecord(
            url=self.place.url,
            admin_url=self.place.admin_url,
            state=self._state,
            reason=self._child.reason if self._state == "backoff" else "",
            served=self._served,
            process=self._child.process,
            failures=self._child.failures,
            trouble=self._child.trouble,
        )

    def _start(self, now: float, place: RouterPlace) -> None:
        if now < self._child.retry_at or self._child.sweep():
            return
        if not self._finds_ports_free(now, place):
            return
        layout = self._yard.folder.layout
        launch = Launch(
            argv=(
                self._python,
                "-P",  # the folder llmd-ctl was called from must not shadow its modules
                "-m",
                "llmd_ctl.router",
                "--config",
                layout.router_config,
            ),
            env={
                MARK_FLEET: self._yard.folder.fleet,
                MARK_STATE: str(self._yard.folder.path),
                MARK_REPLICA: ROUTER_MARK,
                MARK_PORT: str(place.data_port),
            },
            log=Path(layout.log("router")),
        )
        started = self._child.start(now, launch)
        self._enter(now, "starting" if started else "backoff")

    def _finds_ports_free(self, now: float, place: RouterPlace) -> bool:
        """Has a stranger its port? Before it has served, it gets others; after that it waits."""
        for owner, port in ((ROUTER_DATA, place.data_port), (ROUTER_ADMIN, place.admin_port)):
            stranger = self._yard.machine.processes.listener(port)
            if stranger is None:
                continue
            reason = taken(port, stranger)
            if self._served:
                self._child.fail(now, reason, "port")
                self._enter(now, "backoff")
                return False
            log.info("router: %s; it gets another one", reason)
            self._ports.free(owner)
            self.place = None
        if self.place is None:
            self.find_place()  # it starts in a later step, when this is in its configuration
            return False
        return True

    def _find_rival(self, place: RouterPlace) -> str | None:
        """Who has one of its ports at the same time: an answer may be that of another router."""
        processes, state = self._yard.machine.processes, self._yard.folder.path
        for port in (place.data_port, place.admin_port):
            if self._child.process is not None:
                found = processes.intruder(port, self._child.process, state, ROUTER_MARK)
                if found is not None:
                    return taken(port, found)
        return None

    def _look(self, now: float, place: RouterPlace) -> None:
        self.status = self._yard.machine.network.router_status(place.admin_url)
        rival = self._find_rival(place) if self.status and self._state != "ready" else None
        if rival is not None:
            self.status = None
            self._child.condemn(rival, "conflict")
        elif self.status is not None:
            if self._state != "ready":
                self._served = True
                self._enter(now, "ready")
            elif now - self._since >= self._yard.limits.stable_seconds:
                self._child.forgive()
        elif self._state == "starting" and now - self._since >= STARTUP_SECONDS:
            self._child.condemn(f"did not answer within {STARTUP_SECONDS:g} s", "slow")

    def _enter(self, now: float, state: str) -> None:
        if state != self._state:
            self._since = now
            log.info("router %s %s", state, self._child.reason if state == "backoff" else "")
        self._state = state
