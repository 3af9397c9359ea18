"""The loop that makes what runs equal to what is desired, and keeps it so.

Run by `python -m llmd_ctl.controller`, one per fleet. Each tick: read the desired revision, decide,
move every replica and the router one step on, then write what is seen. All state that matters is on
disk or in the process table, so a controller that was killed anywhere is replaced by the next one.
"""

from __future__ import annotations

from pathlib import Path

from llmd_ctl.apply.address import ROUTER_ADMIN, ROUTER_DATA, NoPort, PortBook
from llmd_ctl.apply.records import Observed
from llmd_ctl.apply.state import Unreadable
from llmd_ctl.controller.adopt import adopt
from llmd_ctl.controller.child import Child, Yard
from llmd_ctl.controller.decide import LEAVING, decide
from llmd_ctl.controller.replica import Replica
from llmd_ctl.controller.router import RouterChild
from llmd_ctl.controller.upkeep import Upkeep
from llmd_ctl.controller.wish import Wish, leaving_variants, read_wish
from llmd_ctl.plan import Plan
from llmd_ctl.render import ReplicaSpec, RouterPlace, render_replicas, render_router
from llmd_ctl.router.answer import RouterStatus


class Controller:
    """One fleet's controller. `python` is the interpreter that runs llmd-ctl."""

    def __init__(self, yard: Yard, python: str) -> None:
        self._yard = yard
        self._folder = yard.folder
        self._files = yard.machine.files
        self._clock = yard.machine.clock
        self._python = python
        self._problems: list[str] = []
        self._wish = Wish.nothing()
        self._written_replicas: bytes | None = None
        self._written_observed: Observed | None = None
        self._configured: tuple[Wish, RouterPlace, frozenset[tuple[str, str]]] | None = None
        self._upkeep = Upkeep(self._folder)
        self._replicas: list[Replica] = []
        self._strays: list[Child] = []
        self._ports = PortBook.open(self._folder, yard.machine)
        self._read_wish()
        self._inherit()

    def tick(self) -> bool:
        """One round; False when the fleet is deleted and nothing is left to do."""
        now = self._clock.monotonic()
        self._problems = []
        if self._read_wish():
            self.retry()
        if self._wish.problem is not None:
            self._problems.append(self._wish.problem)
        self._strays = [stray for stray in self._strays if not stray.stopped(now)]
        self._write_replicas()  # before the router starts: it reads the file at once
        self._advance_router(now)
        self._advance_replicas(now)
        done = self._wish.deleted and not self._replicas and self._finish(now)
        self._write_replicas()
        self._write_observed("running", done=done)
        self._upkeep.advance(now, {replica.record.name for replica in self._replicas})
        return not done

    def retry(self) -> None:
        """Start again now what waits for a back-off to pass."""
        now = self._clock.monotonic()
        for replica in self._replicas:
            replica.retry(now)
        self._router.retry(now)

    def leave(self) -> None:
        """Say that nobody watches any more. Engines and router keep running for the next one."""
        self._write_observed("stopped", done=False)

    def _read_wish(self) -> bool:
        """Follow desired.json; True when it changed."""
        wish = read_wish(self._folder, self._wish, self._python)
        changed = wish is not self._wish
        self._wish = wish
        return changed

    def _inherit(self) -> None:
        try:
            observed = self._folder.observed()
        except Unreadable as error:
            kept = self._folder.set_aside(error.path)
            self._problems.append(f"{error}; kept as {kept}")
            observed = None
        machine = self._yard.machine
        found = adopt(self._folder, machine, observed, self._wish.specs, self._wish.revision)
        specs = {spec.name: spec for spec in self._wish.specs}
        self._replicas = [
            Replica(record, specs.get(record.name), self._yard, self._ports)
            for record in found.replicas
        ]
        self._strays = [Child(stray.replica, self._yard, stray.process) for stray in found.strays]
        self._ports.keep({record.name: record.port for record in found.replicas}, specs)
        self._router = RouterChild(self._yard, self._python, self._ports, found)

    def _advance_router(self, now: float) -> None:
        try:
            place = self._router.find_place()
        except NoPort as error:
            self._problems.append(f"router: {error}")
            return
        plan = self._wish.plan
        if place is None:
            return
        if plan is None:
            self._router.watch(now, place)
            return
        self._configure_router(plan, place)
        self._router.advance(now, place)

    def _configure_router(self, plan: Plan, place: RouterPlace) -> None:
        """Render only when something changed: a large fleet's text takes its time."""
        records = tuple(replica.record for replica in self._replicas)
        variants = frozenset((record.model, record.variant) for record in records)
        present = (self._wish, place, variants)
        if present == self._configured:
            return
        leaving = leaving_variants(self._folder, plan, records)
        self._router.configure(render_router(plan, place, self._folder.layout, leaving), plan)
        self._configured = present

    def _advance_replicas(self, now: float) -> None:
        specs = {spec.name: spec for spec in self._wish.specs}
        records = [replica.record for replica in self._replicas]
        decision = decide(self._wish.specs, records, self._wish.revision)
        for spec in decision.start:
            self._add(spec)
        for replica in self._replicas:
            name = replica.record.name
            replica.spec = specs.get(name, replica.spec)
            leaving = name in decision.retire or (
                replica.record.state in LEAVING and name not in specs
            )
            drained = self._router.has_nothing_open(replica.record)
            replica.advance(now, wanted=not leaving, drained=drained)
        for replica in [replica for replica in self._replicas if replica.gone]:
            self._replicas.remove(replica)
            self._ports.free(replica.record.name)
            self._files.remove(Path(self._folder.layout.engine_config(replica.record.name)))

    def _add(self, spec: ReplicaSpec) -> None:
        try:
            port = self._ports.claim_engine(spec.name)
        except NoPort as error:
            self._problems.append(f"{spec.name}: {error}")
            return
        if port is not None:
            revision = self._wish.revision
            self._replicas.append(Replica.planned(spec, port, revision, self._yard, self._ports))

    def _finish(self, now: float) -> bool:
        """The end of a delete: the router, then what is only of use while something runs."""
        if self._strays or not self._router.stopped(now):
            return False
        layout = self._folder.layout
        for path in (layout.replicas, layout.router_config):
            self._files.remove(Path(path))
        for owner in (ROUTER_DATA, ROUTER_ADMIN):
            self._ports.free(owner)
        return True

    def _write_replicas(self) -> None:
        if self._wish.deleted and not self._replicas:
            return
        entries = [replica.router_entry() for replica in self._replicas]
        content = render_replicas([entry for entry in entries if entry is not None])
        if content != self._written_replicas:
            self._files.write_atomic(Path(self._folder.layout.replicas), content)
            self._written_replicas = content

    def _write_observed(self, controller: str, *, done: bool) -> None:
        observed = Observed(
            revision=self._wish.revision,
            controller="ended" if done else controller,
            pid=self._yard.machine.processes.me().pid,
            converged=done or self._converged(),
            deleted=done,
            router=None if done else self._router.record(),
            replicas=tuple(replica.record for replica in self._replicas),
            problems=tuple(self._problems),
        )
        if observed != self._written_observed:
            self._folder.write_observed(observed)
            self._written_observed = observed

    def _converged(self) -> bool:
        """All of this revision is up, nothing else is, and the router sees it the same way."""
        plan, status = self._wish.plan, self._router.status
        if plan is None or status is None or self._strays or self._problems:
            return False
        if status.config_error is not None:
            self._problems.append(f"the router keeps its old configuration: {status.config_error}")
            return False
        names = {spec.name for spec in self._wish.specs}
        if {replica.record.name for replica in self._replicas} != names:
            return False
        if {model.name: model.scheduler for model in plan.models} != {
            pool.name: pool.scheduler for pool in status.pools.values()
        }:
            return False
        return all(self._seen_ready(replica, status) for replica in self._replicas)

    @staticmethod
    def _seen_ready(replica: Replica, status: RouterStatus) -> bool:
        endpoint = status.endpoint(replica.record.model, replica.record.name)
        return (
            replica.record.state == "ready" and endpoint is not None and endpoint.state == "ready"
        )
