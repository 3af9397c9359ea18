"""How the load generator's client reads what servers send, good and bad."""

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest

from llmd_ctl.cli.load.client import Answer, Client

EVENTS = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
WORD = b'data: {"choices":[{"index":0,"delta":{"content":"word "}}]}\n\n'
ROLE = b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n'
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}\n\n'
DONE = b"data: [DONE]\n\n"
END = b"0\r\n\r\n"

Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def chunk(content: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(content), content)


def ask(*pieces: bytes, close: bool = True, times: int = 1, connections: int = 1) -> list[Answer]:
    """Ask a server that sends `pieces`, each as a write of its own, and then closes or not.

    It counts that `times` requests came over so many `connections`.
    """
    accepted = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal accepted
        accepted += 1
        for _ in range(times // connections):
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            await reader.readexactly(length)
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0.001)
        if not close:
            await reader.read()  # until the client closes
        writer.close()
        await writer.wait_closed()

    async def main() -> list[Answer]:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        client = Client(f"http://127.0.0.1:{port}")
        async with asyncio.timeout(10):
            answers = [
                await client.post("/v1/x", b"{}", {"x-request-id": "a"}) for _ in range(times)
            ]
        client.close()
        server.close()
        await asyncio.sleep(0.01)
        return answers

    answers = asyncio.run(main())
    assert accepted == connections
    return answers


def test_a_stream_counts_chunks_of_text_and_keeps_the_usage() -> None:
    [answer] = ask(EVENTS, chunk(ROLE), chunk(WORD), chunk(WORD), chunk(USAGE), chunk(DONE) + END)
    assert (answer.ended, len(answer.chunk_us)) == ("done", 2)
    assert answer.usage == {"prompt_tokens": 3, "completion_tokens": 2}
    assert answer.start_us <= answer.chunk_us[0] <= answer.chunk_us[1] <= answer.end_us


def test_a_stream_cut_into_single_bytes_reads_the_same() -> None:
    whole = EVENTS + chunk(WORD) + chunk(WORD + USAGE) + chunk(DONE) + END
    [answer] = ask(*(bytes([byte]) for byte in whole))
    assert (answer.ended, len(answer.chunk_us)) == ("done", 2)


def test_an_event_spread_over_two_chunks_is_one_event() -> None:
    [answer] = ask(EVENTS, chunk(WORD[:20]), chunk(WORD[20:]), chunk(DONE) + END)
    assert (answer.ended, len(answer.chunk_us)) == ("done", 1)


@pytest.mark.parametrize(
    "tail",
    [END, b"", chunk(WORD)[:9]],
    ids=["a clean end of the body", "a closed connection", "half a chunk"],
)
def test_a_stream_without_done_is_a_silent_end(tail: bytes) -> None:
    [answer] = ask(EVENTS, chunk(WORD), tail)
    assert answer.ended == "silent"


@pytest.mark.parametrize(
    "error",
    [
        b'event: error\ndata: {"error":{"message":"engine died","type":"x"}}',
        b'data: {"error":{"message":"engine died","type":"x"}}',
        b"event: error\ndata: engine died",
    ],
)
def test_an_error_event_is_told_from_a_silent_end(error: bytes) -> None:
    [answer] = ask(EVENTS, chunk(WORD), chunk(error + b"\n\n"))
    assert answer.ended == "error-event"
    assert "engine died" in answer.detail


def test_a_connection_is_not_used_again_after_an_error_event() -> None:
    error = b'data: {"error":{"message":"engine died"}}\n\n'
    answers = ask(EVENTS, chunk(error) + END, times=2, connections=2)
    assert [a.ended for a in answers] == ["error-event"] * 2


def test_a_whole_answer_is_done_and_its_connection_is_used_again() -> None:
    body = json.dumps({"choices": [], "usage": {"prompt_tokens": 1}}).encode()
    head = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body)
    answers = ask(head, body, times=3)
    assert [a.ended for a in answers] == ["done"] * 3
    assert answers[0].usage == {"prompt_tokens": 1}


def test_a_whole_answer_cut_short_is_not_done() -> None:
    [answer] = ask(b"HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\n{")
    assert answer.ended == "silent"


def test_an_error_status_is_a_refusal_with_its_text() -> None:
    [answer] = ask(b"HTTP/1.1 503 x\r\ncontent-length: 4\r\n\r\nfull", close=False)
    assert (answer.status, answer.ended, answer.detail) == (503, "refused", "full")


@pytest.mark.parametrize(
    "reply",
    [
        b"SSH-2.0-x\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n",
    ],
)
def test_what_is_not_http_ends_with_a_client_error(reply: bytes) -> None:
    [answer] = ask(reply, close=False)
    assert answer.ended == "client-error"


def test_an_answer_that_is_nested_too_deeply_is_told_as_one() -> None:
    [answer] = ask(b"HTTP/1.1 200 OK\r\ncontent-length: 3000\r\n\r\n" + b"[" * 3000, close=False)
    assert answer.ended != "done"
    assert "not an answer this client can read" in answer.detail


def test_no_answer_at_all_is_a_client_error() -> None:
    [answer] = ask(b"")
    assert answer.ended == "client-error"


def test_nobody_listening_is_a_client_error() -> None:
    answer = asyncio.run(Client("http://127.0.0.1:9").post("/", b"", {}))
    assert answer.ended == "client-error"
    assert answer.detail
