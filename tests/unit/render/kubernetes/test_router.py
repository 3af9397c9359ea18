"""Our router in a cluster: where it finds engines, what it lets go of last, what makes new pods."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from llmd_ctl.plan import EndpointTls, Plan, Resilience, RouterTls, Slo
from llmd_ctl.plan.place import Gateway, GatewayPods, Place, PlannedRouter, PlannedTarget
from llmd_ctl.plan.resilience import Limits
from tests.unit.controller.plans import external, model
from tests.unit.render.kubernetes.clusters import (
    FULL,
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

ROUTER = "prod-router"
TLS = RouterTls("/home/me/a.crt", "/home/me/a.key")


def config(whole: Plan) -> Json:
    found: Json = yaml.safe_load(only(whole, "ConfigMap", ROUTER)["data"]["router.yaml"])
    return found


def template(whole: Plan, name: str = ROUTER) -> Json:
    found: Json = only(whole, "Deployment", name)["spec"]["template"]
    return found


def limited(**limits: int) -> Resilience:
    return Resilience(limits=Limits(**limits))


def test_engines_are_found_by_the_names_of_their_services() -> None:
    whole = cluster(engine("a"), engine("b", FULL))
    (chat,) = config(whole)["models"]
    assert [(one["kind"], one["name"], one["variant"]) for one in chat["sources"]] == [
        ("dns", "prod-chat-a.llm.svc.cluster.local.", "a"),
        ("dns", "prod-chat-b.llm.svc.cluster.local.", "b"),
    ]
    for source in chat["sources"]:
        spec = only(whole, "Service", source["name"].partition(".")[0])["spec"]
        assert (spec["clusterIP"], spec["publishNotReadyAddresses"]) == ("None", False)
        assert spec["ports"][0]["port"] == source["port"]


def test_without_a_namespace_the_search_list_makes_names_whole() -> None:
    whole = cluster(targets=(replace(TARGET, namespace=None),))
    (source,) = config(whole)["models"][0]["sources"]
    assert source["name"] == "prod-chat-a"


def test_units_on_hosts_are_found_by_their_addresses() -> None:
    rack = PlannedTarget("rack", "systemd", hosts=("gaudi-1", "gaudi-2"))
    there = engine("g", Place(), target="rack", replicas=2)
    whole = cluster(engine(), there, targets=(TARGET, rack))
    static, dns = config(whole)["models"][0]["sources"]
    assert [one["address"] for one in static["endpoints"]] == ["gaudi-1", "gaudi-2"]
    assert {one["variant"] for one in static["endpoints"]} == {"g"}
    assert dns["variant"] == "a"
    assert not any("-g" in name for _, name in objects(whole))


def test_what_runs_already_is_routed_to_and_has_no_object() -> None:
    whole = of(model("chat", engine(), external("old", "http://10.0.0.7:8100")))
    static, dns = config(whole)["models"][0]["sources"]
    assert static["endpoints"][0]["address"] == "10.0.0.7"
    assert dns["kind"] == "dns"
    assert not any("old" in name for _, name in objects(whole))


def test_a_change_that_a_running_router_takes_over_makes_no_new_pod() -> None:
    before = cluster()
    after = of(model("chat", engine(), engine("b"), slo=Slo(ttft_us=1), aliases=("x",)))
    assert config(before) != config(after)
    assert template(before) == template(after)


@pytest.mark.parametrize("tls", [TLS, replace(TLS, client_ca_file="/home/me/ca.crt")])
def test_where_it_listens_makes_new_pods(tls: RouterTls) -> None:
    plain, secure = cluster(), cluster(router_tls=tls)
    annotations = [template(whole)["metadata"]["annotations"] for whole in (plain, secure)]
    assert annotations[0] != annotations[1]


def test_files_of_this_machine_are_those_of_secrets_there() -> None:
    old = replace(
        external("old", "https://e:1"),
        endpoint_tls=EndpointTls("/home/me/ca", "/home/me/c", "/home/me/k", "inner"),
    )
    named = replace(external("named", "https://e:1"), endpoint_tls=EndpointTls(server_name="n"))
    whole = of(
        model("chat", engine(), old, named),
        router_tls=replace(TLS, client_ca_file="/home/me/ca.crt"),
    )
    document = config(whole)
    mounts = {mount["mountPath"] for mount in container_of(whole, ROUTER)["volumeMounts"]}
    files = [
        document["adminKeyFile"],
        *document["listen"]["tls"].values(),
        *(
            value
            for endpoint in document["models"][0]["sources"][0]["endpoints"]
            for key, value in endpoint["tls"].items()
            if key != "serverName"
        ),
    ]
    assert len(files) == 7
    assert {file.rpartition("/")[0] for file in files} <= mounts
    assert "/home/me" not in str(texts(whole))
    secrets = {v["secret"]["secretName"] for v in pod_of(whole, ROUTER)["volumes"] if "secret" in v}
    assert secrets == {"prod-router-admin", "prod-router-tls", "prod-chat-old-tls"}


@pytest.mark.parametrize(
    ("limits", "quiet", "grace"),
    [
        ({}, 5000, 40),
        ({"drain_ms": 120_000}, 5000, 130),
        ({"drain_ms": 4000}, 2000, 11),
        ({"quiet_ms": 15_000}, 15_000, 50),
        ({"quiet_ms": 0}, 0, 35),
    ],
)
def test_it_ends_after_everybody_has_heard_of_it(
    limits: dict[str, int], quiet: int, grace: int
) -> None:
    whole = cluster(resilience=limited(**limits))
    assert config(whole)["limits"]["quietMs"] == quiet
    assert pod_of(whole, ROUTER)["terminationGracePeriodSeconds"] == grace


def test_its_admin_port_is_probed_and_not_given_to_its_users() -> None:
    whole = cluster()
    container = container_of(whole, ROUTER)
    probes = [container[f"{kind}Probe"]["httpGet"] for kind in ("readiness", "liveness")]
    assert probes == [{"path": "/readyz", "port": "admin"}, {"path": "/healthz", "port": "admin"}]
    ports = only(whole, "Service", ROUTER)["spec"]["ports"]
    assert [(port["port"], port["targetPort"]) for port in ports] == [(8000, "http")]


def test_it_needs_no_right_and_writes_nothing() -> None:
    whole = cluster()
    pod, container = pod_of(whole, ROUTER), container_of(whole, ROUTER)
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_one_router_serves_while_another_goes() -> None:
    whole = cluster()
    assert only(whole, "Deployment", ROUTER)["spec"]["replicas"] == 2
    budget = only(whole, "PodDisruptionBudget")["spec"]
    labels = template(whole)["metadata"]["labels"]
    assert budget["maxUnavailable"] == 1
    assert budget["selector"]["matchLabels"].items() <= labels.items()


def test_a_target_without_the_router_has_none() -> None:
    elsewhere = PlannedRouter("llmd-ctl", "other", 2)
    kinds = {(kind, name) for kind, name in objects(cluster(router=elsewhere))}
    assert not any(name == ROUTER for _, name in kinds)


@pytest.mark.parametrize("who", ["router", "engine", "stranger", "prometheus"])
def test_only_the_router_prometheus_and_engines_reach_engines(who: str) -> None:
    whole = cluster()
    labels: dict[str, Any] = {
        "router": template(whole)["metadata"]["labels"],
        "engine": template(whole, "prod-chat-a")["metadata"]["labels"],
        "stranger": {"app": "x"},
        "prometheus": {"app.kubernetes.io/name": "prometheus"},
    }
    policy = only(whole, "NetworkPolicy")["spec"]
    assert policy["podSelector"]["matchLabels"].items() <= labels["engine"].items()
    let_in = [
        [port["port"] for port in rule.get("ports", [])] or "all"
        for rule in policy["ingress"]
        for peer in rule["from"]
        if peer["podSelector"]["matchLabels"].items() <= labels[who].items()
    ]
    expected = {"router": [[8000]], "prometheus": [[8000]], "engine": ["all"], "stranger": []}
    assert let_in == expected[who]


def before(gateway: Gateway, **fields: Any) -> Plan:
    whole = cluster(**fields)
    assert whole.router is not None
    return replace(whole, router=replace(whole.router, gateway=gateway))


def test_a_gateway_that_the_fleet_names_leads_to_the_routers_service() -> None:
    assert not any(kind == "HTTPRoute" for kind, _ in objects(cluster()))
    whole = before(Gateway("mine", "infra", ("llm.example", "*.llm.example")))
    spec = only(whole, "HTTPRoute", ROUTER)["spec"]
    assert spec["parentRefs"] == [{"name": "mine", "namespace": "infra"}]
    assert spec["hostnames"] == ["llm.example", "*.llm.example"]
    (rule,) = spec["rules"]
    service = only(whole, "Service", ROUTER)
    (port,) = service["spec"]["ports"]
    backend = {"kind": "Service", "name": service["metadata"]["name"], "port": port["port"]}
    assert rule == {
        "backendRefs": [backend],
        "timeouts": {"request": "0s", "backendRequest": "0s"},
    }


def test_gateways_of_a_provider_that_take_no_times_are_given_none() -> None:
    there = (replace(TARGET, provider="gke"),)
    (rule,) = only(before(Gateway("mine"), targets=there), "HTTPRoute")["spec"]["rules"]
    assert "timeouts" not in rule


def test_a_gateway_before_our_router_reaches_no_engine() -> None:
    whole = before(Gateway("mine", pods=GatewayPods("infra")))
    assert only(whole, "NetworkPolicy") == only(cluster(), "NetworkPolicy")


def test_the_kustomization_names_every_file_and_the_namespace() -> None:
    files = texts(cluster())
    document = yaml.safe_load(files.pop("kustomization.yaml"))
    assert document["resources"] == sorted(files)
    assert document["namespace"] == TARGET.namespace
    bare = texts(cluster(targets=(replace(TARGET, namespace=None),)))
    assert "namespace" not in yaml.safe_load(bare["kustomization.yaml"])
