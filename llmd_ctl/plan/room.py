"""A size that fits and leaves little room: that it does, and what the next larger one would give.

Called by `variant` for a replica whose size nobody chose. What is said are the numbers that a plan
shows where that size is asked for. Pure.
"""

from __future__ import annotations

from llmd_ctl.plan.fit import taken_share
from llmd_ctl.plan.records import Capacity
from llmd_ctl.plan.sizing import Sized
from llmd_ctl.plan.units import counted, dollars

LITTLE = 0.9  # of the memory budget taken before any KV cache: too few requests fit at once


def is_tight(sized: Sized) -> bool:
    """Whether little is left for requests."""
    return taken_share(sized.fit) >= LITTLE


def little_room(sized: Sized) -> str:
    """Say how much is taken, and what that leaves."""
    requests = counted(round(sized.fit.concurrency, 1), "request")
    return (
        f"little room: {taken_share(sized.fit):.0%} of the memory budget is taken before any KV "
        f"cache; {requests} of full length at once"
    )


def larger(sized: Sized, capacity: Capacity, price: float | None, replicas: int) -> str:
    """Say what the next size would give; `price` is that of a replica and an hour."""
    tokens = capacity.tokens_per_second * replicas
    cost = f"{dollars(price * replicas)} an hour" if price is not None else "a price not known"
    return (
        f"parallelism: {{tensor: {sized.parallel.tensor}}} would fit at "
        f"{taken_share(sized.fit):.0%} and carry {tokens:,.0f} tokens/s for {cost}"
    )
