"""One trace from the client through the router's phases to the engine, at a real OTLP receiver."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.e2e.cli.command import document, run
from tests.e2e.telemetry.receiver import noting_engine, otlp_receiver

pytestmark = pytest.mark.slow

TRACE_ID, CLIENT_SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
CONTEXT = {"traceparent": f"00-{TRACE_ID}-{CLIENT_SPAN}-01"}
ASK = {"model": "chat", "max_tokens": 4, "messages": [{"role": "user", "content": "Hello there"}]}
PHASES = {"parse", "pick", "forward"}
HEAD = """\
apiVersion: fleet.llmd-ctl.dev/v1alpha1
kind: Fleet
metadata: {name: traced}
spec:
  targets: [{name: here, kind: local}]
"""


@contextmanager
def applied(folder: Path, rest: str, *flags: str) -> Iterator[str]:
    """Apply a fleet; yields the router's URL and deletes the fleet, which flushes its spans."""
    file = folder / "fleet.yaml"
    file.write_text(HEAD + rest)
    try:
        yield document("apply", file, *flags, seconds=600)["router"]["url"]
    finally:
        run("delete", file, "--yes")


def traces(url: str) -> str:
    return f'  observability: {{traces: {{otlp: "{url}", protocol: http/protobuf}}}}\n'


def of_trace(spans: list[Span]) -> list[Span]:
    return [span for span in spans if span.trace_id.hex() == TRACE_ID]


def wait_for(spans: list[Span], names: set[str]) -> dict[str, Span]:
    """The client's spans by name, once all of `names` are there."""
    deadline = time.monotonic() + 15
    while time.monotonic() < deadline:
        found = {span.name: span for span in of_trace(spans)}
        if names <= found.keys():
            return found
        time.sleep(0.1)
    raise AssertionError(f"only {sorted({s.name for s in of_trace(spans)})} arrived")


@pytest.mark.parametrize("kind", ["whole", "streamed"])
def test_one_trace_holds_the_client_the_phases_and_the_attempt(
    kind: str,
    tmp_path: Path,
    state_home: Path,
) -> None:
    models = """\
  models:
  - name: chat
    uri: hf://meta-llama/Llama-3.1-8B-Instruct
    maxModelLen: 4096
    variants: [{name: h100, accelerator: nvidia-h100}]
"""
    with otlp_receiver() as (collector, spans):
        with applied(tmp_path, models + traces(collector), "--simulate") as url:
            body = {**ASK, "stream": kind == "streamed"}
            answer = httpx.post(f"{url}/v1/chat/completions", json=body, headers=CONTEXT)
            assert answer.status_code == 200
            assert answer.headers["x-llmd-ctl-simulated"] == "true"
        found = wait_for(spans, PHASES | {"llmd_router.request", "attempt"})
    root = found["llmd_router.request"]
    assert root.parent_span_id.hex() == CLIENT_SPAN
    assert root.kind == Span.SPAN_KIND_SERVER
    assert found["attempt"].kind == Span.SPAN_KIND_CLIENT
    by_id = {span.span_id: span for span in of_trace(spans)}
    for span in by_id.values():
        at = span
        while at is not root:
            parent = by_id[at.parent_span_id]
            assert parent.start_time_unix_nano <= at.start_time_unix_nano
            at = parent
    assert all("Hello there" not in str(span) for span in by_id.values())


def test_the_engine_gets_the_attempt_as_its_parent(tmp_path: Path, state_home: Path) -> None:
    with otlp_receiver() as (collector, spans), noting_engine() as (engine, seen):
        models = f"""\
  models:
  - name: chat
    uri: hf://meta-llama/Llama-3.1-8B-Instruct
    maxModelLen: 4096
    variants:
    - {{name: old, accelerator: nvidia-h100, endpoint: {{url: "{engine}"}}}}
"""
        with applied(tmp_path, models + traces(collector)) as url:
            httpx.post(f"{url}/v1/chat/completions", json=ASK, headers=CONTEXT)
        attempt = wait_for(spans, {"attempt"})["attempt"]
    contexts = [headers["traceparent"] for headers in seen if "traceparent" in headers]
    assert f"00-{TRACE_ID}-{attempt.span_id.hex()}-01" in contexts


@pytest.mark.real
@pytest.mark.timeout(600)
def test_real_vllm_continues_the_trace(
    tmp_path: Path,
    state_home: Path,
    tiny_model: Path,
    vllm_executable: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # vLLM sends gRPC unless its environment, which is that of `apply`, says otherwise.
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "500")
    with otlp_receiver() as (collector, spans):
        models = f"""\
  models:
  - name: chat
    uri: {tiny_model}
    maxModelLen: 2048
    variants:
    - name: vllm
      accelerator: cpu-x86
      engine: {{name: vllm, executable: {vllm_executable}}}
      engineArgs: {{enforceEager: true, kvCacheMemoryBytes: 67108864, maxNumSeqs: 8}}
      extraArgs: [--otlp-traces-endpoint, "{collector}/v1/traces"]
"""
        with applied(tmp_path, models + traces(collector)) as url:
            answer = httpx.post(f"{url}/v1/chat/completions", json=ASK, headers=CONTEXT, timeout=60)
            assert answer.status_code == 200
            found = wait_for(spans, {"attempt", "llm_request"})
    assert found["llm_request"].parent_span_id == found["attempt"].span_id
