"""Rules of SGLang on attention: which backend runs where, for which model, with which pages."""

from __future__ import annotations

from collections.abc import Mapping

from llmd_ctl.profiles.rules.line import Line
from llmd_ctl.profiles.rules.rule import Rule
from llmd_ctl.profiles.rules.scheduling import number
from llmd_ctl.profiles.rules.sglang_asked import (
    ALIASES,
    BACKEND,
    BACKENDS,
    DECODE,
    PAGE,
    PAGES,
    PREFILL,
    algorithm,
    both,
    clash,
    latent,
    major,
    named,
    names,
    rule,
    said,
    text,
)

KV = "--kv-cache-dtype"
ELSEWHERE: Mapping[str, frozenset[str]] = {
    "cuda": frozenset({"aiter", "wave", "ascend", "intel_amx", "intel_xpu"}),
    "rocm": frozenset({
        "fa3", "fa4", "flashinfer", "flashmla", "trtllm_mla", "cutedsl_mla", "trtllm_mha",
        "hpc_ops", "ascend", "intel_amx", "intel_xpu",
    }),
}  # fmt: skip
GENERATIONS: Mapping[str, tuple[int, ...]] = {
    "trtllm_mla": (10, 12), "cutedsl_mla": (10,), "trtllm_mha": (9, 10, 12), "hpc_ops": (9,),
}  # fmt: skip
OF_FAMILIES: Mapping[str, frozenset[str]] = {
    "gpt_oss": frozenset("triton trtllm_mha fa3 fa4 ascend intel_amx intel_xpu aiter".split()),
    "llama4_text": frozenset("fa3 aiter triton ascend trtllm_mha intel_xpu".split()),
    "gemma4_text": frozenset("trtllm_mha triton fa4 ascend intel_xpu intel_amx aiter".split()),
}
HYBRID = frozenset({"triton", "trtllm_mha", "fa4", "flashinfer"})
LATENT_ONLY = frozenset({"flashmla", "trtllm_mla", "cutedsl_mla"})
PLAIN_ONLY = frozenset({"trtllm_mha", "hpc_ops", "llada2_cfg_flashinfer"})
DSA_TYPES = ("auto", "bf16", "bfloat16", "fp8_e4m3")


def _elsewhere(line: Line) -> list[str]:
    return [each for each in named(line) if each in ELSEWHERE.get(line.platform or "", ())]


def _wrong_generation(line: Line) -> list[str]:
    here = major(line)
    return [each for each in named(line) if here not in GENERATIONS.get(each, (here,))]


def _fa3_runs(line: Line) -> bool:
    return major(line) == 9 or (major(line) == 8 and not latent(line))


def _mismatched(line: Line) -> list[str]:
    wrong = PLAIN_ONLY if latent(line) else LATENT_ONLY
    return [each for each in named(line) if each in wrong]


def _of_latents(line: Line) -> set[str]:
    """Backends of TensorRT-LLM's latents that decode; tokenspeed_mla sets the KV's type itself."""
    return {"trtllm_mla", "cutedsl_mla"} & {line[BACKEND], line[DECODE]}


def _other_pages(line: Line) -> list[str]:
    size = line.told(PAGE)
    wrong = [each for each in named(line) if each in PAGES and size not in PAGES[each]]
    return [f"{each} takes {' or '.join(map(str, PAGES[each]))}" for each in wrong]


def _not_of_family(line: Line) -> list[str]:
    return [each for each in named(line) if each not in OF_FAMILIES[line.model.family]]


def _hybrid_cannot(line: Line) -> list[str]:
    allowed = HYBRID - {"fa4"} if major(line) == 12 else HYBRID
    return [each for each in named(line) if each not in allowed]


def _old(line: Line) -> list[str]:
    return [str(line.given[flag]) for flag in BACKENDS if line.given.get(flag) in ALIASES]


RULES: tuple[Rule, ...] = (
    rule(
        "S01", "An attention backend is one of the accelerator's vendor", BACKEND,
        lambda line: not _elsewhere(line), "{backends} does not run on {accelerator.name}",
        "Leave the backend to the engine, or name one that runs there.",
        "layers/attention/attention_registry.py:126", at=BACKENDS,
        words=lambda line: {"backends": ", ".join(_elsewhere(line))},
    ),
    rule(
        "S02", "FlashAttention 3 is for Hopper, and for Ampere without a latent", BACKEND,
        _fa3_runs, "fa3 does not run on {architecture} with this model",
        "Take flashinfer or triton, or leave the backend to the engine.",
        "layers/attention/attention_registry.py:243", at=BACKENDS,
        when=lambda line: line.platform == "cuda" and "fa3" in named(line),
    ),
    rule(
        "S03", "An attention backend is of the GPU's generation", BACKEND,
        lambda line: not _wrong_generation(line), "{backends} does not run on {architecture}",
        "Leave the backend to the engine, or name one that runs there.",
        "arg_groups/overrides.py:1211, :1245, attention_hook.py:202", at=BACKENDS,
        when=lambda line: line.platform == "cuda",
        words=lambda line: {"backends": ", ".join(_wrong_generation(line))},
    ),
    rule(
        "S04", "A backend for a latent gets one, and the others do not", BACKEND,
        lambda line: not _mismatched(line),
        "{backends} does not go with the attention of this model",
        "Leave the backend to the engine.",
        "layers/attention/attention_registry.py:97, :121, :281, :289", at=BACKENDS,
        when=lambda line: line.kind in ("dense", "sinks", "mla"),
        words=lambda line: {"backends": ", ".join(_mismatched(line))},
    ),
    rule(
        "S05", "Pages are of a size that the backend has", PAGE,
        lambda line: not _other_pages(line), "pages of {--page-size} become 64: {backends}",
        "Write a size that it takes, or leave --page-size out.", "arg_groups/overrides.py:1141",
        when=said(PAGE), severity="warning",
        words=lambda line: {"backends": ", ".join(_other_pages(line))},
    ),
    rule(
        "S06", "FlashAttention 4 on Blackwell has pages of 128", PAGE,
        lambda line: line[PAGE] == 128, "fa4 sets pages of {--page-size} to 128",
        "Write --page-size 128, or leave it out.", "arg_groups/overrides.py:1293",
        when=lambda line: (
            line.says(PAGE) and "fa4" in named(line) and major(line) == 10 and not latent(line)
            and number(line, "--speculative-eagle-topk", 1) <= 1
        ),
        severity="warning",
    ),
    rule(
        "S07", "CuteDSL's latent attention decodes only", PREFILL,
        lambda line: line[PREFILL] != "cutedsl_mla", "cutedsl_mla does not prefill",
        "Take trtllm_mla for prefill.", "arg_groups/overrides.py:1241",
    ),
    rule(
        "S08", "TensorRT-LLM's latent attention reads some types of KV", KV,
        lambda line: text(line, KV, "auto") in ("fp8_e4m3", "bf16", "auto")
        or (line[KV] == "bfloat16" and "trtllm_mla" not in _of_latents(line)),
        "{backends} does not read a KV cache of {--kv-cache-dtype}",
        "Take auto, bf16 or fp8_e4m3.", "arg_groups/overrides.py:1214, :1248",
        when=lambda line: bool(_of_latents(line)),
        words=lambda line: {"backends": ", ".join(sorted(_of_latents(line)))},
    ),
    rule(
        "S09", "TensorRT-LLM's prefill on sm120 reads no fp8", KV,
        lambda line: line[KV] != "fp8_e4m3", "trtllm_mha on sm120 does not prefill from fp8_e4m3",
        "Take another prefill backend, such as flashinfer.", "arg_groups/attention_hook.py:217",
        when=lambda line: major(line) == 12 and both(line)[0] == "trtllm_mha",
    ),
    rule(
        "S10", "FlashAttention 3 reads fp8_e4m3", KV,
        lambda line: line[KV] != "fp8_e5m2",
        "fa3 does not read fp8_e5m2: attention becomes triton's",
        "Take --kv-cache-dtype fp8_e4m3.", "arg_groups/overrides.py:1274",
        when=lambda line: (
            line[BACKEND] == "fa3" or (
                major(line) == 9 and not named(line) and line.model.family != "gemma4_text"
            )
        ),
        severity="warning",
    ),
    clash(
        "S11", "--attention-backend flex_attention", "Flex attention checks no drafts",
        (("--speculative-algorithm", lambda line: algorithm(line) is not None),),
        "arg_groups/attention_hook.py:160", when=names("flex_attention"),
    ),
    rule(
        "S12", "Attention of PyTorch runs without graphs", BACKEND,
        lambda line: False, "{--attention-backend} turns graphs off, which is slower",
        "Leave the backend to the engine.", "arg_groups/attention_hook.py:124, :143",
        when=said(BACKEND, "torch_native", "flex_attention"), severity="warning",
    ),
    clash(
        "S13", "--attention-backend hpc_ops", "HPC-Ops checks no drafts",
        (("--speculative-algorithm", lambda line: algorithm(line) is not None),),
        "layers/attention/attention_registry.py:294", when=names("hpc_ops"),
    ),
    rule(
        "S14", "Some models have attention of their own kind", BACKEND,
        lambda line: not _not_of_family(line),
        "{backends} is not for {model.family}, whose windows or sinks it does not have",
        "Leave the backend to the engine, or name one that is allowed.",
        "arg_groups/model_hook.py:536, :622, :655", at=BACKENDS,
        when=lambda line: line.model.family in OF_FAMILIES,
        allowed=lambda line: sorted(OF_FAMILIES[line.model.family]),
        words=lambda line: {"backends": ", ".join(_not_of_family(line))},
    ),
    rule(
        "S15", "Models with states have four backends on Blackwell", BACKEND,
        lambda line: not _hybrid_cannot(line),
        "{backends} does not serve a model with states on {architecture}",
        "Take triton, flashinfer or trtllm_mha.", "layers/attention/attention_registry.py:473",
        at=BACKENDS,
        when=lambda line: major(line) in (10, 12) and line.model.family.startswith("qwen3_5"),
        words=lambda line: {"backends": ", ".join(_hybrid_cannot(line))},
    ),
    rule(
        "S16", "Sparse attention over a latent keeps bf16 or fp8_e4m3", KV,
        lambda line: text(line, KV, "auto") in DSA_TYPES,
        "sparse attention keeps no KV of {--kv-cache-dtype}", "Take bfloat16 or fp8_e4m3.",
        "arg_groups/overrides.py:541", when=lambda line: line.kind == "dsa",
    ),
    rule(
        "S17", "DeepSeek V4 keeps bf16 or fp8_e4m3", KV,
        lambda line: text(line, KV, "auto") in ("auto", "bfloat16", "fp8_e4m3"),
        "DeepSeek V4 keeps no KV of {--kv-cache-dtype}", "Take bfloat16 or fp8_e4m3.",
        "arg_groups/overrides.py:907", when=lambda line: line.kind == "deepseek-v4",
    ),
    rule(
        "S18", "Triton's sparse attention is AMD's", "--dsa-decode-backend",
        lambda line: "triton" not in (line["--dsa-prefill-backend"], line["--dsa-decode-backend"]),
        "the triton backend of sparse attention runs on ROCm only",
        "Take flashmla_kv on Hopper, trtllm on Blackwell.", "arg_groups/overrides.py:563",
        at=("--dsa-decode-backend", "--dsa-prefill-backend"),
        when=lambda line: line.platform == "cuda" and line.kind == "dsa",
    ),
    rule(
        "S19", "Old names of backends", BACKEND,
        lambda line: not _old(line), "{old} is an old name of {new}", "Write the new name.",
        "arg_groups/serving_hook.py:313, layers/attention/attention_registry.py:166",
        at=BACKENDS, severity="warning",
        words=lambda line: {"old": _old(line)[0], "new": ALIASES[_old(line)[0]]},
    ),
    rule(
        "S20", "TokenSpeed's attention keeps fp8", KV,
        lambda line: line[KV] == "fp8_e4m3",
        "tokenspeed_mla sets --kv-cache-dtype to fp8_e4m3", "Write fp8_e4m3, or cutedsl_mla.",
        "arg_groups/serving_hook.py:326", severity="warning", at=(KV, BACKEND, DECODE),
        when=lambda line: "tokenspeed_mla" in (line[BACKEND], line[DECODE]),
    ),
)  # fmt: skip
