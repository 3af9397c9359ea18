"""What the router answers, as frozen records: its status, and the outcome of one question.

Made by `admin.py`, read by the controller, apply and status. No HTTP here: who only passes answers
on must not load a client.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct


class EndpointHealth(Struct, frozen=True):
    """Whether an endpoint takes part in picks: `in`, `slow start`, `on trial` or `out`.

    `why` and `out_for_ms` are of one that is out or on trial, `out_at_least_ms` of one that is out
    for a time; `check` is what the last active check said: passed, failed, no check (it has no such
    path), not yet, or off.
    """

    state: str
    why: str | None
    out_for_ms: int | None
    check: str
    out_at_least_ms: int | None = None

    def to_json(self) -> dict[str, Any]:
        """The published form."""
        return {
            "state": self.state,
            "why": self.why,
            "outForMs": self.out_for_ms,
            "outAtLeastMs": self.out_at_least_ms,
            "check": self.check,
        }


class RetryBudget(Struct, frozen=True):
    """Paid attempts of a model: how many are left, were made, and could not be paid for."""

    left: float
    used: int
    refused: int

    def to_json(self) -> dict[str, Any]:
        """The published form."""
        return {"left": self.left, "used": self.used, "refused": self.refused}


class EndpointStatus(Struct, frozen=True):
    """One endpoint as the router sees it. `inflight` is its own exact count of open requests.

    `degraded` says what it lacks to place requests well there, such as a fresh report of load.
    `health` is None for one that gets no requests yet, `unreachable` why no connection comes about.
    `simulated`: it is configured so, or its last answer said so.
    """

    name: str
    state: str
    inflight: int
    degraded: tuple[str, ...] = ()
    health: EndpointHealth | None = None
    unreachable: str | None = None
    simulated: bool = False


class PoolStatus(Struct, frozen=True):
    """One model's pool. `endpoints` is keyed by endpoint name."""

    name: str
    scheduler: str
    endpoints: dict[str, EndpointStatus]
    retry_budget: RetryBudget | None = None


class RouterStatus(Struct, frozen=True):
    """What /status says, as far as the control plane needs it. `pools` is keyed by model.

    `needs_restart`: nothing is wrong with a refused configuration but that a running router does
    not take it over. `certificates`: changed ones that could not be taken over, and why.
    """

    ready: bool
    config_error: str | None
    pools: dict[str, PoolStatus]
    needs_restart: bool = False
    certificates: tuple[str, ...] = ()

    def endpoint(self, model: str, name: str) -> EndpointStatus | None:
        """One endpoint, or None when the router doesn't know it."""
        pool = self.pools.get(model)
        return pool.endpoints.get(name) if pool else None


class Answer(Struct, frozen=True):
    """The outcome of one HTTP question; `reason` says why it is not ok."""

    ok: bool
    reason: str
    latency_ms: float = 0.0
    simulated: bool = False
