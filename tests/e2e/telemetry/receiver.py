"""An OTLP receiver made of the real protobuf library, and an engine that notes its headers."""

import gzip
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span

ANSWER = {
    "id": "x", "object": "chat.completion", "created": 1, "model": "chat",
    "choices": [
        {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "yes"}}
    ],
    "usage": {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4},
}  # fmt: skip


@contextmanager
def serve(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """Serve on a free port; yields the URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Quiet(BaseHTTPRequestHandler):
    """A handler that answers bytes and says nothing on stderr."""

    protocol_version = "HTTP/1.1"

    def reply(self, body: bytes, content_type: str) -> None:
        self.send_response(200)
        self.send_header("content-type", content_type)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def body(self) -> bytes:
        content = self.rfile.read(int(self.headers.get("content-length") or 0))
        return gzip.decompress(content) if self.headers.get("content-encoding") else content

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def otlp_receiver() -> Iterator[tuple[str, list[Span]]]:
    """The receiver's URL, and the spans it got so far."""
    spans: list[Span] = []

    class Receiver(Quiet):
        def do_POST(self) -> None:
            request = ExportTraceServiceRequest.FromString(self.body())
            for resource in request.resource_spans:
                for scope in resource.scope_spans:
                    spans.extend(scope.spans)
            answer = ExportTraceServiceResponse().SerializeToString()
            self.reply(answer, "application/x-protobuf")

    with serve(Receiver) as url:
        yield url, spans


@contextmanager
def noting_engine() -> Iterator[tuple[str, list[dict[str, str]]]]:
    """An engine's URL, and the headers of each completion it was asked for."""
    seen: list[dict[str, str]] = []

    class Engine(Quiet):
        def do_GET(self) -> None:
            models: dict[str, Any] = {"object": "list", "data": [{"id": "chat", "object": "model"}]}
            self.reply(json.dumps(models).encode(), "application/json")

        def do_POST(self) -> None:
            self.body()
            seen.append({name.lower(): value for name, value in self.headers.items()})
            self.reply(json.dumps(ANSWER).encode(), "application/json")

    with serve(Engine) as url:
        yield url, seen
