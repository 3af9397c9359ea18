"""Open loop: each request starts at its planned moment, whatever became of those before it.

Called by `verb`. Writes one line of the raw log for each request at its end (the keys are the
fields of `to_line`; times are unix microseconds) and never looks at an answer's text. A run that is
stopped ends what is under way as it is and keeps the lines it has.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import ssl
from collections import Counter
from collections.abc import Callable
from typing import Any, TextIO

from msgspec import Struct, field

from llmd_ctl.cli.load.client import Answer, Client, now_us
from llmd_ctl.cli.load.traffic import Planned

PATH = "/v1/chat/completions"


class Progress(Struct):
    """What a run has done so far, for whoever shows it."""

    planned: int
    started: int = 0
    ended: Counter[str] = field(default_factory=Counter)
    chunks: int = 0
    latest_start_us: int = 0  # how far behind its plan the run ever fell

    @property
    def finished(self) -> int:
        """Requests that came to some end."""
        return self.ended.total()


class Target(Struct, frozen=True):
    """Where a run goes. `timeout` is seconds for one request, `tls` whom an https URL believes."""

    url: str
    model: str
    timeout: float = 300.0
    tls: ssl.SSLContext | None = None


async def run(
    target: Target, requests: list[Planned], log: TextIO, show: Callable[[Progress], None]
) -> Progress:
    """Send all `requests` and return when the last has ended. `show` is called twice a second."""
    client = Client(target.url, target.tls)
    progress = Progress(planned=len(requests))
    loop = asyncio.get_running_loop()
    began = loop.time()
    ticker = asyncio.create_task(_tick(progress, show))
    tasks: set[asyncio.Task[None]] = set()
    try:
        for request in requests:
            due = began + request.at
            await asyncio.sleep(max(0.0, due - loop.time()))
            late = int((loop.time() - due) * 1e6)
            progress.latest_start_us = max(progress.latest_start_us, late)
            task = asyncio.create_task(_one(client, target, request, log, progress))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        await asyncio.gather(*tasks)
    finally:
        for task in [*tasks, ticker]:
            task.cancel()
        await asyncio.gather(*tasks, ticker, return_exceptions=True)
        client.close()
        show(progress)
    return progress


async def _tick(progress: Progress, show: Callable[[Progress], None]) -> None:
    while True:
        await asyncio.sleep(0.5)
        show(progress)


async def _one(
    client: Client, target: Target, request: Planned, log: TextIO, progress: Progress
) -> None:
    request_id = request.request_id
    headers = {"x-request-id": request_id, "traceparent": trace_context(request_id)}
    progress.started += 1
    answer = Answer(now_us(), detail=f"no end within {target.timeout:g} s")
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(target.timeout):
            answer = await client.post(PATH, request.body(target.model), headers)
    answer.end_us = answer.end_us or now_us()
    progress.ended[answer.ended] += 1
    progress.chunks += len(answer.chunk_us)
    log.write(json.dumps(to_line(request, answer), separators=(",", ":")) + "\n")


def trace_context(request_id: str) -> str:
    """The W3C trace context that a request of this id carries: always sampled."""
    digest = hashlib.blake2b(request_id.encode(), digest_size=24).hexdigest()
    return f"00-{digest[:32]}-{digest[32:]}-01"


def to_line(request: Planned, answer: Answer) -> dict[str, Any]:
    """Return the raw log's line. `firstTokenUs` is the first chunk that holds text."""
    usage = answer.usage or {}
    details = usage.get("prompt_tokens_details") or {}
    return {
        "requestId": request.request_id,
        "kind": request.kind,
        "session": request.session,
        "stream": request.stream,
        "promptBytes": request.prompt_bytes,
        "maxTokens": request.max_tokens,
        "startUs": answer.start_us,
        "firstTokenUs": answer.chunk_us[0] if answer.chunk_us else None,
        "endUs": answer.end_us,
        "status": answer.status,
        "ended": answer.ended,
        "simulated": answer.simulated,
        "detail": answer.detail or None,
        "chunkUs": answer.chunk_us,
        "promptTokens": usage.get("prompt_tokens"),
        "completionTokens": usage.get("completion_tokens"),
        "cachedTokens": details.get("cached_tokens"),
    }
