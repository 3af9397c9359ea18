"""What `load` makes of how its requests ended: what it says first, and its exit code."""

import json
import socket
from typing import TextIO

import pytest

from llmd_ctl.cli.boundary import run
from tests.unit.cli.test_summary import line


@pytest.mark.parametrize(
    ("url", "options", "told"),
    [
        ("http://h", ["--ca-file", "ca"], "--ca-file does nothing with an http address"),
        ("http://h", ["--client-key", "k"], "--client-key does nothing with an http address"),
        ("https://h", ["--client-cert", "c"], "--client-cert and --client-key need each other"),
        ("https://h", ["--client-key", "k"], "--client-cert and --client-key need each other"),
        ("https://h", ["--ca-file", "no.crt"], "--ca-file cannot be used: [Errno 2]"),
        (
            "https://h", ["--client-cert", "no.crt", "--client-key", "no.key"],
            "--client-cert and --client-key cannot be used: [Errno 2]",
        ),
        ("ftp://h", [], "this is no http address"),
    ],
)  # fmt: skip
def test_what_an_address_cannot_be_asked_with_is_refused(
    url: str, options: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["load", url, "--model", "m", *options]) == 64
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("ended", "code"),
    [("done", 0), ("error-event", 0), ("silent", 1), ("refused", 1), ("client-error", 1)],
)
def test_a_load_is_1_when_a_request_was_refused_or_came_to_no_end(
    ended: str, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def one_of_each(_target: object, _requests: object, file: TextIO, _show: object) -> None:
        for kind, request in (("done", "a"), (ended, "b"), (ended, "c")):
            answer = line(ended=kind, requestId=request, status=200, detail="why")
            file.write(json.dumps(answer) + "\n")

    monkeypatch.setattr("llmd_ctl.cli.load.run.run", one_of_each)
    assert run(["load", "http://127.0.0.1:9", "--model", "m"]) == code
    told = capsys.readouterr().err
    assert told == (f"The first {ended} was b with 200: why\n" if code else "")


def test_where_nobody_answers_that_is_an_error_with_a_way_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    argv = ["load", f"http://127.0.0.1:{port}", "--model", "m", "--rate", "50", "--seconds", "0.2"]
    assert run(argv) == 1
    told = capsys.readouterr().err
    assert told.startswith(f"error[LC6010]: http://127.0.0.1:{port} answers no request\n")
    assert "llmd-ctl status" in told
    assert "The first" not in told
