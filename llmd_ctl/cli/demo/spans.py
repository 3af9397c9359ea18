"""A receiver of OTLP spans over HTTP, and one trace as a tree.

Called by `demo.script`. It stores what the router exports, unread, so that receiving costs the
measured run next to nothing; it reads the spans afterwards. Bodies may be gzipped. It is a
receiver for one run of the demo, not a collector.
"""

from __future__ import annotations

import gzip
import sys
import threading
import zlib
from collections import defaultdict
from collections.abc import Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from llmd_ctl.cli.demo.protobuf import BadProtobufError, Span, read_spans

MOST_BYTES = 64 * 1024 * 1024


class Server(ThreadingHTTPServer):
    """One that takes an exporter's end for what it is: a router that was stopped sends half."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a message that broke off: stderr belongs to the demo."""
        if not isinstance(sys.exception(), OSError | EOFError | zlib.error):
            super().handle_error(request, client_address)


class SpanReceiver:
    """Listens on a free loopback port while entered."""

    def __init__(self) -> None:
        self._bodies: list[bytes] = []
        bodies = self._bodies

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                length = min(int(self.headers.get("content-length") or 0), MOST_BYTES)
                body = self.rfile.read(length)
                if self.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                if self.path == "/v1/traces":
                    bodies.append(body)
                self.send_response(200)
                self.send_header("content-type", "application/x-protobuf")
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing: stderr belongs to the demo."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        """Where to export to, as the fleet file says it."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def traces(self) -> dict[str, list[Span]]:
        """All spans so far by trace id; a body that is no OTLP is left out."""
        found: dict[str, list[Span]] = defaultdict(list)
        for body in list(self._bodies):
            try:
                spans = read_spans(body)
            except BadProtobufError:
                continue
            for span in spans:
                found[span.trace_id].append(span)
        return found


def tree(spans: Iterable[Span]) -> list[dict[str, Any]]:
    """Nest spans under their parents, by start. Times are microseconds from the first start.

    A span whose parent is not among them is a root; the client's own span is never exported.
    """
    listed = sorted(spans, key=lambda s: (s.start_ns, -s.end_ns))
    known = {span.span_id for span in listed}
    origin = listed[0].start_ns if listed else 0

    def node(span: Span) -> dict[str, Any]:
        return {
            "name": span.name,
            "service": span.service,
            "kind": span.kind,
            "startUs": (span.start_ns - origin) // 1000,
            "durationUs": (span.end_ns - span.start_ns) // 1000,
            "failed": span.failed,
            "attributes": dict(sorted(span.attributes.items())),
            "children": [node(child) for child in listed if child.parent_id == span.span_id],
        }

    return [node(span) for span in listed if span.parent_id not in known]
