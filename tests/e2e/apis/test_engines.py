"""What real engines answer, through the router: streams with and without exact usage, and APIs."""

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.cli.command import document, run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

FLEET = """\
apiVersion: fleet.llmd-ctl.dev/v1alpha1
kind: Fleet
metadata: {{name: spoken}}
spec:
  targets: [{{name: here, kind: local}}]
  models:
  - name: told
    uri: {model}
    variants: [{{name: v, accelerator: cpu-x86, endpoint: {{url: "{url}", servedName: tiny}}}}]
  - name: counted
    uri: {model}
    usage: exact
    variants: [{{name: v, accelerator: cpu-x86, endpoint: {{url: "{url}", servedName: tiny}}}}]
"""

# path, body, and the text of the event that ends its stream
STREAMS: dict[str, tuple[str, dict[str, Any], str]] = {
    "chat": (
        "/v1/chat/completions",
        {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 6},
        "data: [DONE]",
    ),
    "short chat": (
        "/v1/chat/completions",
        {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 3, "stop": ["\n"]},
        "data: [DONE]",
    ),
    "completion": ("/v1/completions", {"prompt": "Hello", "max_tokens": 6}, "data: [DONE]"),
    "response": ("/v1/responses", {"input": "Hello", "max_output_tokens": 6}, "response.completed"),
    "message": (
        "/v1/messages",
        {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 6},
        "message_stop",
    ),
}
# Pairs of streams that are asked for until one is alike, see `alike`.
TRIES = 12
CHANGES = re.compile(
    r'"(?:id|item_id|created|created_at|completed_at|model|obfuscation)":\s*(?:"[^"]*"|[\d.]+)'
    r'|"(?:timings)":\{[^}]*\}'
)


@contextmanager
def listening(command: list[str], port: int, log: Path) -> Iterator[str]:
    """An engine that answers on a port; its URL."""
    with log.open("wb") as out, subprocess.Popen(command, stdout=out, stderr=out) as engine:
        try:
            url, deadline = f"http://127.0.0.1:{port}", time.monotonic() + 300
            while True:
                assert engine.poll() is None, log.read_text()
                assert time.monotonic() < deadline, log.read_text()
                try:
                    if httpx.get(f"{url}/health").is_success:
                        break
                except httpx.TransportError:
                    pass
                time.sleep(0.2)
            yield url
        finally:
            engine.terminate()


@contextmanager
def routed(folder: Path, model: Path, url: str) -> Iterator[dict[str, str]]:
    """A router in front of that engine; its URLs."""
    file = folder / "fleet.yaml"
    file.write_text(FLEET.format(model=model, url=url))
    try:
        urls: dict[str, str] = document("apply", file, seconds=300)["router"]
        yield urls
    finally:
        run("delete", file, "--yes")


def stream(url: str, name: str, model: str, **more: Any) -> str:
    """A whole stream but for what is another in each."""
    path, body, _ = STREAMS[name]
    fixed = {"model": model, "temperature": 0, "seed": 7, "stream": True}
    answer = httpx.post(f"{url}{path}", json=body | fixed | more, timeout=120)
    assert answer.status_code == 200, answer.text
    return CHANGES.sub("", answer.text)


def alike(
    engine: str, url: str, name: str, model: str, before: Callable[[], Any] = int, **more: Any
) -> str:
    """The engine's own stream, which the router's equals; `before` is called before that one.

    Engines of a machine under load put several tokens into one event now and then: such a pair is
    asked for again.
    """
    left = TRIES
    while True:
        direct = stream(engine, name, "tiny", **more)
        before()
        routed = stream(url, name, model, **more)
        left -= 1
        if routed == direct or left == 0:
            assert routed == direct, f"{name} of {model} is not the engine's own"
            return direct


def tokens(admin_url: str, model: str, direction: str) -> int:
    labels = f'{{model="{model}",variant="v",direction="{direction}"}}'
    page = httpx.get(f"{admin_url}/metrics").text
    found = re.search(re.escape(f"llmd_router_tokens_total{labels}") + r" (\d+)", page)
    return int(found[1]) if found else 0


def check(router: dict[str, Any], engine: str, names: list[str]) -> None:
    """Each stream is the engine's own, its end is known, and exact usage is counted unseen."""
    url, admin = router["url"], router["adminUrl"]
    for name in names:
        # The first one fills the engine's prefix cache, which usage tells of.
        stream(engine, name, "tiny")
        direct = alike(engine, url, name, "told")
        before = tokens(admin, "counted", "in")
        alike(engine, url, name, "counted")
        assert tokens(admin, "counted", "in") > before, name
        assert STREAMS[name][2] in direct.strip().rsplit("\n\n", 1)[-1], name
        assert "event: error" not in direct
    asked = {"stream_options": {"include_usage": True}}
    for model in ("told", "counted"):
        counts: dict[str, int] = {}

        def count(model: str = model, counts: dict[str, int] = counts) -> None:
            counts.update({way: tokens(admin, model, way) for way in ("in", "out")})

        direct = alike(engine, url, "chat", model, count, **asked)
        usage = re.search(r'"usage":(\{(?:[^{}]|\{[^{}]*\})*\})', direct)
        assert usage
        told = json.loads(usage[1])
        assert tokens(admin, model, "in") - counts["in"] == told["prompt_tokens"]
        assert tokens(admin, model, "out") - counts["out"] == told["completion_tokens"]


@pytest.mark.real
def test_vllm(
    tmp_path: Path, state_home: Path, tiny_model: Path, vllm_executable: Path, free_port: int
) -> None:
    command = [str(vllm_executable), "serve", str(tiny_model), "--served-model-name", "tiny"]
    command += ["--host", "127.0.0.1", "--port", str(free_port), "--enforce-eager"]
    command += ["--max-model-len", "2048", "--max-num-seqs", "8"]
    command += ["--kv-cache-memory-bytes", "67108864"]
    with (
        listening(command, free_port, tmp_path / "log") as engine,
        routed(tmp_path, tiny_model, engine) as router,
    ):
        check(router, engine, list(STREAMS))
        url = router["url"]
        statuses = [
            ("/tokenize", 200),
            ("/detokenize", 200),
            ("/v1/messages/count_tokens", 200),
            ("/v1/embeddings", 404),
            ("/rerank", 404),
        ]
        for path, status in statuses:
            body: dict[str, Any] = {"model": "told", "prompt": "Hello", "tokens": [1, 2]}
            body |= {"input": "Hello", "messages": [{"role": "user", "content": "Hello"}]}
            if path == "/tokenize":
                del body["messages"]
            answer = httpx.post(f"{url}{path}", json=body, timeout=60)
            assert answer.status_code == status, (path, answer.text)
            own = httpx.post(f"{engine}{path}", json=body | {"model": "tiny"}, timeout=60)
            assert answer.text == own.text, path


def test_llamacpp(tmp_path: Path, state_home: Path, tiny_model: Path, free_port: int) -> None:
    command = [sys.executable, "-m", "llmd_ctl.apply.llamacpp_server", "--alias", "tiny"]
    command += ["--model", str(tiny_model / "tiny.gguf"), "--port", str(free_port), "--metrics"]
    with (
        listening(command, free_port, tmp_path / "log") as engine,
        routed(tmp_path, tiny_model, engine) as router,
    ):
        check(router, engine, ["chat", "completion", "response", "message"])
