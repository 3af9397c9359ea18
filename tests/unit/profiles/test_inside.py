"""What may stand inside a flag and in a variable, as vLLM's own configuration classes read it."""

import pytest

from llmd_ctl.profiles.catalog import Catalog
from llmd_ctl.profiles.inside import Inside, Kind, Variable, faults

SPEC = Catalog.load().engine("vllm").spec


@pytest.mark.parametrize(
    ("kind", "taken", "refused"),
    [
        ("int", [1, "2", 3.0, True, None], ["x", 1.5, [1], {}]),
        ("float", [1, 0.5, "0.5"], ["x", [], {}]),
        ("bool", [True, 0, "yes", "OFF"], ["x", 2, [], {}]),
        ("str", ["x", ""], [1, True, [], {}]),
        ("list", [[], [1]], ["x", 1, {}]),
        ("map", [{}], ["x", 1, []]),
    ],
)
def test_a_type_takes_what_the_engine_reads_as_it(
    kind: Kind, taken: list[object], refused: list[object]
) -> None:
    inside = Inside(type=kind)
    assert [value for value in taken if list(faults(inside, value))] == []
    assert [value for value in refused if not list(faults(inside, value))] == []


def test_limits_are_those_of_the_table() -> None:
    table = SPEC.inside["--watermark"]
    assert (table.takes(0), table.takes(1.0), table.limits) == (
        True,
        False,
        ("at least 0, below 1",),
    )


def test_every_fault_of_a_value_is_told_with_its_place() -> None:
    value = {"pass_config": {"nothing": 1}, "compile_cache_save_format": "zip"}
    found = [
        (each.path, each.unknown) for each in faults(SPEC.inside["--compilation-config"], value)
    ]
    assert found == [("pass_config.nothing", True), ("compile_cache_save_format", False)]


def test_a_variable_takes_what_its_reader_does() -> None:
    assert Variable(type="int").takes(" 1 ")
    assert not Variable(type="int").takes("true")
    assert Variable(type="float").takes("0.5")
    assert SPEC.variables["VLLM_GDN_DECODE_KERNEL"].takes("CUDA")
    assert not SPEC.variables["VLLM_WORKER_MULTIPROC_METHOD"].takes("forkserver")
    assert SPEC.variables["VLLM_GPT_OSS_SYSTEM_TOOL_MCP_LABELS"].takes(
        "container, code_interpreter"
    )
