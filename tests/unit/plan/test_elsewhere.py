"""Fleets for other places than this machine: what they get, and what no place can carry out."""

from __future__ import annotations

from typing import get_args

import pytest
from msgspec.structs import replace

from llmd_ctl.errors import LlmdError
from llmd_ctl.plan import capabilities
from llmd_ctl.plan.elsewhere import slices_of
from llmd_ctl.plan.place import (
    Cache,
    Gateway,
    GatewayPods,
    Image,
    NodeLabel,
    Place,
    Secret,
    Toleration,
)
from llmd_ctl.profiles import Catalog, image_lock
from llmd_ctl.spec.fleet import Router, TargetKind
from llmd_ctl.spec.shape import SHAPE
from tests.unit.plan.fleets import fleet_text, plan_text, problems_of

GKE = "{name: here, kind: kubernetes, namespace: llm}"
RACK = "{name: here, kind: systemd, hosts: [a, b]}"
COMPOSE = "{name: here, kind: compose}"
LOCAL = "{name: here, kind: local}"


def on(target: str, variants: str, **more: str) -> str:
    """A fleet whose one target is this."""
    return fleet_text(variants, **more).replace(f"[{LOCAL}]", f"[{target}]")


def place(target: str, variant: str, **more: str) -> Place:
    """Where a variant is planned to run, for real."""
    found = plan_text(on(target, f"- {variant}", **more), simulate=None).models[0].variants[0].place
    assert found is not None
    return found


def test_a_cluster_is_planned_for_without_what_is_on_this_machine() -> None:
    found = place(GKE, "{accelerator: nvidia-h100, parallelism: {tensor: 2}}")
    assert found.image is not None
    assert (found.image.reference, found.image.user) == ("vllm/vllm-openai:v0.32.0", "root")
    assert (found.accelerators.resource, found.accelerators.count) == ("nvidia.com/gpu", 2)
    products = ("NVIDIA-H100-80GB-HBM3", "NVIDIA-H100-SXM5-80GB")
    assert found.nodes.labels == (NodeLabel("nvidia.com/gpu.product", products),)
    assert found.nodes.tolerations == (Toleration("nvidia.com/gpu", effect="NoSchedule"),)


def test_where_the_machine_is_the_device_the_container_is_what_it_has() -> None:
    text = on(GKE, "- {accelerator: cpu-x86}", model="maxModelLen: 4096")
    found = plan_text(text, simulate=None).models[0].variants[0]
    assert found.fit is not None
    assert found.fit.memory_bytes == 64 << 30  # the profile's
    more = text.replace("cpu-x86}", "cpu-x86, resources: {memory: 96Gi, cpu: 8}}")
    larger = plan_text(more, simulate=None).models[0].variants[0]
    assert larger.fit is not None
    assert larger.fit.memory_bytes == 96 << 30
    assert larger.capacity
    assert found.capacity
    slower = larger.capacity.prefill_tokens_per_second
    assert slower < found.capacity.prefill_tokens_per_second


def test_a_provider_has_labels_of_its_own() -> None:
    target = GKE.replace("kubernetes", "kubernetes, provider: gke")
    found = place(target, "{accelerator: nvidia-h100}")
    assert [label.key for label in found.nodes.labels] == ["cloud.google.com/gke-accelerator"]


def test_where_labels_are_known_of_one_provider_alone_they_are_taken() -> None:
    found = place(GKE, "{accelerator: google-tpu-v6e}")
    assert found.nodes.selector == {
        "cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice",
        "cloud.google.com/gke-tpu-topology": "2x2",
    }


def test_levels_are_laid_over_each_other() -> None:
    target = GKE.replace("llm}", "llm, env: {A: target, B: target}, nodeSelector: {z: t}}")
    found = plan_text(
        on(
            target,
            "- {accelerator: nvidia-h100, env: {A: variant}, resources: {cpu: 8}, "
            "nodeSelector: {nvidia.com/gpu.product: mine}, tolerations: []}",
            model='env: {A: model, D: "4"}\nresources: {cpu: 4, shm: 1Gi}\n'
            "secretRefs: [{name: hf, env: HF_TOKEN}]\nimagePullSecrets: [pull]",
            spec="defaults: {env: {B: defaults, C: defaults}, secretRefs: [{name: other}]}",
        ),
        simulate=None,
    )
    variant = found.models[0].variants[0]
    assert {name: variant.env[name] for name in "ABCD"} == {
        "A": "variant", "B": "target", "C": "defaults", "D": "4",
    }  # fmt: skip
    assert variant.place is not None
    assert variant.place.container.cpu == 8
    assert variant.place.container.shm_bytes == 1 << 30
    assert variant.place.nodes.selector == {"z": "t", "nvidia.com/gpu.product": "mine"}
    assert variant.place.nodes.labels == ()
    assert variant.place.nodes.tolerations == ()
    assert variant.place.nodes.image_pull_secrets == ("pull",)
    assert variant.place.secrets == (Secret("hf", "HF_TOKEN", "HF_TOKEN"),)


def test_a_cache_of_the_variant_replaces_the_models() -> None:
    found = place(
        GKE, "{accelerator: nvidia-h100, cache: {size: 1Gi}}", model="cache: {claim: models}"
    )
    assert replace(found.cache, variables={}) == Cache(size_bytes=1 << 30)
    assert found.cache.variables["HF_HOME"] == "huggingface"


@pytest.mark.parametrize(
    ("variant", "expected"),
    [
        ("accelerator: nvidia-h100", (1, 4)),
        ("accelerator: nvidia-h100, replicas: 3", None),
        ("accelerator: nvidia-h100, autoscale: {min: 2, max: 8, scaler: hpa}", (2, 8)),
    ],
)
def test_the_nearest_level_says_how_many(variant: str, expected: tuple[int, int] | None) -> None:
    found = place(GKE, f"{{{variant}}}", spec="defaults: {autoscale: {min: 1, max: 4}}").autoscale
    assert (None if found is None else (found.min, found.max)) == expected
    assert found is None or found.in_flight >= 1


@pytest.mark.parametrize(
    ("variant", "topology", "hosts", "count"),
    [
        ("google-tpu-v6e, parallelism: {tensor: 1}", "1x1", 1, 1),
        ("google-tpu-v6e, parallelism: {tensor: 4}", "2x2", 1, 4),
        ("google-tpu-v6e, parallelism: {tensor: 8}", "2x4", 1, 8),
        ("google-tpu-v6e, parallelism: {tensor: 8}, topology: 4x4", "4x4", 4, 4),
        ("google-tpu-v6e, parallelism: {tensor: 2}", "2x2", 1, 4),
        ("google-tpu-v7x, parallelism: {tensor: 2}", "1x1x1", 1, 1),
        ("google-tpu-v7x, parallelism: {tensor: 8}", "2x2x1", 1, 4),
    ],
)
def test_chips_are_handed_out_in_slices(
    variant: str, topology: str, hosts: int, count: int
) -> None:
    found = place(GKE, f"{{accelerator: {variant}}}", model="maxModelLen: 4096")
    assert (found.topology, found.hosts, found.accelerators.count) == (topology, hosts, count)


def test_a_slice_is_paid_for_whole_and_what_idles_is_told() -> None:
    text = "- {{accelerator: google-tpu-v6e, parallelism: {{tensor: {0}}}}}"
    two, four = (plan_text(on(GKE, text.format(n), model="maxModelLen: 4096")) for n in (2, 4))
    assert two.summary.price_per_hour == four.summary.price_per_hour
    assert two.models[0].variants[0].devices_per_replica == 4
    assert "LC3016" in [p.code for p in two.warnings]
    assert "LC3016" not in [p.code for p in four.warnings]


def test_a_slice_that_is_none_is_refused_with_those_that_are() -> None:
    text = on(GKE, "- {accelerator: google-tpu-v6e, parallelism: {tensor: 8}, topology: 3x3}")
    (problem,) = problems_of(text)
    assert problem.code == "LC3054"
    assert problem.found == "3x3"
    assert problem.allowed[0] == "2x4"


def test_every_slice_is_a_whole_number_of_machines() -> None:
    catalog = Catalog()
    for name in catalog.names("AcceleratorProfile"):
        spec = catalog.accelerator(name).spec
        for one in slices_of(catalog.accelerator(name)):
            assert spec.kubernetes is not None
            assert one.devices % (one.hosts * spec.kubernetes.resource.devices) == 0, one


# --- what no place can carry out ---


def test_the_table_speaks_of_fields_kinds_and_routers_that_are() -> None:
    keys = {path.rpartition("spec.targets[].")[2] for path in SHAPE}
    keys |= {path.rpartition("spec.models[].variants[].")[2] for path in SHAPE}
    assert set(capabilities.BY_TARGET) <= keys
    router = {path.removeprefix("spec.router.") for path in SHAPE} | {"kind=llm-d"}
    assert set(capabilities.BY_ROUTERS_TARGET) <= router
    assert {path.partition("=")[0] for path in capabilities.BY_ROUTER} <= set(SHAPE)
    assert get_args(TargetKind) == capabilities.KINDS
    assert get_args(Router.model_fields["kind"].annotation) == capabilities.ROUTERS
    rows = (*capabilities.BY_TARGET.values(), *capabilities.BY_ROUTERS_TARGET.values())
    assert {kind for row in rows for kind in row} <= set(capabilities.KINDS)
    assert {one for row in capabilities.BY_ROUTER.values() for one in row} <= {
        *capabilities.ROUTERS
    }


VALUES = {
    "namespace": "llm", "provider": "gke", "hosts": "[a]", "resources": "{cpu: 1}",
    "nodeSelector": "{a: b}", "tolerations": "[{key: a}]", "imagePullSecrets": "[a]",
    "secretRefs": "[{name: a}]", "secretRefs[].key": "[{name: a, env: A, key: b}]",
    "autoscale": "{min: 1, max: 2}",
    "topology": "2x4",
    "deviceAllocation": "dra",
}  # fmt: skip
TARGETS = {"local": LOCAL, "kubernetes": GKE, "systemd": RACK, "compose": COMPOSE}
CACHES = {"cache": "{path: /c}", "cache.claim": "{claim: c}", "cache.size": "{size: 1Gi}"}


@pytest.mark.parametrize("kind", capabilities.KINDS)
@pytest.mark.parametrize("key", capabilities.BY_TARGET)
def test_every_row_of_the_table_is_told_where_it_holds(key: str, kind: str) -> None:
    target, said = TARGETS[kind], ""
    row = capabilities.BY_TARGET[key]
    if key == "secretRefs[].key" and kind == "local":
        row = capabilities.BY_TARGET["secretRefs"]
    if key in ("namespace", "provider", "hosts"):
        target = f"{{name: here, kind: {kind}, {key}: {VALUES[key]}}}"
    elif key == "role":
        said = ", role: prefill}\n- {name: d, accelerator: nvidia-h100, role: decode"
    elif key == "engine.image":
        said = ", engine: {name: vllm, image: a/b:c}"
    elif key == "resources.shm":
        said = ", resources: {shm: 1Gi}"
    elif key.startswith("cache"):
        said = f", cache: {CACHES[key]}"
    else:
        said = f", {key.removesuffix('[].key')}: {VALUES[key]}"
    router = "router: {kind: llm-d}" if key == "role" and kind == "kubernetes" else ""
    accelerator = "google-tpu-v6e" if key == "topology" else "nvidia-h100"
    text = on(target, f"- {{name: p, accelerator: {accelerator}{said}}}", spec=router)
    gap = row.get(kind)
    if gap is not None and gap.verdict == "refused":
        problems = problems_of(text)
        assert {p.code for p in problems} == {"LC3050"}
        assert gap.hint in {p.hint for p in problems}
        return
    told = [p for p in plan_text(text).warnings if p.code == "LC3051"]
    above = capabilities.BY_TARGET.get(key.partition(".")[0].removesuffix("[]"), {}).get(kind)
    gap = above or gap
    assert [p.message.rpartition(": ")[2] for p in told] == ([gap.why] if gap else [])


def test_what_a_nearer_level_overrules_is_no_gap_of_a_target() -> None:
    spec = "defaults: {autoscale: {min: 1, max: 4}}"
    plan_text(on(RACK, "- {accelerator: nvidia-h100, replicas: 2}", spec=spec))
    (problem,) = problems_of(on(RACK, "- {accelerator: nvidia-h100}", spec=spec))
    assert problem.code == "LC3050"
    assert problem.place is not None
    assert problem.place.path == "spec.defaults.autoscale"


ROUTER_SAYS = {
    "spec.models[].autoscale.scaler=hpa": ("autoscale: {min: 1, max: 2, scaler: hpa}", "", ""),
    "spec.models[].variants[].autoscale.scaler=hpa": (
        "", "\n- {name: e, accelerator: nvidia-l4, autoscale: {min: 1, max: 2, scaler: hpa}}", "",
    ),
    "spec.models[].usage": ("usage: exact", "", ""),
    "spec.models[].multimodal": ("multimodal: {imageTokens: 1}", "", ""),
    "spec.models[].slo": ("slo: {itl: {p95: 1s}}", "", ""),
    "spec.models[].variants[].endpoint": (
        "", "\n- {name: e, accelerator: nvidia-l4, endpoint: {url: 'http://h:1'}}", "",
    ),
    "spec.models[].variants[].apis": (
        "", "\n- {name: e, accelerator: nvidia-l4, apis: [chat]}", "",
    ),
    "spec.router.tls": ("", "", f"tls: {{certFile: {__file__}, keyFile: {__file__}}}"),
    "spec.router.routing": ("", "", "routing: {objective: latency}"),
    "spec.router.resilience": ("", "", "resilience: {slowStart: 1s}"),
    "spec.router.resources": ("", "", "resources: {cpu: 1}"),
    "spec.router.secretRefs": ("", "", "secretRefs: [{name: a}]"),
}  # fmt: skip


@pytest.mark.parametrize("path", ROUTER_SAYS)
def test_what_the_router_of_llm_d_cannot_do_is_told(path: str) -> None:
    model, variants, router = ROUTER_SAYS[path]
    spec = f"router: {{kind: llm-d{', ' * bool(router)}{router}}}"
    text = on(GKE, f"- {{accelerator: nvidia-h100}}{variants}", model=model, spec=spec)
    gap = capabilities.BY_ROUTER[path]["llm-d"]
    if gap.verdict == "refused":
        assert [p.code for p in problems_of(text)] == ["LC3050"]
    else:
        told = [p for p in plan_text(text).warnings if p.code == "LC3051"]
        assert [p.message.rpartition(": ")[2] for p in told] == [gap.why]


def test_roles_need_the_router_of_llm_d() -> None:
    roles = (
        "- {name: p, accelerator: nvidia-h100, role: prefill}\n"
        "- {name: d, accelerator: nvidia-h100, role: decode}"
    )
    assert {p.code for p in problems_of(on(GKE, roles))} == {"LC3050"}
    found = plan_text(on(GKE, roles, spec="router: {kind: llm-d}"))
    assert [variant.role for variant in found.models[0].variants] == ["prefill", "decode"]


GATEWAY = "gateway: {name: inference, namespace: infra, pods: {namespace: proxies}}"


def test_a_gateway_is_planned_as_it_is_said() -> None:
    text = on(GKE, "- {accelerator: nvidia-h100}", spec=f"router: {{kind: llm-d, {GATEWAY}}}")
    router = plan_text(text).router
    assert router is not None
    assert router.gateway == Gateway("inference", "infra", pods=GatewayPods("proxies"))
    assert "LC3057" not in {one.code for one in plan_text(text).warnings}


@pytest.mark.parametrize(
    ("router", "path"),
    [
        ("{kind: llm-d}", "spec.router.kind"),
        ("{kind: llm-d, gateway: {name: inference}}", "spec.router.gateway"),
    ],
)
def test_where_nothing_says_who_the_gateway_is_engines_answer_anybody(
    router: str, path: str
) -> None:
    text = on(GKE, "- {accelerator: nvidia-h100}", spec=f"router: {router}")
    (told,) = (one for one in plan_text(text).warnings if one.code == "LC3057")
    assert told.place is not None
    assert told.place.path == path


def test_what_our_router_makes_of_a_gateway() -> None:
    text = on(GKE, "- {accelerator: nvidia-h100}", spec=f"router: {{{GATEWAY}}}")
    (told,) = (one for one in plan_text(text).warnings if one.code == "LC3051")
    assert told.place is not None
    assert told.place.path == "spec.router.gateway.pods"


@pytest.mark.parametrize("target", [LOCAL, RACK, COMPOSE])
def test_only_a_cluster_has_gateways(target: str) -> None:
    text = on(target, "- {accelerator: nvidia-h100}", spec="router: {gateway: {name: a}}")
    assert [one.code for one in problems_of(text)] == ["LC3050"]


def test_a_gateway_does_not_speak_tls_to_the_router() -> None:
    tls = f"tls: {{certFile: {__file__}, keyFile: {__file__}}}"
    text = on(GKE, "- {accelerator: nvidia-h100}", spec=f"router: {{{tls}, gateway: {{name: a}}}}")
    (problem,) = problems_of(text)
    assert problem.place is not None
    assert (problem.code, problem.place.path) == ("LC3050", "spec.router.gateway")


# --- the router's own place ---


def test_the_router_runs_in_the_first_target_unless_one_is_named() -> None:
    targets = f"{GKE}, {{name: rack, kind: systemd, hosts: [a]}}"
    variants = "- {name: a, accelerator: nvidia-h100, target: rack}"
    text = fleet_text(variants).replace(LOCAL, targets)
    router = plan_text(text).router
    assert router is not None
    assert (router.target, router.replicas) == ("here", 2)
    named = fleet_text(variants, spec="router: {target: rack}").replace(LOCAL, targets)
    router = plan_text(named).router
    assert router is not None
    assert (router.target, router.replicas) == ("rack", 1)


def test_replicas_that_the_router_cannot_reach_are_refused() -> None:
    targets = f"{GKE}, {{name: other, kind: kubernetes}}"
    variants = "- {name: a, accelerator: nvidia-h100, target: other}"
    text = fleet_text(variants).replace(LOCAL, targets)
    (problem,) = problems_of(text, simulate=None)
    assert (problem.code, problem.allowed) == ("LC3055", ("here",))
    with pytest.raises(LlmdError) as rehearsed:  # as `validate` asks
        plan_text(text, rehearsal=True)
    assert [each.code for each in rehearsed.value.problems] == ["LC3055"]
    assert plan_text(text).models  # simulated, all of it runs here


@pytest.mark.parametrize("kind", ["kubernetes", "compose"])
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "0.0.0.0", "x.LOCALHOST"])
def test_a_router_in_a_container_is_not_sent_to_itself(kind: str, host: str) -> None:
    url = f"http://{host}:8000"
    variant = f'- {{accelerator: nvidia-h100, endpoint: {{url: "{url}"}}}}'
    traces = 'observability: {traces: {otlp: "http://127.0.0.1:4317"}}'
    text = fleet_text(variant, spec=traces)
    there = text.replace(LOCAL, f"{{name: here, kind: {kind}}}")
    problems = [p for p in problems_of(there, simulate=None) if p.code == "LC3055"]
    assert {problem.found for problem in problems} == {url, "http://127.0.0.1:4317"}
    for reaches in (there.replace(host, "10.0.0.7").replace("127.0.0.1", "collector"), text):
        assert plan_text(reaches, simulate=None).models
    assert plan_text(there, simulate=1.0).models  # then the router runs on this machine


def test_an_image_that_nobody_knows_is_asked_for() -> None:
    (problem,) = problems_of(on(GKE, "- {accelerator: intel-gaudi3}"), simulate=None)
    assert problem.code == "LC3052"
    found = place(GKE, "{accelerator: intel-gaudi3, engine: {name: vllm, image: a/b:c}}")
    assert found.image == Image("a/b:c")


def test_an_image_without_a_digest_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_lock, "locked", dict)
    text = on(GKE, "- {accelerator: nvidia-h100}")
    told = [p.message for p in plan_text(text, simulate=None).warnings if p.code == "LC3053"]
    assert any("vllm/vllm-openai:v0.32.0" in message for message in told)
    pinned = f"{{name: vllm, image: a/b@sha256:{'0' * 64}}}"
    text = on(GKE, f"- {{accelerator: nvidia-h100, engine: {pinned}}}")
    found = plan_text(text, simulate=None)
    told = [p.message for p in found.warnings if p.code == "LC3053"]
    assert not any("llmd-ctl/router" not in message for message in told)
    assert found.models[0].variants[0].place is not None
    assert found.models[0].variants[0].place.image is not None
    assert found.models[0].variants[0].place.image.pinned == f"a/b@sha256:{'0' * 64}"


def test_variables_of_the_file_are_judged_at_their_place() -> None:
    text = on(GKE, "- {accelerator: nvidia-h100}", model='env: {VLLM_USE_V1: "1"}')
    (told,) = [p for p in plan_text(text, simulate=None).warnings if p.message.startswith("V02")]
    assert told.place is not None
    assert told.place.path == "spec.models[0].env.VLLM_USE_V1"


DRA = GKE.replace("llm}", "llm, deviceAllocation: dra}")


@pytest.mark.parametrize(
    ("target", "said", "expected"),
    [
        (GKE, "", ("nvidia.com/gpu", None)),
        (GKE, ", deviceAllocation: dra", (None, "gpu.nvidia.com")),
        (DRA, "", (None, "gpu.nvidia.com")),
        (DRA, ", deviceAllocation: extended", ("nvidia.com/gpu", None)),
    ],
)
def test_devices_are_asked_for_or_claimed(
    target: str, said: str, expected: tuple[str | None, str | None]
) -> None:
    found = place(target, f"{{accelerator: nvidia-h100, parallelism: {{tensor: 2}}{said}}}")
    given = found.accelerators
    assert (given.resource, given.device_class, given.count) == (*expected, 2)


def test_a_claim_is_of_whole_chips() -> None:
    found = place(DRA, "{accelerator: google-tpu-v6e, parallelism: {tensor: 4}}").accelerators
    assert (found.device_class, found.count) == ("tpu.google.com", 4)


@pytest.mark.parametrize(
    ("accelerator", "why", "code"),
    [
        ("ascend-910b", "no class of devices is known", 65),  # its speed is not known either
        ("google-tpu-v7x", "the driver does not know this chip", 66),
    ],
)
def test_devices_without_a_driver_are_not_claimed(accelerator: str, why: str, code: int) -> None:
    variant = f"- {{accelerator: {accelerator}, engine: {{name: sim}}}}"
    told = problems_of(on(DRA, variant), code=code)
    (problem,) = (one for one in told if one.code == "LC3054")
    assert problem.message.endswith(why)
    assert problem.allowed == ("extended",)
    assert problem.place is not None
    assert problem.place.path.endswith("variants[0].accelerator")
    own = variant.replace("}}", "}, deviceAllocation: dra}")
    (problem,) = (one for one in problems_of(on(GKE, own), code=code) if one.code == "LC3054")
    assert problem.place is not None
    assert problem.place.path.endswith("variants[0].deviceAllocation")


def test_what_the_profile_says_of_a_driver_is_told() -> None:
    told = plan_text(on(DRA, "- {accelerator: intel-gaudi3}")).warnings
    assert [one.message for one in told if one.code == "LC3056"] == [
        "gaudi.intel.com hands out intel-gaudi3: beta (0.7.0)"
    ]
    assert not [
        one for one in plan_text(on(GKE, "- {accelerator: intel-gaudi3}")).warnings
        if one.code == "LC3056"
    ]  # fmt: skip


def test_cores_are_no_devices_to_claim() -> None:
    text = on(DRA, "- {accelerator: cpu-x86}", model="maxModelLen: 4096")
    found = plan_text(text, simulate=None).models[0].variants[0].place
    assert found is not None
    assert (found.accelerators.resource, found.accelerators.device_class) == ("cpu", None)
    own = on(GKE, "- {accelerator: cpu-x86, deviceAllocation: dra}", model="maxModelLen: 4096")
    assert "LC3054" in {one.code for one in problems_of(own)}


@pytest.mark.parametrize(("most", "told"), [(8, []), (9, ["9"])])
def test_more_replicas_than_the_inventory_has_devices_for_are_warned_of(
    most: int, told: list[str]
) -> None:
    stock = "inventory: [{target: here, accelerator: nvidia-h100, nodes: 1, devicesPerNode: 8}]"
    text = on(
        GKE, f"- {{accelerator: nvidia-h100, autoscale: {{min: 1, max: {most}}}}}", spec=stock
    )
    found = [one for one in plan_text(text).warnings if one.code == "LC3031"]
    assert [one.message.split()[0] for one in found] == told
    assert all(one.place and one.place.path.endswith("variants[0].autoscale") for one in found)


@pytest.mark.parametrize("kind", get_args(TargetKind))
def test_a_target_in_which_nothing_runs_is_told(kind: str) -> None:
    other = f"{{name: other, kind: {kind}}}"
    words = "{name: v, accelerator: nvidia-h100, target: here"
    endpoint = "{accelerator: x, name: e, endpoint: {url: 'http://h:1'}}"
    text = on(f"{LOCAL}, {other}", f"- {words}}}\n- {endpoint}", spec="router: {target: here}")
    (empty,) = (p for p in plan_text(text).warnings if p.code == "LC3051")
    assert empty.message == f"target other ({kind}) stays empty: no variant is placed there"
    assert empty.place is not None
    assert empty.place.path == "spec.targets[1].name"


def test_a_target_that_holds_the_router_alone_or_a_variant_is_not_empty() -> None:
    both = f"{LOCAL}, {{name: other, kind: systemd}}"
    variant = "- {name: v, accelerator: nvidia-h100, target: other}"
    text = on(both, variant, spec="router: {target: other}")
    assert [p.message for p in plan_text(text).warnings if p.code == "LC3051"] == [
        "target here (local) stays empty: no variant is placed there"
    ]
    text = on(f"{GKE}, {{name: other, kind: systemd, hosts: [h]}}", variant).replace(
        "  models:", "  router: {target: here}\n  models:"
    )
    assert "LC3051" not in {p.code for p in plan_text(text).warnings}
