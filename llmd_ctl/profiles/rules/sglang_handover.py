"""Rules of SGLang on prefill and decode in replicas of their own."""

from __future__ import annotations

from llmd_ctl.profiles.rules.line import Line
from llmd_ctl.profiles.rules.rule import Rule
from llmd_ctl.profiles.rules.sglang_asked import (
    above,
    algorithm,
    apart,
    clash,
    experts_over,
    fraction,
    mode,
    needs,
    rule,
    said,
    text,
)

WAY, BACKUP = "--disaggregation-transfer-backend", "--disaggregation-decode-retraction-backup"
PREFIXES, OFFLOAD = (
    "--disaggregation-decode-enable-radix-cache", "--disaggregation-decode-enable-offload-kvcache",
)  # fmt: skip
THRESHOLD, SWITCH = "--disaggregation-decode-host-receive-threshold", "--enable-pd-role-switch"
DCP = "--dcp-size"


def _decodes(line: Line) -> bool:
    return mode(line) == "decode"


def _keeps_prefixes(line: Line) -> bool:
    return _decodes(line) and line.on_by(PREFIXES)


RULES: tuple[Rule, ...] = (
    rule(
        "S194", "A replica that prefills hands KV over for real", WAY,
        lambda line: line[WAY] != "fake",
        "--disaggregation-transfer-backend fake hands nothing over", "Take mooncake or nixl.",
        "arg_groups/pd_disaggregation_hook.py:145", when=lambda line: mode(line) == "prefill",
    ),
    clash(
        "S195", PREFIXES, "Prefixes on a replica that decodes come of a real hand-over",
        (
            ("--enable-hisparse", said("--enable-hisparse")), (f"{WAY} fake", said(WAY, "fake")),
        ),
        "arg_groups/pd_disaggregation_hook.py:100, :105", when=_keeps_prefixes,
    ),
    needs(
        "S196", OFFLOAD, "KV of a replica that decodes is stored somewhere",
        (
            ("--disaggregation-mode decode", _decodes),
            ("--hicache-storage-backend", said("--hicache-storage-backend")),
            (f"another {BACKUP} than host_pool", lambda line: line[BACKUP] != "host_pool"),
        ),
        "arg_groups/kv_cache_hook.py:400, :404, :408",
    ),
    needs(
        "S197", BACKUP, "KV of requests that wait lies in main memory of a replica that decodes",
        (
            ("--disaggregation-mode decode", _decodes),
            ("--dcp-size 1", lambda line: not above(DCP, 1)(line)),
            ("--disable-priority-preemption", lambda line: (
                not line.on_by("--enable-priority-scheduling")
                or line.on_by("--disable-priority-preemption")
            )),
        ),
        "arg_groups/kv_cache_hook.py:356, :361, :370", when=said(BACKUP, "host_pool"),
    ),
    rule(
        "S198", "A share of memory is a share", THRESHOLD,
        lambda line: 0 <= fraction(line, THRESHOLD, 1) <= 1,
        "{flag} is between 0 and 1", "Write such a number.",
        "arg_groups/pd_disaggregation_hook.py:64", words=lambda _line: {"flag": THRESHOLD},
    ),
    clash(
        "S199", SWITCH, "A replica that changes its part is simple",
        (
            ("experts on several devices", lambda line: experts_over(line) > 1),
            ("--moe-a2a-backend", lambda line: text(line, "--moe-a2a-backend", "none") != "none"),
            ("stages", lambda line: line.pipeline > 1), (DCP, above(DCP, 1)),
            ("--speculative-algorithm", lambda line: algorithm(line) is not None),
        ),
        "arg_groups/pd_disaggregation_hook.py:190",
        when=lambda line: apart(line) and line.on_by(SWITCH),
    ),
    rule(
        "S200", "A cut context does not help prefill", DCP,
        lambda line: False, "--dcp-size makes prefill no faster", "Leave it out.",
        "arg_groups/pd_disaggregation_hook.py:57", severity="warning",
        when=lambda line: mode(line) == "prefill" and above(DCP, 1)(line),
    ),
    rule(
        "S201", "A prompt is cut for prefill", "--enable-prefill-cp",
        lambda line: not _decodes(line), "a replica that decodes cuts no prompts",
        "Leave --enable-prefill-cp out.", "arg_groups/model_hook.py:362",
        when=lambda line: line.on_by("--enable-prefill-cp") and line.kind == "dsa",
    ),
    rule(
        "S202", "Prefixes are found again where a replica decodes", "--disable-radix-cache",
        lambda line: not line.on_by("--disable-radix-cache"),
        "--disaggregation-decode-enable-radix-cache turns --disable-radix-cache off",
        "Leave one of them out.", "arg_groups/pd_disaggregation_hook.py:113",
        when=_keeps_prefixes, severity="warning",
    ),
)  # fmt: skip
