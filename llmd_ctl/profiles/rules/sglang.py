"""The rules of SGLang, as `arg_groups` of SGLang 0.5.23 has them.

Read by the package, as one more list of tables; `sglang_asked` is what they share. What is refused
on the way to a first step is an error, what is taken and then set to something else a warning.
"""

from __future__ import annotations

from llmd_ctl.profiles.rules import (
    sglang_adapters,
    sglang_attention,
    sglang_cache,
    sglang_drafts,
    sglang_experts,
    sglang_handover,
    sglang_hybrid,
    sglang_overlap,
    sglang_parallel,
    sglang_quantization,
    sglang_reproducible,
    sglang_scheduling,
    sglang_serving,
)

TABLES = (
    sglang_attention,
    sglang_reproducible,
    sglang_cache,
    sglang_parallel,
    sglang_overlap,
    sglang_experts,
    sglang_drafts,
    sglang_scheduling,
    sglang_serving,
    sglang_adapters,
    sglang_hybrid,
    sglang_handover,
    sglang_quantization,
)
