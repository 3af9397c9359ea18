"""A small HTTP/1.1 client for chat completions: one request a call, every chunk timed.

Called by `run`. It speaks just what an OpenAI server answers: a body with a length, or chunks,
of JSON or of server-sent events. It never retries and follows no redirect; whom it believes under
TLS its caller says. httpx was measured first: it cost two and a half times the CPU for each
streamed chunk.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from typing import Any, Literal
from urllib.parse import urlsplit

from msgspec import Struct, field

Ended = Literal["done", "error-event", "silent", "refused", "client-error"]
MOST_HEAD_BYTES = 65_536
MOST_BODY_BYTES = 64 * 1024 * 1024


def now_us() -> int:
    """Unix time in microseconds, the clock of every log."""
    return time.time_ns() // 1000


class Answer(Struct):
    """What came back for one request. Times are unix microseconds."""

    start_us: int
    end_us: int = 0
    status: int = 0
    ended: Ended = "client-error"
    detail: str = ""
    chunk_us: list[int] = field(default_factory=list)
    usage: dict[str, Any] | None = None
    request_id: str | None = None
    simulated: bool = False


class _BadAnswer(Exception):
    """The server did not speak HTTP as this client knows it."""


class _Connection(asyncio.Protocol):
    """One connection; between requests it waits in the pool."""

    def __init__(self, pool: Client) -> None:
        self.pool = pool
        self.transport: asyncio.Transport | None = None
        self.answer: Answer | None = None
        self.finished: asyncio.Future[None] | None = None
        self.closed = False
        self._reset()

    def _reset(self) -> None:
        self.buffer = bytearray()
        self.in_body = False
        self.left = 0  # bytes still to come of a body or of a chunk; -1: until the end
        self.chunked = False
        self.last_chunk = False
        self.events = False
        self.keep = True
        self.body = bytearray()
        self.saw_done = False

    # --- asyncio's side ---------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        self.pool.forget(self)
        if self.answer is None:
            return
        if self.in_body and self.left == -1 and exc is None:
            self._end()
        else:
            reason = "the connection was lost" if exc is None else str(exc)
            self._fail(reason)

    def data_received(self, data: bytes) -> None:
        if self.answer is None:
            self.close()  # bytes that nobody asked for
            return
        self.buffer += data
        try:
            self._parse(now_us())
        except (_BadAnswer, ValueError, RecursionError) as error:
            self._fail(f"not an answer this client can read: {error}")
            self.close()

    # --- a request --------------------------------------------------------------------------

    async def ask(self, request: bytes) -> Answer:
        """Send one request and wait for the end of its answer, whatever that is."""
        assert self.transport is not None
        self._reset()
        self.answer = answer = Answer(now_us())
        self.finished = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        try:
            await self.finished
        finally:
            self.answer = None
            if not self.finished.done() or self.finished.cancelled() or not self.keep:
                self.close()
        return answer

    def close(self) -> None:
        self.closed = True
        if self.transport is not None:
            self.transport.close()

    # --- reading ----------------------------------------------------------------------------

    def _parse(self, now: int) -> None:
        if not self.in_body and not self._head():
            return
        if self.chunked:
            self._chunks(now)
        elif self.left == -1:
            self._content(bytes(self.buffer), now)
            self.buffer.clear()
        else:
            part = bytes(self.buffer[: self.left])
            del self.buffer[: self.left]
            self.left -= len(part)
            self._content(part, now)
            if self.left == 0:
                self._end()

    def _head(self) -> bool:
        assert self.answer is not None
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self.buffer) > MOST_HEAD_BYTES:
                raise _BadAnswer("its head is too long")
            return False
        lines = self.buffer[:end].decode("latin-1").split("\r\n")
        del self.buffer[: end + 4]
        version, _, rest = lines[0].partition(" ")
        if not version.startswith("HTTP/1."):
            raise _BadAnswer(f"it starts with {version[:20]!r}")
        self.answer.status = int(rest[:3])
        fields = (line.partition(":") for line in lines[1:])
        headers = {name.strip().lower(): value.strip() for name, _, value in fields}
        self.answer.request_id = headers.get("x-request-id")
        self.answer.simulated = headers.get("x-llmd-ctl-simulated") == "true"
        self.keep = headers.get("connection", "").lower() != "close"
        self.chunked = headers.get("transfer-encoding", "").lower() == "chunked"
        self.events = headers.get("content-type", "").startswith("text/event-stream")
        self.left = 0 if self.chunked else int(headers.get("content-length", "-1"))
        self.keep = self.keep and self.left != -1
        self.in_body = True
        return True

    def _chunks(self, now: int) -> None:
        buffer, at = self.buffer, 0
        while True:
            line = buffer.find(b"\r\n", at)
            if line < 0:
                break
            size = int(bytes(buffer[at:line]).partition(b";")[0], 16)
            if line + 2 + size + 2 > len(buffer):
                break
            if size == 0:
                del buffer[: line + 4]
                self._end()
                return
            self._content(bytes(buffer[line + 2 : line + 2 + size]), now)
            at = line + 2 + size + 2
        del buffer[:at]

    def _content(self, part: bytes, now: int) -> None:
        self.body += part
        if len(self.body) > MOST_BODY_BYTES:
            raise _BadAnswer("its body is too long")
        if not (self.events and b"\n\n" in self.body):
            return
        *events, rest = bytes(self.body.replace(b"\r\n", b"\n")).split(b"\n\n")
        self.body = bytearray(rest)
        for event in events:
            self._event(event, now)

    def _event(self, event: bytes, now: int) -> None:
        assert self.answer is not None
        if event.startswith(b"data: "):
            payload = event[6:]
        else:
            lines = event.split(b"\n")
            payload = b"".join(x[5:].strip() for x in lines if x.startswith(b"data:"))
            if b"event: error" in lines or b"event:error" in lines:
                self._error(payload)
                return
        if payload == b"[DONE]":
            self.saw_done = True
            return
        if not payload:
            return
        document = json.loads(payload)
        if "error" in document:
            self._error(payload)
            return
        if usage := document.get("usage"):
            self.answer.usage = usage
        if any(_text_of(choice) for choice in document.get("choices", ())):
            self.answer.chunk_us.append(now)

    def _error(self, payload: bytes) -> None:
        assert self.answer is not None
        self.answer.ended = "error-event"
        self.keep = False  # who sends it closes the connection
        self.answer.detail = payload.decode("utf-8", "replace")[:500]

    # --- the end ----------------------------------------------------------------------------

    def _end(self) -> None:
        """The answer is whole, as far as HTTP can tell."""
        answer = self.answer
        assert answer is not None
        if answer.status // 100 != 2:
            answer.ended = "refused"
            answer.detail = self.body.decode("utf-8", "replace")[:500]
        elif self.events:
            if answer.ended != "error-event":
                answer.ended = "done" if self.saw_done else "silent"
        else:
            document = json.loads(self.body)
            answer.usage = document.get("usage")
            answer.ended = "done"
        self._finish()

    def _fail(self, reason: str) -> None:
        answer = self.answer
        assert answer is not None
        self.keep = False
        if answer.ended != "error-event":
            if self.events and self.saw_done:
                answer.ended = "done"
            else:
                answer.ended = "silent" if self.in_body else "client-error"
                answer.detail = reason
        self._finish()

    def _finish(self) -> None:
        assert self.answer is not None
        assert self.finished is not None
        self.answer.end_us = now_us()
        self.answer = None
        if not self.finished.done():
            self.finished.set_result(None)


def _text_of(choice: dict[str, Any]) -> str:
    delta = choice.get("delta")
    if delta is None:
        return str(choice.get("text") or "")
    return str(delta.get("content") or delta.get("reasoning_content") or "")


class Client:
    """Connections to one server. They are kept, and used again newest first."""

    def __init__(self, url: str, tls: ssl.SSLContext | None = None) -> None:
        parts = urlsplit(url)
        self.tls = tls
        self.host = parts.hostname or "127.0.0.1"
        self.port = parts.port or (80 if tls is None else 443)
        self.prefix = parts.path.rstrip("/")
        self.idle: list[_Connection] = []

    async def post(self, path: str, body: bytes, headers: dict[str, str]) -> Answer:
        """Send `body` and return the answer; a failure is an answer too."""
        started = now_us()
        try:
            connection = await self._connection()
        except OSError as error:
            return Answer(started, now_us(), detail=str(error))
        lines = [f"POST {self.prefix}{path} HTTP/1.1", f"host: {self.host}:{self.port}"]
        lines += ["content-type: application/json", f"content-length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        answer = await connection.ask("\r\n".join([*lines, "", ""]).encode() + body)
        answer.start_us = started
        if not connection.closed:
            self.idle.append(connection)
        return answer

    async def _connection(self) -> _Connection:
        while self.idle:
            connection = self.idle.pop()
            if not connection.closed:
                return connection
        loop = asyncio.get_running_loop()
        _, made = await loop.create_connection(
            lambda: _Connection(self), self.host, self.port, ssl=self.tls
        )
        return made

    def forget(self, connection: _Connection) -> None:
        """Drop a connection that the server closed."""
        if connection in self.idle:
            self.idle.remove(connection)

    def close(self) -> None:
        """Close what waits in the pool."""
        for connection in self.idle:
            connection.close()
        self.idle.clear()
