"""Rules of vLLM 0.23.0 that later versions have no more: what it took in and then refused or reset.

They end with the version after it that was read, 0.32.0.
"""

from __future__ import annotations

from llmd_ctl.profiles.rules.line import Line
from llmd_ctl.profiles.rules.rule import Rule
from llmd_ctl.profiles.rules.scheduling import number

CHUNKS = ("--max-num-partial-prefills", "--max-long-partial-prefills")
EXCHANGE, CONTEXT = "--dcp-comm-backend", "--decode-context-parallel-size"
TRANSFER, ROUTED = "--kv-transfer-config", "--enable-return-routed-experts"
OVERRIDE, KV = "--override-attention-dtype", "--kv-cache-dtype"
END = "0.32.0"


def _flash_version(line: Line) -> object:
    return line.inside("--attention-config", "flash_attn_version")


def _routed_cannot(line: Line) -> list[str]:
    pairs = (("pipelines", line.pipeline > 1), ("KV that is handed over", bool(line.connectors)))
    return [what for what, asked in pairs if asked]


RULES = (
    Rule(
        "E01",
        "Prompts are cut into chunks one after the other",
        require=lambda line: all(number(line, flag, 1) == 1 for flag in CHUNKS),
        message="vLLM {version} does not prefill several prompts in part at once",
        remedy="Leave --max-num-partial-prefills and --max-long-partial-prefills out.",
        at=CHUNKS,
        source="vLLM 0.23.0 engine/arg_utils.py:2261",
        before=END,
    ),
    Rule(
        "E02",
        "An exchange of a cut context has one",
        when=lambda line: line[EXCHANGE] == "a2a",
        require=lambda line: number(line, CONTEXT, 1) > 1,
        message="--dcp-comm-backend a2a needs --decode-context-parallel-size above 1",
        remedy="Leave it out.",
        at=(EXCHANGE,),
        source="vLLM 0.23.0 config/parallel.py:493",
        before=END,
    ),
    Rule(
        "E03",
        "States that are handed over are of whole prompts",
        when=lambda line: line.connector == "ExampleHiddenStatesConnector",
        require=lambda line: line["--enable-chunked-prefill"] is False,
        message="ExampleHiddenStatesConnector does not take prompts in chunks",
        remedy="Add --no-enable-chunked-prefill.",
        at=(TRANSFER,),
        source="vLLM 0.23.0 config/vllm.py:769",
        before=END,
    ),
    Rule(
        "E04",
        "Experts of a token are told where they can be",
        when=lambda line: line.on_by(ROUTED),
        require=lambda line: not _routed_cannot(line),
        message="--enable-return-routed-experts does not go with {what}",
        remedy="Leave it out.",
        words=lambda line: {"what": ", ".join(_routed_cannot(line))},
        at=(ROUTED,),
        source="vLLM 0.23.0 config/vllm.py:868, :879",
        before="0.24.0",
    ),
    Rule(
        "E05",
        "A processor has no attention over a latent",
        require=lambda line: line.kind not in ("mla", "dsa", "deepseek-v4"),
        message="vLLM {version} has no attention over a latent on a processor",
        remedy="Take a later version, or set VLLM_MLA_DISABLE=1 where attention is dense.",
        source="vLLM 0.23.0 platforms/cpu.py:84, :86",
        platforms=("cpu",),
        before=END,
    ),
    Rule(
        "E06",
        "A packed KV is read by FlashAttention 2",
        when=lambda line: line.kv_dtype.startswith("turboquant_"),
        require=lambda line: _flash_version(line) in (None, 2),
        message="--kv-cache-dtype {--kv-cache-dtype} sets flash_attn_version to 2",
        remedy="Leave flash_attn_version out.",
        at=("--attention-config", KV),
        severity="warning",
        source="vLLM 0.23.0 engine/arg_utils.py:2115",
        before=END,
    ),
    Rule(
        "E07",
        "Another type of attention is AMD's",
        when=lambda line: line.says(OVERRIDE),
        require=lambda line: line.platform == "rocm",
        message="--override-attention-dtype has no effect on {accelerator.name}",
        remedy="Leave it out.",
        at=(OVERRIDE,),
        severity="warning",
        source="vLLM 0.23.0 config/model.py:522",
        before=END,
    ),
    Rule(
        "E08",
        "States at ends of blocks are of the first runner",
        when=lambda line: line["--mamba-cache-mode"] == "align",
        require=lambda line: not line.switched("VLLM_USE_V2_MODEL_RUNNER"),
        message="the second model runner keeps no states at ends of blocks",
        remedy="Leave VLLM_USE_V2_MODEL_RUNNER out, or --mamba-cache-mode.",
        at=("VLLM_USE_V2_MODEL_RUNNER", "--mamba-cache-mode"),
        source="vLLM 0.23.0 config/vllm.py:2126",
        before=END,
    ),
    Rule(
        "E09",
        "On TPUs decoding goes on only where steps are not prepared ahead",
        platforms=("tpu",),
        when=lambda line: line.inside("--additional-config", "enable_continue_decode") is True,
        require=lambda line: not line.on_by("--async-scheduling"),
        message="enable_continue_decode does not go with --async-scheduling",
        remedy="Leave one of the two out.",
        at=("--async-scheduling", "--additional-config"),
        source="tpu-inference 0.23.0 platforms/tpu_platform.py:376",
        before=END,
    ),
    Rule(
        "E10",
        "On TPUs KV is offloaded by a connector that is there",
        platforms=("tpu",),
        require=lambda line: line.connector != "RaidenOffloadConnector",
        message="tpu-inference {version} has no RaidenOffloadConnector yet",
        remedy="Take TPUOffloadConnector, or a later version.",
        at=(TRANSFER,),
        source="tpu-inference 0.23.0 platforms/tpu_platform.py:352",
        before=END,
    ),
    Rule(
        "E11",
        "Balancing of experts is for NVIDIA's and AMD's GPUs",
        platforms=("xpu",),
        require=lambda line: not line.on_by("--enable-eplb"),
        message="--enable-eplb is refused on {accelerator.name} by vLLM {version}",
        remedy="Leave it out, or take a later version.",
        at=("--enable-eplb",),
        source="vLLM 0.23.0 config/parallel.py:462",
        before=END,
    ),
    Rule(
        "E12",
        "AITER's unified attention keeps its KV where no connector reads it",
        platforms=("rocm",),
        when=lambda line: bool(line.connectors),
        require=lambda line: line.backend != "ROCM_AITER_UNIFIED_ATTN",
        message="{backend} lays its KV out in a way that no connector reads in vLLM {version}",
        remedy="Name another backend, or leave it to the engine.",
        at=("--attention-backend", TRANSFER),
        source="vLLM 0.23.0 v1/attention/backends/rocm_attn.py:212",
        before=END,
    ),
)
