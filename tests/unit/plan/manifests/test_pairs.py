"""Which prefill and decode pods belong together, where several pairs lie in one folder."""

import pytest

from llmd_ctl.errors import Problem
from tests.unit.plan.manifests.folders import judged

LABELS = "llm-d.ai/model: chat"
SERVICE = """\
apiVersion: serving.kserve.io/v1alpha1
kind: LLMInferenceService
metadata: {name: NAME}
spec:
  model: {uri: hf://MODEL, name: MODEL}
  template: {containers: [CONTAINER]}
  prefill:
    template: {containers: [CONTAINER]}
"""


def container(model: str) -> str:
    config = '{"kv_connector": "NixlConnector", "kv_role": "kv_both"}'
    return (
        "{name: engine, image: vllm/vllm-openai:v0.32.0, command: [vllm, serve, "
        f"{model}, --kv-transfer-config, '{config}'], "
        "resources: {limits: {nvidia.com/gpu: 2}}}"
    )


def half(role: str, model: str, labels: str) -> str:
    return f"""\
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {role}-{model.rpartition("/")[2].lower()}}}
spec:
  template:
    metadata: {{labels: {{{labels}, llm-d.ai/role: {role}}}}}
    spec:
      nodeSelector: {{nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}}
      containers: [{container(model)}]
"""


def pairs(*texts: str) -> list[Problem]:
    """What is said of two pods at once."""
    return [each for each in judged(*texts).problems if each.message.startswith("K46:")]


@pytest.mark.parametrize(
    ("first", "second", "together"),
    [
        (LABELS, LABELS, True),
        (f"{LABELS}, llmd-ctl.dev/fleet: a", f"{LABELS}, llmd-ctl.dev/fleet: b", False),
        (f"{LABELS}, llmd-ctl.dev/fleet: a", f"{LABELS}, llmd-ctl.dev/fleet: a", True),
        (f"{LABELS}, llm-d.ai/guide: a", f"{LABELS}, llm-d.ai/guide: b", False),
        (f"{LABELS}, llm-d.ai/guide: a", LABELS, True),
        ("llm-d.ai/guide: a", "llm-d.ai/guide: a", True),
        ("app: a", "app: a", True),
        ("app: a", "app: b", False),
        ("llm-d.ai/model: chat", "llm-d.ai/model: other", False),
    ],
)
def test_pods_belong_together_by_what_both_say(first: str, second: str, *, together: bool) -> None:
    texts = half("prefill", "Qwen/Qwen3-8B", first), half("decode", "Qwen/Qwen3-32B", second)
    assert bool(pairs(*texts)) == together


def test_two_services_of_kserve_are_two_pairs() -> None:
    texts = [
        SERVICE.replace("NAME", name).replace("CONTAINER", container(model)).replace("MODEL", model)
        for name, model in (("a", "Qwen/Qwen3-8B"), ("b", "Qwen/Qwen3-32B"))
    ]
    assert len(judged(*texts).engines) == 4
    assert pairs(*texts) == []


def test_both_sides_of_one_service_of_kserve_are_a_pair() -> None:
    decode, prefill = container("Qwen/Qwen3-8B"), container("Qwen/Qwen3-32B")
    text = SERVICE.replace("CONTAINER", decode, 1).replace("CONTAINER", prefill)
    text = text.replace("MODEL", "Qwen/Qwen3-8B")
    (problem,) = pairs(text.replace("NAME", "a"))
    assert problem.severity == "error"
    assert len(pairs(text.replace("NAME", "a"), text.replace("NAME", "b"))) == 2
