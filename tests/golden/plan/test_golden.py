"""Whole plans, reviewed as text. A changed number shows up here as a changed line."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from llmd_ctl.plan import Observed, Plan, plan
from llmd_ctl.profiles import Catalog, LocalModel
from llmd_ctl.spec import load_fleets

HERE = Path(__file__).parent
GIB = 2**30
CONFIG = {
    "model_type": "llama", "num_hidden_layers": 2, "hidden_size": 128, "intermediate_size": 256,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "vocab_size": 2048,
    "max_position_embeddings": 8192, "tie_word_embeddings": False, "torch_dtype": "float32",
}  # fmt: skip
MACHINE = Observed(
    accelerators={"cpu-x86": 1, "nvidia-h100": 8, "nvidia-l4": 8},
    memory_bytes=16 * GIB,
    cores=2,
    models={
        "./tiny": LocalModel(
            path="/models/tiny",
            config=json.dumps(CONFIG),
            gguf_path="/models/tiny/tiny.gguf",
            gguf_config=json.dumps({**CONFIG, "weight_bytes": 3_340_000}),
        )
    },
)
CASES = {"four-vendors": 1.0, "large-models": None, "cpu": None, "endpoints": None, "engines": None}
MACHINES = {"engines": replace(MACHINE, accelerators={"nvidia-h100": 8, "amd-mi300x": 8})}


def planned(name: str, monkeypatch: pytest.MonkeyPatch) -> Plan:
    monkeypatch.chdir(HERE)  # so that places do not name this machine's folders
    (loaded,) = load_fleets([f"{name}.fleet.yaml"])
    return plan(loaded, Catalog.load(), MACHINES.get(name, MACHINE), CASES[name])


@pytest.mark.parametrize("name", CASES)
def test_the_plan_is_the_reviewed_one(
    name: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    document = planned(name, monkeypatch).to_json()
    assert len(document["specHash"]) == 64
    document["specHash"] = "that of the fleet file, which `spec` owns"
    text = json.dumps(document, indent=1) + "\n"
    expected = HERE / f"{name}.plan.json"
    if request.config.getoption("--update-golden", default=False):
        expected.write_text(text)
    assert text == expected.read_text()


def test_every_fleet_here_is_a_case() -> None:
    assert sorted(CASES) == sorted(p.name.split(".")[0] for p in HERE.glob("*.fleet.yaml"))
