"""Manifests are read as far as they can be, what they leave open is told, nothing falls over."""

import copy
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from llmd_ctl.profiles import image_names
from tests.unit.plan.manifests.folders import CLEAN, judged, rules

ARGS = "args: [--model=Qwen/Qwen3-32B, --tensor-parallel-size=2]"
NODES = "      nodeSelector: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}\n"
BAD = ARGS.replace("]", ", --block-size=24, --attention-backend=FLASH_ATTN]")


def messages(*texts: str) -> list[str]:
    return [problem.message for problem in judged(*texts).problems]


def test_an_engine_is_found_with_all_that_tells_of_it() -> None:
    (found,) = judged(CLEAN).engines
    assert (found.title, found.engine, found.version) == (
        "Deployment chat/engine",
        "vllm",
        "0.32.0",
    )
    assert (found.model, found.accelerators) == ("Qwen/Qwen3-32B", ("nvidia-h100",))


def test_where_nodes_are_not_said_only_what_is_wrong_on_all_of_them_is_told() -> None:
    told = rules(judged(CLEAN.replace(NODES, "").replace(ARGS, BAD)))
    assert "V07" in told
    assert "LC3072" in told
    some = ARGS.replace("]", ", --attention-backend=FLASHMLA]")  # Hopper alone has it
    text = (
        CLEAN.replace(NODES, "")
        .replace(ARGS, some)
        .replace("Qwen/Qwen3-32B", "deepseek-ai/DeepSeek-V3")
    )
    assert not [rule for rule in rules(judged(text)) if rule == "V19"]


def test_of_a_model_that_is_not_known_only_what_is_wrong_of_any_is_told() -> None:
    odd = CLEAN.replace("Qwen/Qwen3-32B", "acme/secret-7b")
    (told,) = messages(odd)
    assert "nothing is known of the model acme/secret-7b" in told
    wrong = odd.replace("--tensor", "'--kv-transfer-config={}', --tensor")
    assert "K39" in rules(judged(wrong))


def test_engines_of_other_names_are_judged_by_their_own_flags() -> None:
    words = "python3, -m, sglang.launch_server, --model-path, Qwen/Qwen3-8B, --tp-size, '2'"
    started = CLEAN.replace("vllm/vllm-openai:v0.32.0", "lmsysorg/sglang:v0.5.23").replace(
        ARGS, f"command: [{words}]"
    )
    found = judged(started)
    (engine,) = found.engines
    assert (engine.engine, engine.version, engine.model) == ("sglang", "0.5.23", "Qwen/Qwen3-8B")
    assert found.problems == []
    wrong = started.replace("--tp-size", "--no-such")
    assert any("no flag --no-such" in each for each in messages(wrong))


def test_another_version_turns_errors_into_warnings_that_say_so() -> None:
    old = CLEAN.replace("v0.32.0", "v0.31.0").replace(ARGS, BAD)
    found = judged(old).problems
    assert {problem.severity for problem in found} == {"warning"}
    assert any("(by vllm 0.32.0)" in problem.message for problem in found)


def test_a_version_that_is_known_is_judged_by_its_own_rules() -> None:
    found = judged(CLEAN.replace("v0.32.0", "v0.33.0").replace(ARGS, BAD)).problems
    assert [problem.severity for problem in found] == ["error"]


def test_engines_without_a_table_of_flags_are_judged_as_pods_and_said_to_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = copy.deepcopy(dict(image_names._table()))
    known["programs"].append({"engine": "lmdeploy", "words": ["lmdeploy", "serve"]})
    monkeypatch.setattr(image_names, "_table", lambda: known)
    other = CLEAN.replace("vllm/vllm-openai:v0.32.0", "openmmlab/lmdeploy:v1.0.0").replace(
        ARGS, "command: [lmdeploy, serve, x]"
    )
    assert any("the flags of lmdeploy are not known here" in each for each in messages(other))
    assert "Q11" in rules(judged(other.replace("gpu: 2", "gpu: 16")))


def test_variables_of_a_config_map_in_the_folder_are_known() -> None:
    text = CLEAN.replace(
        "- {name: HF_HOME, value: /cache}",
        "- {name: TP, valueFrom: {configMapKeyRef: {name: split, key: tp}}}",
    ).replace("size=2]", "size=$(TP)]")
    split = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: split}\ndata: {tp: '%s'}\n"
    assert judged(text, split % 2).problems == []
    assert "Q06" in rules(judged(text, split % 4))
    alone = messages(text)
    assert any("$(TP) is known only where it runs" in each for each in alone)
    assert any("needs the ConfigMap split" in each for each in alone)


@pytest.mark.parametrize(
    "words",
    ["--tensor-parallel-size=2, --port=$(PORT)", "--tensor-parallel-size=2, --port, $(PORT)"],
)
def test_only_the_flag_whose_value_is_not_known_is_left_out(words: str) -> None:
    port = "- {name: PORT, valueFrom: {configMapKeyRef: {name: elsewhere, key: port}}}"
    text = CLEAN.replace("--tensor-parallel-size=2", words).replace(
        "- {name: HF_HOME, value: /cache}", port
    )
    assert set(rules(judged(text))) & {"Q06", "Q15"} == set()  # a port may be 8000
    assert "Q06" in rules(judged(text.replace("size=2", "size=4")))  # the devices are known


def test_the_same_pod_is_found_in_every_kind_that_makes_pods() -> None:
    document = yaml.safe_load(CLEAN.replace(ARGS, BAD))
    pod = document["spec"]["template"]
    kinds: list[dict[str, Any]] = [
        {"kind": "Pod", "apiVersion": "v1", "metadata": pod["metadata"], "spec": pod["spec"]},
        *({"kind": kind, "apiVersion": "apps/v1", "spec": document["spec"]}
          for kind in ("StatefulSet", "DaemonSet", "Deployment")),
        {"kind": "Job", "apiVersion": "batch/v1", "spec": {"template": pod}},
        {"kind": "CronJob", "apiVersion": "batch/v1",
         "spec": {"jobTemplate": {"spec": {"template": pod}}}},
        {"kind": "LeaderWorkerSet", "apiVersion": "leaderworkerset.x-k8s.io/v1",
         "spec": {"leaderWorkerTemplate": {"size": 1, "workerTemplate": pod}}},
        {"kind": "LLMInferenceService", "apiVersion": "serving.kserve.io/v1alpha1",
         "spec": {"template": pod["spec"]}},
    ]  # fmt: skip
    for each in kinds:
        text = yaml.safe_dump({"metadata": {"name": "x"}, **each})
        assert "V07" in rules(judged(text)), each["kind"]
    listed = {"kind": "List", "apiVersion": "v1", "items": kinds[:1]}
    assert "V07" in rules(judged(yaml.safe_dump(listed)))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("replicas: 2\n", "is no Kubernetes object"),
        ("# nothing\n", "holds no Kubernetes object"),
        ("kind: X\napiVersion: v1\n", "no pod of these manifests runs an engine"),
        (CLEAN.replace("gpu: 2", "gpu: {{ .Values.gpus }"), "YAML"),
    ],
)
def test_what_cannot_be_judged_is_named(text: str, said: str) -> None:
    assert any(said in each for each in messages(text))


def test_a_template_is_told_to_be_rendered_first() -> None:
    found = judged("{{ if .Values.x }\n" + CLEAN).problems
    assert any("helm template" in problem.remedy for problem in found)


ODD: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, -1, 10**30, 1.5, "", "x", "$(A) {{ }} '", [], [None], [[]], {}, {"name": []}]
)


def paths(data: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    children = (
        data.items()
        if isinstance(data, dict)
        else enumerate(data)
        if isinstance(data, list)
        else ()
    )
    return [at, *(path for key, child in children for path in paths(child, (*at, key)))]


WHOLE = yaml.safe_load(CLEAN)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(paths(WHOLE)[1:]), ODD)
def test_no_manifest_is_too_odd(path: tuple[Any, ...], odd: Any) -> None:
    document = yaml.safe_load(CLEAN)
    at = document
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = odd
    for problem in judged(yaml.safe_dump(document)).problems:
        assert problem.place is None or problem.place.line >= 1


def test_flags_that_a_plugin_adds_are_read_on_its_accelerator_alone() -> None:
    atom = CLEAN.replace(
        "nodeSelector: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}",
        "nodeSelector: {rebellions.ai/npu.family: ATOM}",
    ).replace("{limits: {nvidia.com/gpu: 2}}", "{limits: {rebellions.ai/ATOM: 1}}")
    atom = atom.replace(
        "image: vllm/vllm-openai:v0.32.0\n        args: [--model=Qwen/Qwen3-32B, "
        "--tensor-parallel-size=2]",
        "image: registry/rebellions/vllm-rbln-rhel9:3.3\n        command: [vllm, serve]\n"
        "        args: [--model=Qwen/Qwen3-32B, --max-model-len=16384, --block-size=16384, "
        "--rbln-use-custom-sampler]",
    )
    assert "LC2020" not in rules(judged(atom))
    assert "LC2020" in rules(judged(atom.replace("custom-sampler", "custom-samplr")))
    elsewhere = CLEAN.replace("--tensor-parallel-size=2", "--rbln-use-custom-sampler")
    assert "LC2020" in rules(judged(elsewhere))
