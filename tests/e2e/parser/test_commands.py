"""Every command line that is planned for vLLM is one that its own parser takes, and means the same.

A covering set: each accelerator that runs vLLM, with each model that comes with llmd-ctl and fits.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from llmd_ctl.errors import LlmdError
from llmd_ctl.plan import HOST, PORT, Observed, Plan, PlannedModel, PlannedVariant, plan
from llmd_ctl.plan.place import LEADER, RANK
from llmd_ctl.profiles import Catalog, LocalModel
from llmd_ctl.spec import load_fleets

PARSE = Path(__file__).parents[3] / "ci" / "engines" / "vllm_parse.py"
LAYOUT = PARSE.with_name("vllm_ranks.py")
ENGINE = "vllm"
LEAST = 300  # command lines; fewer would be no covering set
HEAD = """apiVersion: fleet.llmd-ctl.dev/v1alpha1
kind: Fleet
metadata: {name: test}
spec:
  targets: [{name: there, kind: kubernetes}]
  models:
"""
MODEL = """  - name: m{number}
    uri: hf://{uri}
    aliases: ["an/alias:of-{number}"]
    maxModelLen: 8192
    variants:
    - accelerator: {accelerator}
      target: there
      engine: {{name: vllm, image: "example/vllm:test"}}
      engineArgs: {args}
"""
ARGS = ("{}", "{maxNumSeqs: 17}", "{enablePrefixCaching: false, seed: 3}")


def planned(folder: Path, accelerator: str, catalog: Catalog) -> Plan | None:
    """A plan of all models that one accelerator can serve; None where it serves none."""
    models = list(enumerate(catalog.names("ModelProfile")))
    while models:
        texts = [
            MODEL.format(number=n, uri=uri, accelerator=accelerator, args=ARGS[n % len(ARGS)])
            for n, uri in models
        ]
        fleet = folder / "fleet.yaml"
        fleet.write_text(HEAD + "".join(texts))
        (loaded,) = load_fleets([fleet])
        try:
            return plan(loaded, catalog, Observed(), None)
        except LlmdError as error:
            places = [p.place.path for p in error.problems if p.place is not None]
            wrong = {int(path.split("[")[1].split("]")[0]) for path in places if "models[" in path}
            if not wrong:
                raise
            models = [one for index, one in enumerate(models) if index not in wrong]
    return None


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[PlannedModel]:
    folder = tmp_path_factory.mktemp("fleets")
    catalog = Catalog.load()
    found = []
    for name in catalog.names("AcceleratorProfile"):
        on = catalog.accelerator(name).spec.engines.get(ENGINE)
        if on is not None and on.not_yet is None:
            made = planned(folder, name, catalog)
            found += list(made.models) if made is not None else []
    return found


def parsed(vllm: Path, lines: list[Any], program: Path = PARSE) -> list[Any]:
    """What a program of vLLM's environment makes of each line."""
    done = subprocess.run(
        [str(vllm.parent / "python"), str(program)],
        input=json.dumps(lines),
        env=os.environ | {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"},
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    answers: list[Any] = json.loads(done.stdout.splitlines()[-1])  # below what vLLM logs
    assert len(answers) == len(lines)
    return answers


def arguments(variant: PlannedVariant) -> list[str]:
    """What stands behind `vllm serve`."""
    return filled(variant.command)


def filled(command: tuple[str, ...], rank: int = 0) -> list[str]:
    """A command of a machine with what is open in it."""
    start = command.index("serve") + 1
    fills = {HOST: "0.0.0.0", PORT: "8000", LEADER: "10.0.0.1", RANK: str(rank)}
    return [fills.get(word, word) for word in command[start:]]


@pytest.mark.real
@pytest.mark.timeout(600)
def test_vllm_takes_every_planned_command(
    models: list[PlannedModel], vllm_executable: Path
) -> None:
    assert len(models) >= LEAST
    answers = parsed(vllm_executable, [arguments(model.variants[0]) for model in models])
    wrong = [
        f"{model.uri} on {model.variants[0].accelerator}: {why}"
        for model, answer in zip(models, answers, strict=True)
        for why in differences(model, answer)
    ]
    assert wrong == []


APART = """apiVersion: fleet.llmd-ctl.dev/v1alpha1
kind: Fleet
metadata: {{name: test}}
spec:
  targets: [{{name: there, kind: kubernetes}}]
  router: {{kind: llm-d}}
  defaults: {{engine: {{name: vllm, image: "example/vllm:test"}}}}
  models:
  - name: chat
    uri: hf://meta-llama/Llama-3.1-8B-Instruct
    maxModelLen: 8192
    disaggregation: {how}
    variants:
    - {{name: p, accelerator: {accelerator}, role: prefill}}
    - {{name: d, accelerator: {accelerator}, role: decode}}
"""
SIDES = (
    ("nvidia-h100", "{transport: ib}"), ("nvidia-h100", "{transport: efa}"),
    ("nvidia-b200", "{connector: MooncakeConnector}"), ("amd-mi300x", "{minPromptTokens: 8}"),
    ("intel-max-1550", "{minPromptTokens: 8}"), ("google-tpu-v6e", "{minPromptTokens: 8}"),
)  # fmt: skip


@pytest.mark.real
def test_vllm_takes_prefill_and_decode_apart(tmp_path: Path, vllm_executable: Path) -> None:
    catalog = Catalog.load()
    variants: list[PlannedVariant] = []
    for accelerator, how in SIDES:
        fleet = tmp_path / "fleet.yaml"
        fleet.write_text(APART.format(accelerator=accelerator, how=how))
        (loaded,) = load_fleets([fleet])
        variants += plan(loaded, catalog, Observed(), None).models[0].variants
    answers = parsed(vllm_executable, [arguments(variant) for variant in variants])
    assert [answer["refused"] for answer in answers if "refused" in answer] == []


RANKS = """apiVersion: fleet.llmd-ctl.dev/v1alpha1
kind: Fleet
metadata: {{name: test}}
spec:
  targets: [{{name: there, kind: kubernetes}}]
  models:
  - name: chat
    uri: file://{model}
    maxModelLen: 256
    variants:
    - {{accelerator: nvidia-h200, parallelism: {split}}}
"""
LAYOUTS = (("{tensor: 1, data: 16}", 2, 8), ("{tensor: 2, data: 6}", 2, 3),
           ("{tensor: 4, data: 3}", 3, 1), ("{tensor: 2, pipeline: 2, data: 4}", 2, 2))  # fmt: skip


@pytest.mark.real
@pytest.mark.timeout(600)
def test_vllm_deals_ranks_out_to_machines_as_planned(
    tmp_path: Path, vllm_executable: Path, tiny_model: Path
) -> None:
    lines, expected = [], []
    for split, machines, each in LAYOUTS:
        fleet = tmp_path / "fleet.yaml"
        fleet.write_text(RANKS.format(model=tiny_model, split=split))
        (loaded,) = load_fleets([fleet])
        there = LocalModel(str(tiny_model), (tiny_model / "config.json").read_text())
        models = {f"file://{tiny_model}": there}
        variant = plan(loaded, Catalog.load(), Observed(models=models), None).models[0].variants[0]
        assert variant.place is not None
        assert variant.place.hosts == machines
        for rank in range(machines):
            command = variant.command if rank == 0 else variant.place.follow
            lines.append(filled(command, rank))
            expected.append(
                {
                    "first": rank * each, "here": each, "all": variant.parallelism.data,
                    "machines of a rank": 1, "leader": "10.0.0.1", "one address": True,
                    "serves": rank == 0,
                }
            )  # fmt: skip
    assert parsed(vllm_executable, lines, LAYOUT) == expected


def differences(model: PlannedModel, answer: Mapping[str, Any]) -> list[str]:
    """Where the engine would understand something else than the plan says."""
    if "refused" in answer:
        return [str(answer["refused"])]
    variant = model.variants[0]
    settings = {flag: setting.value for flag, setting in variant.settings.items()}
    wanted = {
        "model_tag": model.uri.removeprefix("hf://"),
        "served_model_name": [model.name, *model.aliases],
        "host": "0.0.0.0",
        "port": 8000,
        "tensor_parallel_size": variant.parallelism.tensor,
        "pipeline_parallel_size": variant.parallelism.pipeline,
        "data_parallel_size": variant.parallelism.data,
        "max_model_len": variant.max_model_len,
        "max_num_seqs": settings["--max-num-seqs"],
    }
    for name, flag in (("block_size", "--block-size"), ("kv_cache_dtype", "--kv-cache-dtype")):
        if variant.settings.get(flag) and flag in variant.command:
            wanted[name] = settings[flag]
    return [
        f"{name} is {answer[name]!r} and not {value!r}"
        for name, value in wanted.items()
        if answer[name] != value
    ]
