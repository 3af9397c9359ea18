"""Status: what the controller said last, checked against what is really there.

Called by the command line; it changes nothing and waits for nobody. A record of a dead controller
is never passed on as the truth: processes are looked up, the router is asked, and that the
controller is away is said first.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from llmd_ctl.apply.machine import Machine
from llmd_ctl.apply.records import ROUTER_MARK, Desired, Observed, ReplicaRecord
from llmd_ctl.apply.state import StateFolder, Unreadable, desired_plan
from llmd_ctl.apply.supervisor import Supervisor
from llmd_ctl.errors import Problem
from llmd_ctl.plan import Plan, PlannedModel, PlannedVariant
from llmd_ctl.render import external_name
from llmd_ctl.router.answer import EndpointHealth, RetryBudget, RouterStatus

Json = dict[str, Any]
REPLACED = "LC2035"  # the warning of a plan that numbers rest on a profile under another's name


class ReplicaStatus(Struct, frozen=True):
    """One endpoint. `state` is that of its process, the rest the router's view of it."""

    name: str
    endpoint: str
    state: str
    reason: str
    revision: int
    restarts: int
    pid: int | None
    router_state: str | None
    inflight: int | None
    degraded: tuple[str, ...] = ()
    health: EndpointHealth | None = None
    unreachable: str | None = None

    def to_json(self) -> Json:
        """The published form."""
        return {
            "name": self.name,
            "endpoint": self.endpoint,
            "state": self.state,
            "reason": self.reason,
            "revision": self.revision,
            "restarts": self.restarts,
            "pid": self.pid,
            "routerState": self.router_state,
            "inflight": self.inflight,
            "degraded": list(self.degraded),
            "health": self.health.to_json() if self.health else None,
            "unreachable": self.unreachable,
        }


class VariantStatus(Struct, frozen=True):
    """One variant. `ready` counts what both the controller and the router call ready.

    `simulated`: as planned, or as the answers of an endpoint said to the router.
    """

    name: str
    accelerator: str
    engine: str
    simulated: bool
    desired: int
    replicas: tuple[ReplicaStatus, ...]

    @property
    def ready(self) -> int:
        """Replicas that take requests now."""
        return sum(
            replica.state == "ready" and replica.router_state == "ready"
            for replica in self.replicas
        )

    def to_json(self) -> Json:
        """The published form."""
        return {
            "name": self.name,
            "accelerator": self.accelerator,
            "engine": self.engine,
            "simulated": self.simulated,
            "ready": self.ready,
            "desired": self.desired,
            "replicas": [replica.to_json() for replica in self.replicas],
        }


class ModelStatus(Struct, frozen=True):
    """One model."""

    name: str
    variants: tuple[VariantStatus, ...]
    retry_budget: RetryBudget | None = None

    def to_json(self) -> Json:
        """The published form."""
        return {
            "name": self.name,
            "retryBudget": self.retry_budget.to_json() if self.retry_budget else None,
            "variants": [variant.to_json() for variant in self.variants],
        }


class FleetStatus(Struct, frozen=True):
    """All of it. `controller`: running, not running, or ended (after a delete)."""

    fleet: str
    revision: int
    converged: bool
    deleted: bool
    controller: str
    router_url: str | None
    router_admin_url: str | None
    router_state: str
    models: tuple[ModelStatus, ...]
    problems: tuple[Problem, ...]
    certificates: tuple[str, ...] = ()

    def to_json(self) -> Json:
        """The published form."""
        return {
            "schema": "llmd-ctl/status/v1",
            "fleet": self.fleet,
            "revision": self.revision,
            "converged": self.converged,
            "deleted": self.deleted,
            "controller": self.controller,
            "router": {
                "url": self.router_url,
                "adminUrl": self.router_admin_url,
                "state": self.router_state,
                "certificates": {"problems": list(self.certificates)},
            },
            "models": [model.to_json() for model in self.models],
            "problems": [problem.to_json() for problem in self.problems],
        }


def fleet_status(folder: StateFolder, machine: Machine) -> FleetStatus | None:
    """The status of a fleet; None when it was never applied."""
    if not machine.files.list(folder.path):
        return None
    problems: list[Problem] = []
    desired, observed = _documents(folder, problems)
    if desired is None and observed is None and not problems:
        return None
    controller = _controller(folder, machine, desired, observed)
    if controller == "not running":
        problems.append(Problem("LC4006", "the controller is not running", severity="warning"))
    if observed is not None:
        problems += [Problem("LC4002", text, severity="warning") for text in observed.problems]
    router = observed.router if observed else None
    answer = machine.network.router_status(router.admin_url) if router else None
    certificates = answer.certificates if answer else ()
    problems += [Problem("LC4010", text, severity="warning") for text in certificates]
    plan = desired_plan(desired)
    problems += [problem for problem in plan.warnings if problem.code == REPLACED] if plan else []
    look = _Look(machine, observed, answer)
    revision = desired.revision if desired else 0
    return FleetStatus(
        fleet=folder.fleet,
        revision=revision,
        converged=_converged(controller, revision, observed, answer),
        deleted=bool(desired and desired.deleted),
        controller=controller,
        router_url=router.url if router else None,
        router_admin_url=router.admin_url if router else None,
        router_state=look.router_state(),
        models=tuple(look.model(model) for model in _models(plan)),
        problems=tuple(problems),
        certificates=certificates,
    )


def _documents(
    folder: StateFolder, problems: list[Problem]
) -> tuple[Desired | None, Observed | None]:
    desired, observed = None, None
    try:
        desired = folder.desired()
    except Unreadable as error:
        problems.append(Problem("LC4002", str(error)))
    try:
        observed = folder.observed()
    except Unreadable as error:
        problems.append(Problem("LC4002", str(error)))
    return desired, observed


def _controller(
    folder: StateFolder, machine: Machine, desired: Desired | None, observed: Observed | None
) -> str:
    if Supervisor(folder, machine, "", lambda _event: None).running() is not None:
        return "running"
    ended = desired is not None and desired.deleted and observed is not None and observed.deleted
    return "ended" if ended else "not running"


def _converged(
    controller: str, revision: int, observed: Observed | None, answer: RouterStatus | None
) -> bool:
    if observed is None or observed.revision != revision or not observed.converged:
        return False
    return controller == "ended" or (controller == "running" and answer is not None)


def _models(plan: Plan | None) -> tuple[PlannedModel, ...]:
    return plan.models if plan else ()


class _Look:
    """The records beside live checks of the same things."""

    def __init__(
        self, machine: Machine, observed: Observed | None, answer: RouterStatus | None
    ) -> None:
        self._machine = machine
        self._observed = observed
        self._answer = answer

    def router_state(self) -> str:
        router = self._observed.router if self._observed else None
        if router is None:
            return "absent"
        if self._answer is not None:
            return "ready" if self._answer.ready else "not ready"
        alive = router.process and not self._machine.processes.ended(router.process, ROUTER_MARK)
        return "not answering" if alive else "dead"

    def model(self, model: PlannedModel) -> ModelStatus:
        pool = self._answer.pools.get(model.name) if self._answer else None
        return ModelStatus(
            model.name,
            tuple(self._variant(model, variant) for variant in model.variants),
            pool.retry_budget if pool else None,
        )

    def _variant(self, model: PlannedModel, variant: PlannedVariant) -> VariantStatus:
        external = variant.endpoint_url is not None
        records = self._observed.replicas if self._observed else ()
        replicas = tuple(
            self._replica(record)
            for record in records
            if (record.model, record.variant) == (model.name, variant.name)
        )
        if external:
            replicas = (self._external(model, variant),)
        seen = [self._answer.endpoint(model.name, one.name) for one in replicas if self._answer]
        return VariantStatus(
            name=variant.name,
            accelerator=variant.accelerator,
            engine=variant.engine,
            simulated=variant.simulated or any(one.simulated for one in seen if one),
            desired=1 if external else variant.replicas,
            replicas=replicas,
        )

    def _replica(self, record: ReplicaRecord) -> ReplicaStatus:
        state: str = record.state
        reason = record.reason
        process = record.process
        if process is not None:
            end = self._machine.processes.ended(process, record.name)
            if end is not None:
                state, reason = "dead", f"pid {process.pid} {end}"
        seen = self._answer.endpoint(record.model, record.name) if self._answer else None
        return ReplicaStatus(
            name=record.name,
            endpoint=f"127.0.0.1:{record.port}",
            state=state,
            reason=reason,
            revision=record.revision,
            restarts=max(0, record.restarts - 1),
            pid=process.pid if process else None,
            router_state=seen.state if seen else None,
            inflight=seen.inflight if seen else None,
            degraded=seen.degraded if seen else (),
            health=seen.health if seen else None,
            unreachable=seen.unreachable if seen else None,
        )

    def _external(self, model: PlannedModel, variant: PlannedVariant) -> ReplicaStatus:
        """Not managed: all that is known of it is what the router sees."""
        name = external_name(model, variant)
        seen = self._answer.endpoint(model.name, name) if self._answer else None
        return ReplicaStatus(
            name=name,
            endpoint=variant.endpoint_url or "",
            state=seen.state if seen else "unknown",
            reason="" if seen else "the router doesn't answer",
            revision=self._observed.revision if self._observed else 0,
            restarts=0,
            pid=None,
            router_state=seen.state if seen else None,
            inflight=seen.inflight if seen else None,
            degraded=seen.degraded if seen else (),
            health=seen.health if seen else None,
            unreachable=seen.unreachable if seen else None,
        )
