"""Rules of SGLang on its server: names, ports, what it tells, what it takes in."""

from __future__ import annotations

from llmd_ctl.profiles.rules.line import Line
from llmd_ctl.profiles.rules.rule import Rule
from llmd_ctl.profiles.rules.scheduling import number
from llmd_ctl.profiles.rules.sglang_asked import (
    above,
    algorithm,
    apart,
    clash,
    mode,
    needs,
    on,
    rule,
    said,
    text,
    words,
)

NAME, GRPC = "--served-model-name", "--grpc-port"
KEY, CERTIFICATE = "--ssl-keyfile", "--ssl-certfile"
LABELS = "--tokenizer-metrics-allowed-custom-labels"
HEADER = "--tokenizer-metrics-custom-labels-header"
BUCKETS = ("--prompt-tokens-buckets", "--generation-tokens-buckets")
LIMITS, PARSER, MARK = "--limit-mm-data-per-request", "--tool-call-parser", "--enable-watermark"
TEXT_ONLY, TRANSPORT, SIDECAR = "--language-model-only", "--mm-feature-transport", "--sidecar"
OLD = (
    "--enable-flashinfer-allreduce-fusion", "--disable-fast-image-processor", "--grpc-mode",
)  # fmt: skip
OLD_PARSERS = {"qwen25": "qwen", "glm45": "glm"}
POSITIVE = (
    "--asr-max-buffer-seconds", "--asr-max-concurrent-sessions", "--sampling-mask-max-tokens",
    "--grpc-response-timeout-secs",
)  # fmt: skip
LANGUAGE = ("deepseek_v4",)


def _numbers(told: list[str]) -> list[float] | None:
    try:
        return [float(each) for each in told]
    except ValueError:
        return None


def _fits(told: list[str]) -> bool:
    if not told:
        return True
    kind, values = told[0], _numbers(told[1:])
    if kind == "default":
        return len(told) == 1
    if values is None:
        return False
    if kind == "custom":
        return bool(values) and len(set(values)) == len(values) and min(values) >= 0
    if kind != "tse" or len(values) != 3:
        return False
    return values[0] > 0 and values[1] > 1 and values[2] > 0 and told[3].isdigit()


def _wrong_buckets(line: Line) -> list[str]:
    return [flag for flag in BUCKETS if not _fits(words(line, flag))]


def _kinds(line: Line) -> list[str]:
    told = line.given.get(LIMITS)
    kinds = told if isinstance(told, dict) else {}
    return [each for each in kinds if each not in ("image", "video", "audio")]


def _zero(line: Line) -> list[str]:
    return [flag for flag in POSITIVE if number(line, flag, 1) <= 0]


RULES: tuple[Rule, ...] = (
    rule(
        "S148", "A model's name has no colon", NAME,
        lambda line: ":" not in str(line[NAME]) or str(line[NAME]).startswith(("s3://", "gs://")),
        "--served-model-name {--served-model-name} has a colon, which an adapter's name follows",
        "Take another name.", "arg_groups/validation_hook.py:214",
    ),
    needs(
        "S149", KEY, "A key has a certificate", ((CERTIFICATE, said(CERTIFICATE)),),
        "arg_groups/serving_hook.py:50",
    ),
    needs(
        "S150", CERTIFICATE, "A certificate has a key", ((KEY, said(KEY)),),
        "arg_groups/serving_hook.py:54",
    ),
    rule(
        "S151", "What is of TLS goes with a certificate", CERTIFICATE,
        lambda line: line.says(CERTIFICATE) and line.says(KEY),
        "it needs --ssl-certfile and --ssl-keyfile", "Add both, or leave it out.",
        "arg_groups/serving_hook.py:59, :63, :83",
        at=("--ssl-ca-certs", "--ssl-keyfile-password", "--enable-ssl-refresh"),
        when=lambda line: line.says(
            "--ssl-ca-certs", "--ssl-keyfile-password", "--enable-ssl-refresh"
        ),
    ),
    needs(
        "S152", LABELS, "Labels of metrics come in a header", ((HEADER, said(HEADER)),),
        "arg_groups/validation_hook.py:334",
    ),
    needs(
        "S153", "--export-metrics-to-file", "Metrics in a file have a folder",
        (("--export-metrics-to-file-dir", said("--export-metrics-to-file-dir")),),
        "arg_groups/validation_hook.py:340",
    ),
    rule(
        "S154", "Buckets of tokens follow a rule", BUCKETS[0],
        lambda line: not _wrong_buckets(line), "{flags} follows no rule",
        "Write default, custom and numbers, or tse with a middle, a base above 1 and a count.",
        "arg_groups/validation_hook.py:389-430", at=BUCKETS,
        words=lambda line: {"flags": ", ".join(_wrong_buckets(line))},
    ),
    rule(
        "S155", "A port is a port", GRPC,
        lambda line: 1 <= line.told(GRPC) <= 65535
        and line[GRPC] != number(line, "--port", 30000),
        "--grpc-port {--grpc-port} is no port, or that of --port", "Take another one.",
        "arg_groups/serving_hook.py:382, validation_hook.py:359", when=said(GRPC),
    ),
    clash(
        "S156", GRPC, "The server of gRPC is one process",
        (
            ("--use-ray", said("--use-ray")), ("--encoder-only", said("--encoder-only")),
            ("--tokenizer-worker-num above 1", above("--tokenizer-worker-num", 1)),
            ("--api-key", said("--api-key")), ("--admin-api-key", said("--admin-api-key")),
        ),
        "arg_groups/serving_hook.py:413-428",
        when=lambda line: line.says(GRPC) and not line.on_by("--grpc-mode")
        and not line.on_by("--smg-grpc-mode"),
    ),
    needs(
        "S157", SIDECAR, "What runs beside speaks gRPC",
        (
            (GRPC, lambda line: line.says(GRPC) or "SGLANG_GRPC_PORT" in line.env),
            ("no --grpc-mode", lambda line: not (
                line.on_by("--grpc-mode") or line.on_by("--smg-grpc-mode")
            )),
        ),
        "arg_groups/serving_hook.py:405, :410",
    ),
    needs(
        "S158", "--sidecar-args", "Words for what runs beside", ((SIDECAR, said(SIDECAR)),),
        "arg_groups/serving_hook.py:396", when=lambda line: line.says("--sidecar-args"),
    ),
    rule(
        "S159", "Limits are above nothing", POSITIVE[0], lambda line: not _zero(line),
        "{flags} is not above 0", "Write 1 or more, or leave it out.",
        "arg_groups/serving_hook.py:126, :131, :378, validation_hook.py:687", at=POSITIVE,
        words=lambda line: {"flags": ", ".join(_zero(line))},
    ),
    rule(
        "S160", "Limits are of images, videos and sounds", LIMITS,
        lambda line: not _kinds(line), "{flag} knows no {kinds}", "Write image, video or audio.",
        "arg_groups/serving_hook.py:602", allowed=lambda _line: ("image", "video", "audio"),
        words=lambda line: {"kinds": ", ".join(_kinds(line)), "flag": LIMITS},
    ),
    rule(
        "S161", "Old names of parsers", PARSER, lambda line: line[PARSER] not in OLD_PARSERS,
        "--tool-call-parser {--tool-call-parser} is an old name of {new}", "Write the new name.",
        "arg_groups/serving_hook.py:274", severity="warning",
        words=lambda line: {"new": OLD_PARSERS[line[PARSER]]},
    ),
    rule(
        "S162", "Old switches", "--enable-flashinfer-allreduce-fusion", lambda line: False,
        "it is an old name", "Say --flashinfer-allreduce-fusion-backend auto, --image-processor"
        "-backend pil or --smg-grpc-mode instead.",
        "arg_groups/serving_hook.py:263, :288, :340", severity="warning",
        at=OLD, when=lambda line: any(line.on_by(flag) for flag in OLD),
    ),
    clash(
        "S163", "--disable-fast-image-processor", "Images are read in one way",
        (("this --image-processor-backend", lambda line: (
            text(line, "--image-processor-backend", "auto") not in ("auto", "pil")
        )),),
        "arg_groups/serving_hook.py:259",
    ),
    clash(
        "S164", MARK, "Watermarks are written by plain sampling",
        (
            ("--enable-custom-logit-processor", said("--enable-custom-logit-processor")),
            ("--dllm-algorithm", said("--dllm-algorithm")), ("prefill and decode apart", apart),
            ("this --speculative-algorithm", lambda line: (
                algorithm(line) not in (None, "NGRAM", "EAGLE", "EAGLE3")
            )),
            ("--speculative-use-rejection-sampling", said("--speculative-use-rejection-sampling")),
        ),
        "arg_groups/validation_hook.py:74-100",
    ),
    needs(
        "S165", "--watermark-config", "Watermarks are asked for", ((MARK, said(MARK)),),
        "arg_groups/validation_hook.py:36",
    ),
    clash(
        "S166", "--enable-response-store", "Responses are kept where they are whole",
        (("prefill and decode apart", apart),), "arg_groups/validation_hook.py:111",
    ),
    needs(
        "S167", "--load-publish-endpoint", "Load is told beside events of the KV cache",
        (("--kv-events-config", said("--kv-events-config")),),
        "arg_groups/validation_hook.py:452",
        when=lambda line: text(line, "--load-publish-endpoint").lower() not in ("", "off"),
    ),
    clash(
        "S168", TEXT_ONLY, "A model of text alone reads no images",
        (
            ("--encoder-only", said("--encoder-only")),
            ("--language-only", said("--language-only")),
            ("--enable-prefix-mm-cache", said("--enable-prefix-mm-cache")),
            ("--enable-broadcast-mm-inputs-process", said("--enable-broadcast-mm-inputs-process")),
            ("--mm-enable-dp-encoder", on("--mm-enable-dp-encoder")),
            ("this model", lambda line: line.model.family not in LANGUAGE),
        ),
        "arg_groups/model_hook.py:1094, :1104",
    ),
    clash(
        "S169", "--encoder-only", "A replica that reads images does nothing else",
        (("--language-only", said("--language-only")), ("prefill and decode apart", apart)),
        "arg_groups/pd_disaggregation_hook.py:309, :311",
    ),
    needs(
        "S170", "--enable-prefix-mm-cache", "Images are kept where they are read",
        (("--encoder-only", said("--encoder-only")),), "arg_groups/pd_disaggregation_hook.py:305",
    ),
    clash(
        "S171", TRANSPORT, "Images are handed over in an NVIDIA GPU, on one machine",
        (
            ("this accelerator", lambda line: line.platform != "cuda"),
            ("--nnodes above 1", lambda line: (
                line[TRANSPORT] == "cuda_ipc" and number(line, "--nnodes", 1) > 1
            )),
            ("stages", lambda line: line[TRANSPORT] == "cuda_vmm" and line.pipeline > 1),
        ),
        "arg_groups/serving_hook.py:892-914",
        when=lambda line: line[TRANSPORT] in ("cuda_ipc", "cuda_vmm")
        and not line.on_by("--encoder-only"),
    ),
    needs(
        "S172", "--kv-canary-sweep-interval", "KV is swept where it is watched",
        (("--kv-canary log or raise", lambda line: text(line, "--kv-canary", "none") != "none"),),
        "arg_groups/validation_hook.py:374", when=above("--kv-canary-sweep-interval", 0, 0),
    ),
    rule(
        "S173", "Chunks are tried again on prefill of one stage", "--optimistic-prefill-attempts",
        lambda line: line.pipeline == 1, "stages turn --optimistic-prefill-attempts off",
        "Leave it out.", "arg_groups/serving_hook.py:505", severity="warning",
        when=lambda line: mode(line) == "prefill"
        and line.told("--optimistic-prefill-attempts") > 0,
    ),
    rule(
        "S204", "Models of MindSpore run on Ascend", "--model-impl",
        lambda line: line["--model-impl"] != "mindspore",
        "--model-impl mindspore is for Ascend alone", "Leave it out.",
        "arg_groups/validation_hook.py:320",
    ),
)  # fmt: skip
