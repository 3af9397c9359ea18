"""Rules on the attention backend of vLLM: which can run where, of which model, with which cache.

What each backend can do is a table of the engine (`Kernel`); a rule asks one column of it. Where
no backend is named the engine takes the first of its order that can do all that is asked.
"""

from __future__ import annotations

from typing import cast

from llmd_ctl.profiles.kernel import Kernel
from llmd_ctl.profiles.rules.backends import (
    V4_REFUSES,
    elsewhere,
    hindrances,
    hopper_takes_four,
    packed,
    passed_over,
)
from llmd_ctl.profiles.rules.line import Line, Platform
from llmd_ctl.profiles.rules.rule import Rule

NAMED = ("--attention-backend", "--attention-config")
ASKED = (
    *("--kv-cache-dtype", "--block-size", "--dtype"),
    *("--prefill-context-parallel-size", "--decode-context-parallel-size"),
)
SOURCE = "vLLM 0.32.0 v1/attention/backend.py: validate_configuration"


# Elsewhere a named backend is passed over or set back, and rules of the platform say so.
CHOOSES: tuple[Platform, ...] = ("cuda", "rocm", "xpu")


def _named(line: Line) -> bool:
    return line.backend is not None and bool(line.engine.spec.attention)


def _known(line: Line) -> bool:
    return line.kernel is not None


def _own(line: Line) -> Kernel:
    """What is known of the named backend here, where it is `_known`."""
    return cast(Kernel, line.kernel)


def _counts(line: Line) -> bool:
    """Whether a backend is named that the engine has here, and uses."""
    return _known(line) and not passed_over(line)


def _fits_kind(line: Line) -> bool:
    """Whether its other columns are worth asking: one that is for other models fails in most."""
    return _counts(line) and _serves(_own(line), line)


def _of_others(line: Line) -> bool:
    return line.backend in line.engine.spec.attention


def _serves(kernel: Kernel, line: Line) -> bool:
    return not kernel.models or line.kind in kernel.models


def _takes_kv(kernel: Kernel, line: Line) -> bool:
    return not kernel.kv_dtypes or line.kv_dtype in kernel.kv_dtypes


def _takes_heads(kernel: Kernel, line: Line) -> bool:
    sizes = line.model.traits.head_sizes
    return not kernel.head_sizes or all(size in kernel.head_sizes for size in sizes)


def _sees_whole(kernel: Kernel, line: Line, name: str | None) -> bool:
    """FlashAttention 4 alone lets images see themselves; Hopper takes it where 3 cannot serve."""
    if name == "FLASH_ATTN" and line.architecture == "sm90":
        return hopper_takes_four(line)
    return kernel.images_see_whole


def _takes_all(name: str, kernel: Kernel, line: Line) -> bool:
    """Whether a backend for such models can do all that is asked, as the engine tries it."""
    return (
        _takes_kv(kernel, line)
        and _takes_heads(kernel, line)
        and line.dtype in kernel.dtypes
        and (line.block_size is None or kernel.takes_block(line.block_size))
        and (not line.images_see_whole or _sees_whole(kernel, line, name))
        and not hindrances(name, line)
        and not elsewhere(name, line)
    )


def usable(line: Line) -> tuple[str, ...]:
    """Return the backends that can do all that a line asks, in the engine's order."""
    return tuple(name for name, kernel in line.choices if _takes_all(name, kernel, line))


def unserved(line: Line) -> str | None:
    """Why the accelerator's profile says that this kind is not served."""
    known = line.on.attention.get(line.model.traits.kind)
    return known.unsupported if known is not None else None


def _asked(line: Line) -> str:
    """What a line asks of attention, in its own words, and who set what no user wrote."""
    who = {flag: f" ({line.set_by[flag]})" for flag in ASKED if flag in line.set_by}
    asked = [f"{flag} {line.given[flag]}{who.get(flag, '')}" for flag in ASKED if line.says(flag)]
    return " and ".join(asked)


def _asked_for(line: Line) -> str:
    """What a user may take back of it."""
    own = [flag for flag in ASKED if line.says(flag) and flag not in line.set_by]
    return " and ".join(f"{flag} {line.given[flag]}" for flag in own)


def _takable(line: Line) -> list[str]:
    """Types of KV, or sizes of blocks, that backends take which are for such models."""
    kernels = [kernel for _, kernel in line.choices]
    if line.says("--kv-cache-dtype"):
        return sorted({name for kernel in kernels for name in kernel.kv_dtypes})
    if line.block_size is not None:
        return [f"a multiple of {n}" for n in sorted({n for k in kernels for n in k.blocks})]
    return []


RULES = (
    Rule(
        "V01",
        "The attention backend is named once",
        when=lambda line: line.says("--attention-backend"),
        require=lambda line: line.inside("--attention-config", "backend") is None,
        message="the attention backend is named by --attention-backend and by --attention-config",
        remedy="Name it in one of them.",
        at=NAMED,
        source="vLLM 0.32.0 engine/arg_utils.py:2687",
    ),
    Rule(
        "V18",
        "The attention backend is one that the engine has",
        when=_named,
        require=_of_others,
        message="{engine.name} {version} has no attention backend {backend}",
        remedy="Name one of the engine's, or leave it to the engine.",
        allowed=lambda line: usable(line) or tuple(name for name, _ in line.choices),
        allowed_of=NAMED,
        at=NAMED,
        source="vLLM 0.32.0 config/attention.py: validate_backend_before",
        platforms=CHOOSES,
    ),
    Rule(
        "V19",
        "The attention backend runs on the accelerator",
        when=lambda line: _of_others(line) and not passed_over(line),
        require=_known,
        message="{backend} does not run on {accelerator.name} ({architecture})",
        remedy="Name a backend that runs there, or leave it to the engine.",
        allowed=usable,
        allowed_of=NAMED,
        at=NAMED,
        source=SOURCE,
        platforms=CHOOSES,
    ),
    Rule(
        "V20",
        "The attention backend serves the kind of model",
        when=_counts,
        require=lambda line: _serves(_own(line), line),
        message="{backend} does not serve a model of this kind ({kind}) on {accelerator.name}",
        remedy="Name a backend for it, or leave it to the engine.",
        allowed=usable,
        allowed_of=NAMED,
        at=NAMED,
        source=SOURCE,
        platforms=CHOOSES,
    ),
    Rule(
        "V06",
        "The attention backend reads the type of the KV cache",
        when=_fits_kind,
        require=lambda line: _takes_kv(_own(line), line),
        message="{backend} has no KV cache of type {kv_dtype} on {accelerator.name}",
        remedy="Change --kv-cache-dtype, or the backend.",
        allowed=lambda line: line.kernel.kv_dtypes if line.kernel else (),
        at=("--kv-cache-dtype", *NAMED),
        source=SOURCE,
        platforms=CHOOSES,
    ),
    Rule(
        "V07",
        "The block size fits the attention backend",
        when=lambda line: line.block_size is not None and _fits_kind(line),
        require=lambda line: _own(line).takes_block(line.told("--block-size")),
        message="{backend} cannot cut blocks of {block_size} tokens into its own",
        remedy="Take a multiple of its block size.",
        allowed=lambda line: (
            [f"a multiple of {size}" for size in line.kernel.blocks] if line.kernel else ()
        ),
        at=("--block-size", *NAMED),
        source=SOURCE,
        platforms=CHOOSES,
    ),
    Rule(
        "V21",
        "The attention backend has the model's head size",
        when=_fits_kind,
        require=lambda line: _takes_heads(_own(line), line),
        message="{backend} has no heads of {sizes} elements, which the model has",
        words=lambda line: {"sizes": ", ".join(map(str, line.model.traits.head_sizes))},
        remedy="Name another backend, or leave it to the engine.",
        allowed=usable,
        allowed_of=NAMED,
        at=NAMED,
        source=SOURCE,
        platforms=CHOOSES,
    ),
    Rule(
        "V22",
        "The attention backend computes in the model's type",
        when=_fits_kind,
        require=lambda line: line.dtype in _own(line).dtypes,
        message="{backend} does not compute in {dtype}",
        remedy="Change --dtype, or the backend.",
        allowed=lambda line: line.kernel.dtypes if line.kernel else (),
        at=("--dtype", *NAMED),
        source=SOURCE,
        platforms=CHOOSES,
    ),
    Rule(
        "V23",
        "The attention backend lets tokens of an image see each other",
        when=lambda line: _fits_kind(line) and line.images_see_whole,
        require=lambda line: _sees_whole(_own(line), line, line.backend),
        message="{backend} cannot let the tokens of an image attend both ways, as this model does",
        remedy="Name another backend, or leave it to the engine.",
        allowed=usable,
        allowed_of=NAMED,
        at=NAMED,
        source=SOURCE,
        platforms=CHOOSES,
    ),
    Rule(
        "V24",
        "Some attention backend can do all that is asked",
        when=lambda line: line.backend is None and bool(line.choices),
        require=lambda line: any(_takes_all(name, kernel, line) for name, kernel in line.choices),
        message="no attention backend of {engine.name} on {accelerator.name} serves this model"
        "{asked}",
        remedy="Leave {asked_for} out: the engine then takes what the model needs.",
        allowed=_takable,
        words=lambda line: {
            "asked": f" with {_asked(line)}" if _asked(line) else "",
            "asked_for": _asked_for(line) or "the model to another accelerator, and it",
        },
        allowed_of=ASKED,
        at=ASKED,
        source="vLLM 0.32.0 platforms/cuda.py, rocm.py: get_attn_backend_cls",
        platforms=("cuda", "rocm", "xpu"),
    ),
    Rule(
        "V158",
        "The accelerator serves the kind of model",
        when=lambda line: line.platform != "cpu" and bool(unserved(line)),
        require=lambda _line: False,
        message="{accelerator.name} does not serve a model of this kind ({kind}): {why}",
        remedy="Choose another accelerator for it, or another model.",
        words=lambda line: {"why": unserved(line)},
        source="attention of the accelerator's profile, each entry with its source; vLLM 0.32.0",
    ),
    Rule(
        "V25",
        "The attention backend's switch is on",
        when=lambda line: line.kernel is not None and bool(line.kernel.env),
        require=lambda line: line.env.get(_own(line).env) == "1",
        message="{backend} needs {kernel.env}=1 in the environment",
        remedy="Leave the backend to the engine, or set the variable in engines.vllm.env of a"
        " profile that extends {accelerator.name}.",
        at=NAMED,
        source="vLLM 0.32.0 platforms/rocm.py",
        platforms=("rocm",),
    ),
    Rule(
        "V154",
        "The attention backend can do what the rest of the line asks",
        when=_counts,
        require=lambda line: not hindrances(str(line.backend), line),
        message="{backend} cannot {what}",
        remedy="Name another backend, or leave it to the engine.",
        allowed=usable,
        words=lambda line: {"what": ", nor ".join(hindrances(str(line.backend), line))},
        at=NAMED,
        source="vLLM 0.32.0 v1/attention/backend.py:299; flash_attn.py:458; flashinfer.py:541",
        platforms=CHOOSES,
    ),
    Rule(
        "V155",
        "No one backend is named where layers need two",
        when=lambda line: packed(line) and _named(line),
        require=lambda _line: False,
        message="a KV cache of {kv_dtype} keeps the first and last layers in the model's"
        " own type, and"
        " no backend serves both",
        remedy="Leave the backend to the engine, which takes one for each.",
        at=NAMED,
        source="vLLM 0.32.0 engine/arg_utils.py:2299; platforms/cuda.py:428",
        platforms=("cuda", "xpu"),
    ),
    Rule(
        "V156",
        "A model that chooses its own attention is not told which",
        require=lambda line: not passed_over(line),
        message="this model chooses its attention by itself, and passes over {backend}",
        remedy="Leave it out.",
        at=NAMED,
        severity="warning",
        source="vLLM 0.32.0 models/deepseek_v4/nvidia/model.py:1013; models/mimo_v2.py:304",
        platforms=CHOOSES,
    ),
    Rule(
        "V157",
        "DeepSeek V4 has sparse attention of its own",
        when=lambda line: line.model.traits.kind == "deepseek-v4",
        require=lambda line: line.backend not in V4_REFUSES,
        message="{backend} is for other models: DeepSeek V4 refuses it",
        remedy="Leave it out.",
        allowed=usable,
        allowed_of=NAMED,
        at=NAMED,
        source="vLLM 0.32.0 models/deepseek_v4/nvidia/model.py:1023",
        since="0.24.0",
        platforms=("cuda",),
    ),
)
