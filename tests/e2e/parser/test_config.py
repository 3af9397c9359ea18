"""The rules beside vLLM's own configuration, on NVIDIA GPUs that are not here: lines by chance.

What the configuration refuses, a rule, the reader of flags or the plan's arithmetic refuses. What
it takes, no rule refuses but those of what workers find later. The lines are seeded; another seed
is another few hundred.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from llmd_ctl.profiles.engine import Flag
from tests.e2e.parser.test_commands import PARSE, parsed
from tests.unit.profiles.rules.lines import CATALOG, judged

CONFIG = PARSE.with_name("vllm_config.py")
SEED, LINES, DEVICES = 20261201, 500, 8
CAPABILITIES = {
    "nvidia-a100": (8, 0), "nvidia-l4": (8, 9), "nvidia-h100": (9, 0), "nvidia-b200": (10, 0),
    "nvidia-rtx-pro-6000": (12, 0),
}  # fmt: skip
MODELS = {
    "Qwen/Qwen3-8B": "Qwen3ForCausalLM", "Qwen/Qwen3-30B-A3B": "Qwen3MoeForCausalLM",
    "openai/gpt-oss-20b": "GptOssForCausalLM", "deepseek-ai/DeepSeek-R1": "DeepseekV3ForCausalLM",
}  # fmt: skip
# What vLLM asks of files, of the network or of a tokenizer, and what says the same as another flag.
UNASKED = (
    "--chat-template", "--code-revision", "--config", "--convert", "--download-dir",
    "--enable-auto-tool-choice", "--enable-prompt-embeds", "--generation-config", "--headless",
    "--hf-config-path", "--load-format", "--log-config-file", "--master-addr", "--model",
    "--model-impl", "--nnodes", "--node-rank", "--quantization", "--reasoning-parser",
    "--revision", "--runner", "--skip-tokenizer-init", "--spec-method", "--spec-model",
    "--tokenizer", "--tokenizer-mode",
    "--tokenizer-revision", "--tool-call-parser", "--trust-request-chat-template",
)  # fmt: skip
NUMBERS = {"int": (-1, 0, 1, 2, 3, 4, 8, 16, 64, 128, 256, 1024, 4096), "float": (-1, 0, 0.5, 1.5)}
# What is found after the configuration, by workers, attention and experts; and numbers that our own
# reader does not take, though the configuration has no limit for them.
LATER = ("V24", "V154", "A16", "V178", "V179", "V180", "LC2021", "V56")
# Where the way of asking ends, and not what is asked about.
NOT_ASKED = ("AttributeError", "ModuleNotFoundError", "ImportError", "NotImplementedError", "None")


class Asked(Struct, frozen=True):
    """A line on an accelerator, and what the configuration said: None, or why not."""

    accelerator: str
    model: str
    words: tuple[str, ...]
    refused: str | None = None

    @property
    def is_too_wide(self) -> bool:
        """Whether it was refused for want of devices, which a plan reckons and no rule does."""
        return self.refused is not None and "World size" in self.refused

    @property
    def is_answered(self) -> bool:
        """Whether the configuration itself gave the answer."""
        return self.refused is None or not any(word in self.refused for word in NOT_ASKED)


def word(flag: str, spec: Flag, chance: random.Random) -> list[str]:
    """A flag with a value that its parser takes; none where only a person would know one."""
    if spec.choices:
        return [flag, str(chance.choice(spec.choices))]
    if spec.type == "bool":
        return [flag]
    return [flag, str(chance.choice(NUMBERS[spec.type]))] if spec.type in NUMBERS else []


def lines() -> Iterator[Asked]:
    """Lines of one to three flags."""
    chance = random.Random(SEED)
    flags = CATALOG.engine("vllm", "0.32.0").spec.flags
    known = sorted(flag for flag in flags if flag not in UNASKED)
    made = 0
    while made < LINES:
        picked = chance.sample(known, chance.choice((1, 1, 2, 3)))
        words = [each for flag in picked for each in word(flag, flags[flag], chance)]
        if words:
            made += 1
            on, model = chance.choice(sorted(CAPABILITIES)), chance.choice(sorted(MODELS))
            yield Asked(on, model, tuple(words))


def written(folder: Path, model: str) -> str:
    """The folder of a model's config.json, as vLLM reads it."""
    config: dict[str, Any] = dict(CATALOG.model(model).spec.config or {})
    config["architectures"] = [MODELS[model]]
    packed = config.get("quantization_config")
    if isinstance(packed, dict) and packed.get("quant_method") == "fp8":
        config["quantization_config"] = {"activation_scheme": "dynamic", **packed}
    place = folder / model.replace("/", "--")
    place.mkdir(exist_ok=True)
    (place / "config.json").write_text(json.dumps(config))
    return str(place)


@pytest.fixture(scope="module")
def answered(vllm_executable: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Asked]:
    folder, asked = tmp_path_factory.mktemp("models"), list(lines())
    questions = [
        {
            "line": [written(folder, each.model), *each.words],
            "name": each.accelerator,
            "capability": CAPABILITIES[each.accelerator],
            "memoryBytes": int(CATALOG.accelerator(each.accelerator).spec.memory_bytes.known),
            "devices": DEVICES,
        }
        for each in asked
    ]
    answers = parsed(vllm_executable, questions, CONFIG)
    pairs = zip(asked, answers, strict=True)
    found = [Asked(each.accelerator, each.model, each.words, said) for each, said in pairs]
    assert sum(each.is_answered for each in found) > LINES * 0.9
    return [each for each in found if each.is_answered and not each.is_too_wide]


def errors(asked: Asked) -> list[str]:
    """Why we refuse a line."""
    return judged(asked.accelerator, asked.model, asked.words, devices=DEVICES).errors


@pytest.mark.real
@pytest.mark.timeout(600)
def test_what_the_configuration_refuses_is_refused(answered: list[Asked]) -> None:
    refused = [each for each in answered if each.refused is not None]
    assert len(refused) > LINES / 10
    assert [each for each in refused if not errors(each)] == []


@pytest.mark.real
@pytest.mark.timeout(600)
def test_what_the_configuration_takes_is_refused_for_what_comes_later_alone(
    answered: list[Asked],
) -> None:
    taken = [each for each in answered if each.refused is None]
    assert len(taken) > LINES / 3
    wrong = [
        (each, told)
        for each in taken
        for told in errors(each)
        if told.partition(":")[0] not in LATER
    ]
    assert wrong == []
