"""An engine that listens late and lets others listen beside it (SO_REUSEPORT), as vLLM does.

`sharing_engine.py MODEL PORT SECONDS`: after so many seconds it serves MODEL, with one fixed
answer: a fake for conflicts over a port.
"""

from __future__ import annotations

import json
import socket
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Handler(BaseHTTPRequestHandler):
    """One question, one JSON answer."""

    model = ""

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self.answer({"data": [{"id": self.model}]} if self.path == "/v1/models" else {})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", "0")))
        choice = {"index": 0, "text": "word", "finish_reason": "length"}
        self.answer({"object": "text_completion", "model": self.model, "choices": [choice]})

    def answer(self, document: dict[str, Any]) -> None:
        body = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Sharing(ThreadingHTTPServer):
    """A server on a port that others may have too."""

    def server_bind(self) -> None:
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        super().server_bind()


if __name__ == "__main__":
    Handler.model = sys.argv[1]
    time.sleep(float(sys.argv[3]))
    with Sharing(("127.0.0.1", int(sys.argv[2])), Handler) as server:
        sys.stdout.write("listening\n")
        sys.stdout.flush()
        server.serve_forever()
