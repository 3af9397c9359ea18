"""The rules of SGLang, as `arg_groups` of SGLang 0.5.23 has them.

Read by the package above, as one more list of tables. What is refused on the way to a first step
is an error, what is taken and then set to something else a warning.
"""

from __future__ import annotations

from llmd_ctl.profiles.rules.sglang import (
    adapters,
    attention,
    cache,
    drafts,
    experts,
    handover,
    hybrid,
    overlap,
    parallel,
    quantization,
    reproducible,
    scheduling,
    serving,
)

TABLES = (
    attention, reproducible, cache, parallel, overlap, experts, drafts, scheduling, serving,
    adapters, hybrid, handover, quantization,
)  # fmt: skip

__all__ = ["TABLES"]
