"""How many machines a replica takes where no slice says so, with whole ranks or stages on each.

Called by `sizing`, `elsewhere` and `stock`. It is how vLLM deals ranks out over `--nnodes`: each
machine has as many as any other, and a rank leaves its machine only where none holds it. Pure.
"""

from __future__ import annotations

from llmd_ctl.plan.records import Parallel


def machines_of(split: Parallel, devices: int) -> int:
    """The fewest machines of so many devices for a replica."""
    rank = split.tensor * split.pipeline
    if rank > devices:
        return split.data * _stages_over(split.pipeline, rank, devices)
    several = range(split.data, 0, -1)
    each = next(n for n in several if split.data % n == 0 and n * rank <= devices)
    return split.data // each


def _stages_over(stages: int, rank: int, devices: int) -> int:
    """The fewest machines that hold equally many stages of a rank each."""
    several = range(1, stages + 1)
    return next((n for n in several if stages % n == 0 and rank <= n * devices), stages)


def told(split: Parallel, hosts: int) -> tuple[str, ...]:
    """What people should know of ranks that are on several hosts."""
    if split.data == 1 or hosts == 1:
        return ()
    ranks = f"{split.data} ranks on {hosts} hosts: the first one takes the requests of all, and"
    return (f"{ranks} what ranks say to each other between hosts is not counted",)
