"""A file system that hangs holds up what is read from it, and nothing else of the router.

Whoever opens a file on which somebody has a lease waits until that is given back: here it is not,
as long as the test likes.
"""

import fcntl
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import IO, Any
from urllib.request import urlopen

import pytest

from tests.certificates import Authority

CONFIG = """\
version: 1
listen:
  data: 127.0.0.1:0
  admin: 127.0.0.1:0
  tls: {certFile: tls.crt, keyFile: tls.key}
adminKeyFile: admin.key
limits: {headerMs: %d}
"""


class Lease:
    """On a file that takes the place of another; told when somebody waits for it."""

    def __init__(self) -> None:
        self.waited_for = False
        signal.signal(signal.SIGIO, self._told)

    def _told(self, _number: int, _frame: FrameType | None) -> None:
        self.waited_for = True

    def replace(self, file: Path, content: bytes) -> IO[bytes]:
        new = file.with_suffix(".new")
        new.write_bytes(content)
        held = new.open("rb")
        fcntl.fcntl(held, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        new.replace(file)
        return held


@pytest.fixture
def lease() -> Iterator[Lease]:
    before = signal.getsignal(signal.SIGIO)
    yield Lease()
    signal.signal(signal.SIGIO, before)


class Router:
    """A router with a certificate, in a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "router.yaml"
        self.file.write_text(CONFIG % 1000)
        argv = [sys.executable, "-m", "llmd_ctl.router", "--config", str(self.file)]
        with (folder / "log").open("w") as log:
            self.process = subprocess.Popen(argv, stderr=log)
        text = eventually(lambda: re.search(r"admin=(\S+)", (folder / "log").read_text()))
        self.admin = f"http://{text[1]}"

    def ask(self, path: str) -> str:
        with urlopen(self.admin + path, timeout=2) as answer:
            text: str = answer.read().decode()
        return text

    def problems(self) -> list[str]:
        found: list[str] = json.loads(self.ask("/status"))["certificates"]["problems"]
        return found


def eventually(found: Callable[[], Any]) -> Any:
    end = time.monotonic() + 20
    while not (value := found()):
        assert time.monotonic() < end
        time.sleep(0.05)
    return value


@pytest.fixture
def router(tmp_path: Path) -> Iterator[Router]:
    Authority(tmp_path).sign("tls")
    (tmp_path / "admin.key").write_text("a-key\n")
    router = Router(tmp_path)
    yield router
    router.process.kill()
    router.process.wait()


def test_certificates_that_cannot_be_read(router: Router, lease: Lease, tmp_path: Path) -> None:
    cert = tmp_path / "tls.crt"
    with lease.replace(cert, cert.read_bytes() + b"\n"):
        eventually(lambda: lease.waited_for)
        for _ in range(20):
            assert router.ask("/healthz") == "ok\n"
        (problem,) = eventually(router.problems)
        assert "tls.crt" in problem
        assert "more than 5 s" in problem
    eventually(lambda: not router.problems())
    reloads = 'llmd_router_certificate_reloads_total{result="applied"} 1'
    eventually(lambda: reloads in router.ask("/metrics"))


def test_a_configuration_that_cannot_be_read(router: Router, lease: Lease, tmp_path: Path) -> None:
    with lease.replace(tmp_path / "admin.key", b"another\n"):
        router.file.write_text(CONFIG % 2000)
        eventually(lambda: lease.waited_for)
        for _ in range(20):
            assert router.ask("/healthz") == "ok\n"
        error = eventually(lambda: json.loads(router.ask("/status"))["config"]["error"])
        assert "more than 10 s" in error
    eventually(lambda: not json.loads(router.ask("/status"))["config"]["error"])
    with lease.replace(tmp_path / "admin.key", b"one more\n"):
        lease.waited_for = False
        router.file.write_text(CONFIG % 3000)
        eventually(lambda: lease.waited_for)
        router.process.send_signal(signal.SIGTERM)
        assert router.process.wait(timeout=10) == 0
