"""Rules of vLLM on its server and what it tells: tools, metrics, traces; graphs, offloading."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from llmd_ctl.profiles.rules.environment import numbered_on
from llmd_ctl.profiles.rules.line import Line
from llmd_ctl.profiles.rules.rule import Rule
from llmd_ctl.profiles.rules.scheduling import number
from llmd_ctl.profiles.rules.transfer import NIXL

GRPC, TRACES, BUCKETS = "--grpc-port", "--collect-detailed-traces", "--custom-histogram-buckets"
SIZES, LARGEST = "--cudagraph-capture-sizes", "--max-cudagraph-capture-size"
PROFILER, COMPILATION, KERNEL = "--profiler-config", "--compilation-config", "--kernel-config"
AUTOTUNE = "--enable-flashinfer-autotune"
GROUP, OF_GROUP = "--offload-group-size", "--offload-num-in-group"
ROUTED, MASK = "--enable-return-routed-experts", "--return-sampling-mask"
ONE_SIDED = (*NIXL, "MoRIIOConnector", "MooncakeConnector")


def _sizes(line: Line) -> list[int]:
    """The sizes of graphs, where all are whole numbers: the engine reads "4" as one, too."""
    said = line.given.get(SIZES)
    if isinstance(said, str):
        return [int(word) for word in said.split()]
    value = said if said is not None else line.inside(COMPILATION, "cudagraph_capture_sizes")
    listed = value if isinstance(value, list) else [value]
    return listed if all(type(each) is int for each in listed) else []


def _largest(line: Line) -> int | None:
    value = line[LARGEST] or line.inside(COMPILATION, "max_cudagraph_capture_size")
    return value if type(value) is int else None


def _profile(line: Line, key: str) -> Any:
    return line.inside(PROFILER, key)


def _ops(line: Line) -> Sequence[Any]:
    value = line.inside(COMPILATION, "custom_ops")
    return value if isinstance(value, list) else ()


def _ops_fit(line: Line) -> bool:
    ops = [str(each) for each in _ops(line)]
    base = [each for each in ops if each in ("all", "none")]
    named = [each for each in ops if each not in ("all", "none")]
    on = {each[1:] for each in named if each.startswith("+")}
    off = {each[1:] for each in named if each.startswith("-")}
    spelt = all(len(each) > 1 and each[0] in "+-" for each in named)
    return spelt and len(base) <= 1 and not on & off


def _rising(line: Line) -> bool:
    said = line.given.get(BUCKETS)
    lists = list(said.values()) if isinstance(said, dict) else []
    return all(
        isinstance(bounds, list)
        and bool(bounds)
        and all(type(each) in (int, float) and each > 0 for each in bounds)
        and all(one < other for one, other in pairwise(bounds))
        for bounds in lists
    )


def _experts_cannot(line: Line) -> list[str]:
    pairs = (
        ("a model without experts", line.model.experts == 0),
        ("--no-enable-prefix-caching", line["--enable-prefix-caching"] is False),
        ("pipelines", line.pipeline > 1),
        ("decode context parallelism", number(line, "--decode-context-parallel-size", 1) > 1),
        ("adaptive verification", line.draft.get("enable_adaptive_verification") is True),
        ("KV that is handed over", any(name in ONE_SIDED for name in line.connectors)),
    )
    return [what for what, asked in pairs if asked]


RULES = (
    Rule(
        "V119",
        "Tools are chosen where their calls can be read",
        when=lambda line: line.on_by("--enable-auto-tool-choice"),
        require=lambda line: bool(line["--tool-call-parser"]),
        message="--enable-auto-tool-choice needs to know how the model writes a call",
        remedy="Add --tool-call-parser with the model's own.",
        at=("--enable-auto-tool-choice",),
        source="vLLM 0.32.0 entrypoints/launchers/cli_args.py:523",
    ),
    Rule(
        "V120",
        "Numbers of each request come of statistics",
        when=lambda line: line.on_by("--enable-per-request-metrics"),
        require=lambda line: not line.on_by("--disable-log-stats"),
        message="--enable-per-request-metrics counts what --disable-log-stats turns off",
        remedy="Leave --disable-log-stats out.",
        at=("--enable-per-request-metrics", "--disable-log-stats"),
        source="vLLM 0.32.0 entrypoints/launchers/cli_args.py:534",
    ),
    Rule(
        "V121",
        "Streams are kept alive after some seconds, or not",
        require=lambda line: line.told("--sse-keep-alive-interval") >= 0,
        message="--sse-keep-alive-interval {--sse-keep-alive-interval} is less than nothing",
        remedy="Write seconds, or 0 to send nothing.",
        at=("--sse-keep-alive-interval",),
        source="vLLM 0.32.0 entrypoints/launchers/cli_args.py:529",
    ),
    Rule(
        "V122",
        "A port for gRPC is the Rust server's",
        when=lambda line: line.says(GRPC),
        require=lambda line: (
            numbered_on(line, "VLLM_USE_RUST_FRONTEND")
            and not line.on_by("--grpc")
            and not line.on_by("--headless")
            and not line.on_by("--data-parallel-multi-port-external-lb")
            and line[GRPC] != number(line, "--port", 8000)
        ),
        message="--grpc-port is a second port of the Rust server (VLLM_USE_RUST_FRONTEND=1), beside"
        " --port and without --grpc",
        remedy="Leave it out, or set the variable.",
        at=(GRPC,),
        source="vLLM 0.32.0 entrypoints/launchers/cli_args.py:471: validate_grpc_port_arg",
    ),
    Rule(
        "V123",
        "Traces in detail go somewhere",
        when=lambda line: line[TRACES] not in (None, "None"),
        require=lambda line: bool(line["--otlp-traces-endpoint"]),
        message="--collect-detailed-traces has nowhere to send traces to",
        remedy="Add --otlp-traces-endpoint.",
        at=(TRACES,),
        source="vLLM 0.32.0 config/observability.py:218",
    ),
    Rule(
        "V124",
        "Bounds of histograms rise from above 0",
        require=_rising,
        message="bounds of a histogram are numbers above 0, each above the one before",
        remedy="Sort them, and leave no list empty.",
        at=(BUCKETS,),
        source="vLLM 0.32.0 config/observability.py:183",
    ),
    Rule(
        "V125",
        "The largest captured graph is said once",
        when=lambda line: line.says(LARGEST),
        require=lambda line: line.inside(COMPILATION, "max_cudagraph_capture_size") is None,
        message="--max-cudagraph-capture-size is also in --compilation-config",
        remedy="Keep one of them.",
        at=(LARGEST,),
        source="vLLM 0.32.0 engine/arg_utils.py:2796",
    ),
    Rule(
        "V126",
        "The largest captured graph is the largest of the sizes",
        when=lambda line: (
            bool(_sizes(line)) and _largest(line) is not None and not line.on_by("--enforce-eager")
        ),
        require=lambda line: _largest(line) == max(_sizes(line)),
        message="graphs of up to {sizes} sequences are captured, and the largest is said to be"
        " {most}",
        remedy="Leave --max-cudagraph-capture-size out, or the sizes.",
        words=lambda line: {"sizes": max(_sizes(line)), "most": _largest(line)},
        at=(LARGEST, SIZES, COMPILATION),
        source="vLLM 0.32.0 config/vllm.py:2512",
        platforms=("cuda", "rocm"),
    ),
    Rule(
        "V127",
        "Whether kernels are tuned is said once",
        when=lambda line: line.says(AUTOTUNE),
        require=lambda line: line.inside(KERNEL, "enable_flashinfer_autotune") is None,
        message="--enable-flashinfer-autotune is also in --kernel-config",
        remedy="Keep one of them.",
        at=(AUTOTUNE,),
        source="vLLM 0.32.0 engine/arg_utils.py:2749",
    ),
    Rule(
        "V128",
        "Operations are turned on or off, not both",
        require=_ops_fit,
        message="custom_ops holds all or none at most once, and +name or -name of each operation",
        remedy="Write each operation once, with + or -.",
        at=(COMPILATION,),
        source="vLLM 0.32.0 config/compilation.py:1013",
    ),
    Rule(
        "V129",
        "A profile by torch has a folder",
        require=lambda line: (
            (_profile(line, "profiler") == "torch") == bool(_profile(line, "torch_profiler_dir"))
        ),
        message='"profiler": "torch" and "torch_profiler_dir" go together',
        remedy="Add the one that is missing, or leave out the other.",
        at=(PROFILER,),
        source="vLLM 0.32.0 config/profiler.py:235",
    ),
    Rule(
        "V130",
        "Weights that lie in main memory are some of a group",
        when=lambda line: line["--offload-backend"] == "prefetch" or line.told(GROUP) > 0,
        require=lambda line: (
            number(line, OF_GROUP, 1) <= line.told(GROUP)
            and number(line, "--offload-prefetch-step", 1) >= 1
        ),
        message="{--offload-num-in-group} layers of each {--offload-group-size} cannot be"
        " offloaded",
        remedy="Say --offload-group-size, no smaller than --offload-num-in-group, and fetch a step"
        " ahead or more.",
        at=(OF_GROUP, GROUP, "--offload-backend"),
        source="vLLM 0.32.0 config/offload.py:98",
    ),
    Rule(
        "V131",
        "Experts of a token are told where they can be",
        when=lambda line: line.on_by(ROUTED),
        require=lambda line: not _experts_cannot(line),
        message="--enable-return-routed-experts does not go with {what}",
        remedy="Leave it out.",
        words=lambda line: {"what": ", ".join(_experts_cannot(line))},
        at=(ROUTED,),
        source="vLLM 0.32.0 config/vllm.py:1135: _verify_aux_output_compatibility",
        since="0.24.0",
    ),
    Rule(
        "V132",
        "Samples are told with the logprobs that they were drawn by",
        when=lambda line: line.on_by(MASK),
        require=lambda line: (
            line["--logprobs-mode"] == "processed_logprobs" and not line.says("--logits-processors")
        ),
        message="--return-sampling-mask needs --logprobs-mode processed_logprobs, and no"
        " --logits-processors",
        remedy="Add the mode, or leave the mask out.",
        at=(MASK, "--logprobs-mode"),
        source="vLLM 0.32.0 config/vllm.py:1257",
    ),
    Rule(
        "V133",
        "Memory that can be put away is that of GPUs",
        when=lambda line: line.on_by("--enable-cumem-allocator"),
        require=lambda _line: False,
        message="{accelerator.name} has no allocator of that kind",
        remedy="Leave --enable-cumem-allocator out.",
        at=("--enable-cumem-allocator",),
        source="vLLM 0.32.0 config/model.py:663",
        platforms=("cpu", "tpu", "hpu"),
    ),
)
