"""Rules of vLLM on models with recurrent states: where states are kept, in which type, by what."""

from __future__ import annotations

from llmd_ctl.profiles.rules.line import Line
from llmd_ctl.profiles.rules.rule import Rule
from llmd_ctl.profiles.rules.scheduling import length, number

BACKEND, ROUNDING = "--mamba-backend", "--enable-mamba-cache-stochastic-rounding"
BACKENDS = ("TRITON", "FLASHINFER", "CPU")
REPLAY, REPLAYED = "--use-replayssm", 16


def cached(line: Line) -> bool:
    """Whether states are kept for prefixes."""
    return line["--enable-prefix-caching"] is not False


def backend(line: Line) -> str:
    """Return what computes states: what is said, else triton."""
    return str(line[BACKEND] or "triton").upper()


RULES = (
    Rule(
        "V64",
        "An algorithm for states is chosen of FlashInfer's",
        when=lambda line: line["--mamba-ssu-algorithm"] not in (None, "None"),
        require=lambda line: backend(line) == "FLASHINFER",
        message="--mamba-ssu-algorithm is a choice of FlashInfer, and {backend} computes states",
        remedy="Add --mamba-backend flashinfer, or leave it out.",
        words=lambda line: {"backend": backend(line).lower()},
        at=("--mamba-ssu-algorithm",),
        source="vLLM 0.32.0 config/mamba.py:76",
    ),
    Rule(
        "V65",
        "States are rounded by chance only where the hardware does",
        when=lambda line: line.on_by(ROUNDING),
        require=lambda line: (
            line.platform == "cuda"
            and (backend(line) != "TRITON" or line.architecture.startswith("sm10"))
        ),
        message="stochastic rounding of states needs NVIDIA, and with triton a B200 or newer",
        remedy="Add --mamba-backend flashinfer, or leave it out.",
        at=(ROUNDING,),
        source="vLLM 0.32.0 config/mamba.py:85",
    ),
    Rule(
        "V66",
        "States that are rounded by chance are float16",
        when=lambda line: line.on_by(ROUNDING),
        require=lambda line: line["--mamba-ssm-cache-dtype"] == "float16",
        message="stochastic rounding is for states in float16",
        remedy="Add --mamba-ssm-cache-dtype float16.",
        at=("--mamba-ssm-cache-dtype", ROUNDING),
        source="vLLM 0.32.0 config/vllm.py:1495",
    ),
    Rule(
        "V67",
        "States are cut into blocks only where they are kept",
        when=lambda line: line["--mamba-block-size"] not in (None, length(line)),
        require=cached,
        message="--mamba-block-size needs prefix caching, which is off",
        remedy="Leave it out, or --no-enable-prefix-caching.",
        at=("--mamba-block-size",),
        source="vLLM 0.32.0 config/vllm.py:3312",
    ),
    Rule(
        "V68",
        "Images are cut where states are kept",
        when=lambda line: (
            line.model.traits.kind == "hybrid" and cached(line) and line.model.traits.multimodal
        ),
        require=lambda line: not line.on_by("--disable-chunked-mm-input"),
        message="states are kept at the ends of blocks, which may lie inside an image",
        remedy="Leave --disable-chunked-mm-input out, or add --no-enable-prefix-caching.",
        at=("--disable-chunked-mm-input",),
        source="vLLM 0.32.0 config/vllm.py:3278",
        platforms=("cuda", "rocm", "xpu", "cpu"),
    ),
    Rule(
        "V69",
        "Replayed states stay in the engine",
        when=lambda line: line.on_by(REPLAY),
        require=lambda line: not line.connectors and line.model.traits.kind == "hybrid",
        message="--use-replayssm is for models with recurrent states, and without a KV connector",
        remedy="Leave it out.",
        at=(REPLAY,),
        source="vLLM 0.32.0 config/vllm.py:3319: validate_mamba_cached_kernel",
    ),
    Rule(
        "V70",
        "FlashInfer replays few states",
        when=lambda line: line.on_by(REPLAY) and backend(line) == "FLASHINFER",
        require=lambda line: number(line, "--replayssm-buffer-len", REPLAYED) <= REPLAYED,
        message="FlashInfer replays at most 16 tokens, not {--replayssm-buffer-len}",
        remedy="Lower --replayssm-buffer-len to 16 or fewer.",
        allowed=lambda _line: ("1 to 16",),
        at=("--replayssm-buffer-len", REPLAY),
        source="vLLM 0.32.0 config/vllm.py:3345",
    ),
    Rule(
        "V71",
        "What computes states is known",
        require=lambda line: backend(line) in BACKENDS,
        message="no states are computed by --mamba-backend {--mamba-backend}",
        remedy="Leave it out, or name one that the engine has.",
        allowed=lambda _line: [name.lower() for name in BACKENDS],
        at=(BACKEND,),
        source="vLLM 0.32.0 config/mamba.py:15",
    ),
)
