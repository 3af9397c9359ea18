"""Two routers of one configuration in front of some engines, and who tells them what runs.

Used by `test_real_engines`. It plays the controller's part towards the routers: it writes
`replicas.json`, proves an engine through each router before it calls it ready, and restarts one
router after the other. It sends no load.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import httpx

from llmd_ctl.router.admin import RouterAdmin, RouterAway
from llmd_ctl.router.answer import EndpointStatus
from tests.e2e.router.clients import LOOK_SECONDS, READINESS_SECONDS
from tests.e2e.router.engines import MODEL, Engine

KEY = "only-for-this-test"
WAIT_SECONDS = 60.0
STOP_SECONDS = 60.0

State = Literal["starting", "ready", "draining"]


def wait_until(what: str, holds: Callable[[], bool], seconds: float = WAIT_SECONDS) -> None:
    """Return once it holds; fail when it does not in time."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"not in {seconds:g} s: {what}"
        time.sleep(0.05)


def start_time(pid: int) -> int:
    """When a process began, in clock ticks since boot."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


class Site:
    """The engines and the routers. `watched`: the routers are told the engines' process ids."""

    def __init__(
        self, folder: Path, engines: list[Engine], ports: list[int], *, watched: bool
    ) -> None:
        self.folder = folder
        self.engines = engines
        self.watched = watched
        self.states: dict[str, State] = {engine.name: "starting" for engine in engines}
        half = len(ports) // 2
        self.data, self.admin = ports[:half], ports[half:]
        self.routers: list[subprocess.Popen[bytes] | None] = [None] * half
        self._client = httpx.Client()
        (folder / "admin.key").write_text(KEY)
        self.tell()
        for index in range(half):
            self._config(index).write_text(json.dumps(self._configuration(index)))

    def _config(self, index: int) -> Path:
        return self.folder / f"router-{index}.yaml"

    def _configuration(self, index: int) -> dict[str, object]:
        on = "127.0.0.1"
        listen = {"data": f"{on}:{self.data[index]}", "admin": f"{on}:{self.admin[index]}"}
        model = {
            "name": MODEL,
            "variants": [{"name": "cpu", "accelerator": "cpu-x86"}],
            "sources": [{"kind": "process", "path": "replicas.json"}],
        }
        # Until the balance has seen that a router is on its way out: what it waits, a look at each
        # router, and one more for a client that has just chosen where to go.
        quiet = READINESS_SECONDS + LOOK_SECONDS * (len(self.routers) + 1)
        limits = {"quietMs": round(quiet * 1_000)}
        return {
            "version": 1, "listen": listen, "adminKeyFile": "admin.key", "limits": limits,
            "models": [model],
        }  # fmt: skip

    def tell(self) -> None:
        """Write replicas.json, whole and at once."""
        replicas = []
        for engine in self.engines:
            replica: dict[str, object] = {"name": engine.name, "model": MODEL, "variant": "cpu"}
            replica |= {"address": "127.0.0.1", "port": engine.port}
            replica |= {"state": self.states[engine.name], "revision": 1}
            if self.watched and engine.process is not None and engine.process.poll() is None:
                replica |= {"pid": engine.pid, "startTime": start_time(engine.pid)}
            replicas.append(replica)
        new = self.folder / "replicas.json.new"
        new.write_text(json.dumps({"version": 1, "replicas": replicas}))
        new.replace(self.folder / "replicas.json")

    # --- engines ----------------------------------------------------------------------------

    def set_state(self, engine: Engine, state: State) -> None:
        """Tell both routers, and wait until they know."""
        self.states[engine.name] = state
        self.tell()
        wait_until(f"{engine.name} is {state}", lambda: self._all_say(engine, {state}))

    def bring_up(self, engine: Engine) -> None:
        """From a started process to a ready endpoint: health, a probe by each router, ready."""
        engine.wait_healthy()
        self.tell()
        wait_until(f"{engine.name} is known", lambda: self._all_say(engine, {"starting", "ready"}))
        admin = RouterAdmin(self._client)
        for port in self.admin:
            answer = admin.probe(f"http://127.0.0.1:{port}", KEY, MODEL, engine.name, 120.0)
            assert answer.ok, answer.reason
        self.set_state(engine, "ready")

    def drain(self, engine: Engine) -> None:
        """No new requests, and none left."""
        self.set_state(engine, "draining")
        wait_until(f"{engine.name} is empty", lambda: self.inflight(engine) == 0)

    def inflight(self, engine: Engine) -> int:
        """Requests that the routers have open at an engine."""
        found = [self._endpoint(index, engine) for index in range(len(self.routers))]
        return sum(endpoint.inflight for endpoint in found if endpoint)

    def _all_say(self, engine: Engine, states: set[State]) -> bool:
        found = [self._endpoint(index, engine) for index in range(len(self.routers))]
        return all(endpoint and endpoint.state in states for endpoint in found)

    def _endpoint(self, index: int, engine: Engine) -> EndpointStatus | None:
        status = RouterAdmin(self._client).status(f"http://127.0.0.1:{self.admin[index]}")
        return status.endpoint(MODEL, engine.name)

    # --- routers ----------------------------------------------------------------------------

    def start_router(self, index: int) -> None:
        """Begin a router process and wait until it answers on its admin port."""
        argv = [sys.executable, "-m", "llmd_ctl.router", "--config", str(self._config(index))]
        with (self.folder / f"router-{index}.log").open("ab") as log:
            process = subprocess.Popen(argv, stdout=log, stderr=log)
        self.routers[index] = process
        wait_until(f"router {index} answers", lambda: self._answers(index))

    def _answers(self, index: int) -> bool:
        process = self.routers[index]
        assert process is not None
        assert process.poll() is None, f"router {index} ended"
        try:
            RouterAdmin(self._client).status(f"http://127.0.0.1:{self.admin[index]}")
        except RouterAway:
            return False
        return True

    def stop_router(self, index: int) -> int:
        """SIGTERM; the exit code, which is 0 when no request was cut."""
        process = self.routers[index]
        assert process is not None
        process.terminate()
        code = process.wait(STOP_SECONDS)
        self.routers[index] = None
        return code

    def metric(self, name: str) -> float:
        """The sum of a metric over all its series and both routers."""
        total = 0.0
        for port in self.admin:
            for text in self._client.get(f"http://127.0.0.1:{port}/metrics").text.splitlines():
                if text.startswith((f"{name}{{", f"{name} ")):
                    total += float(text.rpartition(" ")[2])
        return total

    def close(self) -> None:
        """End everything."""
        self._client.close()
        for process in self.routers:
            if process is not None:
                process.kill()
                process.wait()
        for engine in self.engines:
            engine.kill()
