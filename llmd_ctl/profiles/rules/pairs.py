"""Rules of two sides: what prefill and decode replicas of one model must have alike.

What one side alone may say stands in `transfer` and `nixl`, what NIXL compares when two sides meet
in `handshake`. `check_pair` asks all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

from llmd_ctl.profiles.rules import handshake
from llmd_ctl.profiles.rules.handshake import by_nixl
from llmd_ctl.profiles.rules.line import Line
from llmd_ctl.profiles.rules.nixl import BUFFERS
from llmd_ctl.profiles.rules.pair import Pair, PairFinding, PairRule
from llmd_ctl.profiles.rules.scheduling import number
from llmd_ctl.profiles.rules.transfer import FLAG, NIXL

NIXL_SOURCE = "vLLM 0.32.0 kv_connector/v1/nixl"
DCP, TENSOR, BLOCK, KV = (
    "--decode-context-parallel-size", "--tensor-parallel-size", "--block-size", "--kv-cache-dtype",
)  # fmt: skip
KEEP_ALIVE, ENOUGH_SECONDS = "VLLM_HTTP_TIMEOUT_KEEP_ALIVE", 120
# Bytes of a quantised cache mean another number there; elsewhere fp8 is e4m3fn.
FP8_FORMS: Mapping[str, str] = {"gfx94?": "e4m3fnuz", "v6e": "e5m2"}


def _named(pair: Pair) -> bool:
    return all(line.connectors for line in pair.lines)


def _form(line: Line) -> str:
    """How a quantised cache writes its numbers."""
    if line.kv_dtype.endswith("e5m2"):
        return "e5m2"
    forms = (form for on, form in FP8_FORMS.items() if fnmatchcase(line.architecture, on))
    return next(forms, "e4m3fn")


def _quantised(pair: Pair) -> bool:
    return all(line.kv_dtype.startswith("fp8") for line in pair.lines)


def _makers(line: Line) -> tuple[str, ...]:
    """The connectors that talk to each other, under one name."""
    names = sorted({"nixl" if name in NIXL else name for name in line.connectors})
    return tuple(name for name in names if name != "MultiConnector")


def _tensors(pair: Pair) -> tuple[int, int]:
    prefill, decode = pair.lines
    return prefill.tensor, decode.tensor


def _blocks(pair: Pair) -> list[int]:
    """The block sizes, where both sides say theirs."""
    sizes = [line.block_size for line in pair.lines if line.block_size is not None]
    return sizes if len(sizes) == len(pair.lines) else []


def _divide(first: int, second: int) -> bool:
    least, most = sorted((first, second))
    return least > 0 and most % least == 0


def _dcp(line: Line) -> int:
    return number(line, DCP, 1)


def _kv_heads(line: Line) -> int:
    return max(line.model.kv_heads, default=1)


def _splits(pair: Pair) -> bool:
    """Whether KV has heads that devices share: no latent, and no recurrent states."""
    line = pair.decode.line
    return by_nixl(pair) and not line.is_latent and line.model.traits.kind != "hybrid"


def _through_memory(line: Line) -> bool:
    """Whether KV goes by main memory: as said, or because nothing else is possible there."""
    said = line.transfer.get("kv_buffer_device")
    return said == "cpu" or (said is None and BUFFERS.get(line.platform) == ("cpu",))


def _seconds(line: Line) -> int:
    text = line.env.get(KEEP_ALIVE, "5").strip()
    return int(text[:9]) if text.isdecimal() else 0


OWN = (
    PairRule(
        "K45",
        "Both sides name connectors that talk to each other",
        when=_named,
        require=lambda pair: not pair.differ(_makers),
        message="prefill hands KV over by {prefill}, decode takes it by {decode}",
        remedy="Name one connector on both sides.",
        words=lambda pair: pair.words(lambda line: ", ".join(_makers(line))),
        at=(FLAG,),
        source="vLLM 0.32.0 kv_connector/factory.py: each connector has a protocol of its own",
    ),
    PairRule(
        "K44",
        "The side that reads prompts produces KV, the other consumes it",
        when=_named,
        require=lambda pair: (
            pair.prefill.line.transfer.get("kv_role") != "kv_consumer"
            and pair.decode.line.transfer.get("kv_role") != "kv_producer"
        ),
        message="the sides are mixed up: prefill is {prefill}, decode is {decode}",
        remedy="Say kv_producer for prefill and kv_consumer for decode.",
        words=lambda pair: pair.words(lambda line: line.transfer.get("kv_role")),
        at=(FLAG,),
        source="vLLM 0.32.0 config/kv_transfer.py:120",
    ),
    PairRule(
        "K02",
        "Recurrent models keep prefixes with the same pages on both sides",
        when=lambda pair: (
            by_nixl(pair)
            and pair.decode.line.model.traits.kind == "hybrid"
            and pair.decode.line["--enable-prefix-caching"] is not False
        ),
        require=lambda pair: not pair.differ(lambda line: (line.tensor, line.block_size)),
        message="a recurrent model's pages follow tensor parallelism and block size, and prefill"
        " has {prefill}, decode {decode}: with prefix caching the first transfer is refused",
        remedy="Split both sides alike, or turn prefix caching off on decode.",
        words=lambda pair: pair.words(
            lambda line: f"{line.tensor} devices and blocks of {line.block_size or 'any size'}"
        ),
        at=(TENSOR, BLOCK),
        severity="warning",
        source=f"{NIXL_SOURCE}/base_worker.py:2462",
    ),
    PairRule(
        "K05",
        "More devices read prompts than write answers only while each holds KV heads of its own",
        when=lambda pair: _splits(pair) and _tensors(pair)[0] > _tensors(pair)[1],
        require=lambda pair: (
            _tensors(pair)[0] <= _kv_heads(pair.prefill.line) and len(set(_blocks(pair))) < 2
        ),
        message="prefill on {prefill} devices and decode on {decode}: {heads} KV heads are copied,"
        " or blocks differ, and decode cannot put them together",
        remedy="Give prefill no more devices than decode, or than there are KV heads, and both"
        " sides one block size.",
        words=lambda pair: {
            **pair.words(lambda line: line.tensor),
            "heads": _kv_heads(pair.prefill.line),
        },
        on="prefill",
        at=(TENSOR,),
        source=f"{NIXL_SOURCE}/base_worker.py:2448",
    ),
    PairRule(
        "K51",
        "The devices of one side divide those of the other",
        when=by_nixl,
        require=lambda pair: _divide(*_tensors(pair)),
        message="{prefill} devices of prefill and {decode} of decode do not divide each other",
        remedy="Take numbers of devices of which one divides the other.",
        words=lambda pair: pair.words(lambda line: line.tensor),
        at=(TENSOR,),
        source="vLLM 0.32.0 distributed/kv_transfer/kv_connector/utils.py:503",
    ),
    PairRule(
        "K41",
        "Split contexts of one side divide those of the other",
        when=by_nixl,
        require=lambda pair: (
            _divide(*(_dcp(line) for line in pair.lines))
            and (pair.decode.line.model.traits.kind != "hybrid" or not pair.differ(_dcp))
        ),
        message="a context split {prefill} ways does not go over to one split {decode} ways",
        remedy="Set --decode-context-parallel-size alike on both sides.",
        words=lambda pair: pair.words(_dcp),
        at=(DCP,),
        source=f"{NIXL_SOURCE}/base_worker.py:2428",
    ),
    PairRule(
        "K42",
        "A block of decode is made of whole blocks of prefill",
        when=lambda pair: by_nixl(pair) and bool(_blocks(pair)),
        require=lambda pair: (
            not pair.differ(lambda line: line.block_size)
            or (_blocks(pair)[1] % _blocks(pair)[0] == 0 and not _through_memory(pair.decode.line))
        ),
        message="blocks of {prefill} tokens do not go over into blocks of {decode}",
        remedy="Set --block-size alike on both sides.",
        words=lambda pair: pair.words(lambda line: line.block_size),
        allowed=lambda pair: (pair.prefill.line.block_size,),
        at=(BLOCK,),
        source=f"{NIXL_SOURCE}/base_worker.py:2482",
    ),
    PairRule(
        "A03",
        "A quantised cache means the same on both sides",
        when=lambda pair: _quantised(pair) and any(line.platform != "tpu" for line in pair.lines),
        require=lambda pair: not pair.differ(_form),
        message="fp8 is {prefill} on {first} and {decode} on {second}: answers would be wrong",
        remedy="Leave --kv-cache-dtype out on both sides, or keep them on one generation.",
        words=lambda pair: {
            **pair.words(_form),
            "first": pair.prefill.line.accelerator.name,
            "second": pair.decode.line.accelerator.name,
        },
        at=(KV,),
        source="vLLM 0.32.0 platforms/rocm.py:1188: e4m3fnuz on gfx94x alone",
    ),
    PairRule(
        "T07",
        "A quantised cache means the same on both TPUs",
        when=lambda pair: _quantised(pair) and all(line.platform == "tpu" for line in pair.lines),
        require=lambda pair: not pair.differ(_form),
        message="fp8 is {prefill} on one side and {decode} on the other: answers would be wrong",
        remedy="Leave --kv-cache-dtype out on both sides, or keep them on one generation.",
        words=lambda pair: pair.words(_form),
        at=(KV,),
        source="tpu-inference 0.32.0 platforms/tpu_platform.py: e5m2 on v6e alone",
    ),
    PairRule(
        "K14",
        "A TPU hands KV over to TPUs alone",
        when=lambda pair: any(line.platform == "tpu" for line in pair.lines),
        require=lambda pair: all(line.platform == "tpu" for line in pair.lines),
        message="KV of {prefill} does not go over to {decode}: a TPU's connector has TPUs as peers",
        remedy="Keep prefill and decode both on TPUs, or both elsewhere.",
        words=lambda pair: pair.words(lambda line: line.accelerator.name),
        at=(FLAG,),
        source="tpu-inference 0.32.0 distributed/tpu_connector.py",
    ),
    PairRule(
        "K10",
        "Prefill keeps the connections of the sidecar open",
        when=by_nixl,
        require=lambda pair: _seconds(pair.prefill.line) >= ENOUGH_SECONDS,
        message="prefill closes idle connections after {seconds} s, while decode's sidecar still"
        " uses them",
        remedy="Set VLLM_HTTP_TIMEOUT_KEEP_ALIVE=120 in the environment of prefill.",
        words=lambda pair: {"seconds": _seconds(pair.prefill.line)},
        on="prefill",
        at=(KEEP_ALIVE,),
        severity="warning",
        source="vLLM 0.32.0 envs.py: 5 s; llm-d v0.8 guides/pd-disaggregation",
    ),
    PairRule(
        "K18",
        "Both sides run one build of the engine",
        when=lambda pair: (
            by_nixl(pair)
            and not pair.differ(lambda line: line.platform)
            and None not in (pair.prefill.image, pair.decode.image)
        ),
        require=lambda pair: pair.prefill.image == pair.decode.image,
        message="prefill runs {prefill} and decode {decode}: builds that differ in NIXL or in the"
        " engine refuse each other",
        remedy="Take one image for both sides.",
        words=lambda pair: {"prefill": pair.prefill.image, "decode": pair.decode.image},
        source=f"{NIXL_SOURCE}/metadata.py:187; llm-d v0.8 guides/wide-ep-lws mixes two",
    ),
)
RULES: tuple[PairRule, ...] = (*handshake.RULES, *OWN)


def check_pair(pair: Pair) -> list[PairFinding]:
    """Return what is wrong with two sides, rule by rule."""
    findings = (rule.judge(pair) for rule in RULES)
    return [finding for finding in findings if finding is not None]
