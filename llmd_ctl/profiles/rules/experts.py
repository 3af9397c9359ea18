"""Rules of vLLM on experts and contexts over devices: balancing, all-to-all, batches, cores."""

from __future__ import annotations

import re

from llmd_ctl.profiles.rules.line import Line
from llmd_ctl.profiles.rules.rule import Rule
from llmd_ctl.profiles.rules.scheduling import number

EPLB, ELASTIC, ALL2ALL = "--enable-eplb", "--enable-elastic-ep", "--all2all-backend"
DECODE, PREFILL = "--decode-context-parallel-size", "--prefill-context-parallel-size"
NUMA, CPUS, NODES = "--numa-bind", "--numa-bind-cpus", "--numa-bind-nodes"
CPUSET = re.compile(r"[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*")
SELF_CONTAINED = ("flashinfer_moe_ep_cutedsl", "flashinfer_moe_ep_mega_deep_gemm")


def _moves_beside(line: Line) -> bool:
    return line.inside("--eplb-config", "use_async") is not False


def _batches(line: Line) -> int:
    return 2 if line.on_by("--enable-dbo") else line.told("--ubatch-size")


def _legal_decode(line: Line) -> list[int]:
    prefill = line.told(PREFILL)
    return sorted({1, prefill, line.tensor * prefill})


def _queries_each(line: Line) -> int:
    return line.model.traits.queries[0] // line.model.kv_heads[0]


def _moonep_cannot(line: Line) -> list[str]:
    pairs = (
        ("quantised weights", bool(line["--quantization"] or line.model.traits.quantization)),
        (f"{line.dtype}", line.dtype != "bf16"),
        (EPLB, line.on_by(EPLB)),
        ("other placements", line["--expert-placement-strategy"] not in (None, "linear")),
    )
    return [what for what, amiss in pairs if amiss]


def _ids(line: Line) -> list[str]:
    return [word.strip() for word in str(line["--device-ids"]).split(",")]


def _cpus(line: Line) -> list[str]:
    return str(line.given.get(CPUS, "")).split()


def _ascending(part: str) -> bool:
    first, dash, last = part.partition("-")
    return not dash or int(first) <= int(last)


RULES = (
    Rule(
        "V140",
        "Context parallelism of decoding follows that of prompts",
        when=lambda line: number(line, PREFILL, 1) > 1,
        require=lambda line: number(line, DECODE, 1) in _legal_decode(line),
        message="beside prefill context parallelism {--prefill-context-parallel-size} decoding is"
        " split over none, over as many, or over all devices",
        remedy="Take one of them.",
        allowed=_legal_decode,
        at=(DECODE, PREFILL),
        source="vLLM 0.32.0 config/parallel.py:597",
        since="0.24.0",
    ),
    Rule(
        "V141",
        "Context parallelism divides the queries of a KV head",
        when=lambda line: line.model.traits.kind in ("dense", "sinks"),
        require=lambda line: _queries_each(line) % max(1, line.told(DECODE)) == 0,
        message="the {queries} queries of each KV head cannot be split over"
        " {--decode-context-parallel-size}",
        remedy="Take a divisor.",
        words=lambda line: {"queries": _queries_each(line)},
        at=(DECODE,),
        source="vLLM 0.32.0 config/model.py:1587",
    ),
    Rule(
        "V142",
        "Experts that come and go are balanced, in one stage",
        when=lambda line: line.on_by(ELASTIC),
        require=lambda line: (
            line.on_by(EPLB)
            and line.pipeline == 1
            and not (line.on_by("--data-parallel-external-lb") and not line.at_least("0.33.0"))
            and not line.on_by("--data-parallel-hybrid-lb")
        ),
        message="--enable-elastic-ep needs --enable-eplb, no pipeline, and the engine's own"
        " balancer",
        remedy="Add --enable-eplb, or leave it out.",
        at=(ELASTIC,),
        source="vLLM 0.32.0 config/parallel.py:955; vLLM 0.33.0 config/parallel.py:983",
    ),
    Rule(
        "V143",
        "Experts that come have room",
        when=lambda line: line.on_by(ELASTIC) and line.says("--elastic-ep-max-dp-size"),
        require=lambda line: line.told("--elastic-ep-max-dp-size") >= line.data,
        message="--elastic-ep-max-dp-size {--elastic-ep-max-dp-size} is less than the {data} at"
        " first",
        remedy="Raise it to at least --data-parallel-size.",
        at=("--elastic-ep-max-dp-size",),
        source="vLLM 0.32.0 config/parallel.py:1023",
    ),
    Rule(
        "V144",
        "Experts are moved beside computing by a communicator that can",
        when=lambda line: _moves_beside(line),
        require=lambda line: (
            line.inside("--eplb-config", "communicator") not in ("torch_nccl", "pynccl")
        ),
        message="experts cannot be moved beside computing by this communicator",
        remedy='Take another, or set "use_async": false.',
        allowed=lambda _line: ("torch_gloo", "nixl"),
        at=("--eplb-config",),
        source="vLLM 0.32.0 config/parallel.py:123",
    ),
    Rule(
        "V145",
        "Moonep moves plain experts in bfloat16",
        when=lambda line: line[ALL2ALL] == "moonep",
        require=lambda line: not _moonep_cannot(line),
        message="--all2all-backend moonep does not go with {what}",
        remedy="Take another --all2all-backend.",
        words=lambda line: {"what": ", ".join(_moonep_cannot(line))},
        at=(ALL2ALL,),
        source="vLLM 0.32.0 config/vllm.py:2030",
    ),
    Rule(
        "V146",
        "Experts that move tokens themselves have no all-to-all",
        when=lambda line: line["--moe-backend"] in SELF_CONTAINED,
        require=lambda line: line[ALL2ALL] in (None, "allgather_reducescatter"),
        message="--moe-backend {--moe-backend} moves tokens itself",
        remedy="Leave --all2all-backend out.",
        at=(ALL2ALL, "--moe-backend"),
        source="vLLM 0.32.0 config/kernel.py:206",
        since="0.24.0",
    ),
    Rule(
        "V177",
        "Experts in one kernel of DeepGEMM are those of DeepSeek V4",
        when=lambda line: line["--moe-backend"] == SELF_CONTAINED[1],
        require=lambda line: line.model.traits.kind == "deepseek-v4",
        message="--moe-backend {--moe-backend} serves DeepSeek V4 alone",
        remedy="Take another --moe-backend, or leave it to the engine.",
        at=("--moe-backend",),
        source="vLLM 0.32.0 config/kernel.py:230",
    ),
    Rule(
        "V147",
        "A batch that is cut holds a token for each part",
        require=lambda line: (
            min(
                number(line, "--dbo-decode-token-threshold", 32),
                number(line, "--dbo-prefill-token-threshold", 512),
            )
            >= _batches(line)
        ),
        message="batches of fewer tokens than {parts} would be cut into {parts}",
        remedy="Raise --dbo-decode-token-threshold and --dbo-prefill-token-threshold to that.",
        words=lambda line: {"parts": _batches(line)},
        at=("--dbo-decode-token-threshold", "--dbo-prefill-token-threshold"),
        source="vLLM 0.32.0 config/parallel.py:1161",
        since="0.24.0",
    ),
    Rule(
        "V148",
        "Steps that overlap on AMD are not prepared ahead",
        when=lambda line: (
            line.on_by("--enable-dbo")
            and line[ALL2ALL] == "deepep_high_throughput"
            and line.given.get("--async-scheduling") is True
        ),
        require=lambda _line: False,
        message="--async-scheduling gives wrong answers beside --enable-dbo with"
        " deepep_high_throughput on AMD",
        remedy="Leave --async-scheduling out, or take deepep_low_latency.",
        at=("--async-scheduling",),
        source="vLLM 0.32.0 config/vllm.py:1557",
        platforms=("rocm",),
    ),
    Rule(
        "V149",
        "Workers are profiled by nsight under Ray",
        when=lambda line: line.on_by("--ray-workers-use-nsight"),
        require=lambda line: (
            line["--distributed-executor-backend"] == "ray"
            or line["--data-parallel-backend"] == "ray"
        ),
        message="--ray-workers-use-nsight needs workers that Ray starts",
        remedy="Leave it out, or add --distributed-executor-backend ray.",
        at=("--ray-workers-use-nsight",),
        source="vLLM 0.32.0 config/parallel.py:1154",
    ),
    Rule(
        "V150",
        "Devices are named once, all by number or all by name",
        require=lambda line: (
            len(set(_ids(line))) == len(_ids(line))
            and len({word.isdigit() for word in _ids(line)}) == 1
        ),
        message="--device-ids names a device twice, or mixes numbers and names",
        remedy="Write numbers alone, each once.",
        at=("--device-ids",),
        source="vLLM 0.32.0 engine/arg_utils.py:2110",
    ),
    Rule(
        "V151",
        "Cores are named where workers are bound to them",
        when=lambda line: line.says(CPUS, NODES),
        require=lambda line: line.on_by(NUMA),
        message="--numa-bind-cpus and --numa-bind-nodes need --numa-bind",
        remedy="Add it, or leave them out.",
        at=(CPUS, NODES),
        source="vLLM 0.32.0 config/parallel.py:552",
    ),
    Rule(
        "V152",
        "Cores are written as numactl reads them",
        require=lambda line: all(
            CPUSET.fullmatch(word) and all(map(_ascending, word.split(","))) for word in _cpus(line)
        ),
        message="{--numa-bind-cpus} are no cores: 0-3 are, or 0,2,4-7",
        remedy="Write ranges that rise.",
        at=(CPUS,),
        source="vLLM 0.32.0 config/parallel.py:499",
    ),
    Rule(
        "V153",
        "Stages are run by what can",
        when=lambda line: line.pipeline > 1,
        require=lambda line: line["--distributed-executor-backend"] != "uni",
        message="--distributed-executor-backend uni has no pipeline",
        remedy="Leave it out, or take mp.",
        allowed=lambda _line: ("mp", "ray", "external_launcher"),
        at=("--distributed-executor-backend", "--pipeline-parallel-size"),
        source="vLLM 0.32.0 engine/arg_utils.py:2880: _check_feature_supported",
    ),
)
