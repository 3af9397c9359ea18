"""What SGLang makes of a line before it checks it, and the two kinds of rules it has most of.

Used by the tables of SGLang. SGLang rewrites some words first (NEXTN is EAGLE, --dp-size
under --enable-dp-attention is --attn-dp-size), and its checks ask for what came of that. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from llmd_ctl.errors import Severity
from llmd_ctl.profiles.rules.line import LATENT, Line
from llmd_ctl.profiles.rules.rule import Rule, Test
from llmd_ctl.profiles.rules.scheduling import number

ENGINE = "sglang"
BACKEND, PREFILL, DECODE = (
    "--attention-backend", "--prefill-attention-backend", "--decode-attention-backend",
)  # fmt: skip
BACKENDS = (BACKEND, PREFILL, DECODE)
ALIASES = {"tokenspeed_mla": "cutedsl_mla", "compressed": "dsv4", "nsa": "dsa"}
MODE, CHUNK, PAGE = "--disaggregation-mode", "--chunked-prefill-size", "--page-size"
ALGORITHM, RUNNER, A2A = "--speculative-algorithm", "--moe-runner-backend", "--moe-a2a-backend"
RADIX_OFF, EP = "--disable-radix-cache", "--ep-size"
# Pages that a backend takes; another size becomes 64.
PAGES: Mapping[str, tuple[int, ...]] = {
    "flashmla": (64,), "hpc_ops": (64,), "trtllm_mla": (32, 64), "cutedsl_mla": (32, 64),
    "trtllm_mha": (16, 32, 64, 128),
}  # fmt: skip
Pairs = Sequence[tuple[str, Test]]


def text(line: Line, flag: str, default: str = "") -> str:
    """Return a flag's word; where nobody says one, the default."""
    value = line[flag]
    return default if value is None else str(value)


def fraction(line: Line, flag: str, default: float) -> float:
    """Return a flag's number; where nobody says one, the default."""
    value = line[flag]
    return float(value) if type(value) in (int, float) else default


def words(line: Line, flag: str) -> list[str]:
    """Return the values of a flag that takes several."""
    value = line.given.get(flag)
    return [] if value is None else str(value).split()


def algorithm(line: Line) -> str | None:
    """Return how tokens are drafted; None: they are not."""
    said = line.given.get(ALGORITHM)
    name = None if said is None else str(said).upper()
    return "EAGLE" if name == "NEXTN" else name


def mode(line: Line) -> str:
    """Return which part of a request is done: null is all of it."""
    return text(line, MODE, "null")


def apart(line: Line) -> bool:
    """Whether prefill and decode are apart."""
    return mode(line) != "null"


def named(line: Line) -> tuple[str, ...]:
    """Return the attention backends that the line names."""
    said = [str(line.given[flag]) for flag in BACKENDS if line.given.get(flag) is not None]
    return tuple(dict.fromkeys(ALIASES.get(each, each) for each in said))


def both(line: Line) -> tuple[str | None, str | None]:
    """Return the backends of prefill and decode, where they are named."""
    common = line.given.get(BACKEND)
    pair = (line.given.get(PREFILL, common), line.given.get(DECODE, common))
    one, other = (None if each is None else ALIASES.get(str(each), str(each)) for each in pair)
    return one, other


def names(*backends: str) -> Test:
    """Whether a line names one of these attention backends."""
    return lambda line: not set(backends).isdisjoint(named(line))


def on(flag: str) -> Test:
    """Whether a switch is on."""
    return lambda line: line.on_by(flag)


def said(flag: str, *values: Any) -> Test:
    """Whether a flag has one of these values; without values, whether it is on or set."""
    if values:
        return lambda line: line[flag] in values
    return lambda line: not (line.given.get(flag) is None or line.given[flag] is False)


def above(flag: str, most: int, default: int = 1) -> Test:
    """Whether a number is larger."""
    return lambda line: number(line, flag, default) > most


def latent(line: Line) -> bool:
    """Whether attention is over one latent for all heads."""
    return line.kind in LATENT - {"deepseek-v4"} or line.latent


def major(line: Line) -> int:
    """Return the first part of an NVIDIA GPU's capability: 10 of sm100; 0 elsewhere."""
    digits = line.architecture.removeprefix("sm")
    return int(digits) // 10 if line.platform == "cuda" and digits.isdigit() else 0


def attention_copies(line: Line) -> int:
    """Return in how many groups attention is done, each with requests of its own."""
    own = number(line, "--attn-dp-size", 1)
    if own == 1 and line.on_by("--enable-dp-attention"):
        return line.told("--dp-size")
    return own


def split_attention(line: Line) -> bool:
    """Whether attention is done in groups."""
    return attention_copies(line) > 1


def page(line: Line) -> int:
    """Return tokens of a page, as backends have set it."""
    size = line.told(PAGE)
    for backend in named(line):
        if backend in PAGES and size not in PAGES[backend]:
            size = 64
    return size


def experts_over(line: Line) -> int:
    """Return over how many devices experts are dealt out."""
    spanning = text(line, A2A, "none") not in ("none", "ascend_tp")
    return line.tensor if spanning else line.told(EP)


def cited(where: str) -> str:
    """Return a source in SGLang's own folder of what reads flags."""
    return f"SGLang 0.5.23 srt/{where}"


def _met(pairs: Pairs, line: Line) -> list[str]:
    return [name for name, test in pairs if test(line)]


def _missing(pairs: Pairs, line: Line) -> list[str]:
    return [name for name, test in pairs if not test(line)]


def clash(
    id: str, flag: str, title: str, pairs: Pairs, where: str,
    *, when: Test | None = None, severity: Severity = "error", so: str = "cannot be with",
) -> Rule:  # fmt: skip
    """Return the rule that something cannot be with any of these."""
    return Rule(
        id,
        title,
        engine=ENGINE,
        when=when or said(flag),
        require=lambda line: not _met(pairs, line),
        message=f"{flag} {so} {{names}}",
        words=lambda line: {"names": ", ".join(_met(pairs, line))},
        remedy="Leave one of them out.",
        at=(flag,),
        severity=severity,
        source=cited(where),
    )


def needs(
    id: str, flag: str, title: str, pairs: Pairs, where: str, *, when: Test | None = None
) -> Rule:
    """Return the rule that something needs all of these."""
    return Rule(
        id,
        title,
        engine=ENGINE,
        when=when or said(flag),
        require=lambda line: not _missing(pairs, line),
        message=f"{flag} needs {{names}}",
        words=lambda line: {"names": ", ".join(_missing(pairs, line))},
        remedy=f"Say what is missing, or leave {flag} out.",
        at=(flag,),
        source=cited(where),
    )


def rule(
    id: str, title: str, flag: str, require: Test, message: str, remedy: str, where: str,
    **more: Any,
) -> Rule:  # fmt: skip
    """Return a rule of SGLang's that is neither."""
    return Rule(
        id,
        title,
        engine=ENGINE,
        require=require,
        message=message,
        remedy=remedy,
        source=cited(where),
        **{"at": (flag,), **more},
    )
