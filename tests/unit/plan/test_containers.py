"""What a plan says of replicas in containers: how they start, over hosts too, and what they get."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from llmd_ctl.plan import PlannedVariant
from llmd_ctl.plan.place import Accelerators, Container, Nodes, Place
from llmd_ctl.profiles import Catalog
from tests.unit.plan.fleets import plan_text, problems_of, tiny
from tests.unit.plan.test_elsewhere import GKE, RACK, on

SHORT = "maxModelLen: 4096"
COMPOSE = "{name: here, kind: compose}"


def planned(variant: str, target: str = GKE, simulate: float | None = None) -> PlannedVariant:
    whole = plan_text(on(target, f"- {variant}", model=SHORT), simulate=simulate)
    return whole.models[0].variants[0]


def place_of(variant: PlannedVariant) -> Place:
    assert variant.place is not None
    return variant.place


# --- over several hosts ---


def test_hosts_are_joined_in_the_engines_own_way() -> None:
    found = planned("{accelerator: nvidia-h100, parallelism: {tensor: 8, pipeline: 2}}")
    joined = ("--nnodes", "2", "--node-rank", "0", "--master-addr", "{leader}")
    assert found.command[-6:] == joined
    place = place_of(found)
    assert place.hosts == 2
    same = found.command[:-6]
    assert place.follow == (
        *same, "--nnodes", "2", "--node-rank", "{rank}", "--master-addr", "{leader}", "--headless",
    )  # fmt: skip


def test_every_engine_that_spans_hosts_says_which_is_which() -> None:
    catalog = Catalog()
    for name, version in (("vllm", "0.23.0"), ("vllm", "0.33.0"), ("sglang", "0.5.23")):
        several = catalog.engine(name, version).spec.several
        assert several is not None
        assert "{command}" in several.lead[0]
        assert "{command}" in several.follow[0]
        assert "{rank}" in several.follow
        assert "{rank}" not in several.lead
        assert "{hosts}" in several.lead
        assert "{hosts}" in several.follow
        flags = catalog.engine(name, version).spec.flags
        assert {word for word in several.follow if word.startswith("--")} <= set(flags)


@pytest.mark.parametrize(
    ("split", "hosts", "count"),
    [("tensor: 2, pipeline: 8", 2, 8), ("tensor: 2, pipeline: 4", 1, 8),
     ("tensor: 8, pipeline: 4", 4, 8), ("tensor: 4, pipeline: 3", 3, 4)],
)  # fmt: skip
def test_stages_share_hosts_evenly(split: str, hosts: int, count: int) -> None:
    place = place_of(planned(f"{{accelerator: nvidia-h100, parallelism: {{{split}}}}}"))
    assert (place.hosts, place.accelerators.count) == (hosts, count)


def test_an_accelerator_may_have_another_way() -> None:
    one = planned("{accelerator: google-tpu-v6e, parallelism: {tensor: 8}}")
    found = planned("{accelerator: google-tpu-v6e, parallelism: {tensor: 16}, topology: 4x4}")
    place = place_of(found)
    assert found.command[:2] == ("sh", "-c")
    assert found.command[4 : 4 + 3] == one.command[:3]
    assert place.follow[-1] == "{leader}"
    assert (found.env["TPU_MULTIHOST_BACKEND"], "TPU_MULTIHOST_BACKEND" in one.env) == (
        "ray",
        False,
    )
    assert (place.hosts, place.accelerators.count) == (4, 4)
    assert place.nodes.joined_by == "cloud.google.com/gke-nodepool"


def test_an_engine_that_stays_on_one_host_is_refused_more(monkeypatch: pytest.MonkeyPatch) -> None:
    text = on(GKE, "- {accelerator: nvidia-h100, parallelism: {tensor: 8, pipeline: 2}}")
    assert plan_text(text, simulate=None).summary.fits
    monkeypatch.setattr("llmd_ctl.plan.elsewhere.several_of", lambda *_: None)
    (problem,) = problems_of(text, simulate=None)
    assert problem.code == "LC3054"
    assert problem.message == "vllm does not run a replica over 2 machines"


def test_chips_of_a_named_slice_are_joined_and_no_others() -> None:
    variant = "{accelerator: google-tpu-v6e, parallelism: {tensor: 16}"
    (problem,) = problems_of(on(GKE, f"- {variant}}}", model=SHORT), simulate=None)
    assert problem.code == "LC3011"
    assert planned(f"{variant}, topology: 4x4}}").parallelism.tensor == 16


# --- what a container gets ---


def test_what_a_device_plugin_sees_to_is_not_asked_for_twice() -> None:
    here, there = (
        place_of(planned("{accelerator: amd-mi300x}", COMPOSE)),
        place_of(planned("{accelerator: amd-mi300x}")),
    )
    assert here.container.devices == ("/dev/kfd", "/dev/dri")
    assert here.container.host_ipc
    assert there.container == replace(
        here.container, devices=(), groups=(), host_ipc=False, seccomp="RuntimeDefault"
    )


def test_groups_that_only_have_names_are_told_of_in_a_cluster() -> None:
    profile = """apiVersion: fleet.llmd-ctl.dev/v1alpha1
kind: AcceleratorProfile
metadata: {name: mine}
extends: nvidia-h100
spec: {container: {shmBytes: {value: 1, unit: GiB, source: mine}, groups: ["107", render]}}
"""
    for target, told in ((GKE, True), (COMPOSE, False)):
        text = on(target, "- {accelerator: mine}", spec="profiles: [./profile-0.yaml]")
        found = plan_text(text, profiles=(profile,), simulate=None)
        assert any("group render" in warning.message for warning in found.warnings) is told


def test_an_engine_keeps_what_it_makes_in_the_cache() -> None:
    variables = place_of(planned("{accelerator: nvidia-h100}")).cache.variables
    assert variables["HF_HOME"] == "huggingface"
    assert "VLLM_CACHE_ROOT" in variables


def test_a_simulated_engine_takes_nothing_but_what_the_file_says() -> None:
    variant = "{accelerator: google-tpu-v6e, nodeSelector: {a: b}, resources: {cpu: 1}}"
    place = place_of(planned(variant, simulate=1.0))
    assert place.image is not None
    assert place.image.reference.startswith("ghcr.io/llmd-ctl/router:")
    assert (place.accelerators, place.topology, place.hosts) == (Accelerators(), None, 1)
    assert place.nodes == Nodes(selector={"a": "b"})
    assert place.container == Container(cpu=1)


def test_units_have_no_image_and_a_cluster_has_the_routers_own() -> None:
    assert place_of(planned("{accelerator: nvidia-h100}", RACK, 1.0)).image is None
    router = plan_text(on(GKE, "- {accelerator: nvidia-h100}")).router
    assert router is not None
    assert router.place is not None
    assert router.place.image is not None
    assert router.place.image.user == "65532"


@pytest.mark.parametrize(
    ("target", "launch"),
    [(GKE, "/app/llama-server"), (COMPOSE, "/app/llama-server"), (RACK, "{python}")],
)
def test_a_server_in_its_image_is_started_as_it_is_there(
    target: str, launch: str, tmp_path: Path
) -> None:
    variant = "- {accelerator: cpu-x86, engine: {name: llamacpp, image: a/b:c}}"
    text = on(target, variant, uri="./tiny")
    whole = plan_text(text, simulate=None, observed=tiny(tmp_path))
    found = whole.models[0].variants[0]
    assert found.command[0] == launch
    assert place_of(found).cache.variables == {"LLAMA_CACHE": "llama.cpp"}


def test_a_model_that_lies_on_machines_is_let_into_the_container(tmp_path: Path) -> None:
    text = on(GKE, "- {accelerator: nvidia-h100}", uri="./tiny")
    (model,) = plan_text(text, simulate=None, observed=tiny(tmp_path)).models
    (found,) = model.variants
    assert place_of(found).container.mounts == (str(tmp_path),)
    assert str(tmp_path) in found.command
