"""With llm-d's router: pools, what chooses in them, and the shares that a gateway gives them."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from llmd_ctl.plan import Capacity, Plan, PlannedVariant
from llmd_ctl.plan.place import (
    Autoscale,
    Disaggregation,
    Gateway,
    GatewayPods,
    Image,
    Place,
    PlannedRouter,
    Transfer,
)
from llmd_ctl.plan.records import Workload
from tests.unit.controller.plans import model
from tests.unit.render.kubernetes.clusters import (
    PLAIN,
    TARGET,
    Json,
    cluster,
    container_of,
    engine,
    objects,
    of,
    only,
    pod_of,
    texts,
)

PICKER = Place(image=Image("example/picker:1"))
PREFILL = Transfer("NixlConnector", "ib", "NIXL_HOST", "rdma/ib", ("IPC_LOCK",))
DECODE = replace(PREFILL, proxy=Image("example/proxy:1"), protocol="nixlv2")


def capacity(prefill: float, decode: float, requests: float) -> Capacity:
    return Capacity(prefill, decode, 1.0, 1, 1.0, decode, requests, Workload(100, 10))


def routed(
    *variants: PlannedVariant, replicas: int = 1, gateway: Gateway | None = None, **fields: Any
) -> Plan:
    router = PlannedRouter("llm-d", TARGET.name, replicas, {"A": "b"}, PICKER, gateway)
    return cluster(*variants, router=router, **fields)


def apart() -> Plan:
    """One model, whose prompts are read elsewhere than its answers are written."""
    read = engine("read", replace(PLAIN, transfer=PREFILL), role="prefill")
    write = engine("write", replace(PLAIN, transfer=DECODE), role="decode")
    plan = routed(read, write)
    joined = replace(plan.models[0], disaggregation=Disaggregation("NixlConnector", "ib", 64))
    return replace(plan, models=(joined,))


def config_of(plan: Plan) -> Json:
    """The configuration of the only picker."""
    found: Json = yaml.safe_load(only(plan, "ConfigMap")["data"]["picker.yaml"])
    return found


def backends(plan: Plan) -> dict[str, int]:
    route = only(plan, "HTTPRoute")
    return {b["name"]: b["weight"] for b in route["spec"]["rules"][0]["backendRefs"]}


def test_each_variant_is_a_pool_of_the_pods_that_answer() -> None:
    plan = routed(engine("a"), engine("b"))
    pool = only(plan, "InferencePool", "prod-chat-a")["spec"]
    labels = only(plan, "Deployment", "prod-chat-a")["spec"]["template"]["metadata"]["labels"]
    assert pool["selector"]["matchLabels"].items() <= labels.items()
    assert pool["selector"]["matchLabels"]["llmd-ctl.dev/variant"] == "a"
    assert pool["targetPorts"] == [{"number": 8000}]
    assert pool["endpointPickerRef"]["name"] in {n for k, n in objects(plan) if k == "Service"}
    assert pool["endpointPickerRef"]["failureMode"] == "FailOpen"
    assert only(plan, "InferencePool", "prod-chat-b")


def test_our_own_router_is_not_there_then() -> None:
    assert ("Deployment", "prod-router") in objects(cluster())
    assert ("Deployment", "prod-router") not in objects(routed())


def test_a_gateway_shares_requests_by_what_replicas_can_do() -> None:
    plan = routed(
        engine("a", replicas=3, capacity=capacity(1, 1, 2.0)),
        engine("b", replicas=1, capacity=capacity(1, 1, 4.0)),
        engine("c", replicas=0, capacity=capacity(1, 1, 4.0)),
    )
    assert backends(plan) == {"prod-chat-a": 600, "prod-chat-b": 400, "prod-chat-c": 0}


def test_what_scales_to_nothing_still_has_a_share() -> None:
    none = replace(PLAIN, autoscale=Autoscale(0, 4, "keda", 16))
    plan = routed(
        engine("a", capacity=capacity(1, 1, 1.0)),
        engine("b", none, replicas=0, capacity=capacity(1, 1, 1.0)),
    )
    assert backends(plan) == {"prod-chat-a": 500, "prod-chat-b": 500}


def test_without_any_capacity_pools_are_alike() -> None:
    assert backends(routed(engine("a"), engine("b"))) == {"prod-chat-a": 1, "prod-chat-b": 1}


def test_of_several_models_the_gateway_tells_one_by_its_names() -> None:
    router = PlannedRouter("llm-d", TARGET.name, 1, {}, PICKER)
    chat = model("chat", engine("a"), aliases=("assistant",))
    plan = of(chat, model("code", engine("a")), router=router)
    routes = [each for (kind, _), each in objects(plan).items() if kind == "HTTPRoute"]
    told = [
        match["headers"][0]["value"]
        for route in routes
        for match in route["spec"]["rules"][0]["matches"]
    ]
    assert sorted(told) == ["assistant", "chat", "code"]
    assert "matches" not in only(routed(), "HTTPRoute")["spec"]["rules"][0]


def test_a_picker_may_watch_its_pods_and_no_more() -> None:
    rights = only(routed(), "Role")["rules"]
    assert {verb for right in rights for verb in right["verbs"]} == {"get", "list", "watch"}
    pod = pod_of(routed(), "prod-chat-a-picker")
    assert pod["automountServiceAccountToken"] is True
    assert pod["serviceAccountName"] == only(routed(), "RoleBinding")["subjects"][0]["name"]


def test_of_several_pickers_one_leads() -> None:
    one, two = routed(), routed(replicas=2)
    flag = "--ha-enable-leader-election"
    assert flag not in container_of(one, "prod-chat-a-picker")["args"]
    assert flag in container_of(two, "prod-chat-a-picker")["args"]
    assert any("leases" in right["resources"] for right in only(two, "Role")["rules"])
    deployment = only(two, "Deployment", "prod-chat-a-picker")["spec"]
    assert (deployment["replicas"], deployment["strategy"]) == (2, {"type": "Recreate"})


def test_another_configuration_makes_another_pod() -> None:
    def digest(plan: Plan, name: str) -> str:
        template = only(plan, "Deployment", name)["spec"]["template"]
        return str(template["metadata"]["annotations"]["llmd-ctl.dev/config"])

    (name,) = (n for k, n in objects(apart()) if k == "Deployment" and n.endswith("-picker"))
    assert digest(apart(), name) != digest(routed(), "prod-chat-a-picker")


def test_every_plugin_that_a_profile_names_is_there() -> None:
    for plan in (routed(), apart()):
        config = config_of(plan)
        there = {plugin["type"] for plugin in config["plugins"]}
        assert "inflight-load-producer" in there  # what replicas by rule go by
        for profile in config["schedulingProfiles"]:
            assert {one["pluginRef"] for one in profile["plugins"]} <= there


def test_prefill_and_decode_are_one_pool_that_never_guesses() -> None:
    plan = apart()
    pool = only(plan, "InferencePool")["spec"]
    assert "llmd-ctl.dev/variant" not in pool["selector"]["matchLabels"]
    assert pool["endpointPickerRef"]["failureMode"] == "FailClose"
    names = [profile["name"] for profile in config_of(plan)["schedulingProfiles"]]
    assert names == ["prefill", "decode"]
    (decider,) = (p for p in config_of(plan)["plugins"] if "nonCachedTokens" in str(p))
    assert decider["parameters"] == {"nonCachedTokens": 64}


def test_apart_the_slower_side_bounds_the_pool() -> None:
    read = engine("read", role="prefill", replicas=2, capacity=capacity(1000, 1, 1))
    write = engine("write", role="decode", replicas=1, capacity=capacity(1, 50, 1))
    other = engine("one", capacity=capacity(1, 1, 5.0))
    plan = routed(read, write)
    plan = replace(plan, models=(plan.models[0], model("other", other)))
    from llmd_ctl.render.kubernetes.llm_d import pools_of, weights
    from llmd_ctl.render.kubernetes.names import Names

    pools = [pool for each in plan.models for pool in pools_of(Names.of(plan), each)]
    assert weights(pools) == (500, 500)  # 50 tokens/s of answers, 10 tokens each: 5 requests/s


def test_the_engine_that_writes_answers_stands_behind_the_proxy() -> None:
    pod = pod_of(apart(), "prod-chat-write")
    (proxy,), (behind,) = pod["initContainers"], pod["containers"]
    assert proxy["image"] == "example/proxy:1"
    assert proxy["restartPolicy"] == "Always"
    assert proxy["ports"] == [{"name": "http", "containerPort": 8000}]
    assert {"--port=8000", "--vllm-port=8200", "--kv-connector=nixlv2"} <= set(proxy["args"])
    assert behind["command"][behind["command"].index("--port") + 1] == "8200"
    ports = {port["name"] for port in behind["ports"]}
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert behind[probe]["httpGet"]["port"] in ports


def test_the_engine_that_reads_prompts_answers_itself() -> None:
    pod = pod_of(apart(), "prod-chat-read")
    assert "initContainers" not in pod
    assert pod["containers"][0]["ports"] == [{"name": "http", "containerPort": 8000}]


@pytest.mark.parametrize("name", ["read", "write"])
def test_both_sides_are_reached_by_their_own_address_over_their_own_cards(name: str) -> None:
    container = container_of(apart(), f"prod-chat-{name}")
    assert {
        "name": "NIXL_HOST", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}},
    } in container["env"]  # fmt: skip
    for bound in ("requests", "limits"):
        assert container["resources"][bound]["rdma/ib"] == "1"
    assert "IPC_LOCK" in container["securityContext"]["capabilities"]["add"]


def test_an_address_that_the_fleet_says_stays() -> None:
    place = replace(PLAIN, transfer=PREFILL)
    plan = routed(engine("a", place, env={"NIXL_HOST": "10.0.0.1"}))
    said = [one for one in container_of(plan)["env"] if one["name"] == "NIXL_HOST"]
    assert said == [{"name": "NIXL_HOST", "value": "10.0.0.1"}]


def test_a_gateway_may_stand_anywhere() -> None:
    def first(plan: Plan) -> Json:
        found: Json = only(plan, "NetworkPolicy")["spec"]["ingress"][0]
        return found

    assert "from" in first(cluster())
    assert first(routed()) == {"ports": [{"port": 8000, "protocol": "TCP"}]}
    unknown = routed(gateway=Gateway("mine"))
    assert first(unknown) == first(routed())


@pytest.mark.parametrize("labels", [{}, {"gateway": "mine"}])
def test_a_gateway_in_known_pods_is_let_in_with_its_pickers_and_nobody_else(
    labels: dict[str, str],
) -> None:
    plan = routed(gateway=Gateway("mine", pods=GatewayPods("infra", labels)))
    peers = only(plan, "NetworkPolicy")["spec"]["ingress"][0]["from"]
    pickers = only(plan, "Deployment", "prod-chat-a-picker")["spec"]["template"]["metadata"]
    assert peers[0]["podSelector"]["matchLabels"].items() <= pickers["labels"].items()
    assert "namespaceSelector" not in peers[0]
    assert peers[1]["podSelector"]["matchLabels"] == {"app.kubernetes.io/name": "prometheus"}
    named = {"matchLabels": {"kubernetes.io/metadata.name": "infra"}}
    assert peers[2]["namespaceSelector"] == named
    assert peers[2].get("podSelector", {}).get("matchLabels", {}) == labels
    assert len(peers) == 3


def test_routes_are_on_the_gateway_that_is_named_and_end_no_answer() -> None:
    spec = only(routed(), "HTTPRoute")["spec"]
    assert spec["parentRefs"] == [{"name": "llm-d-inference-gateway"}]
    assert spec["rules"][0]["timeouts"] == {"request": "0s", "backendRequest": "0s"}
    named = Gateway("mine", "infra", ("llm.example",))
    spec = only(routed(gateway=named), "HTTPRoute")["spec"]
    assert spec["parentRefs"] == [{"name": "mine", "namespace": "infra"}]
    assert spec["hostnames"] == ["llm.example"]


def test_a_chart_asks_for_the_gateway_where_the_fleet_names_none() -> None:
    def values(plan: Plan) -> set[str]:
        return set(yaml.safe_load(texts(plan, "helm")["values.yaml"]))

    assert "gateway" in values(routed())
    assert "gateway" not in values(routed(gateway=Gateway("mine")))
