"""Rules of vLLM on TPUs (tpu-inference): what is reset there, devices, what is not built."""

from __future__ import annotations

from llmd_ctl.profiles.rules.rule import Rule

RULES = (
    Rule(
        "T13",
        "The attention backend of a TPU is its own",
        when=lambda line: line.backend is not None,
        require=lambda line: line.backend == "FLASH_ATTN",
        message="{backend} is set back to FLASH_ATTN, the TPU's own, with a line in the log",
        remedy="Leave it out.",
        at=("--attention-backend", "--attention-config"),
        severity="warning",
        source="tpu-inference 0.32.0 platforms/tpu_platform.py",
        platforms=("tpu",),
    ),
    Rule(
        "T15",
        "KV that lies in main memory is the TPU's own connector's",
        when=lambda line: line.says("--kv-offloading-size"),
        require=lambda _line: False,
        message="--kv-offloading-size means a connector that TPUs do not take",
        remedy="Leave it out.",
        at=("--kv-offloading-size",),
        source="tpu-inference 0.32.0 platforms/tpu_platform.py",
        platforms=("tpu",),
    ),
)
