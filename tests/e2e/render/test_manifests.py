"""Every golden fleet, by the real kustomize and Helm, before a real API server.

Nothing is kept there: the server says what it would have said, unknown fields included.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.render.clients import Clients, Cluster, Object

pytestmark = pytest.mark.cluster

GOLDEN = Path(__file__).parents[2] / "golden" / "render"
CASES = sorted(path.parent.name for path in GOLDEN.glob("*/kustomize"))
PODS = ("leaderTemplate", "workerTemplate")  # of a LeaderWorkerSet


def kustomized(clients: Clients, case: str) -> list[Object]:
    return in_order(clients.kustomized(GOLDEN / case / "kustomize"))


def in_order(objects: list[Object]) -> list[Object]:
    return sorted(objects, key=lambda one: (one["kind"], one["metadata"]["name"]))


def of_kind(objects: list[Object], kind: str) -> list[Object]:
    return [one for one in objects if one["kind"] == kind]


def containers(part: Any) -> Iterator[Object]:
    """Every container in an object, wherever pods are described."""
    if isinstance(part, dict):
        yield from part.get("containers", [])
        yield from part.get("initContainers", [])
        for inner in part.values():
            yield from containers(inner)


def named(case: str) -> str | None:
    """The namespace that the fleet names."""
    text = (GOLDEN / case / "kustomize" / "kustomization.yaml").read_text()
    found: str | None = yaml.safe_load(text).get("namespace")
    return found


def namespace_of(case: str) -> str:
    return named(case) or "default"


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest, namespace: Callable[[str], str]) -> str:
    namespace(namespace_of(request.param))
    return str(request.param)


def test_there_is_a_fleet_for_each_vendor_each_router_and_claims() -> None:
    cases = ("amd", "claims", "cpu", "gaudi", "llm-d", "nvidia", "tpu")
    assert [f"{case}-kubernetes" for case in cases] == CASES


def test_the_server_takes_every_object(case: str, clients: Clients, cluster: Cluster) -> None:
    objects = kustomized(clients, case)
    assert objects
    assert cluster.refusals(objects) == ""


def test_pods_inside_groups_are_pods(case: str, clients: Clients, cluster: Cluster) -> None:
    """A LeaderWorkerSet's definition knows the fields of pods, and none of Kubernetes' rules."""
    templates = [
        {
            "apiVersion": "v1",
            "kind": "PodTemplate",
            "metadata": {"name": f"pod-{name.lower()}", "namespace": namespace_of(case)},
            "template": group["spec"]["leaderWorkerTemplate"][name],
        }
        for group in of_kind(kustomized(clients, case), "LeaderWorkerSet")
        for name in PODS
    ]
    for template in templates:
        assert cluster.refusals([template]) == ""


def test_the_chart_is_the_same_but_for_what_values_do(case: str, clients: Clients) -> None:
    chart = GOLDEN / case / "helm"
    linted = clients.run("helm", "lint", "--strict", chart)
    assert linted.returncode == 0, linted.stdout + linted.stderr
    space = namespace_of(case)
    objects = in_order(clients.templated(chart, "--namespace", space))
    if not named(case):  # the release has a namespace, and so names that are whole
        text = json.dumps(objects).replace(f".{space}.svc.cluster.local.", "")
        objects = json.loads(text)
    for one in objects:
        for container in containers(one):
            assert container.pop("imagePullPolicy") == "IfNotPresent"
        if one["kind"] == "Service" and one["spec"].get("type") == "ClusterIP":
            del one["spec"]["type"]
    expected = kustomized(clients, case)
    for one in expected:  # a release has its own
        one["metadata"].pop("namespace", None)
        for subject in one.get("subjects", []):
            subject.pop("namespace", None)
    assert objects == expected


def test_the_server_takes_what_values_make(case: str, clients: Clients, cluster: Cluster) -> None:
    chart = GOLDEN / case / "helm"
    known = yaml.safe_load((chart / "values.yaml").read_text())
    engines = ",".join(f"engineReplicas.{name}=0" for name in known["engineReplicas"])
    objects = clients.templated(
        chart, "--namespace", namespace_of(case), "--set", "imageRegistry=mirror.example/all",
        "--set", "imagePullPolicy=Always", "--set", "extraLabels.team=a,extraAnnotations.note=b",
        *(("--set", engines) if engines else ()),
    )  # fmt: skip
    for one in objects:
        assert one["metadata"]["labels"]["team"] == "a"
        assert one["metadata"]["annotations"]["note"] == "b"
        one["metadata"]["namespace"] = namespace_of(case)
    images = [container["image"] for one in objects for container in containers(one)]
    assert images
    assert all(image.startswith("mirror.example/all/") for image in images)
    assert cluster.refusals(objects) == ""


def test_a_value_that_is_none_is_refused(case: str, clients: Clients) -> None:
    done = clients.run("helm", "template", "r", GOLDEN / case / "helm", "--set", "stranger=1")
    assert done.returncode != 0
    assert "stranger" in done.stderr
