"""The rendered script for real: engines and router start by it, answer, and stop with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from tests.e2e.cli.command import document

SIMULATED = """\
apiVersion: fleet.llmd-ctl.dev/v1alpha1
kind: Fleet
metadata: {name: four}
spec:
  targets: [{name: here, kind: local}]
  models:
  - name: chat
    uri: hf://meta-llama/Llama-3.1-8B-Instruct
    aliases: [assistant]
    maxModelLen: 8192
    variants:
    - {name: h100, accelerator: nvidia-h100, replicas: 2}
    - {name: gaudi, accelerator: intel-gaudi3}
"""
LIGHT = """\
apiVersion: fleet.llmd-ctl.dev/v1alpha1
kind: Fleet
metadata: {{name: light}}
spec:
  targets: [{{name: here, kind: local}}]
  models:
  - name: chat
    uri: {model}
    maxModelLen: 2048
    variants:
    - {{name: cpp, accelerator: cpu-x86, engine: {{name: llamacpp}}, env: {{ODD: "it's $x"}}}}
"""
START_SECONDS = 60.0
FreePorts = Callable[[int], list[int]]


def render(folder: Path, text: str, free_ports: FreePorts, *options: str) -> tuple[Path, str]:
    """Render a fleet; in its files the ports are replaced by free ones. The script and its URL."""
    (folder / "fleet.yaml").write_text(text)
    out = folder / "out"
    made = document("render", folder / "fleet.yaml", "--output-dir", out, *options)
    assert document("render", folder / "fleet.yaml", "--output-dir", out, *options, "--check")
    data, admin, *engines = free_ports(2 + 8)
    ports = {"127.0.0.1:8000": f"127.0.0.1:{data}", "127.0.0.1:9090": f"127.0.0.1:{admin}"}
    ports |= {str(18000 + number): str(port) for number, port in enumerate(engines)}
    for file in made["files"]:
        path = out / file["path"]
        content = path.read_text()
        for old, new in ports.items():
            content = content.replace(old, new)
        path.write_text(content)
    return out / "run.sh", f"http://127.0.0.1:{data}"


@contextmanager
def running(script: Path, **env: str) -> Iterator[subprocess.Popen[str]]:
    """Run the script in a group of its own, which is gone at the end whatever happens."""
    process = subprocess.Popen(
        [script], env={**os.environ, "PYTHON": sys.executable, **env}, stderr=subprocess.PIPE,
        text=True, start_new_session=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def answer(url: str, process: subprocess.Popen[str], model: str) -> httpx.Response:
    """The first good answer through the router."""
    body = {"model": model, "max_tokens": 4, "messages": [{"role": "user", "content": "Hi"}]}
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        assert process.poll() is None, process.stderr and process.stderr.read()
        with suppress(httpx.HTTPError):
            found = httpx.post(f"{url}/v1/chat/completions", json=body, timeout=30)
            if found.is_success:
                return found
        time.sleep(0.2)
    raise AssertionError("no answer through the router")


def started(script: Path) -> list[int]:
    """The processes that the script started and that are alive."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if f"RUN_OF={script}".encode() in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
    return found


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_simulated_engines_answer_through_the_router_and_stop_with_the_script(
    tmp_path: Path, free_ports: FreePorts, stop: signal.Signals
) -> None:
    script, url = render(tmp_path, SIMULATED, free_ports, "--simulate=100")
    with running(script, RUN_OF=str(script)) as process:
        found = answer(url, process, "assistant")
        assert "x-llmd-ctl-simulated" in found.headers
        assert len(started(script)) >= 4
        process.send_signal(stop)
        assert process.wait(30) == 128 + stop
        assert started(script) == []
    assert (tmp_path / "out" / "run" / "admin.key").stat().st_mode & 0o77 == 0


def test_when_one_part_ends_all_do(tmp_path: Path, free_ports: FreePorts) -> None:
    script, url = render(tmp_path, SIMULATED, free_ports, "--simulate=100")
    with running(script, RUN_OF=str(script)) as process:
        answer(url, process, "chat")
        engine = next(
            pid for pid in started(script)
            if b"engines/chat-gaudi-0.json" in Path(f"/proc/{pid}/cmdline").read_bytes()
        )  # fmt: skip
        os.kill(engine, signal.SIGKILL)
        assert process.wait(30) == 1
        assert started(script) == []


@pytest.mark.slow
def test_a_real_engine_answers_through_the_router(
    tmp_path: Path, free_ports: FreePorts, tiny_model: Path, llamacpp_python: Path
) -> None:
    script, url = render(tmp_path, LIGHT.format(model=tiny_model), free_ports)
    with running(script, RUN_OF=str(script), PYTHON=str(llamacpp_python)) as process:
        found = answer(url, process, "chat")
        assert "x-llmd-ctl-simulated" not in found.headers
        assert found.json()["usage"]["completion_tokens"] >= 1
        (engine,) = (
            pid for pid in started(script)
            if b"--alias" in Path(f"/proc/{pid}/cmdline").read_bytes()
        )  # fmt: skip
        assert b"ODD=it's $x" in Path(f"/proc/{engine}/environ").read_bytes().split(b"\0")
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 128 + signal.SIGTERM
        assert started(script) == []


def test_without_llmd_ctl_it_says_what_to_set(tmp_path: Path, free_ports: FreePorts) -> None:
    script, _ = render(tmp_path, SIMULATED, free_ports, "--simulate")
    with running(script, PYTHON="/bin/false") as process:
        assert process.wait(30) == 1
        assert process.stderr is not None
        assert "set PYTHON to a Python that has it" in process.stderr.read()
