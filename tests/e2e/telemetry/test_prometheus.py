"""The router's /metrics, checked by promtool and scraped by a real Prometheus."""

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.cli.command import document, run
from tests.e2e.telemetry.prometheus import scraping

FLEET = """\
apiVersion: fleet.llmd-ctl.dev/v1alpha1
kind: Fleet
metadata: {name: scraped}
spec:
  targets: [{name: here, kind: local}]
  models:
  - name: chat
    uri: hf://meta-llama/Llama-3.1-8B-Instruct
    maxModelLen: 8192
    variants:
    - {name: h100, accelerator: nvidia-h100}
    - {name: gaudi, accelerator: intel-gaudi3}
"""

pytestmark = [pytest.mark.services, pytest.mark.slow]


@pytest.fixture
def router(tmp_path: Path, state_home: Path) -> Iterator[dict[str, Any]]:
    """An applied simulated fleet that has served some requests; its router's URLs."""
    file = tmp_path / "fleet.yaml"
    file.write_text(FLEET)
    urls: dict[str, Any] = document("apply", file, "--simulate")["router"]
    try:
        run("load", urls["url"], "--model", "chat", "--rate", 10, "--seconds", 2)
        yield urls
    finally:
        run("delete", file, "--yes")


def test_promtool_finds_nothing_wrong(router: dict[str, Any], prometheus_bin: Path) -> None:
    page = httpx.get(f"{router['adminUrl']}/metrics").content
    done = subprocess.run(
        [str(prometheus_bin / "promtool"), "check", "metrics"],
        input=page, capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert b"llmd_router_requests_total{" in page


def test_prometheus_scrapes_the_router(
    router: dict[str, Any], prometheus_bin: Path, tmp_path: Path, free_port: int
) -> None:
    with scraping(prometheus_bin, router["adminUrl"], tmp_path, free_port):
        assert wait_for(free_port, "up{job='router'}") == 1
        assert wait_for(free_port, "sum(llmd_router_requests_total{model='chat'})") > 0
        assert wait_for(free_port, "sum(llmd_router_open_requests)") == 0


def wait_for(port: int, query: str) -> float:
    """The value of a query, once it has one."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            answer = httpx.get(f"http://127.0.0.1:{port}/api/v1/query", params={"query": query})
            result = answer.json()["data"]["result"]
        except (httpx.HTTPError, ValueError, KeyError):
            result = []
        if result:
            return float(result[0]["value"][1])
        time.sleep(0.5)
    raise AssertionError(f"{query} has no value")
