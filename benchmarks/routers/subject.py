"""Who is measured: our router in its modes, plain proxies, and other cache-aware routers.

Each is started by its own program with a configuration of ours (`config/`), on one processor,
with one worker or thread, in front of the same engines. Who cannot be started is reported as
absent with the reason, never left out.
"""

from __future__ import annotations

import getpass
import grp
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CONFIG = Path(__file__).parent / "config"
PEERS = ROOT / ".cache" / "peers"
LIBRARIES = PEERS / "debian/usr/lib/x86_64-linux-gnu"
START_SECONDS = 60.0


@dataclass(frozen=True)
class Place:
    """What a subject is told: where to listen, where its engines are, where it may write."""

    port: int
    admin: int
    spans: int
    engines: tuple[int, ...]
    folder: Path


@dataclass(frozen=True)
class Subject:
    """One program in one configuration."""

    name: str
    kind: str  # ours, proxy, cache-aware
    command: Callable[[Place], list[str]]
    program: Path


@dataclass
class Running:
    """A started subject."""

    subject: Subject
    place: Place
    process: subprocess.Popen[bytes]
    log: Path = field(repr=False)

    def stop(self) -> None:
        """Ends it and its children."""
        self.process.terminate()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class AbsentError(Exception):
    """A subject cannot be measured here."""


def filled(template: str, place: Place, line: str, **more: str) -> str:
    """A configuration of `config/` for a place; `line` is one endpoint's."""
    endpoints = [line.format(n=n, port=port) for n, port in enumerate(place.engines)]
    values = {
        "PORT": str(place.port),
        "ADMIN": str(place.admin),
        "FOLDER": str(place.folder),
        "ENDPOINTS": "\n".join(endpoints),
        **more,
    }
    text = (CONFIG / template).read_text()
    for key, value in values.items():
        text = text.replace(f"@{key}@", value)
    file = place.folder / template
    file.write_text(text)
    return str(file)


def nginx(*, tuned: bool = True) -> Callable[[Place], list[str]]:
    """A plain proxy: with buffers that hold these bodies and answers unbuffered, or as shipped."""

    def command(place: Place) -> list[str]:
        bodies = "client_body_buffer_size 512k; # else bodies of 30 kB and more go through files"
        more = {"BODIES": bodies, "ANSWERS": "proxy_buffering off;"}
        more = more if tuned else dict.fromkeys(more, "")
        # Else, started by root, its worker is another user, who may not write into our folder.
        more["USER"] = f"{getpass.getuser()} {grp.getgrgid(os.getgid()).gr_name}"
        file = filled("nginx.conf", place, "    server 127.0.0.1:{port};", **more)
        return ["-c", file, "-p", str(place.folder)]

    return command


def haproxy(place: Place) -> list[str]:
    """A plain proxy."""
    return ["-db", "-f", filled("haproxy.cfg", place, "  server e{n} 127.0.0.1:{port}")]


def envoy(place: Place) -> list[str]:
    """A plain proxy."""
    line = (
        "              - endpoint: {{ address: {{ socket_address: "
        "{{ address: 127.0.0.1, port_value: {port} }} }} }}"
    )
    file = filled("envoy.yaml", place, line)
    # Without a hot restart no shared memory is needed that another run may have left behind.
    return ["-c", file, "--concurrency", "1", "--disable-hot-restart", "-l", "error"]


def vllm_router(place: Place) -> list[str]:
    """The router of the vLLM project, by prefix."""
    return cache_aware(place)


def sglang_router(place: Place) -> list[str]:
    """The router of the SGLang project, by prefix."""
    return ["launch", *cache_aware(place)]


def cache_aware(place: Place) -> list[str]:
    """What those two have in common."""
    urls = [f"http://127.0.0.1:{port}" for port in place.engines]
    where = ["--host", "127.0.0.1", "--port", str(place.port)]
    return [
        *where,
        *("--prometheus-port", str(place.admin)),
        *("--policy", "cache_aware", "--log-level", "error"),
        *("--worker-urls", *urls),
    ]


def ours(*, traces: bool = True, model: str = "") -> Callable[[Place], list[str]]:
    """Our router, with traces at 1 % or none, and more lines of the model's settings."""

    def command(place: Place) -> list[str]:
        sink = f'traces: {{ otlp: "http://127.0.0.1:{place.spans}", sampleRatio: 0.01 }}'
        line = "          - {{ name: e{n}, address: 127.0.0.1, port: {port} }}"
        more = {"TRACES": sink if traces else "", "MODEL": f"    {model}" if model else ""}
        return ["--config", filled("router.yaml", place, line, **more)]

    return command


def subjects(router: Path) -> list[Subject]:
    """All, ours first."""
    debian, python = PEERS / "debian/usr/sbin", PEERS / "venv/bin"
    return [
        Subject("llmd-router", "ours", ours(), router),
        Subject("llmd-router (no traces)", "ours", ours(traces=False), router),
        Subject("llmd-router (usage exact)", "ours", ours(model="usage: exact"), router),
        Subject("nginx", "proxy", nginx(), debian / "nginx"),
        Subject("nginx (buffers as shipped)", "proxy", nginx(tuned=False), debian / "nginx"),
        Subject("haproxy", "proxy", haproxy, debian / "haproxy"),
        Subject("envoy", "proxy", envoy, python / "envoy"),
        Subject("sglang-router", "cache-aware", sglang_router, python / "sglang-router"),
        Subject("vllm-router", "cache-aware", vllm_router, python / "vllm-router"),
    ]


def start(subject: Subject, place: Place, core: int) -> Running:
    """Starts it on one processor and waits until it answers."""
    program = subject.program
    if not program.exists():
        raise AbsentError(f"{program.name} is not installed; ci/peers says why")
    place.folder.mkdir(parents=True, exist_ok=True)
    log = place.folder / "log"
    environment = (
        os.environ | {"LD_LIBRARY_PATH": str(LIBRARIES)}
        if subject_is_debian(program)
        else dict(os.environ)
    )
    taskset = shutil.which("taskset") or "taskset"
    argv = [taskset, "-c", str(core), str(program), *subject.command(place)]
    with log.open("wb") as out:
        process = subprocess.Popen(argv, stdout=out, stderr=out, env=environment)
    running = Running(subject, place, process, log)
    deadline = time.monotonic() + START_SECONDS
    while not answers(place.port):
        if process.poll() is not None or time.monotonic() > deadline:
            running.stop()
            tail = log.read_text(errors="replace").strip().splitlines()[-1:]
            raise AbsentError(f"does not start: {' '.join(tail) or 'no word why'}")
        time.sleep(0.1)
    return running


def subject_is_debian(program: Path) -> bool:
    """Whether it needs the libraries that were unpacked with it."""
    return program.is_relative_to(PEERS / "debian")


def answers(port: int) -> bool:
    """Whether a completion gets through."""
    body = b'{"model":"bench","max_tokens":1,"messages":[{"role":"user","content":"hello"}]}'
    head = (
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: bench\r\nconnection: close\r\n"
        b"content-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
    )
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2) as client:
            client.sendall(head + body)
            return client.recv(64).split(b" ")[1:2] == [b"200"]
    except OSError:
        return False
