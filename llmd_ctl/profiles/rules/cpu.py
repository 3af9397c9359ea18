"""Rules of vLLM on processors: blocks, attention, what it turns off."""

from __future__ import annotations

from llmd_ctl.profiles.rules.line import Line
from llmd_ctl.profiles.rules.rule import Rule

STEP = 32
LATENT_BLOCK, COMPRESSED_BLOCK = 16, 256
OWN = ("CPU_ATTN", "CPU_MLA", "AMX_MLA", "ZENTORCH")


def _latent(line: Line) -> bool:
    return line.model.traits.kind == "mla"


RULES = (
    Rule(
        "C01",
        "A block of a processor's cache is a multiple of 32 tokens",
        when=lambda line: (
            line.block_size is not None and line.model.traits.kind in {"dense", "sinks", "hybrid"}
        ),
        require=lambda line: (line.block_size or STEP) % STEP == 0,
        message="blocks of {block_size} tokens are no multiple of 32, and the engine stops",
        remedy="Take a multiple of 32.",
        allowed=lambda _line: (32, 64, 128),
        at=("--block-size",),
        source="vLLM 0.32.0 platforms/cpu.py:296; v1/attention/backends/cpu_attn.py",
        platforms=("cpu",),
    ),
    Rule(
        "C10",
        "A block of a latent cache has 16 tokens on processors",
        when=lambda line: line.block_size is not None and _latent(line),
        require=lambda line: line.block_size == LATENT_BLOCK,
        message="blocks of {block_size} tokens are overruled: latent attention has 16 here",
        remedy="Leave --block-size out.",
        at=("--block-size",),
        severity="warning",
        source="vLLM 0.32.0 platforms/cpu.py:275",
        platforms=("cpu",),
    ),
    Rule(
        "C02",
        "Sparse attention is not there on processors",
        when=lambda line: line.model.traits.kind == "dsa",
        require=lambda _line: False,
        message="the model attends sparsely, which {engine.name} cannot on processors",
        remedy="Choose another accelerator, or model.",
        source="vLLM 0.32.0 platforms/cpu.py:150",
        platforms=("cpu",),
    ),
    Rule(
        "C03",
        "What processors cannot is not asked of them",
        when=lambda line: (
            (line.on_by("--async-scheduling") and line.says("--async-scheduling"))
            or line.on_by("--enable-dbo")
        ),
        require=lambda _line: False,
        message="asynchronous scheduling and micro batches are turned off on processors",
        remedy="Leave it out.",
        at=("--async-scheduling", "--enable-dbo"),
        severity="warning",
        source="vLLM 0.32.0 platforms/cpu.py:347",
        platforms=("cpu",),
    ),
    Rule(
        "C09",
        "Prefixes of a latent cache are not kept on processors without AMX",
        when=lambda line: (
            _latent(line)
            and line["--enable-prefix-caching"] is True
            and line.says("--enable-prefix-caching")
        ),
        require=lambda line: line.architecture == "x86-64",
        message="the engine turns prefix caching off: its kernel for this model cannot",
        remedy="Leave --enable-prefix-caching out.",
        at=("--enable-prefix-caching",),
        severity="warning",
        source="vLLM 0.32.0 platforms/cpu.py:517",
        platforms=("cpu",),
    ),
    Rule(
        "C11",
        "The attention backend of a processor is its own",
        when=lambda line: line.backend is not None,
        require=lambda line: line.backend in OWN,
        message="{backend} is not for processors: the engine takes its own",
        remedy="Leave it out.",
        at=("--attention-backend", "--attention-config"),
        severity="warning",
        source="vLLM 0.32.0 platforms/cpu.py: get_attn_backend_cls",
        platforms=("cpu",),
    ),
)
