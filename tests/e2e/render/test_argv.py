"""What was planned is what is started: rendered commands, read back by their readers' own code.

The kubelet's expansion and compose-go are in tests/decoders; they know nothing of llmd-ctl.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from llmd_ctl.plan import HOST, PORT, Plan
from llmd_ctl.render.targets import render_target
from tests.e2e.render.clients import Clients, Cluster, Object
from tests.unit.render.hostile import ENV, WORDS
from tests.unit.render.kubernetes.clusters import FULL, TARGET, engine
from tests.unit.render.kubernetes.clusters import cluster as planned

pytestmark = pytest.mark.cluster

# What kustomize 5.8 writes of it is no YAML, and kubectl says so; Helm hands it on.
NOT_BY_KUSTOMIZE = "\x7f"
KUSTOMIZED = tuple(word for word in WORDS if word != NOT_BY_KUSTOMIZE)


def hostile(words: Sequence[str] = KUSTOMIZED, **fields: Any) -> Plan:
    """A variant whose command and variables hold these words."""
    command = ("vllm", "serve", "--host", HOST, "--port", PORT, *words)
    return planned(engine(command=command, env=variables(words), **fields))


def variables(words: Sequence[str]) -> dict[str, str]:
    return {name: word for name, word in ENV.items() if word in words}


def started(words: Sequence[str] = KUSTOMIZED) -> list[str]:
    return ["vllm", "serve", "--host", "0.0.0.0", "--port", "8000", *words]


def written(plan: Plan, form: str, folder: Path) -> Path:
    for file in render_target(plan, TARGET.name, form):
        path = folder / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(file.text)
    return folder


def container_in(objects: list[Object]) -> Object:
    (found,) = (one for one in objects if one["metadata"]["name"] == "prod-chat-a"
                and one["kind"] == "Deployment")  # fmt: skip
    container: Object = found["spec"]["template"]["spec"]["containers"][0]
    return container


def test_the_decoder_expands_as_the_kubelet_does(clients: Clients) -> None:
    env = [{"name": "A", "value": "1"}, {"name": "B", "value": "$(A)$(C)"}]
    words = ["$(A)", "$$(A)", "$(C)", "$$", "$", "${A}"]
    container = {"command": words[:3], "args": words[3:], "env": env}
    found = clients.decoded("kubernetes", text=json.dumps(container))
    assert found["argv"] == ["1", "$(A)", "$(C)", "$", "$", "${A}"]
    assert found["env"] == {"A": "1", "B": "1$(C)"}


def test_the_decoder_reads_compose_as_compose_does(clients: Clients, tmp_path: Path) -> None:
    file = tmp_path / "compose.yaml"
    service: Object = {"image": "i", "entrypoint": ["a", "$$X"], "command": ["${X}"]}
    service["environment"] = {"E": "$$"}
    file.write_text(yaml.safe_dump({"services": {"one": service}}))
    (found,) = clients.decoded("compose", file, "X=1").values()
    assert found == {"argv": ["a", "$X", "1"], "env": {"E": "$"}}


@pytest.mark.parametrize(("form", "words"), [("kustomize", KUSTOMIZED), ("helm", WORDS)])
def test_every_word_and_variable_arrives(
    form: str, words: Sequence[str], clients: Clients, tmp_path: Path
) -> None:
    folder = written(hostile(words), form, tmp_path)
    objects = clients.kustomized(folder) if form == "kustomize" else clients.templated(folder)
    found = clients.decoded("kubernetes", text=json.dumps(container_in(objects)))
    assert found["argv"] == started(words)
    assert variables(words).items() <= found["env"].items()


def test_the_server_gives_back_what_was_planned(
    clients: Clients,
    cluster: Cluster,
    namespace: Callable[[str], str],
    tmp_path: Path,
) -> None:
    namespace("llm")
    folder = written(hostile(), "kustomize", tmp_path)
    kept = cluster.kubectl("apply", "--server-side", "--dry-run=server", "-k", folder, "-o", "json")
    found = clients.decoded("kubernetes", text=json.dumps(container_in(json.loads(kept)["items"])))
    assert found["argv"] == started()
    assert variables(KUSTOMIZED).items() <= found["env"].items()


def test_hosts_of_a_group_get_every_word(clients: Clients, tmp_path: Path) -> None:
    folder = written(hostile(place=FULL), "kustomize", tmp_path)
    (group,) = (one for one in clients.kustomized(folder) if one["kind"] == "LeaderWorkerSet")
    leader = group["spec"]["leaderWorkerTemplate"]["leaderTemplate"]["spec"]["containers"][0]
    assert clients.decoded("kubernetes", text=json.dumps(leader))["argv"] == started()


def test_what_kustomize_cannot_write_it_refuses(clients: Clients, tmp_path: Path) -> None:
    """So `render` refuses it before; with what is here gone, it could stop to."""
    (tmp_path / "kustomization.yaml").write_text("resources: [map.yaml]\n")
    head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
    (tmp_path / "map.yaml").write_text(f'{head}data: {{a: "\\x7F"}}\n')
    done = clients.run("kubectl", "kustomize", tmp_path)
    assert done.returncode != 0
    assert "control characters are not allowed" in done.stderr
