"""Every query of the dashboard, asked of a real Prometheus that scraped a router under load.

The fleet is simulated. While it is loaded, one engine is killed and the router reads its
configuration again, so that there is something to see everywhere.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from ci import dashboard
from tests.e2e.cli.command import document, run
from tests.e2e.telemetry.prometheus import scraping

FLEET = """\
apiVersion: fleet.llmd-ctl.dev/v1alpha1
kind: Fleet
metadata: {name: watched}
spec:
  targets: [{name: here, kind: local}]
  models:
  - name: chat
    uri: hf://meta-llama/Llama-3.1-8B-Instruct
    maxModelLen: 8192
    variants:
    - {name: h100, accelerator: nvidia-h100, replicas: 2}
    - {name: gaudi, accelerator: intel-gaudi3}
"""
COMMAND = [sys.executable, "-m", "llmd_ctl"]
WAIT_SECONDS = 60.0
VARIABLES = {"$__rate_interval": "20s", "$router": ".*", "$model": ".*", "$variant": ".*"}

pytestmark = [pytest.mark.services, pytest.mark.slow, pytest.mark.timeout(300)]

Json = dict[str, Any]


class Prometheus:
    """One that scrapes a router, started by the fixture."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/api/v1"

    def ask(self, query: str) -> list[Json]:
        """The series of a query; one that it does not understand fails the test."""
        for name, value in VARIABLES.items():
            query = query.replace(name, value)
        answer = httpx.get(f"{self.url}/query", params={"query": query}, timeout=20)
        told = answer.json()
        assert told["status"] == "success", f"{query}: {told.get('error')}"
        assert not told.get("warnings"), f"{query}: {told['warnings']}"
        assert not told.get("infos"), f"{query}: {told['infos']}"
        found: list[Json] = told["data"]["result"]
        return found

    def is_up(self) -> bool:
        """Whether it has scraped the router."""
        try:
            return bool(self.ask("up{job='router'} == 1"))
        except httpx.HTTPError:
            return False


@pytest.fixture
def fleet(tmp_path: Path, state_home: Path) -> Iterator[Json]:
    """An applied simulated fleet; its router's URLs."""
    file = tmp_path / "fleet.yaml"
    file.write_text(FLEET)
    try:
        router: Json = document("apply", file, "--simulate")["router"]
        yield router
    finally:
        run("delete", file, "--yes")


@pytest.fixture
def prometheus(
    fleet: Json, prometheus_bin: Path, tmp_path: Path, free_port: int
) -> Iterator[Prometheus]:
    """A Prometheus that reads the router once a second."""
    made = Prometheus(free_port)
    with scraping(prometheus_bin, fleet["adminUrl"], tmp_path, free_port):
        deadline = time.monotonic() + WAIT_SECONDS
        while not made.is_up():
            assert time.monotonic() < deadline
            time.sleep(0.2)
        yield made


@pytest.fixture
def loaded(fleet: Json, prometheus: Prometheus, state_home: Path) -> Iterator[Prometheus]:
    """Load for as long as the test looks; an engine dies, and the configuration is read again."""
    argv = [*COMMAND, "load", fleet["url"], "--model", "chat", "--rate", "8", "--seconds", "200"]
    load = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        time.sleep(3.0)
        state = state_home / "llmd-ctl" / "watched"
        replicas = json.loads((state / "replicas.json").read_text())["replicas"]
        os.kill(replicas[0]["pid"], signal.SIGKILL)
        os.kill(
            json.loads((state / "observed.json").read_text())["router"]["process"]["pid"],
            signal.SIGHUP,
        )
        yield prometheus
    finally:
        load.send_signal(signal.SIGINT)
        load.wait(timeout=30)


def dashboard_queries() -> dict[str, str]:
    """What the file asks: each expression with the title of its graph."""
    page = json.loads(dashboard.FILE.read_text())
    return {
        target["expr"]: panel["title"]
        for panel in page["panels"]
        for target in panel.get("targets", ())
    }


def choices() -> dict[str, str]:
    """The variables that are values of a label: the label, by a query for what has it."""
    page = json.loads(dashboard.FILE.read_text())
    found = {}
    for choice in page["templating"]["list"]:
        if choice["type"] == "query":
            asked = re.fullmatch(r"label_values\((.+), (\w+)\)", choice["definition"])
            assert asked, choice["definition"]
            found[f"count by ({asked[2]}) ({asked[1]})"] = asked[2]
    return found


def test_every_query_has_an_answer(loaded: Prometheus, fleet: Json) -> None:
    without = dashboard_queries() | choices()
    deadline = time.monotonic() + WAIT_SECONDS
    while without and time.monotonic() < deadline:
        without = {query: what for query, what in without.items() if not loaded.ask(query)}
        time.sleep(0.5)
    assert without == {}
    for query, label in choices().items():
        assert any(series["metric"].get(label) for series in loaded.ask(query)), label
    models = {series["metric"]["model"] for series in loaded.ask("llmd_router_picks_total")}
    assert models == {"chat"}
    assert_page_is_known(httpx.get(f"{fleet['adminUrl']}/metrics").text)


def assert_page_is_known(page: str) -> None:
    """Every metric of the dashboard is on the page, as what it is taken for."""
    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", page, re.MULTILINE))
    text = " ".join(dashboard_queries())
    for name in set(re.findall(r"\b(?:llmd_router|process)_\w+", text)):
        kind = kinds.get(name.removesuffix("_bucket"))
        assert kind is not None, f"{name} is not on the page"
        assert name.endswith("_bucket") == (kind == "histogram"), name
        assert name.endswith("_total") == (kind == "counter"), name
        rated = re.search(rf"(?:rate|increase)\({name}\b", text) is not None
        assert rated == (kind != "gauge"), f"{name} is a {kind}"
