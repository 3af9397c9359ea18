"""A tiny engine and a tiny router over real HTTP, for tests that kill things: a fake for faults.

`stand_in.py engine --config engine.json` and `stand_in.py router --config router.yaml`. The router
reads its files anew for every question and forwards without any choice worth the name.
"""

from __future__ import annotations

import json
import signal
import sys
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml

Json = dict[str, Any]


class Handler(BaseHTTPRequestHandler):
    """One question, one JSON answer."""

    config: Path

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def answer(self, code: int, document: Json) -> None:
        body = json.dumps(document).encode()
        self.send_response(code)
        self.send_header("content-length", str(len(body)))
        self.send_header("x-llmd-ctl-simulated", "true")
        self.end_headers()
        self.wfile.write(body)

    def body(self) -> Json:
        length = int(self.headers.get("content-length", "0"))
        document: Json = json.loads(self.rfile.read(length) or b"{}")
        return document


class Engine(Handler):
    """An engine that serves the model of its engine.json."""

    def do_GET(self) -> None:
        name = json.loads(self.config.read_text())["model"]
        self.answer(200, {"data": [{"id": name}]} if self.path == "/v1/models" else {})

    def do_POST(self) -> None:
        self.body()
        self.answer(200, {"choices": [{"text": "word"}]})


class Router(Handler):
    """Status, probes and completions from router.yaml and replicas.json."""

    def do_GET(self) -> None:
        pools = []
        for model in self.models():
            endpoints = [
                {"name": item["name"], "state": item["state"], "inflightRequests": 0}
                for item in self.replicas(model["name"])
            ]
            scheduler = model["scheduler"]
            pools.append({"name": model["name"], "scheduler": scheduler, "endpoints": endpoints})
        self.answer(200, {"ready": True, "config": {"error": None}, "models": pools})

    def do_POST(self) -> None:
        body = self.body()
        for item in self.replicas(body["model"]):
            if item["state"] == "ready" and body.get("endpoint") in {None, item["name"]}:
                self.answer(200, {"ok": ask(item["port"]), "latencyMs": 1.0, "simulated": True})
                return
        self.answer(502, {"ok": False, "reason": "no such endpoint"})

    def models(self) -> list[Json]:
        models: list[Json] = yaml.safe_load(self.config.read_text())["models"]
        return models

    def replicas(self, model: str) -> list[Json]:
        document = json.loads((self.config.parent / "replicas.json").read_text())
        return [item for item in document["replicas"] if item["model"] == model]


def ask(port: int) -> bool:
    url = f"http://127.0.0.1:{port}/v1/completions"
    try:
        with urllib.request.urlopen(url, data=b"{}", timeout=5) as response:
            return bool(response.status == 200)
    except OSError:
        return False


def serve(kind: type[Handler], config: Path, addresses: list[str]) -> None:
    kind.config = config
    servers = []
    for address in addresses:
        host, _, port = address.rpartition(":")
        servers.append(ThreadingHTTPServer((host, int(port)), kind))
    import threading

    for server in servers[1:]:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    servers[0].serve_forever()


def main(role: str, config: Path) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    if role == "engine":
        serve(Engine, config, [json.loads(config.read_text())["listen"]])
    else:
        listen = yaml.safe_load(config.read_text())["listen"]
        serve(Router, config, list(listen.values()))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[sys.argv.index("--config") + 1]))
