"""Fleets for plan tests: written as text, planned as a user's would be."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from llmd_ctl.errors import LlmdError, Problem
from llmd_ctl.plan import Observed, Plan, PlannedVariant, plan
from llmd_ctl.profiles import Catalog, LocalModel
from llmd_ctl.spec import load_fleets

GIB = 2**30
MACHINE = Observed(accelerators={"cpu-x86": 1}, memory_bytes=16 * GIB, cores=2)
TINY = {
    "model_type": "llama", "num_hidden_layers": 2, "hidden_size": 128, "intermediate_size": 256,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "vocab_size": 2048,
    "max_position_embeddings": 8192, "tie_word_embeddings": False, "torch_dtype": "float32",
}  # fmt: skip
LLAMA = "hf://meta-llama/Llama-3.1-8B-Instruct"


def fleet_text(variants: str, *, uri: str = LLAMA, model: str = "", spec: str = "") -> str:
    """A fleet of one model. `variants` are lines of a YAML list, `model` and `spec` more keys."""
    lines = "\n".join(f"    {line}" for line in variants.strip("\n").splitlines())
    more = "\n".join(f"    {line}" for line in model.strip("\n").splitlines())
    above = "\n".join(f"  {line}" for line in spec.strip("\n").splitlines())
    return f"""apiVersion: fleet.llmd-ctl.dev/v1alpha1
kind: Fleet
metadata: {{name: test}}
spec:
  targets: [{{name: here, kind: local}}]
{above}
  models:
  - name: chat
    uri: {uri}
{more}
    variants:
{lines}
"""


def plan_text(
    text: str,
    *,
    simulate: float | None = 1.0,
    observed: Observed = MACHINE,
    profiles: Sequence[str] = (),
    rehearsal: bool = False,
) -> Plan:
    """Plan a fleet's text; `profiles` are the texts of the user's profile files."""
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for number, profile in enumerate(profiles):
            files.append(Path(folder) / f"profile-{number}.yaml")
            files[-1].write_text(profile)
        fleet = Path(folder) / "fleet.yaml"
        fleet.write_text(text)
        (loaded,) = load_fleets([fleet])
        return plan(loaded, Catalog.load(files), observed, simulate, rehearsal=rehearsal)


def planned(variant: str, **more: str) -> PlannedVariant:
    """Plan a fleet of one variant, simulated, and return it."""
    return plan_text(fleet_text(f"- {variant}", **more)).models[0].variants[0]


def problems_of(
    text: str,
    *,
    code: int = 66,
    simulate: float | None = 1.0,
    observed: Observed = MACHINE,
    profiles: Sequence[str] = (),
) -> tuple[Problem, ...]:
    """Return the problems that refuse a fleet with this exit code."""
    with pytest.raises(LlmdError) as raised:
        plan_text(text, simulate=simulate, observed=observed, profiles=profiles)
    assert raised.value.exit_code == code
    return raised.value.problems


def refused(variant: str, *, code: int = 66, **more: str) -> Problem:
    """Return the one problem that refuses a variant."""
    (problem,) = problems_of(fleet_text(f"- {variant}", **more), code=code)
    return problem


def tiny(folder: Path, **config: object) -> Observed:
    """This machine with a tiny model at ./tiny, as both a config.json and a GGUF header."""
    text = json.dumps({**TINY, **config})
    packed = json.dumps({**TINY, "dtype": "float32", "weight_bytes": 4_000_000, **config})
    path = str(folder)
    local = LocalModel(path, text, f"{path}/tiny.gguf", packed)
    return replace(MACHINE, models={"./tiny": local})


def warned(variant: str, **more: str) -> tuple[str, ...]:
    """Return the codes of the warnings of a variant's plan."""
    return tuple(p.code for p in plan_text(fleet_text(f"- {variant}", **more)).warnings)
