"""`spec.router.resilience`: what the router does about endpoints that fail, and its limits.

The sections under it, used by `fleet`. None is the router's own default, which the reference names
and a test holds against `crates/llmd-router/src/config/`. Times are in milliseconds here.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from llmd_ctl.spec.fields import Bytes, CheckPath, Milliseconds, MillisecondsOrNone
from llmd_ctl.spec.section import Section

Count = Annotated[int, Field(ge=1, le=1_000_000)]
CountOrNone = Annotated[int, Field(ge=0, le=1_000_000)]
Percent = Annotated[int, Field(ge=0, le=100)]


class Breaker(Section):
    """An endpoint is out after failures in a row, or when nothing listens there."""

    failures: CountOrNone | None = None
    open: Milliseconds | None = None
    open_max: Milliseconds | None = None


class Ejection(Section):
    """An endpoint is out when too large a share of its requests failed."""

    window: Milliseconds | None = None
    min_requests: Count | None = None
    failure_percent: Percent | None = None
    max_percent: Percent | None = None


class Checks(Section):
    """Each endpoint is asked whether it is well, whatever the traffic."""

    interval: Milliseconds | None = None
    timeout: Milliseconds | None = None
    failures: CountOrNone | None = None
    successes: Count | None = None
    path: CheckPath | None = None


class Retry(Section):
    """How much is tried again."""

    attempts: Annotated[int, Field(ge=1, le=100)] | None = None
    budget_percent: Percent | None = None
    budget_min_per_second: CountOrNone | None = None


class Limits(Section):
    """Sizes and times of a request."""

    body: Bytes | None = None
    header: Milliseconds | None = None
    keep_alive: Milliseconds | None = None
    connections: Count | None = None
    connect: Milliseconds | None = None
    first_byte: Milliseconds | None = None
    idle: Milliseconds | None = None
    total: Milliseconds | None = None
    drain: MillisecondsOrNone | None = None
    quiet: MillisecondsOrNone | None = None


class Resilience(Section):
    """What the router does about endpoints that fail, and the limits of a request."""

    breaker: Breaker = Breaker()
    ejection: Ejection = Ejection()
    slow_start: MillisecondsOrNone | None = None
    checks: Checks = Checks()
    retry: Retry = Retry()
    limits: Limits = Limits()
