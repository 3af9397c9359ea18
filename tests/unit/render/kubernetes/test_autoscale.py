"""Replicas by rule: what is scaled, between which numbers, by which question."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from llmd_ctl.plan import Plan
from llmd_ctl.plan.place import Autoscale, Place, PlannedRouter
from tests.unit.render.kubernetes.clusters import (
    FULL,
    PLAIN,
    TARGET,
    Json,
    cluster,
    engine,
    objects,
    only,
)


def scaling(place: Place = PLAIN, **said: Any) -> Plan:
    rule = replace(Autoscale(1, 4, "keda", 100), **said)
    return cluster(engine(place=replace(place, autoscale=rule)))


def query_of(plan: Plan) -> str:
    (trigger,) = only(plan, "ScaledObject")["spec"]["triggers"]
    return str(trigger["metadata"]["query"])


def test_a_fixed_number_is_scaled_by_nothing() -> None:
    assert {"ScaledObject", "HorizontalPodAutoscaler"}.isdisjoint(k for k, _ in objects(cluster()))


@pytest.mark.parametrize(("place", "kind"), [(PLAIN, "Deployment"), (FULL, "LeaderWorkerSet")])
def test_what_scales_says_no_number_itself(place: Place, kind: str) -> None:
    plan = scaling(place)
    target = only(plan, "ScaledObject")["spec"]["scaleTargetRef"]
    workload = only(plan, kind, target["name"])
    assert (target["kind"], target["name"]) == (kind, workload["metadata"]["name"])
    assert target["apiVersion"] == workload["apiVersion"]
    assert "replicas" not in workload["spec"]


def test_replicas_come_before_those_that_are_there_are_full() -> None:
    spec = only(scaling(min=2), "ScaledObject")["spec"]
    assert (spec["minReplicaCount"], spec["maxReplicaCount"]) == (2, 4)
    assert spec["triggers"][0]["metricType"] == "AverageValue"
    assert spec["triggers"][0]["metadata"]["threshold"] == "80"


def test_the_router_tells_what_is_at_a_variant() -> None:
    found = 'sum(llmd_router_inflight_requests{fleet="prod",model="chat",variant="a"})'
    assert query_of(scaling()) == f"({found} or vector(0))"


def test_from_nothing_refused_requests_ask_for_the_first_replica() -> None:
    query = query_of(scaling(min=0))
    assert 'llmd_router_requests_total{fleet="prod",model="chat",code="503"}[2m]' in query


def test_with_llm_ds_router_its_picker_tells() -> None:
    router = PlannedRouter("llm-d", TARGET.name, 1)
    query = query_of(replace(scaling(min=0), router=router))
    assert 'llm_d_epp_inflight_requests{fleet="prod",endpoint_name=~"prod-chat-a-' in query
    assert 'llm_d_epp_request_error_total{fleet="prod",model_name="chat"' in query


def test_an_hpa_asks_the_external_metrics_api_the_same() -> None:
    plan = scaling(scaler="hpa")
    spec: Json = only(plan, "HorizontalPodAutoscaler")["spec"]
    assert (spec["minReplicas"], spec["maxReplicas"]) == (1, 4)
    (metric,) = spec["metrics"]
    assert metric["external"]["metric"] == {
        "name": "llmd_router_inflight_requests",
        "selector": {"matchLabels": {"fleet": "prod", "model": "chat", "variant": "a"}},
    }
    assert metric["external"]["target"] == {"type": "AverageValue", "averageValue": "80"}
