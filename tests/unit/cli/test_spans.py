"""The demo's reader of spans, against the real library, and the tree it makes of them."""

import contextlib
import gzip
import socket
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span as RealSpan

from llmd_ctl.cli.demo import script
from llmd_ctl.cli.demo.protobuf import BadProtobufError, Span, read_spans
from llmd_ctl.cli.demo.spans import SpanReceiver, tree
from llmd_ctl.cli.load.run import trace_context

INT64 = st.integers(-(2**63), 2**63 - 1)
VALUES = st.one_of(
    st.text(max_size=20).map(lambda v: AnyValue(string_value=v)),
    st.booleans().map(lambda v: AnyValue(bool_value=v)),
    INT64.map(lambda v: AnyValue(int_value=v)),
    st.floats(allow_nan=False).map(lambda v: AnyValue(double_value=v)),
)
SPANS = st.builds(
    RealSpan,
    trace_id=st.binary(min_size=16, max_size=16),
    span_id=st.binary(min_size=8, max_size=8),
    parent_span_id=st.one_of(st.just(b""), st.binary(min_size=8, max_size=8)),
    name=st.text(max_size=30),
    kind=st.integers(0, 5),
    start_time_unix_nano=st.integers(0, 2**64 - 1),
    end_time_unix_nano=st.integers(0, 2**64 - 1),
    attributes=st.dictionaries(st.text(max_size=10), VALUES, max_size=4).map(
        lambda items: [KeyValue(key=k, value=v) for k, v in items.items()]
    ),
)


def export(spans: list[RealSpan], service: str = "router") -> bytes:
    request = ExportTraceServiceRequest()
    part = request.resource_spans.add()
    part.resource.attributes.append(
        KeyValue(key="service.name", value=AnyValue(string_value=service))
    )
    part.scope_spans.add().spans.extend(spans)
    return bytes(request.SerializeToString())


@given(st.lists(SPANS, max_size=5), st.integers(0, 2))
def test_it_reads_what_the_real_library_writes(spans: list[RealSpan], status: int) -> None:
    for span in spans:
        span.status.code = status  # type: ignore[assignment]  # the stub wants its enum
    found = read_spans(export(spans))
    assert [s.name for s in found] == [s.name for s in spans]
    for ours, real in zip(found, spans, strict=True):
        assert (ours.trace_id, ours.span_id) == (real.trace_id.hex(), real.span_id.hex())
        assert ours.parent_id == real.parent_span_id.hex()
        assert (ours.start_ns, ours.end_ns) == (real.start_time_unix_nano, real.end_time_unix_nano)
        assert ours.failed == (status == 2)
        assert ours.service == "router"
        wanted = {a.key: getattr(a.value, a.value.WhichOneof("value")) for a in real.attributes}
        assert ours.attributes == wanted


@given(st.binary(max_size=60))
def test_any_bytes_are_spans_or_a_named_error(content: bytes) -> None:
    with contextlib.suppress(BadProtobufError):
        read_spans(content)


def span(name: str, own: str, parent: str, start: int) -> Span:
    return Span(
        "t", own, parent, name, "s", "internal", start * 1000, (start + 5) * 1000, failed=False
    )


def test_the_tree_nests_by_parent_and_starts_at_zero() -> None:
    roots = tree(
        [span("pick", "c", "a", 12), span("root", "a", "client", 10), span("parse", "b", "a", 11)]
    )
    assert [r["name"] for r in roots] == ["root"]
    assert [(c["name"], c["startUs"], c["durationUs"]) for c in roots[0]["children"]] == [
        ("parse", 1, 5),
        ("pick", 2, 5),
    ]


def test_the_tree_says_which_span_failed() -> None:
    [root] = tree([span("root", "a", "", 1), replace(span("forward", "b", "a", 2), failed=True)])
    assert (root["failed"], root["children"][0]["failed"]) == (False, True)


@pytest.mark.parametrize("encoding", [None, "gzip"])
def test_the_receiver_keeps_what_is_posted(encoding: str | None) -> None:
    body = export([RealSpan(trace_id=b"t" * 16, span_id=b"s" * 8, name="pick")])
    with SpanReceiver() as receiver:
        headers = {"content-encoding": encoding} if encoding else {}
        content = gzip.compress(body) if encoding else body
        httpx.post(f"{receiver.url}/v1/traces", content=content, headers=headers)
        httpx.post(f"{receiver.url}/v1/traces", content=b"\xff")
        assert [s.name for s in receiver.traces()[(b"t" * 16).hex()]] == ["pick"]


def test_of_the_requests_that_survived_one_that_was_under_way_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    traces = {}
    lines = []
    gone = "endpoint_unreachable"
    for number, cause in enumerate((gone, "endpoint_lost", gone)):
        request = f"load-{number}"
        trace = trace_context(request).split("-")[1]
        failed = Span(
            trace, "a", "", "attempt", "router", "client", 0, 1, failed=True,
            attributes={"error.type": cause},
        )  # fmt: skip
        good = replace(failed, span_id="b", failed=False, attributes={})
        traces[trace] = [failed, good]
        lines.append({"requestId": request, "ended": "done"})
    monkeypatch.setattr(script, "read_logs", lambda _folder: SimpleNamespace(load=lines))
    shown = script._trace(tmp_path, traces)
    assert shown is not None
    assert (shown["requestId"], shown["why"]) == ("load-1", "a request whose engine was killed")


@pytest.mark.parametrize(
    "sent",
    [
        b"POST /v1/traces HTTP/1.1\r\ncontent-length: 9000\r\ncontent-encoding: gzip\r\n\r\n"
        + gzip.compress(b"spans" * 999)[:20],
        b"POST /v1/traces HTTP/1.1\r\ncontent-length: 9\r\ncontent-encoding: gzip\r\n\r\nno gzip!!",
        b"POST /v1/tra",
    ],
    ids=["half", "no gzip", "half a head"],
)
def test_an_exporter_that_is_stopped_leaves_no_words_on_stderr(
    sent: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    with SpanReceiver() as receiver:
        port = int(receiver.url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port)) as exporter:
            exporter.sendall(sent)
            exporter.shutdown(socket.SHUT_WR)
            exporter.settimeout(10)
            with contextlib.suppress(ConnectionError):
                while exporter.recv(4096):
                    pass
    assert capfd.readouterr().err == ""
