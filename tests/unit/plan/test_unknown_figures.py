"""Accelerators of which too little is known: what a plan makes of a missing figure or flag."""

import pytest

from tests.unit.plan.fleets import fleet_text, plan_text, planned, problems_of

HEAD = "apiVersion: fleet.llmd-ctl.dev/v1alpha1\nkind: AcceleratorProfile\n"
MINE = f"{HEAD}metadata: {{name: mine}}\nextends: nvidia-h100\nspec:\n  "
NOT_YET = ("ascend-910b", "ascend-910c", "aws-inf2", "aws-trn2", "rebellions-atom")


@pytest.mark.parametrize("name", NOT_YET)
def test_an_engine_whose_flags_are_not_known_is_refused_with_the_reason(name: str) -> None:
    (problem,) = problems_of(fleet_text(f"- {{name: v, accelerator: {name}}}"), code=65)
    assert problem.code == "LC2013"
    assert problem.message.startswith(f"vllm on {name} is not built yet: ")
    assert problem.allowed == ()
    assert problem.hint == (
        "Route to one that runs already (endpoint), or plan it with engine: {name: sim}."
    )
    assert problem.place is not None


def test_its_place_can_still_be_simulated() -> None:
    variant = planned("{name: v, accelerator: aws-trn2, engine: {name: sim}}")
    assert variant.simulated
    assert variant.facts is not None
    assert variant.facts["confidence"] == "low"


def test_what_runs_there_already_is_routed_to() -> None:
    endpoint = '{url: "http://10.0.0.7:8000"}'
    made = plan_text(fleet_text(f"- {{accelerator: ascend-910b, endpoint: {endpoint}}}"))
    (warning,) = made.warnings
    assert warning.code == "LC3022"
    assert "vllm-ascend follows vLLM 0.23.0" in warning.message


def test_without_a_memory_bandwidth_no_speed_is_made_up() -> None:
    mine = MINE + "memoryBandwidth: {value: null, unit: TB/s, source: not public}\n"
    text = fleet_text("- {name: v, accelerator: mine}")
    (problem,) = problems_of(text, code=65, profiles=[mine])
    assert problem.code == "LC2008"
    assert problem.message == (
        "the figures of mine make no possible replica: its memory bandwidth is not known"
    )


def test_a_node_of_unknown_size_holds_one_device_unless_the_inventory_says_more() -> None:
    mine = MINE + "devicesPerNode: {value: null, source: servers differ}\n"
    variant = "- {name: v, accelerator: mine}"
    (problem,) = problems_of(fleet_text(variant, uri="hf://Qwen/Qwen3-32B"), profiles=[mine])
    assert problem.code == "LC3010"
    more = fleet_text(
        variant,
        uri="hf://Qwen/Qwen3-32B",
        spec="inventory: [{accelerator: mine, devicesPerNode: 8}]",
    )
    made = plan_text(more, profiles=[mine]).models[0].variants[0]
    assert made.devices_per_replica == 2


@pytest.mark.parametrize("engine", ["tgi", "tensorrt-llm"])
def test_engines_that_nobody_knows_are_refused_where_they_are_named(engine: str) -> None:
    text = fleet_text(f"- {{name: v, accelerator: nvidia-h100, engine: {{name: {engine}}}}}")
    (problem,) = problems_of(text, code=65)
    assert problem.found == engine
    assert set(problem.allowed) == {"vllm", "sglang", "trtllm", "llamacpp", "sim"}
    assert problem.place is not None
