"""The real API server is one that can say no: to wrong kinds of value and to unknown fields."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.e2e.render.clients import Cluster, Object

pytestmark = pytest.mark.cluster

Namespace = Callable[[str], str]


def config_map(**more: object) -> Object:
    metadata = {"name": "one", "namespace": "llmd-ctl-bed"}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "data": {"a": "b"},
    } | more


def custom(api: str, kind: str, spec: Object) -> Object:
    metadata = {"name": "one", "namespace": "llmd-ctl-bed"}
    return {"apiVersion": api, "kind": kind, "metadata": metadata, "spec": spec}


POD: Object = {
    "metadata": {"labels": {"a": "b"}},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}
CUSTOM: dict[str, Object] = {
    "ComputeDomain": custom(
        "resource.nvidia.com/v1beta1", "ComputeDomain",
        {"numNodes": 2, "channel": {"resourceClaimTemplate": {"name": "channel"}}},
    ),
    "HTTPRoute": custom("gateway.networking.k8s.io/v1", "HTTPRoute", {"rules": [{}]}),
    "InferencePool": custom(
        "inference.networking.k8s.io/v1", "InferencePool",
        {
            "selector": {"matchLabels": {"a": "b"}},
            "targetPorts": [{"number": 8000}],
            "endpointPickerRef": {"name": "picker", "port": {"number": 9002}},
        },
    ),
    "LeaderWorkerSet": custom(
        "leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet",
        {"leaderWorkerTemplate": {"size": 2, "workerTemplate": POD}},
    ),
    "PodMonitor": custom(
        "monitoring.coreos.com/v1", "PodMonitor",
        {"selector": {"matchLabels": {"a": "b"}}, "podMetricsEndpoints": [{"port": "http"}]},
    ),
    "PrometheusRule": custom(
        "monitoring.coreos.com/v1", "PrometheusRule",
        {"groups": [{"name": "g", "rules": [{"alert": "A", "expr": "up == 0"}]}]},
    ),
    "ScaledObject": custom(
        "keda.sh/v1alpha1", "ScaledObject",
        {
            "scaleTargetRef": {"name": "d"},
            "triggers": [{"type": "cpu", "metadata": {"value": "1"}}],
        },
    ),
    "ServiceMonitor": custom(
        "monitoring.coreos.com/v1", "ServiceMonitor",
        {"selector": {"matchLabels": {"a": "b"}}, "endpoints": [{"port": "http"}]},
    ),
}  # fmt: skip


def test_a_right_object_is_taken_and_not_kept(cluster: Cluster, namespace: Namespace) -> None:
    namespace("llmd-ctl-bed")
    assert cluster.refusals([config_map()]) == ""
    kept = cluster.kubectl("get", "configmap", "-n", "llmd-ctl-bed", "-o", "name")
    assert "configmap/one" not in kept


@pytest.mark.parametrize("wrong", [{"data": {"a": 1}}, {"stranger": 1}])
def test_a_wrong_value_and_an_unknown_field_are_refused(
    cluster: Cluster, namespace: Namespace, wrong: Object
) -> None:
    namespace("llmd-ctl-bed")
    assert next(iter(wrong)) in cluster.refusals([config_map(), config_map(**wrong)])


@pytest.mark.parametrize("kind", CUSTOM)
def test_custom_resources_are_checked_by_their_definitions(
    cluster: Cluster, namespace: Namespace, kind: str
) -> None:
    namespace("llmd-ctl-bed")
    right = CUSTOM[kind]
    assert cluster.refusals([right]) == ""
    wrong = {**right, "spec": {**right["spec"], "stranger": 1}}
    assert "stranger" in cluster.refusals([wrong])


def test_fields_of_pods_inside_groups_are_known(cluster: Cluster, namespace: Namespace) -> None:
    namespace("llmd-ctl-bed")
    pod = {**POD, "spec": {**POD["spec"], "stranger": 1}}
    groups = custom(
        "leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet",
        {"leaderWorkerTemplate": {"size": 2, "workerTemplate": pod}},
    )  # fmt: skip
    assert "stranger" in cluster.refusals([groups])
