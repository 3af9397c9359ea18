"""The light real engine alone: llama.cpp applied, asked through the router, deleted."""

from pathlib import Path

import httpx
import pytest

from tests.e2e.cli.command import document, run

FLEET = """\
apiVersion: fleet.llmd-ctl.dev/v1alpha1
kind: Fleet
metadata: {{name: light}}
spec:
  targets: [{{name: here, kind: local}}]
  models:
  - name: tiny
    uri: {model}
    aliases: [small]
    maxModelLen: 2048
    variants:
    - {{name: llamacpp, accelerator: cpu-x86, engine: {{name: llamacpp}}}}
"""


@pytest.fixture
def fleet(tmp_path: Path, tiny_model: Path, llamacpp_python: Path) -> Path:
    """A fleet file with one llama.cpp replica."""
    path = tmp_path / "fleet.yaml"
    path.write_text(FLEET.format(model=tiny_model))
    return path


@pytest.mark.slow
def test_a_real_engine_serves_through_the_router(fleet: Path, state_home: Path) -> None:
    applied = document("apply", fleet)
    assert applied["simulated"] is False
    try:
        url = applied["router"]["url"]
        body = {"model": "small", "max_tokens": 8, "messages": [{"role": "user", "content": "Hi"}]}
        answer = httpx.post(f"{url}/v1/chat/completions", json=body, timeout=30)
        assert answer.status_code == 200
        assert answer.json()["usage"]["completion_tokens"] >= 1
        assert "x-llmd-ctl-simulated" not in answer.headers
        with httpx.stream(
            "POST", f"{url}/v1/chat/completions", json={**body, "stream": True}, timeout=30
        ) as stream:
            lines = [line for line in stream.iter_lines() if line]
        assert lines[-1] == "data: [DONE]"
        [variant] = document("status", fleet)["models"][0]["variants"]
        assert (variant["ready"], variant["desired"]) == (1, 1)
        assert variant["simulated"] is False
        assert run("diff", fleet).stdout.strip() == "No changes."
        assert document("apply", fleet)["changes"] == []
        run("load", url, "--model", "tiny", "--rate", 4, "--seconds", 2, "--mix", "short=1")
    finally:
        assert document("delete", fleet, "--yes")["existed"] is True
    assert document("delete", fleet, "--yes")["existed"] is False
