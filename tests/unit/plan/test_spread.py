"""Replicas over several machines: how many there are, what is on each, and who serves for all."""

from __future__ import annotations

import pytest

from llmd_ctl.plan import Parallel, PlannedVariant
from llmd_ctl.plan.place import LEADER, RANK
from llmd_ctl.plan.spread import machines_of
from tests.unit.plan.fleets import fleet_text, plan_text, problems_of

DEEPSEEK = "hf://deepseek-ai/DeepSeek-R1"


def on_eights(said: str, *, kind: str = "kubernetes", spec: str = "") -> str:
    """DeepSeek-R1 on machines of eight."""
    text = fleet_text(
        f"- {{name: v, accelerator: nvidia-h200, {said}}}",
        uri=DEEPSEEK, model="maxModelLen: 8192", spec=spec,
    )  # fmt: skip
    return text.replace("kind: local", f"kind: {kind}")


def planned(said: str) -> PlannedVariant:
    return plan_text(on_eights(said), simulate=None).models[0].variants[0]


@pytest.mark.parametrize(
    ("split", "devices", "machines"),
    [
        (Parallel(8), 8, 1),
        (Parallel(4, 2), 8, 1),
        (Parallel(8, 2), 8, 2),
        (Parallel(8, 3), 8, 3),
        (Parallel(4, 4), 8, 2),
        (Parallel(4, 3), 8, 3),  # equally many stages on each
        (Parallel(1, 1, 16), 8, 2),
        (Parallel(1, 1, 9), 8, 3),
        (Parallel(4, 1, 3), 8, 3),
        (Parallel(2, 2, 3), 8, 3),  # whole ranks: two machines would cut one in two
        (Parallel(8, 2, 2), 8, 4),
        (Parallel(3, 1, 5), 8, 5),
    ],
)
def test_each_machine_has_as_much_as_any_other(
    split: Parallel, devices: int, machines: int
) -> None:
    assert machines_of(split, devices) == machines
    assert split.devices % machines == 0
    assert split.devices // machines <= devices


@pytest.mark.parametrize(
    ("parallel", "hosts", "each"),
    [
        ("{tensor: 1, data: 16, expert: 16}", 2, 8),
        ("{tensor: 4, data: 4, expert: 16}", 2, 8),
        ("{tensor: 8, data: 2}", 2, 8),
        ("{tensor: 8, data: 3}", 3, 8),
        ("{tensor: 1, data: 32, expert: 32}", 4, 8),
        ("{tensor: 4, pipeline: 2, data: 2}", 2, 8),
        ("{tensor: 8, pipeline: 2, data: 2}", 4, 8),  # a rank that is on two itself
    ],
)
def test_ranks_leave_a_machine_in_a_cluster(parallel: str, hosts: int, each: int) -> None:
    found = planned(f"parallelism: {parallel}")
    assert found.place
    assert (found.place.hosts, found.devices_per_replica) == (hosts, hosts * each)
    assert found.place.accelerators.count == each
    line, follow = " ".join(found.command), " ".join(found.place.follow)
    assert f"--data-parallel-size {found.parallelism.data} " in line
    assert f"--nnodes {hosts} --node-rank 0 --master-addr {LEADER}" in line
    assert f"--nnodes {hosts} --node-rank {RANK} --master-addr {LEADER} --headless" in follow
    assert any(f"on {hosts} hosts" in reason for reason in found.reasons)


def test_the_plan_takes_as_many_devices_for_a_rank_as_it_needs() -> None:
    text = on_eights("parallelism: {data: 2}").replace("h200", "h100")
    found = plan_text(text, simulate=None).models[0].variants[0]
    assert (found.parallelism.tensor, found.devices_per_replica) == (8, 16)


@pytest.mark.parametrize("kind", ["systemd", "compose", "local"])
def test_elsewhere_ranks_stay_on_a_machine(kind: str) -> None:
    (problem,) = problems_of(on_eights("parallelism: {tensor: 8, data: 2}", kind=kind))
    assert (problem.code, problem.allowed) == ("LC3011", ("1", "2", "4"))
    assert "kubernetes" in (problem.hint or "")


@pytest.mark.parametrize(
    "flag",
    [
        "dataParallelSizeLocal: 8",
        "nnodes: 2",
        "nodeRank: 0",
        "masterAddr: a",
        "dataParallelHybridLb: true",
        "dataParallelExternalLb: true",
        "dataParallelRank: 1",
    ],
)
def test_what_deals_ranks_out_is_the_plans(flag: str) -> None:
    text = on_eights(f"parallelism: {{tensor: 4, data: 4}}, engineArgs: {{{flag}}}")
    assert [one.code for one in problems_of(text, code=65, simulate=None)] == ["LC2023"]


@pytest.mark.parametrize(("nodes", "fits"), [(3, True), (2, False)])
def test_an_inventory_seats_what_is_on_each_machine(nodes: int, *, fits: bool) -> None:
    item = f"{{accelerator: nvidia-h200, nodes: {nodes}, devicesPerNode: 8}}"
    text = on_eights("parallelism: {tensor: 8, data: 3}", spec=f"inventory: [{item}]")
    if fits:
        assert plan_text(text).models
    else:
        assert "LC3013" in {problem.code for problem in problems_of(text)}
