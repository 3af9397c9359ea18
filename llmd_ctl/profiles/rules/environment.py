"""Rules of vLLM on the environment: variables that are gone or not known, what they may hold.

What vLLM reads is a table of the engine (`variables`), generated from its envs.py. Ports to other
vendors read variables of their own, which are not in it.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

from llmd_ctl.profiles.rules.line import Line, Platform
from llmd_ctl.profiles.rules.rule import Rule
from llmd_ctl.profiles.rules.scheduling import number

STRICT = "--fail-on-environ-validation"
LONG = "VLLM_ALLOW_LONG_MAX_MODEL_LEN"
RUNNER = "VLLM_USE_V2_MODEL_RUNNER"
OWN: tuple[Platform, ...] = ("cuda", "rocm", "xpu", "cpu")
PLUGINS: tuple[Platform, ...] = ("tpu", "hpu", "npu", "rbln", "neuron")
NEARLY = 0.85  # below it other variables of one maker are near to each other
# vLLM 0.32.0 v1/attention/backend.py:337: backends that compute alike in every batch.
INVARIANT = (
    "FLASH_ATTN", "FLASH_ATTN_DIFFKV", "TRITON_ATTN", "TRITON_ATTN_DIFFKV", "FLEX_ATTENTION",
    "FLASH_ATTN_MLA", "TRITON_MLA",
)  # fmt: skip
ON = ("1", "true")


def numbered_on(line: Line, name: str) -> bool:
    """Whether a variable that holds a number is on."""
    value = line.env.get(name, "0").strip()
    digits = value.lstrip("+-")
    return digits.isdigit() and digits.strip("0") != ""


def _strange(line: Line) -> list[str]:
    known = line.engine.spec.variables
    return [name for name in line.env if name.startswith("VLLM_") and name not in known]


def _refused(line: Line) -> list[str]:
    known = line.engine.spec.variables
    return [
        name for name, text in line.env.items() if name in known and not known[name].takes(text)
    ]


def _told_strange(line: Line) -> Mapping[str, object]:
    names = _strange(line)
    gone = line.engine.spec.removed
    known = [name for name in line.engine.spec.variables if name.startswith("VLLM_")]
    near = difflib.get_close_matches(names[0], known, n=1, cutoff=0.8)
    own = f"Write {near[0]}, if that is meant" if near else "Remove it: nothing reads it"
    advice = gone.get(names[0], own).removesuffix(".")
    return {"name": names[0], "names": ", ".join(names), "advice": advice}


def _told_refused(line: Line) -> Mapping[str, object]:
    names = _refused(line)
    told = ", ".join(f"{name}={line.env[name]}" for name in names)
    return {"name": names[0], "told": told}


def _strange_here(line: Line) -> list[str]:
    """Variables that neither the engine nor the accelerator's plugin reads.

    Those of others, such as a driver's, are told only where they are nearly one of the plugin's.
    """
    own = line.on.variables[line.version]
    of_engine = line.engine.spec.variables
    return [
        name for name in line.env
        if name not in own and name not in of_engine
        and (name.startswith("VLLM_") or _near(name, own))
    ]  # fmt: skip


def _near(name: str, known: Iterable[str]) -> str | None:
    same = (each for each in known if each.partition("_")[0] == name.partition("_")[0])
    return next(iter(difflib.get_close_matches(name, list(same), n=1, cutoff=NEARLY)), None)


def _told_here(line: Line) -> Mapping[str, object]:
    names = _strange_here(line)
    near = _near(names[0], (*line.on.variables[line.version], *line.engine.spec.variables))
    own = f"Write {near}, if that is meant" if near else "Remove it: nothing reads it"
    advice = line.engine.spec.removed.get(names[0], own).removesuffix(".")
    return {"name": names[0], "names": ", ".join(names), "advice": advice}


def _longer(line: Line) -> bool:
    said = line.told("--max-model-len")
    return said > line.model.max_positions and not line.says("--hf-overrides", "--config-format")


def _allows_long(line: Line) -> bool:
    return line.env.get(LONG, "0").strip().lower() in ON


RULES = (
    Rule(
        "V02",
        "Variables of the environment are ones that the engine reads",
        when=lambda line: line.is_tabled and not line.on_by(STRICT),
        require=lambda line: not _strange(line),
        message="{engine.name} {version} reads no {names}: it warns and goes on without",
        remedy="{advice}.",
        words=_told_strange,
        at=("{name}",),
        severity="warning",
        source="vLLM 0.32.0 platforms/interface.py:1446: validate_environ; envs.py",
        platforms=OWN,
    ),
    Rule(
        "V161",
        "Variables of the environment are ones that the engine or its plugin reads",
        when=lambda line: line.version in line.on.variables,
        require=lambda line: not _strange_here(line),
        message="{on.package} {version} reads no {names}",
        remedy="{advice}.",
        words=_told_here,
        at=("{name}",),
        severity="warning",
        source="what tpu-inference 0.32.0, vllm-ascend 0.23.0.post1, vllm-gaudi 091bbad and"
        " vllm-rbln 0.12.0 read; AWS Neuron docs 2.33.0",
        platforms=PLUGINS,
    ),
    Rule(
        "V57",
        "Where the environment is checked, nothing in it is unknown",
        when=lambda line: line.is_tabled and line.on_by(STRICT),
        require=lambda line: not _strange(line),
        message="{engine.name} {version} knows no {names}, and is told to stop at that",
        remedy="{advice}.",
        words=_told_strange,
        at=("{name}", STRICT),
        source="vLLM 0.32.0 platforms/interface.py:1446: validate_environ",
    ),
    Rule(
        "V58",
        "Variables of the environment hold what the engine can read",
        when=lambda line: line.is_tabled,
        require=lambda line: not _refused(line),
        message="the engine cannot read {told}",
        remedy="Write a value that it takes (a switch is 1 or 0), or leave the variable out.",
        allowed=lambda line: line.engine.spec.variables[_refused(line)[0]].limits,
        words=_told_refused,
        at=("{name}",),
        source="vLLM 0.32.0 envs.py; v1/engine/core.py:258 reads all of them",
        since="0.24.0",
    ),
    Rule(
        "V59",
        "The context is no longer than the model's, unless that is asked for",
        when=lambda line: not _allows_long(line),
        require=lambda line: not _longer(line),
        message="--max-model-len {--max-model-len} is longer than the model's"
        " {model.max_positions} tokens",
        remedy="Take at most the model's own, or one with rope scaling.",
        allowed=lambda line: (f"1 to {line.model.max_positions}",),
        at=("--max-model-len",),
        source="vLLM 0.32.0 config/model.py:2639",
        sized=True,
    ),
    Rule(
        "V60",
        "A context beyond the model's own gives nonsense",
        when=_allows_long,
        require=lambda line: not _longer(line),
        message="beyond {model.max_positions} tokens the model was never trained, and may answer"
        " nonsense",
        remedy="Leave VLLM_ALLOW_LONG_MAX_MODEL_LEN out, and take at most the model's own length.",
        at=("--max-model-len", LONG),
        severity="warning",
        source="vLLM 0.32.0 config/model.py:2646",
    ),
    Rule(
        "V61",
        "Answers that do not depend on the batch come of a backend that can",
        when=lambda line: numbered_on(line, "VLLM_BATCH_INVARIANT") and line.backend is not None,
        require=lambda line: line.backend in INVARIANT,
        message="{backend} does not compute alike in every batch, as VLLM_BATCH_INVARIANT asks",
        remedy="Leave the backend to the engine, or name one that can.",
        allowed=lambda _line: INVARIANT,
        at=("--attention-backend", "--attention-config", "VLLM_BATCH_INVARIANT"),
        source="vLLM 0.32.0 v1/attention/backend.py:337",
        platforms=("cuda", "rocm", "xpu"),
    ),
    Rule(
        "V62",
        "The old model runner is not asked for what it cannot",
        when=lambda line: line.env.get(RUNNER) == "0",
        require=lambda line: not _new_only(line),
        message="without the new model runner (VLLM_USE_V2_MODEL_RUNNER=0) there is no {what}",
        remedy="Leave VLLM_USE_V2_MODEL_RUNNER out.",
        words=lambda line: {"what": ", no ".join(_new_only(line))},
        at=(RUNNER,),
        source="vLLM 0.32.0 config/vllm.py:2958: _get_v1_model_runner_unsupported_features",
        since="0.24.0",
        platforms=("cuda", "rocm", "xpu", "cpu"),
    ),
    Rule(
        "V63",
        "The new model runner is not asked for what it cannot",
        when=lambda line: numbered_on(line, RUNNER),
        require=lambda line: not _old_only(line),
        message="the new model runner (VLLM_USE_V2_MODEL_RUNNER=1) has no {what}",
        remedy="Leave VLLM_USE_V2_MODEL_RUNNER out: the engine then takes the old one.",
        words=lambda line: {"what": ", no ".join(_old_only(line))},
        at=(RUNNER,),
        source="vLLM 0.32.0 config/vllm.py:2918: _get_v2_model_runner_unsupported_features",
        since="0.24.0",
        platforms=("cuda", "rocm", "xpu", "cpu"),
    ),
)


def _new_only(line: Line) -> list[str]:
    method = line.draft.get("method")
    pairs = (
        ("prefill context parallelism", number(line, "--prefill-context-parallel-size", 1) > 1),
        ("pipelines with --async-scheduling", line.pipeline > 1 and _asked_async(line)),
        ("drafts by dspark", method == "dspark"),
        ("adaptive verification", line.draft.get("enable_adaptive_verification") is True),
        ("drafts with a head of other weights", "draft_lm_head_quantization" in line.draft),
        ("sampling shared by devices", line.on_by("--enable-batch-sharded-sampling")),
        ("replay of sampling", line.on_by("--return-sampling-mask")),
        ("replay of traces", line.on_by("--enable-trace-replay")),
        ("routed experts in answers", line.on_by("--enable-return-routed-experts")),
    )
    return [what for what, asked in pairs if asked]


def _asked_async(line: Line) -> bool:
    return line.given.get("--async-scheduling") is True


def _old_only(line: Line) -> list[str]:
    drafts = line.draft
    method = drafts.get("method")
    alone = drafts.get("parallel_drafting") is True and method not in ("dflash", "dspark")
    pairs = (
        (f"drafts by {method}", method in ("suffix", "medusa", "mlp_speculator", "custom_class")),
        ("drafts in parallel", alone),
        ("drafts in another vocabulary", drafts.get("use_heterogeneous_vocab") is True),
    )
    return [what for what, asked in pairs if asked]
