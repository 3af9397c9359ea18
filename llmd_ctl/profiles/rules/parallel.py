"""Rules of vLLM on how a model is split over devices: tensor, pipeline, data, experts, context."""

from __future__ import annotations

from llmd_ctl.profiles.rules.line import Line
from llmd_ctl.profiles.rules.rule import Rule
from llmd_ctl.profiles.rules.scheduling import number
from llmd_ctl.profiles.split import legal_tensors, tensor_objection

TENSOR = "--tensor-parallel-size"
CONTEXT = "--decode-context-parallel-size"
# What can move tokens of two micro batches at once.
TWO_BATCHES = ("deepep_low_latency", "deepep_high_throughput", "nixl_ep")
GONE = ("naive", "pplx")


def legal_tensor(line: Line) -> tuple[int, ...]:
    """Return the tensor parallelism that the model allows, up to the devices of a node."""
    return legal_tensors(line.model, int(line.accelerator.spec.devices_per_node.value or 1))


def _context(line: Line) -> int:
    return number(line, CONTEXT, 1)


def _most_context(line: Line) -> int:
    """Copies of each KV head."""
    return max(1, line.tensor // max(line.model.kv_heads, default=1))


def _external(line: Line) -> bool:
    return line.says("--data-parallel-rank") or line.on_by("--data-parallel-external-lb")


def _micro_batches(line: Line) -> bool:
    return line.on_by("--enable-dbo") or line.told("--ubatch-size") > 1


def _overlapping(line: Line) -> tuple[str, ...]:
    """The all-to-alls that micro batches overlap with; on AMD one more from 0.33.0 on."""
    more = line.platform == "rocm" and line.at_least("0.33.0")
    return (*TWO_BATCHES, "allgather_reducescatter") if more else TWO_BATCHES


RULES = (
    Rule(
        "V13",
        "Tensor parallelism divides the heads",
        when=lambda line: line.tensor > 0,
        require=lambda line: tensor_objection(line.model, line.tensor) is None,
        message="{tensor} devices cannot share the model evenly: {why}",
        words=lambda line: {"why": tensor_objection(line.model, line.tensor)},
        remedy="Take a tensor parallelism that divides them.",
        allowed=legal_tensor,
        at=(TENSOR,),
        source="vLLM 0.32.0 config/model.py:1546; models assert the same of KV heads",
        sized=True,
    ),
    Rule(
        "V26",
        "Expert parallelism is of a model with experts",
        when=lambda line: line.on_by("--enable-expert-parallel"),
        require=lambda line: bool(line.model.experts),
        message="the model has no experts to spread",
        remedy="Leave out --enable-expert-parallel.",
        at=("--enable-expert-parallel",),
        source="vLLM 0.32.0 config/model.py:1487",
        sized=True,
    ),
    Rule(
        "V27",
        "Balancing of experts comes with expert parallelism",
        when=lambda line: line.on_by("--enable-eplb"),
        require=lambda line: line.on_by("--enable-expert-parallel") and line.tensor * line.data > 1,
        message="--enable-eplb balances experts over devices, and they are not spread here",
        remedy="Add --enable-expert-parallel over several devices, or leave it out.",
        at=("--enable-eplb",),
        source="vLLM 0.32.0 config/parallel.py:565",
    ),
    Rule(
        "V28",
        "Balancing of experts runs on this kind of accelerator",
        when=lambda line: line.on_by("--enable-eplb"),
        require=lambda _line: False,
        message="experts are not balanced on {accelerator.name}",
        remedy="Leave out --enable-eplb.",
        at=("--enable-eplb",),
        source="vLLM 0.32.0 config/parallel.py:560",
        platforms=("tpu", "cpu", "hpu", "rbln", "neuron"),
    ),
    Rule(
        "V29",
        "Spare experts come with balancing",
        when=lambda line: bool(line.inside("--eplb-config", "num_redundant_experts")),
        require=lambda line: line.on_by("--enable-eplb"),
        message="num_redundant_experts is set, and experts are not balanced",
        remedy="Add --enable-eplb, or leave the number out.",
        at=("--eplb-config",),
        source="vLLM 0.32.0 config/parallel.py:582",
    ),
    Rule(
        "V10",
        "Two micro batches come with an all-to-all that can overlap",
        when=_micro_batches,
        require=lambda line: line["--all2all-backend"] in _overlapping(line),
        message="micro batches need an all-to-all that overlaps with computing",
        remedy="Leave them out, or set --all2all-backend to {which}.",
        words=lambda line: {"which": " or ".join(_overlapping(line))},
        at=("--enable-dbo", "--ubatch-size"),
        source="vLLM 0.32.0 config/vllm.py:2104; vLLM 0.33.0 config/vllm.py:2198",
        platforms=("cuda", "rocm", "xpu", "tpu", "hpu"),
    ),
    Rule(
        "V174",
        "Micro batches are made by the workers of GPUs",
        when=_micro_batches,
        require=lambda _line: False,
        message="micro batches are not made on {accelerator.name}, and nothing says so",
        remedy="Leave them out.",
        at=("--enable-dbo", "--ubatch-size"),
        severity="warning",
        source="tpu-inference 0.32.0, vllm-gaudi 0.26.0: no worker reads ubatch_size or enable_dbo",
        platforms=("tpu", "hpu"),
    ),
    Rule(
        "V12",
        "The all-to-all is one that is still there",
        when=lambda line: line["--all2all-backend"] in GONE,
        require=lambda _line: False,
        message="--all2all-backend {--all2all-backend} is gone:"
        " the engine takes allgather_reducescatter in its place",
        remedy="Say allgather_reducescatter, or leave it out.",
        at=("--all2all-backend",),
        severity="warning",
        source="vLLM 0.32.0 config/parallel.py:533",
    ),
    Rule(
        "V11",
        "An external balancer of data-parallel ranks is for models with experts",
        when=lambda line: _external(line) and line.data > 1,
        require=lambda line: bool(line.model.experts),
        message="a model without experts has no data-parallel ranks behind an external balancer",
        remedy="Run independent replicas.",
        at=("--data-parallel-rank", "--data-parallel-external-lb"),
        source="vLLM 0.32.0 engine/arg_utils.py:2415",
        since="0.32.0",
    ),
    Rule(
        "V30",
        "Context parallelism divides tensor parallelism",
        when=lambda line: number(line, "--prefill-context-parallel-size", 1) == 1,
        require=lambda line: line.tensor % max(1, _context(line)) == 0,
        message="tensor parallelism {tensor} is not divisible by"
        " context parallelism {--decode-context-parallel-size}",
        remedy="Take a divisor.",
        allowed=lambda line: [n for n in range(1, line.tensor + 1) if line.tensor % n == 0],
        at=(CONTEXT,),
        source="vLLM 0.32.0 config/parallel.py:595",
    ),
    Rule(
        "V31",
        "Context parallelism splits what devices hold copies of",
        when=lambda line: not line.is_latent,
        require=lambda line: _context(line) <= _most_context(line),
        message="each KV head lies on too few devices to split its context over"
        " {--decode-context-parallel-size}",
        remedy="Take at most tensor parallelism over KV heads.",
        allowed=lambda line: range(1, _most_context(line) + 1),
        at=(CONTEXT,),
        source="vLLM 0.32.0 config/model.py:1565",
    ),
)
