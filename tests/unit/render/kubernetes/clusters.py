"""Plans for a cluster, with a place that says everything, and what is rendered of them."""

from __future__ import annotations

from typing import Any

import yaml
from msgspec.structs import replace

from llmd_ctl.plan import HOST, PORT, Plan, PlannedModel, PlannedVariant
from llmd_ctl.plan.place import (
    LEADER,
    RANK,
    Accelerators,
    Autoscale,
    Cache,
    Container,
    Image,
    NodeLabel,
    Nodes,
    Place,
    PlannedRouter,
    PlannedTarget,
    Secret,
    Toleration,
)
from llmd_ctl.render.targets import render_target
from tests.unit.controller.plans import model, plan, variant

Json = dict[str, Any]
TARGET = PlannedTarget("gke", "kubernetes", "llm")
DIGEST = "sha256:" + "0" * 64
FULL = Place(
    image=Image("registry.example/vllm:v1", DIGEST, "1000:1000"),
    container=Container(
        cpu=16,
        memory_bytes=128 << 30,
        shm_bytes=20 << 30,
        hugepages_bytes=4 << 20,
        capabilities=("SYS_NICE",),
        seccomp="Unconfined",
        host_ipc=True,
        devices=("/dev/kfd",),
        groups=("107",),
        mounts=("/usr/local/driver",),
        runtime="habana",
    ),
    secrets=(Secret("hf", "HF_TOKEN", "token"),),
    cache=Cache(path="/var/cache/llm", variables={"HF_HOME": "huggingface"}),
    accelerators=Accelerators("example.com/gpu", 8, domain_class="domains.example"),
    nodes=Nodes(
        selector={"pool": "gpu"},
        labels=(NodeLabel("product", ("a", "b")),),
        tolerations=(Toleration("gpu", "Equal", "yes", "NoExecute", 300),),
        image_pull_secrets=("registry",),
        scheduler="volcano",
        joined_by="example.com/slice",
    ),
    hosts=2,
    follow=("vllm", "serve", "m", "--node-rank", RANK, "--master-addr", LEADER, "--headless"),
    devices=16,
    topology="2x4",
)
PLAIN = Place(image=Image("registry.example/vllm:v1"), accelerators=Accelerators("x.com/gpu", 1))
COMMAND = ("vllm", "serve", "m", "--host", HOST, "--port", PORT)


def engine(name: str = "a", place: Place = PLAIN, **fields: Any) -> PlannedVariant:
    """A real variant in the cluster."""
    given = {"target": TARGET.name, "simulated": False, "command": COMMAND, "place": place}
    return variant(name, **{**given, **fields})


def cluster(*variants: PlannedVariant, **fields: Any) -> Plan:
    """A plan of one model, whose router stands in the cluster too."""
    chat = model("chat", *(variants or (engine(),)))
    return of(chat, **fields)


def of(*models: PlannedModel, **fields: Any) -> Plan:
    """A plan of models."""
    router = PlannedRouter(
        "llmd-ctl", TARGET.name, 2, {}, Place(image=Image("example/router:1", user="65532"))
    )
    return replace(plan(*models), **{"targets": (TARGET,), "router": router, **fields})


def texts(whole: Plan, form: str = "kustomize") -> dict[str, str]:
    """The rendered files."""
    return {file.path: file.text for file in render_target(whole, TARGET.name, form)}


def objects(whole: Plan) -> dict[tuple[str, str], Json]:
    """The rendered objects, by kind and name."""
    return {
        (each["kind"], each["metadata"]["name"]): each
        for path, text in texts(whole).items()
        if path != "kustomization.yaml"
        for each in yaml.safe_load_all(text)
    }


def only(whole: Plan, kind: str, name: str = "") -> Json:
    """The one object of a kind, of which a name may tell the one that is meant."""
    (found,) = [
        each for (k, n), each in objects(whole).items() if k == kind and (not name or n == name)
    ]
    return found


def pod_of(whole: Plan, name: str = "prod-chat-a") -> Json:
    """The pod of a Deployment."""
    found: Json = only(whole, "Deployment", name)["spec"]["template"]["spec"]
    return found


def container_of(whole: Plan, name: str = "prod-chat-a") -> Json:
    """The container of a Deployment."""
    found: Json = pod_of(whole, name)["containers"][0]
    return found


def scaled(place: Place) -> Place:
    """A place that scales by rule."""
    return replace(place, autoscale=Autoscale(1, 4, "keda", 16))
