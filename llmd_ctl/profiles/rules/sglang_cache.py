"""Rules of SGLang on the KV cache: its type, and where it lies beside the accelerator."""

from __future__ import annotations

from llmd_ctl.profiles.rules.line import Line
from llmd_ctl.profiles.rules.rule import Rule
from llmd_ctl.profiles.rules.scheduling import number
from llmd_ctl.profiles.rules.sglang_asked import (
    BACKEND,
    CHUNK,
    RADIX_OFF,
    above,
    algorithm,
    apart,
    both,
    clash,
    fraction,
    latent,
    major,
    named,
    needs,
    rule,
    said,
    split_attention,
    text,
)

KV, HOST, LMCACHE = "--kv-cache-dtype", "--enable-hierarchical-cache", "--enable-lmcache"
LINKER, STORAGE = "--enable-unified-cache-external-linker", "--hicache-storage-backend"
LAYOUT, MOVER, HOST_MODE = (
    "--hicache-mem-layout", "--hicache-io-backend", "--hicache-host-memory-mode",
)  # fmt: skip
FOUR_BITS = ("nvfp4", "fp4_mx_block16")
SPARSE, UNIFIED = "--enable-hisparse", "--enable-unified-memory"
NO_KV = "--prefill-only-disable-kv-cache"
UNPACKED = "--prefill-kv-cache-dequant-dtype"
PLAIN = ("triton", "torch_native", "flex_attention", "trtllm_mha")
OF_LATENT = ("flashinfer", "trtllm_mla")


def _four_bits(line: Line) -> bool:
    return line[KV] in FOUR_BITS


def _reads_four_bits(line: Line) -> bool:
    prefill, decode = both(line)
    if prefill != decode or prefill == "fa4" or line[KV] == "nvfp4":
        return True
    return prefill in (OF_LATENT if latent(line) else PLAIN)


def _held(line: Line) -> bool:
    return line.on_by(HOST) or line.on_by("--disaggregation-decode-enable-offload-kvcache")


def _layout_stays(line: Line) -> bool:
    layout, mover = text(line, LAYOUT, "layer_first"), text(line, MOVER, "kernel")
    if layout == "page_first_direct":
        return mover != "kernel"
    if layout == "page_first":
        return mover != "direct"
    return layout != "layer_first" or line[STORAGE] != "mooncake"


def _tail_fits(line: Line) -> bool:
    config = line.given.get("--radix-eviction-policy-config")
    found = config if isinstance(config, dict) else {}
    most, next_one = found.get("threshold", 0), found.get("next_prompt_estimate", 0)
    numbers = all(type(each) in (int, float) for each in (most, next_one))
    return numbers and 0 <= next_one < most


RULES: tuple[Rule, ...] = (
    rule(
        "S30", "KV of four bits is read by Blackwell", KV,
        lambda line: line.platform == "cuda" and (line[KV] != "nvfp4" or major(line) in (10, 12)),
        "a KV cache of {--kv-cache-dtype} is not kept on {accelerator.name}",
        "Take fp8_e4m3 or auto.", "arg_groups/kv_cache_hook.py:127, :318", when=_four_bits,
    ),
    rule(
        "S31", "KV in blocks of mxfp8 is read by Blackwell", KV,
        lambda line: major(line) in (10, 12),
        "a KV cache of mxfp8 is not kept on {accelerator.name}", "Take fp8_e4m3 or auto.",
        "arg_groups/kv_cache_hook.py:105", when=said(KV, "mxfp8"),
    ),
    rule(
        "S32", "KV of four bits has backends of its own", BACKEND, _reads_four_bits,
        "{--attention-backend} does not read a KV cache of {--kv-cache-dtype}",
        "Take triton, or trtllm_mla for a latent.", "arg_groups/kv_cache_hook.py:301, :312",
        when=lambda line: _four_bits(line) and line.platform == "cuda" and bool(named(line)),
    ),
    clash(
        "S33", KV, "KV of four bits has a pool of its own",
        (
            (UNIFIED, said(UNIFIED)),
            (HOST, lambda line: line.on_by(HOST) and line[KV] == "nvfp4" and major(line) == 10),
            (LMCACHE, lambda line: (
                line.on_by(LMCACHE) and line[KV] == "nvfp4" and major(line) == 10
            )),
            ("prefill and decode apart", lambda line: (
                apart(line) and line[KV] == "nvfp4" and major(line) == 10
            )),
        ),
        "arg_groups/kv_cache_hook.py:132, :251, :259", when=_four_bits,
        so="of four bits cannot be with",
    ),
    rule(
        "S34", "Prefill unpacks KV of four bits", UNPACKED,
        lambda line: line[KV] == "nvfp4", "{flag} is for --kv-cache-dtype nvfp4 only",
        "Leave it out.", "arg_groups/kv_cache_hook.py:40",
        when=lambda line: text(line, UNPACKED, "auto") != "auto",
        words=lambda _line: {"flag": UNPACKED},
    ),
    clash(
        "S35", HOST, "A cache in main memory is of prefixes", ((RADIX_OFF, said(RADIX_OFF)),),
        "arg_groups/kv_cache_hook.py:393",
    ),
    clash(
        "S36", LMCACHE, "LMCache is alone",
        (
            (HOST, said(HOST)), (LINKER, said(LINKER)), (RADIX_OFF, said(RADIX_OFF)),
            ("--speculative-algorithm", lambda line: algorithm(line) is not None),
            ("attention in groups", split_attention), ("--dcp-size", above("--dcp-size", 1)),
            ("--enable-streaming-session", said("--enable-streaming-session")),
            ("prefill and decode apart", apart),
            (f"{HOST_MODE} buffer_only", said(HOST_MODE, "buffer_only")),
        ),
        "arg_groups/kv_cache_hook.py:433-472",
    ),
    clash(
        "S37", LINKER, "A cache that is linked in is the only one",
        (
            (RADIX_OFF, said(RADIX_OFF)), (HOST, said(HOST)), (STORAGE, said(STORAGE)),
            ("--radix-cache-backend", said("--radix-cache-backend")),
        ),
        "arg_groups/hicache_hook.py:44-58",
    ),
    rule(
        "S38", "Main memory that only passes KV on needs storage behind it", HOST_MODE,
        lambda line: line.says(STORAGE) and line["--disaggregation-mode"] != "decode",
        "{flag} buffer_only needs --hicache-storage-backend, and not a replica that only decodes",
        "Name a storage, or take cache.", "arg_groups/hicache_hook.py:272, :289",
        when=lambda line: _held(line) and line[HOST_MODE] == "buffer_only",
        words=lambda _line: {"flag": HOST_MODE},
    ),
    rule(
        "S39", "How KV lies in main memory fits how it gets there", LAYOUT, _layout_stays,
        "the layout in main memory, or what copies it, is set to another one",
        "Say page_first with kernel, or page_first_direct with direct.",
        "arg_groups/hicache_hook.py:181, :191, :221", when=_held, severity="warning",
        at=(LAYOUT, MOVER, STORAGE),
    ),
    rule(
        "S40", "A share of main memory is a share", "--hicache-host-memory-fraction",
        lambda line: 0 < fraction(line, "--hicache-host-memory-fraction", 1) <= 1,
        "--hicache-host-memory-fraction {--hicache-host-memory-fraction} is no share",
        "Write more than 0 and at most 1.", "arg_groups/hicache_hook.py:116",
    ),
    rule(
        "S41", "A share of KV for windows is a share", "--swa-full-tokens-ratio",
        lambda line: 0 < fraction(line, "--swa-full-tokens-ratio", 1) <= 1,
        "--swa-full-tokens-ratio {--swa-full-tokens-ratio} is no share",
        "Write more than 0 and at most 1.", "arg_groups/kv_cache_hook.py:427",
    ),
    needs(
        "S42", SPARSE, "Sparse attention from main memory is for sparse models, without prefixes",
        (
            ("a model with sparse attention", lambda line: (
                line.kind in ("dsa", "deepseek-v4") or line.model.family.startswith("minimax_m3")
            )),
            (RADIX_OFF, said(RADIX_OFF)),
        ),
        "arg_groups/hisparse_hook.py:105, :110",
    ),
    clash(
        "S43", SPARSE, "Sparse attention from main memory decodes by itself",
        (
            ("--enable-mixed-chunk", said("--enable-mixed-chunk")),
            ("--speculative-eagle-topk", lambda line: (
                algorithm(line) is not None and number(line, "--speculative-eagle-topk", 1) != 1
            )),
            ("--speculative-adaptive", said("--speculative-adaptive")),
        ),
        "arg_groups/hisparse_hook.py:82, :119, :124",
    ),
    needs(
        "S44", "--enable-page-major-kv-layout", "Pages in one piece are of unified memory",
        ((UNIFIED, said(UNIFIED)),), "arg_groups/kv_cache_hook.py:782",
    ),
    needs(
        "S45", NO_KV, "Without KV there are only embeddings, a prompt in one step",
        (
            ("--is-embedding", said("--is-embedding")),
            (f"{CHUNK} -1", said(CHUNK, -1)), (RADIX_OFF, said(RADIX_OFF)),
        ),
        "arg_groups/kv_cache_hook.py:879, :904, :910",
    ),
    rule(
        "S46", "Tails that are kept are longer than a next prompt", "--radix-eviction-policy",
        _tail_fits, "tlru needs a threshold above next_prompt_estimate, both not below 0",
        "Give both in --radix-eviction-policy-config.", "arg_groups/kv_cache_hook.py:379, :385",
        when=said("--radix-eviction-policy", "tlru"),
    ),
    clash(
        "S47", UNIFIED, "Unified memory keeps no second cache",
        (
            ("--enable-two-batch-overlap", said("--enable-two-batch-overlap")),
            (LMCACHE, said(LMCACHE)),
        ),
        "arg_groups/kv_cache_hook.py:652, :657",
    ),
)  # fmt: skip
