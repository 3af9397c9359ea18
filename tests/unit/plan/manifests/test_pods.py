"""Every rule of pods and of objects beside each other: one edit of a clean manifest breaks it."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import yaml

from llmd_ctl.plan.manifests import judge
from llmd_ctl.profiles.rules.pod import Amiss, Pod, PodRule
from llmd_ctl.profiles.rules.pods import RULES, check_pod
from tests.unit.plan.manifests.folders import CLEAN, judged, rules
from tests.unit.profiles.rules.lines import CATALOG
from tests.unit.profiles.rules.mutation import Case, said

ARGS = "args: [--model=Qwen/Qwen3-32B, --tensor-parallel-size=2]"
GPUS = "{limits: {nvidia.com/gpu: 2}}"
NODES = "nodeSelector: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}"
IMAGE = "vllm/vllm-openai:v0.32.0"
ENV = "- {name: HF_HOME, value: /cache}"
NIXL = '\'--kv-transfer-config={"kv_connector": "NixlConnector", "kv_role": "kv_producer"}\''
WITH_NIXL = f"args: [--model=Qwen/Qwen3-32B, --tensor-parallel-size=2, {NIXL}]"
SIDE = "VLLM_NIXL_SIDE_CHANNEL_HOST, valueFrom: {fieldRef: {fieldPath: status.podIP}}"
SHM = "volumeMounts: [{name: shm, mountPath: /dev/shm}]"
SERVICE = """---
apiVersion: v1
kind: Service
metadata: {name: chat}
spec: {selector: {app: chat}, ports: [{port: 80, targetPort: http}]}
"""
POOL = """---
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: chat}
spec: {selector: {matchLabels: {app: chat}}, targetPorts: [{number: 8000}]}
"""
CLAIM = """---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: pair}
spec:
  spec:
    devices:
      requests:
      - {name: gpu, exactly: {deviceClassName: gpu.nvidia.com, count: 2}}
      - {name: nic, exactly: {deviceClassName: mrdma.google.com, count: 2}}
      constraints: [{matchAttribute: resource.kubernetes.io/pcieRoot}]
"""
OLD_CLAIM = """---
apiVersion: resource.k8s.io/v1beta1
kind: ResourceClaimTemplate
metadata: {name: gaudi}
spec: {spec: {devices: {requests: [{name: card, deviceClassName: gaudi.intel.com}]}}}
"""

TPU = (
    CLEAN.replace(
        NODES,
        "nodeSelector: {cloud.google.com/gke-tpu-accelerator: tpu-v6e-slice,"
        " cloud.google.com/gke-tpu-topology: 2x4}",
    )
    .replace(GPUS, "{limits: {google.com/tpu: 8}}")
    .replace("vllm/vllm-openai:v0.32.0\n        args: [--model=", "vllm/vllm-tpu:v0.32.0\n        "
             "command: [vllm, serve]\n        args: [--block-size=128, --model=")
    .replace("size=2]", "size=8]")
)  # fmt: skip
GB200 = CLEAN.replace(
    NODES,
    "nodeSelector: {nvidia.com/gpu.product: NVIDIA-GB200, kubernetes.io/arch: arm64}\n"
    "      tolerations: [{key: kubernetes.io/arch, operator: Exists}]",
)
GKE = CLEAN.replace(NODES, "nodeSelector: {cloud.google.com/gke-accelerator: nvidia-h200-141gb}")
PROCESSOR = (
    CLEAN.replace(NODES, "nodeSelector: {kubernetes.io/arch: amd64}")
    .replace(IMAGE, "vllm/vllm-openai-cpu:v0.32.0")
    .replace(GPUS, "{limits: {cpu: 64}}\n        securityContext: "
             "{capabilities: {add: [SYS_NICE]}}")
    .replace("tensor-parallel-size=2", "block-size=128")
)  # fmt: skip
NIXL_POD = CLEAN.replace(ARGS, WITH_NIXL).replace(ENV, f"{ENV}\n        - {{name: {SIDE}}}")
AMD = (
    CLEAN.replace(NODES, 'nodeSelector: {amd.com/gpu.device-id: "74a1"}')
    .replace(GPUS, "{limits: {amd.com/gpu: 2}}")
    .replace(f"{IMAGE}\n        args: [--model=Qwen/Qwen3-32B, --tensor-parallel-size=2]",
             "lmsysorg/sglang:v0.5.23-rocm720-mi30x\n        command: [python, -m, "
             "sglang.launch_server]\n        args: [--model-path=Qwen/Qwen3-32B, --tp-size=2]")
)  # fmt: skip
ASCEND = (
    CLEAN.replace(NODES, "nodeSelector: {accelerator-type: module-910b-8}")
    .replace(GPUS, "{limits: {huawei.com/Ascend910: 2}}")
    .replace(f"{IMAGE}\n", "quay.io/ascend/vllm-ascend:v0.23.0.post1\n        command: "
             "[vllm, serve]\n")
)  # fmt: skip
GROUP = (
    CLEAN.replace("apps/v1", "leaderworkerset.x-k8s.io/v1")
    .replace("kind: Deployment", "kind: LeaderWorkerSet")
    .replace("  selector: {matchLabels: {app: chat}}\n", "")
    .replace("  template:\n", "  leaderWorkerTemplate:\n   size: 2\n   workerTemplate:\n")
    .replace("parallel-size=2]", "parallel-size=2, --pipeline-parallel-size=2]")
)
KSERVE = """\
apiVersion: serving.kserve.io/v1alpha1
kind: LLMInferenceService
metadata: {name: chat}
spec:
  template:
""" + CLEAN.partition("    spec:\n")[2].replace("\n  ", "\n").replace("      nodeS", "    nodeS", 1)
BASES = {
    "kserve": KSERVE,
    "amd": AMD, "ascend": ASCEND, "group": GROUP,
    "plain": CLEAN, "tpu": TPU, "gb200": GB200, "gke": GKE, "cpu": PROCESSOR, "nixl": NIXL_POD,
    "service": CLEAN + SERVICE, "pool": CLEAN + POOL, "claim": CLEAN + CLAIM,
}  # fmt: skip

CASES: list[dict[str, str]] = yaml.safe_load((Path(__file__).parent / "cases.yaml").read_text())
EDGES: dict[str, list[dict[str, Any]]] = yaml.safe_load(
    (Path(__file__).parent / "edges.yaml").read_text("utf-8")
)
# Where the pod of a clean manifest stands.
POD_AT = dict.fromkeys(BASES, "0|spec|template|spec|") | {
    "kserve": "0|spec|template|",
    "group": "0|spec|leaderWorkerTemplate|workerTemplate|spec|",
}
SECOND = {"Q07": OLD_CLAIM}


@pytest.mark.parametrize("base", BASES)
def test_a_clean_manifest_breaks_no_rule(base: str) -> None:
    assert judged(BASES[base]).problems == []


def edited(case: dict[str, str]) -> str:
    """The manifest of a case."""
    base = BASES[case["of"]]
    assert case["old"] in base, case
    return base.replace(case["old"], case["new"]) + SECOND.get(case["rule"], "")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["rule"])
def test_an_edit_breaks_the_rule(case: dict[str, str]) -> None:
    assert case["rule"] in rules(judged(edited(case)))


def _group() -> str:
    """A LeaderWorkerSet of superchips."""
    group = GB200.replace("apps/v1", "leaderworkerset.x-k8s.io/v1").replace(
        "kind: Deployment", "kind: LeaderWorkerSet"
    )
    return group.replace("  selector: {matchLabels: {app: chat}}\n", "").replace(
        "  template:\n", "  leaderWorkerTemplate:\n   size: 2\n   workerTemplate:\n"
    )


def _claimed_twice() -> str:
    both = (CLEAN + CLAIM).replace(GPUS, "{limits: {nvidia.com/gpu: 2}, claims: [{name: p}]}")
    return both.replace(
        "      volumes:",
        "      resourceClaims: [{name: p, resourceClaimTemplateName: pair}]\n      volumes:",
    )


def test_a_superchip_group_claims_its_domain_and_devices_are_not_had_twice() -> None:
    assert "Q29" in rules(judged(_group()))
    assert "Q10" in rules(judged(_claimed_twice()))


def pods_of(text: str) -> list[Pod]:
    """The pods in a manifest, as rules are asked of them."""
    found: list[Pod] = []

    def kept(pod: Pod) -> Iterator[tuple[PodRule, Amiss]]:
        found.append(pod)
        return check_pod(pod)

    with patch.object(judge, "check_pod", kept):
        judged(text)
    return found


def cases_of_pods() -> Iterator[Case]:
    """Each case as tests of the tests ask it; no rule speaks of a clean manifest."""
    severity = {rule.id: rule.severity for rule in RULES}
    clean = [pod for base in BASES.values() for pod in pods_of(base)]
    for rule in severity:
        yield from (Case(rule, pod, None) for pod in clean)
    broken = [(case["rule"], edited(case)) for case in CASES if case["rule"] in severity]
    for rule, text in (*broken, ("Q29", _group()), ("Q10", _claimed_twice())):
        yield from (Case(rule, pod, severity[rule]) for pod in pods_of(text))
    for rule, says, pod in edges():
        yield Case(rule, pod, says)


def edges() -> Iterator[tuple[str, str | None, Pod]]:
    """What rules say of manifests close to where they begin and end."""
    severity = {rule.id: rule.severity for rule in RULES}
    for rule, listed in EDGES.items():
        for edge in listed:
            for pod in pods_of(changed(edge)):
                yield rule, severity[rule] if edge.get("breaks") else None, pod


def changed(edge: dict[str, Any]) -> str:
    """The manifest of an edge: a clean one, with values set at paths, or taken away.

    `pod` is its pod, `engine` the engine's container.
    """
    documents = list(yaml.safe_load_all(BASES[edge["of"]]))
    at = POD_AT[edge["of"]]
    change = edge.get("change", {}).items()
    put(documents, {
        path.replace("engine|", "pod|containers|0|").replace("pod|", at): value
        for path, value in change
    })  # fmt: skip
    return yaml.safe_dump_all(documents)


def put(data: Any, values: Mapping[str, Any]) -> None:
    """Set values at paths, or take them away where they are null."""
    for path, value in values.items():
        *way, last = (int(key) if key.isdecimal() else key for key in path.split("|"))
        held: Any = data
        for key in way:
            held = held[key]
        if value is None:
            del held[last]
        else:
            held[last] = value


def test_rules_begin_and_end_at_their_edges() -> None:
    own = {rule.id: rule for rule in RULES}
    for rule, says, pod in edges():
        assert said(own[rule], pod) == says, (rule, pod.spec)


PICKER = """---
apiVersion: v1
kind: ConfigMap
metadata: {name: picker}
data:
  config.yaml: |
    apiVersion: inference.networking.x-k8s.io/v1alpha1
    kind: EndpointPickerConfig
    plugins:
    - type: precise-prefix-cache-scorer
      parameters: {tokenProcessorConfig: {blockSize: 64}}
"""


def test_a_picker_counts_in_the_blocks_of_its_engines() -> None:
    events = '\'--kv-events-config={"publisher": "zmq", "enable_kv_cache_events": true}\''
    same = CLEAN.replace("args: [", f"args: [--block-size=64, {events}, ") + PICKER
    assert judged(same).problems == []
    assert rules(judged(same.replace("size=64", "size=16"))) == ["V15"]
    assert rules(judged(same.replace("--block-size=64, ", ""))) == ["V15"]


def test_two_images_of_one_platform_are_told() -> None:
    other = CLEAN.replace("name: chat}", "name: talk}").replace(IMAGE, "vllm/vllm-openai:v0.33.0")
    assert "Q26" in rules(judged(CLEAN, other))


def test_every_rule_is_in_the_document() -> None:
    document = (Path(__file__).parents[4] / "docs" / "manifests.md").read_text("utf-8")
    for rule in RULES:
        assert f"| {rule.id} | {rule.severity} | {rule.title} |" in document
    for case in CASES:
        assert case["rule"].startswith("LC") or f"| {case['rule']} |" in document, case["rule"]


def test_each_rule_of_pods_has_a_case_and_a_source() -> None:
    elsewhere = {"Q10", "Q29"}
    assert {rule.id for rule in RULES} <= {case["rule"] for case in CASES} | elsewhere
    assert len({rule.id for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert rule.source, rule.id
        assert rule.remedy.endswith("."), rule.id


@pytest.mark.parametrize("name", CATALOG.names("AcceleratorProfile"))
def test_a_pod_of_each_accelerator_is_judged_whatever_is_not_known_of_it(name: str) -> None:
    cluster = CATALOG.accelerator(name).spec.kubernetes
    assert cluster is not None
    node = next(iter(cluster.selectors.values()))[0]
    text = CLEAN.replace(NODES, f'nodeSelector: {{{node.key}: "{node.values[0]}"}}')
    found = rules(judged(text.replace(GPUS, f"{{limits: {{{cluster.resource.name}: 1}}}}")))
    assert "LC6000" not in found
