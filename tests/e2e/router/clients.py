"""Steady load over several routers, as it comes out of a load balancer in front of them.

Used by `test_real_engines`. Each of a fixed number of clients asks again as soon as it was
answered, at the next router that says it is ready; a connection that cannot be made, or that the
router closed while it was idle, is tried at the next one, and nothing else ever is. Every request
becomes one line of a raw log, from which the test counts. Nothing here knows of engines.
"""

import http.client
import itertools
import json
import select
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import httpx

READINESS_SECONDS = 0.1
LOOK_SECONDS = 1.0
ANSWER_SECONDS = 60.0
CARRY_SECONDS = 120.0

Ended = Literal["done", "error-event", "silent", "refused", "client-error"]


@dataclass
class Line:
    """One request. `ended` means the same as in the log of `llmd-ctl load`."""

    number: int
    stream: bool
    phase: str = ""
    router: int = -1
    status: int = 0
    ended: Ended = "client-error"
    detail: str = ""
    seconds: float = 0.0


class Balance:
    """Which routers are ready, asked for again and again."""

    def __init__(self, data: list[int], admin: list[int]) -> None:
        self.data = data
        self.admin = admin
        self.ready = [False for _ in data]
        self.turn = itertools.count()

    def look(self) -> None:
        """Ask every router once."""
        for index, port in enumerate(self.admin):
            try:
                answer = httpx.get(f"http://127.0.0.1:{port}/readyz", timeout=LOOK_SECONDS)
                self.ready[index] = answer.is_success
            except httpx.HTTPError:
                self.ready[index] = False

    def order(self) -> list[int]:
        """The routers to try, the next one in turn first, those that are ready before others."""
        first = next(self.turn) % len(self.data)
        turned = [(first + step) % len(self.data) for step in range(len(self.data))]
        return sorted(turned, key=lambda index: not self.ready[index])


class Load:
    """Clients on threads; `with` starts them and, at its end, waits for their last answers."""

    def __init__(self, balance: Balance, log: Path, streams: int, whole: int, tokens: int) -> None:
        self.balance = balance
        self.path = log
        self.tokens = tokens
        self.phase = ""
        self._log = log.open("w")
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._over = threading.Event()
        kinds = [True] * streams + [False] * whole
        self._threads = [threading.Thread(target=self._client, args=(kind,)) for kind in kinds]
        self._threads.append(threading.Thread(target=self._readiness))

    def __enter__(self) -> "Load":
        self.balance.look()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()
        self._log.close()

    def carry_on(self, phase: str, count: int) -> None:
        """Until so many requests more have ended; from now on they end in this phase."""
        self.phase = phase
        wanted = len(self.lines()) + count
        deadline = time.monotonic() + CARRY_SECONDS
        while len(self.lines()) < wanted:
            assert time.monotonic() < deadline, f"not {count} more in {CARRY_SECONDS:g} s"
            time.sleep(0.05)

    def lines(self) -> list[Line]:
        """What the log holds."""
        with self._lock:
            if not self._log.closed:
                self._log.flush()
            return [Line(**json.loads(text)) for text in self.path.read_text().splitlines()]

    def _readiness(self) -> None:
        while not self._over.wait(READINESS_SECONDS):
            self.balance.look()

    def _client(self, stream: bool) -> None:
        connections: dict[int, http.client.HTTPConnection] = {}
        while not self._over.is_set():
            line = Line(next(self._numbers), stream)
            begun = time.monotonic()
            try:
                self._ask(line, connections)
            except (OSError, http.client.HTTPException) as error:
                line.ended = "silent" if line.status else "client-error"
                line.detail = repr(error)
            line.seconds = round(time.monotonic() - begun, 3)
            if line.ended != "done":
                for connection in connections.values():
                    connection.close()
                self._over.wait(0.05)
            with self._lock:
                line.phase = self.phase
                self._log.write(json.dumps(asdict(line)) + "\n")
        for connection in connections.values():
            connection.close()

    def _ask(self, line: Line, connections: dict[int, http.client.HTTPConnection]) -> None:
        connection = self._connected(line, connections)
        # Beginnings that come again, and ends that do not: some are in the prefix cache.
        text = f"Tell {line.number % 5} things about the number {line.number}." * 4
        tokens = self.tokens if line.stream else self.tokens // 4
        body = {"model": "tiny", "stream": line.stream, "max_tokens": tokens}
        body |= {"ignore_eos": True, "messages": [{"role": "user", "content": text}]}
        headers = {"content-type": "application/json"}
        connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
        answer = connection.getresponse()
        line.status = answer.status
        content = answer.read().decode()
        if answer.status != httpx.codes.OK:
            line.ended, line.detail = "refused", content[:500]
        elif not line.stream:
            assert json.loads(content)["usage"]["completion_tokens"] == tokens
            line.ended = "done"
        else:
            events = content.strip().split("\n\n")
            line.ended = "done" if events[-1] == "data: [DONE]" else "silent"
            if any(event.startswith("event: error") for event in events):
                line.ended, line.detail = "error-event", events[-1][:500]
                assert "[DONE]" not in content

    def _connected(
        self, line: Line, connections: dict[int, http.client.HTTPConnection]
    ) -> http.client.HTTPConnection:
        """A connection to the next router that takes one."""
        failure: OSError | None = None
        for router in self.balance.order():
            line.router = router
            connection = connections.get(router)
            if connection is None:
                port = self.balance.data[router]
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_SECONDS)
                connections[router] = connection
            if connection.sock is not None and select.select([connection.sock], [], [], 0)[0]:
                connection.close()  # the router ended it meanwhile
            if connection.sock is not None:
                return connection
            try:
                connection.connect()
            except OSError as error:
                failure = error
                continue
            return connection
        assert failure is not None
        raise failure
