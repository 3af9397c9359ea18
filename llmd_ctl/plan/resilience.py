"""What the plan says of the router's resilience: frozen records, and how they are taken over.

Part of `records`. What a fleet does not say is None here and left out of router.yaml. Its sections
are mirrored key by key, so that `render` has nothing to translate.
"""

from __future__ import annotations

from typing import Any, TypeVar

from msgspec import Struct

from llmd_ctl.plan.codec import to_json
from llmd_ctl.spec import resilience as spec
from llmd_ctl.spec.section import Section

T = TypeVar("T", bound=Struct)
UNITS = ("_ms", "_bytes")


class Breaker(Struct, frozen=True):
    """As `resilience.breaker` of router.yaml."""

    failures: int | None = None
    open_ms: int | None = None
    open_max_ms: int | None = None


class Ejection(Struct, frozen=True):
    """As `resilience.ejection` of router.yaml."""

    window_ms: int | None = None
    min_requests: int | None = None
    failure_percent: int | None = None
    max_percent: int | None = None


class Checks(Struct, frozen=True):
    """As `resilience.checks` of router.yaml."""

    interval_ms: int | None = None
    timeout_ms: int | None = None
    failures: int | None = None
    successes: int | None = None
    path: str | None = None


class Retry(Struct, frozen=True):
    """As `retry` of router.yaml."""

    attempts: int | None = None
    budget_percent: int | None = None
    budget_min_per_second: int | None = None


class Limits(Struct, frozen=True):
    """As `limits` of router.yaml."""

    body_bytes: int | None = None
    header_ms: int | None = None
    keep_alive_ms: int | None = None
    connections: int | None = None
    connect_ms: int | None = None
    first_byte_ms: int | None = None
    idle_ms: int | None = None
    total_ms: int | None = None
    drain_ms: int | None = None
    quiet_ms: int | None = None


class Resilience(Struct, frozen=True):
    """What the router does about endpoints that fail, and the limits of a request."""

    breaker: Breaker = Breaker()
    ejection: Ejection = Ejection()
    slow_start_ms: int | None = None
    checks: Checks = Checks()
    retry: Retry = Retry()
    limits: Limits = Limits()

    def to_json(self) -> dict[str, Any]:
        """In router.yaml's words; what the fleet does not say is None."""
        document: dict[str, Any] = to_json(self)
        return document


def taken_over(said: spec.Resilience) -> Resilience:
    """The fleet's own words, with units in the names."""
    return Resilience(
        breaker=_record(Breaker, said.breaker),
        ejection=_record(Ejection, said.ejection),
        slow_start_ms=said.slow_start,
        checks=_record(Checks, said.checks),
        retry=_record(Retry, said.retry),
        limits=_record(Limits, said.limits),
    )


def _record(kind: type[T], section: Section) -> T:
    names = kind.__struct_fields__
    return kind(**{name: getattr(section, _without_unit(name)) for name in names})


def _without_unit(name: str) -> str:
    for unit in UNITS:
        name = name.removesuffix(unit)
    return name
