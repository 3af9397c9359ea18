"""How an engine runs in a cluster: over how many hosts, as whom, and how it begins and ends."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from llmd_ctl.plan import Resilience
from llmd_ctl.plan.place import Accelerators, Container, Image, Place
from llmd_ctl.plan.resilience import Limits
from tests.unit.controller.plans import variant
from tests.unit.render.kubernetes.clusters import (
    FULL,
    PLAIN,
    TARGET,
    Json,
    cluster,
    container_of,
    engine,
    objects,
    only,
    pod_of,
    scaled,
)

HOSTS = ("leader", "worker")
GROUP: dict[str, Any] = {
    "command": ("vllm", "serve", "m", "--host", "{host}", "--master-addr", "{leader}")
}


def given(**fields: Any) -> Place:
    return replace(PLAIN, container=Container(**fields))


# --- what runs it ---


def test_one_host_is_a_deployment_and_several_are_groups() -> None:
    assert ("Deployment", "prod-chat-a") in objects(cluster())
    group = only(cluster(engine(place=FULL, **GROUP)), "LeaderWorkerSet")
    template = group["spec"]["leaderWorkerTemplate"]
    assert template["size"] == 2
    first, others = (template[f"{who}Template"]["spec"]["containers"][0] for who in HOSTS)
    assert first["command"] == [
        "vllm", "serve", "m", "--host", "0.0.0.0", "--master-addr", "$(LWS_LEADER_ADDRESS)",
    ]  # fmt: skip
    assert others["command"] == [
        "vllm", "serve", "m", "--node-rank", "$(LWS_WORKER_INDEX)",
        "--master-addr", "$(LWS_LEADER_ADDRESS)", "--headless",
    ]  # fmt: skip
    assert "readinessProbe" in first
    assert not {"ports", "readinessProbe", "livenessProbe", "startupProbe"} & set(others)


def test_a_group_leaves_its_name_to_the_service_that_it_makes_itself() -> None:
    found = objects(cluster(engine(place=FULL)))
    groups = {name for kind, name in found if kind == "LeaderWorkerSet"}
    assert not groups & {name for kind, name in found if kind == "Service"}


def test_the_hosts_of_a_replica_are_kept_in_one_slice() -> None:
    group = only(cluster(engine(place=FULL)), "LeaderWorkerSet")
    assert group["metadata"]["annotations"] == {
        "leaderworkerset.sigs.k8s.io/exclusive-topology": "example.com/slice"
    }


def test_requests_reach_the_first_host_alone() -> None:
    whole = cluster(engine(place=FULL))
    template = only(whole, "LeaderWorkerSet")["spec"]["leaderWorkerTemplate"]
    first, others = (template[f"{who}Template"]["metadata"]["labels"] for who in HOSTS)
    wanted = only(whole, "Service", "prod-chat-a")["spec"]["selector"].items()
    assert wanted <= first.items()
    assert not wanted <= others.items()


@pytest.mark.parametrize("place", [PLAIN, FULL])
def test_what_scales_by_rule_has_no_number(place: Place) -> None:
    kind = "Deployment" if place.hosts == 1 else "LeaderWorkerSet"
    name = "prod-chat-a" if place.hosts == 1 else ""
    assert only(cluster(engine(place=place, replicas=3)), kind, name)["spec"]["replicas"] == 3
    assert "replicas" not in only(cluster(engine(place=scaled(place))), kind, name)["spec"]
    assert only(cluster(engine(place=place, replicas=0)), kind, name)["spec"]["replicas"] == 0


@pytest.mark.parametrize(("replicas", "surge"), [(1, 1), (2, 0)])
def test_several_replicas_are_replaced_without_accelerators_to_spare(
    replicas: int, surge: int
) -> None:
    found = only(cluster(engine(replicas=replicas)), "Deployment", "prod-chat-a")
    rolling = found["spec"]["strategy"]["rollingUpdate"]
    assert rolling == {"maxSurge": surge, "maxUnavailable": 1 - surge}


def test_selectors_do_not_change_with_what_may_change() -> None:
    def selector(**fields: Any) -> Json:
        found: Json = only(cluster(engine(**fields)), "Deployment", "prod-chat-a")["spec"]
        return dict(found["selector"])

    assert selector() == selector(role="decode", engine="other", accelerator="x", vendor="y")


# --- fast links between hosts ---


def test_nodes_that_share_memory_are_claimed_as_a_domain() -> None:
    channel = "compute-domain-default-channel.nvidia.com"
    place = replace(FULL, accelerators=Accelerators("nvidia.com/gpu", 4, None, channel))
    whole = cluster(engine(place=place))
    domain = only(whole, "ComputeDomain")["spec"]
    pod = only(whole, "LeaderWorkerSet")["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]
    (claim,) = pod["resourceClaims"]
    assert domain["channel"]["resourceClaimTemplate"]["name"] == claim["resourceClaimTemplateName"]
    assert pod["containers"][0]["resources"]["claims"] == [{"name": claim["name"]}]
    assert not any(kind == "ResourceClaimTemplate" for kind, _ in objects(whole))


def test_another_domain_is_claimed_by_its_class() -> None:
    template = only(cluster(engine(place=FULL)), "ResourceClaimTemplate")
    (request,) = template["spec"]["spec"]["devices"]["requests"]
    assert request["exactly"]["deviceClassName"] == "domains.example"


def test_one_host_claims_no_domain() -> None:
    kinds = {kind for kind, _ in objects(cluster(engine(place=replace(FULL, hosts=1))))}
    assert not {"ComputeDomain", "ResourceClaimTemplate"} & kinds


CLAIMED = Accelerators(count=2, device_class="gpu.example")


def requests_of(template: Json) -> list[Json]:
    found: list[Json] = template["spec"]["spec"]["devices"]["requests"]
    return found


def test_devices_that_are_claimed_are_not_asked_for_as_well() -> None:
    whole = cluster(engine(place=replace(given(cpu=2), accelerators=CLAIMED)))
    template = only(whole, "ResourceClaimTemplate")
    assert template["apiVersion"] == "resource.k8s.io/v1"
    (request,) = requests_of(template)
    assert request["exactly"] == {"deviceClassName": "gpu.example", "count": 2}
    pod = pod_of(whole)
    (claim,) = pod["resourceClaims"]
    assert claim["resourceClaimTemplateName"] == template["metadata"]["name"]
    resources = pod["containers"][0]["resources"]
    assert resources == {"requests": {"cpu": "2"}, "claims": [{"name": claim["name"]}]}


def test_every_host_of_a_replica_claims_its_devices_and_the_domain() -> None:
    whole = cluster(engine(place=replace(FULL, accelerators=replace(CLAIMED, domain_class="d.x"))))
    group = only(whole, "LeaderWorkerSet")["spec"]["leaderWorkerTemplate"]
    made = {name for kind, name in objects(whole) if kind == "ResourceClaimTemplate"}
    for part in ("leaderTemplate", "workerTemplate"):
        pod = group[part]["spec"]
        assert {one["resourceClaimTemplateName"] for one in pod["resourceClaims"]} == made
        names = [one["name"] for one in pod["resourceClaims"]]
        assert [one["name"] for one in pod["containers"][0]["resources"]["claims"]] == names
    assert len(made) == 2


# --- with what, and as whom ---


def test_accelerators_and_huge_pages_are_bound_and_the_rest_is_set_aside() -> None:
    place = replace(
        given(cpu=1.5, memory_bytes=3 << 20, hugepages_bytes=2 << 20),
        accelerators=Accelerators("x.com/gpu", 8),
    )
    bound = {"x.com/gpu": "8", "hugepages-2Mi": "2Mi"}
    assert container_of(cluster(engine(place=place)))["resources"] == {
        "requests": {"cpu": "1500m", "memory": "3Mi", **bound},
        "limits": bound,
    }


def test_processors_are_asked_for_once() -> None:
    place = replace(given(cpu=64), accelerators=Accelerators("cpu", 1))
    resources = container_of(cluster(engine(place=place)))["resources"]
    assert resources == {"requests": {"cpu": "64"}}


@pytest.mark.parametrize(
    ("user", "numeric"), [("1000", True), ("1000:0", True), ("root", False), ("0", False),
                          ("llm", False), (None, False)],
)  # fmt: skip
def test_only_an_image_made_for_it_runs_as_somebody(user: str | None, numeric: bool) -> None:
    whole = cluster(engine(place=replace(PLAIN, image=Image("a:b", user=user))))
    pod, container = pod_of(whole), container_of(whole)
    assert pod["securityContext"].get("runAsNonRoot", False) is numeric
    assert ("capabilities" in container["securityContext"]) is numeric
    found = only(whole, "Deployment", "prod-chat-a")["spec"]["template"]["metadata"]["annotations"]
    assert found["llmd-ctl.dev/runs-as"] == (user or "as the image says")


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, {"allowPrivilegeEscalation": False}),
        ({"devices": ("/dev/kfd",)}, {"privileged": True}),
        # The API server refuses SYS_ADMIN where escalation is not allowed.
        ({"capabilities": ("SYS_ADMIN",)}, {"capabilities": {"add": ["SYS_ADMIN"]}}),
        (
            {"capabilities": ("SYS_NICE",)},
            {"allowPrivilegeEscalation": False, "capabilities": {"add": ["SYS_NICE"]}},
        ),
    ],
)
def test_a_container_may_do_what_its_profile_says(fields: Json, expected: Json) -> None:
    assert container_of(cluster(engine(place=given(**fields))))["securityContext"] == expected


def test_no_engine_has_a_right_in_the_cluster() -> None:
    whole = cluster()
    assert pod_of(whole)["automountServiceAccountToken"] is False
    assert only(whole, "ServiceAccount", "prod-engines")["automountServiceAccountToken"] is False
    assert not {kind for kind, _ in objects(whole)} & {"Role", "ClusterRole", "RoleBinding"}


def test_the_environment_says_where_to_cache_unless_somebody_else_does() -> None:
    place = replace(PLAIN, cache=replace(PLAIN.cache, variables={"HF_HOME": "hf", "OTHER": "o"}))
    whole = cluster(engine(place=place, env={"OTHER": "/mine"}))
    found = {each["name"]: each["value"] for each in container_of(whole)["env"]}
    assert found == {"HF_HOME": "/var/cache/llmd/hf", "OTHER": "/mine"}


# --- how it begins and ends ---


def test_a_start_has_the_time_that_the_profile_gives_it() -> None:
    whole = cluster(engine(startup_seconds=3605))
    probe = container_of(whole)["startupProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] == 3610
    spec = only(whole, "Deployment", "prod-chat-a")["spec"]
    assert spec["progressDeadlineSeconds"] > 3605


@pytest.mark.parametrize(("drain", "seconds"), [(None, 30), (1500, 2), (0, None)])
def test_an_engine_that_ends_serves_on_as_long_as_requests_may_run(
    drain: int | None, seconds: int | None
) -> None:
    whole = cluster(resilience=Resilience(limits=Limits(drain_ms=drain)))
    lifecycle = container_of(whole).get("lifecycle")
    assert lifecycle == (seconds and {"preStop": {"sleep": {"seconds": seconds}}})
    assert pod_of(whole)["terminationGracePeriodSeconds"] == (seconds or 0) + 30


# --- simulated ---


def test_a_simulated_engine_is_our_own_program_with_its_facts() -> None:
    place = Place(image=Image("example/router:1", user="65532"))
    whole = cluster(variant("a", 2, target=TARGET.name, place=place))
    container = container_of(whole)
    assert container["command"] == ["llmd-engine", "--config", "/etc/llmd-ctl/engine/engine.json"]
    assert "resources" not in container
    document = json.loads(only(whole, "ConfigMap", "prod-chat-a")["data"]["engine.json"])
    assert (document["listen"], document["facts"]) == ("0.0.0.0:8000", {"speed": 1.0})


def test_other_facts_are_other_pods() -> None:
    def annotations(speed: float) -> Json:
        one = variant("a", target=TARGET.name, place=Place(image=Image("a:b")), speed=speed)
        found = only(cluster(one), "Deployment", "prod-chat-a")["spec"]["template"]["metadata"]
        return dict(found["annotations"])

    assert annotations(1.0) == annotations(1.0)
    assert annotations(1.0) != annotations(2.0)


def test_a_word_is_filled_whole_or_not_at_all() -> None:
    words = ("{leader}:20000", "{leader}:x", "a{leader}", '{"a": "{rank}"}', "{host}:1")
    group = only(cluster(engine(place=FULL, command=words)), "LeaderWorkerSet")
    pod = group["spec"]["leaderWorkerTemplate"]["leaderTemplate"]["spec"]
    assert pod["containers"][0]["command"] == ["$(LWS_LEADER_ADDRESS):20000", *words[1:]]
